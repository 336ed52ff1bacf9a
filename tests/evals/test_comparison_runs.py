"""Comparisons of systems with several runs: scores, the assignment of runs to systems, and the order of systems."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from moot.evals._report.comparison import studies_of
from moot.evals._report.debates import stops_table
from moot.evals._report.scores import seeds_table, systems_table
from moot.evals._runs.logs import read_runs
from moot.evals._stats.significance import bootstrap

from tests.commands import moot
from tests.evals.made_logs import debate, failed_document, write_log
from tests.evals.made_study import CONTROL, DEBATE, GOLD, MODEL, R, S, Systems, records, study, value

# --- several runs -----------------------------------------------------------------------------------------------------


def test_scores_of_several_runs_by_hand(tmp_path: Path) -> None:
    """Three runs on four items score 3/4, 2/4 and 2/3; an item of the last run is missing."""
    gold = {"a": S, "b": S, "c": R, "d": R}
    answers: list[Sequence[str | None]] = [(S, S, R, S), (R, S, R, S), (S, R, R, None)]
    runs: Systems = {
        f"debate__{n}": (
            {
                id: failed_document() if answer is None else debate(answer)
                for id, answer in zip(gold, given, strict=True)
            },
            {"gold": gold, "seed": n, "settings": {"seed": n, "k": 3}},
        )
        for n, given in enumerate(answers)
    }
    made = study(tmp_path, **runs)
    assert [len(system.runs) for system in made.measured] == [3]
    row = records(seeds_table(made))["debate"]
    assert (row["runs"], row["errors"], row["lowest"], row["highest"]) == (3, 1, 0.5, 0.75)
    assert row["mean"] == pytest.approx((3 / 4 + 2 / 4 + 2 / 3) / 3)
    assert row["variance"] == pytest.approx(0.016204, abs=1e-6)
    assert row["majority"] == 3 / 4  # right on a, b and c; for d, most runs said SUPPORTS
    assert (row["oracle"], row["undecided"]) == (1.0, 0)  # the oracle is unknown for d, which the last run lacks
    assert value(records(systems_table(made))["debate"]["accuracy"]) == pytest.approx(row["mean"])


def test_an_interval_uses_the_mean_over_runs_of_each_item(tmp_path: Path) -> None:
    """Item a is right in one of two runs, b and c in both runs, and d in no run."""
    gold = {"a": S, "b": S, "c": R, "d": R}
    runs: Systems = {
        f"debate__{n}": (
            {id: debate(answer) for id, answer in zip(gold, given, strict=True)},
            {"gold": gold, "seed": n},
        )
        for n, given in enumerate([(S, S, R, S), (R, S, R, S)])
    }
    row = records(stops_table(study(tmp_path, **runs)))["debate"]
    assert row["items"] == 8
    assert row["score"] == bootstrap([0.5, 1.0, 1.0, 0.0])


def test_runs_with_different_settings_are_different_systems(tmp_path: Path) -> None:
    made = study(tmp_path, a__1=(CONTROL, {"settings": {"k": 3}}), a__2=(CONTROL, {"settings": {"k": 5}}))
    assert [system.label for system in made.measured] == ["a", "a (2)"]
    assert made.notes == (
        "Several systems are named a: a (2) differs from the others in its graph, version, settings, sources, corpora "
        "or prompts.",
    )


def test_a_control_is_assigned_to_its_debate_by_key(tmp_path: Path) -> None:
    """Two debates share a name, because settings changed between their runs.

    The control ``variant`` has no ``of_key``, and two debates have the name in its ``of``. So ``variant`` is shown as a
    separate system.
    """
    facts: dict[str, Any] = {"system": "debate", "graph": "tool_mad"}
    own: dict[str, Any] = {"graph": "self_consistency", "control": "self_consistency", "of": "debate", "system": "own"}
    made = study(
        tmp_path,
        a=(CONTROL, {**facts, "key": "one", "settings": {"k": 3}}),
        b=(CONTROL, {**facts, "key": "two", "settings": {"k": 5}}),
        c=(DEBATE, {**own, "key": "three", "of_key": "two"}),
        d=(CONTROL, {**own, "key": "four", "of_key": "one"}),
        e=(
            CONTROL,
            {**facts, "system": "variant", "key": "five", "settings": {"k": 9}, "control": "x", "of": "debate"},
        ),
    )
    found = {system.label: (system.of, [run.file for run in system.runs]) for system in made.measured}
    assert found == {
        "debate": (None, ["a.eval"]),
        "own": ("debate", ["d.eval"]),
        "debate (2)": (None, ["b.eval"]),
        "own (2)": ("debate (2)", ["c.eval"]),
        "variant": (None, ["e.eval"]),
    }
    assert made.notes == (
        "variant is a control of debate, but there are 2 systems of that name, so it is a separate system here.",
        "Several systems are named debate: debate (2) differs from the others in its graph, version, settings, "
        "sources, corpora or prompts.",
    )


def test_runs_of_a_renamed_system_belong_together(tmp_path: Path) -> None:
    facts: dict[str, Any] = {"graph": "tool_mad", "settings": {"k": 3}}
    created = "2026-01-02T00:00:00+00:00"
    made = study(
        tmp_path,
        old=(CONTROL, {**facts, "key": "one", "seed": 1}),
        new=(CONTROL, {**facts, "key": "two", "seed": 2, "created": created}),
        own=(CONTROL, {"graph": "rag", "key": "three", "control": "single_call", "of": "old", "seed": 1}),
        # In real logs, the key differs if the same items are read from a different path.
        moved=(CONTROL, {**facts, "key": "four", "seed": 2, "system": "new"}),
    )
    assert [(s.label, s.of, [run.file for run in s.runs]) for s in made.measured] == [
        ("new", None, ["old.eval", "new.eval"]),
        ("own", "new", ["own.eval"]),
    ]
    assert made.notes == ("moved.eval (new): left out, because new.eval has the same seed, settings and items.",)


def test_runs_of_a_system_on_different_items_belong_to_different_studies(tmp_path: Path) -> None:
    half = {id: GOLD[id] for id in "1234"}
    fewer = {id: CONTROL[id] for id in half}
    for name, documents, items, judge in (
        ("a", CONTROL, "aa", None),
        ("b", fewer, "bb", None),
        ("c", CONTROL, "aa", "j"),
    ):
        write_log(tmp_path, name, documents, GOLD, system="s", key=name, items=items, judge=judge, **MODEL)
    write_log(tmp_path, "d", CONTROL, GOLD, system="t", key="d", items="aa", **MODEL)
    studies = studies_of(read_runs([tmp_path], lambda calls: 0.0)[0])
    assert [(made.title, [system.label for system in made.measured]) for made in studies] == [
        # FEVER's answers need no judge, so logs with different judges share one study.
        ("FEVER, openai:gpt-4o-mini, 8 items of claims.jsonl (aa)", ["s", "t"]),
        ("FEVER, openai:gpt-4o-mini, 4 items of claims.jsonl (bb)", ["s"]),
    ]
    assert "Each set of items with each judge has its own study." in studies[0].notes[0]


@pytest.mark.parametrize("groups", [{}, {str(n): f"page {n // 2}" for n in range(120)}])
def test_compare_prints_p_values_far_below_those_of_drawn_sign_patterns(tmp_path: Path, groups: dict[str, str]) -> None:
    """One system is always wrong, one is always right in two runs, and one is right in the first of three runs."""
    gold = dict.fromkeys(map(str, range(120)), S)
    right, wrong = ({id: debate(answer) for id in gold} for answer in (S, R))
    for system, runs in {"bad": [wrong], "good": [right] * 2, "third": [right, wrong, wrong]}.items():
        for seed, documents in enumerate(runs):
            facts: dict[str, Any] = {"system": system, "settings": {"seed": seed}, "groups": groups}
            write_log(tmp_path, f"{system}-{seed}", documents, gold, created=f"2026-01-0{seed + 1}", **facts)
    ended = moot("eval", "compare", tmp_path, "--json", "--against", "bad")
    assert ended.returncode == 0, ended.stderr
    rows = json.loads(ended.stdout)["studies"][0]["tables"]["differences"]["rows"]
    found = {row["system"]: row for row in rows if row["system"] in ("good", "third")}
    flipped = 60 if groups else 120
    assert {row["p"] for row in found.values()} == {2.0 ** (1 - flipped)}
    assert all(row["p_holm"] < 1e-15 for row in found.values())
    assert 0.2 < found["third"]["detectable"] * 3 == pytest.approx(found["good"]["detectable"])
