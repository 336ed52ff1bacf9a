"""Inspect's logs are read. Each item and each run counts once, and samples with errors are missing data."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path
from typing import Any

import pytest
from moot.core.errors import UserError
from moot.evals._runs.logs import LoggedRun, read_runs
from moot.evals._stats.debate_measures import consistent_share, right_consistent_share
from moot.evals._stats.metrics import citation_precision
from moot.evals._stats.observations import measured_fields
from moot.evals._stats.panel_measures import (
    cohen_kappas,
    concession_rates,
    disagreement,
    novelty_by_round,
    reflection_trajectory,
    role_play_consistency,
)
from moot.graphs import load_graph
from moot.nodes._models.prices import cost_of

from tests.conftest import StartStub
from tests.evals.made_logs import call, debate, failed_document, write_log

GOLD = {"1": "SUPPORTS", "2": "REFUTES", "3": "REFUTES"}


def read_logs(*paths: Path) -> tuple[list[LoggedRun], list[str]]:
    """Read logs; return their runs and the notes. Only openai:gpt-4o-mini has a price."""
    prices = {"openai:gpt-4o-mini": {"input": 1.0, "output": 2.0}}
    return read_runs(paths, lambda calls: cost_of(calls, prices))  # type: ignore[arg-type]


def test_a_log_gives_one_observation_for_each_item_that_was_run(tmp_path: Path) -> None:
    documents = {
        "1": debate("SUPPORTS", ["SUPPORTS", "REFUTES"], warnings=[{"kind": "slow", "where": "x", "detail": "y"}] * 2),
        "2": debate(None, calls=[call(), call(None, None)]),
        "3": failed_document(),
        "4": None,
        "5": debate("REFUTES", calls=[call(model="openai:new")]),
    }
    gold = GOLD | {"4": "SUPPORTS", "5": "REFUTES"}
    scores: dict[str, dict[str, float | str]] = {
        "1": {"gold_recall": 0.5, "accuracy": 0.0, "match": "C"},
        "2": {"gold_recall": math.nan},
        "3": {"gold_recall": 1.0},
    }
    facts: dict[str, Any] = {"system": "a", "model": "openai:m", "seed": 3, "settings": {"k": 5}}
    more: dict[str, Any] = {"planned": [*gold, "6", "7"], "strata": {"1": "hard"}}
    path = write_log(tmp_path, "log", documents, gold, scores=scores, **more, **facts)
    [run], notes = read_logs(path)
    assert notes == []
    assert (run.system, run.model, run.seed, run.settings, run.planned_count) == ("a", "openai:m", 3, {"k": 5}, 7)
    right, silent, broken, lost, other = run.observations
    assert (right.outcome, right.stratum, right.warnings) == ("SUPPORTS", "hard", {"slow": 2})
    assert right.scores == {"accuracy": 1.0, "gold_recall": 0.5}  # accuracy is recomputed, not read from the log
    assert [right.tokens, right.cost] == [1500, pytest.approx(0.002)]  # 1,000 at 1 and 500 at 2 USD a million
    assert (silent.outcome, silent.scores) == ("", {"accuracy": 0.0, "gold_recall": None})
    assert (silent.tokens, silent.cost) == (None, None)  # one call has no token counts, so the sum is unknown
    assert (broken.outcome, broken.unmapped, broken.scores) == (None, None, {"accuracy": None})
    assert (broken.error, broken.detail) == ("timeout", "No reply within 120 s.")
    assert (lost.error, lost.detail, lost.document) == ("sample_error", "the connection was lost", None)
    assert (other.tokens, other.cost) == (1500, None)  # an unknown price is not a price of 0


def test_a_sample_that_failed_after_its_debate_is_missing_data(tmp_path: Path) -> None:
    done = debate("SUPPORTS")
    path = write_log(tmp_path, "log", {"1": done}, GOLD, failing=["1"])
    [run], _ = read_logs(path)
    assert (run.observations[0].outcome, run.observations[0].error) == (None, "sample_error")


def test_without_a_plan_a_logs_system_is_read_from_a_result_document(tmp_path: Path) -> None:
    document = debate("SUPPORTS", settings={"model": "ollama:m", "max_rounds": 2})
    [run], _ = read_logs(write_log(tmp_path, "log", {"1": document}, GOLD))
    assert (run.system, run.model, run.settings) == ("society_of_minds", "ollama:m", document["settings"])


@pytest.mark.parametrize(
    ("attempts", "kept"),
    [
        ([("a", "error", 3, 3), ("b", "success", 3, 3)], "b"),
        ([("a", "success", 3, 3), ("b", "error", 3, 3)], "a"),  # a later failed attempt replaces nothing
        ([("a", "success", 3, 3), ("b", "success", 3, 3)], "b"),
        ([("a", "error", 2, 3), ("b", "cancelled", 1, 3)], "a"),
        ([("a", "started", 1, 3), ("b", "error", 3, 3)], "b"),
        ([("a", "error", 2, 3), ("b", "error", 2, 3)], "b"),
    ],
)
def test_one_of_several_attempts_at_a_run_is_read(
    tmp_path: Path, attempts: list[tuple[str, str, int, int]], kept: str
) -> None:
    """If attempts succeeded, the newest of them is read.

    Otherwise, the attempt with the most samples is read; in a tie, the newest.
    """
    for day, (name, status, finished, planned) in enumerate(attempts, 1):
        documents = {id: debate("SUPPORTS") for id in list(GOLD)[:finished]}
        facts: dict[str, Any] = {"system": "s", "seed": 1, "settings": {"k": 5}}
        created = f"2026-01-0{day}T00:00:00+00:00"
        write_log(
            tmp_path, name, documents, GOLD, status=status, created=created, planned=list(GOLD)[:planned], **facts
        )
    [run], notes = read_logs(tmp_path)
    assert run.file == f"{kept}.eval"
    [other] = {name for name, *_ in attempts} - {kept}
    assert notes == [f"{other}.eval: superseded by {kept}.eval; left out."]


def test_a_log_supersedes_only_logs_with_the_same_key(tmp_path: Path) -> None:
    """Logs that only Inspect wrote have no key. A log with a key does not supersede logs without a key."""
    one = {"1": debate("SUPPORTS")}
    named: dict[str, Any] = {"system": "s", "settings": {"k": 5}}
    for day, (name, items, facts) in enumerate(
        [
            ("old", "aaaa", {"key": "c.aaaa."}),
            ("renamed", "aaaa", {"key": "c.aaaa.", "system": "t"}),
            ("other", "bbbb", {"key": "c.bbbb."}),  # on other items
            ("keyless", "aaaa", {}),
            ("keyless_other", "bbbb", {}),
        ],
        1,
    ):
        created = f"2026-01-0{day}T00:00:00+00:00"
        write_log(tmp_path, name, one, GOLD, items=items, created=created, **{**named, **facts})
    runs, notes = read_logs(tmp_path)
    assert [run.file for run in runs] == ["keyless.eval", "keyless_other.eval", "other.eval", "renamed.eval"]
    assert notes == ["old.eval: superseded by renamed.eval (there, s is called t); left out."]
    assert {(run.key, run.items, run.data) for run in runs if run.key} == {
        ("c.aaaa.", "aaaa", "claims.jsonl"),
        ("c.bbbb.", "bbbb", "claims.jsonl"),
    }


def test_logs_with_different_seeds_or_settings_are_different_runs(tmp_path: Path) -> None:
    """If logs name no system, logs with the same task id are attempts at one run."""
    several: dict[str, dict[str, Any]] = {"a": {"seed": 1}, "b": {"seed": 2}, "c": {"seed": 1, "settings": {"k": 5}}}
    for name, facts in several.items():
        write_log(tmp_path, name, {"1": debate("SUPPORTS")}, GOLD, system="s", **facts)
    assert len(read_logs(tmp_path)[0]) == 3
    write_log(tmp_path, "d", {"1": debate("SUPPORTS")}, GOLD, task_id="t")
    write_log(tmp_path, "e", {"1": debate("SUPPORTS")}, GOLD, task_id="t")  # a retry by Inspect
    assert len(read_logs(tmp_path)[0]) == 4


def test_logs_that_are_left_out_are_reported(tmp_path: Path) -> None:
    below = tmp_path / "below" / "more"
    below.mkdir(parents=True)
    good = write_log(below, "good", {"1": debate("SUPPORTS")}, GOLD)
    write_log(tmp_path, "none", {}, GOLD, planned=["1"], system="s")
    write_log(tmp_path, "other", {"1": debate("SUPPORTS")}, GOLD, benchmark="mine")
    write_log(tmp_path, "foreign", {"1": debate("SUPPORTS")}, GOLD, benchmark=None)
    (tmp_path / "cut.eval").write_bytes(good.read_bytes()[:900])
    plain = write_log(below, "2026-01-01T00-00-00_fever_x", {"1": debate("SUPPORTS")}, GOLD, ending="json")
    for other in ("logs", "eval-set"):  # other files of Inspect, which are skipped without a note
        (below / f"{other}.json").write_text("{}")
    # a file that is named twice is read once
    [json_run, run], notes = read_logs(tmp_path, good, tmp_path / "cut.eval")
    assert (json_run.file, run.file) == (plain.name, "good.eval")
    assert json_run.observations == run.observations
    assert sorted(notes) == [
        "cut.eval: it cannot be read as a log (EOCD not found); left out.",
        "foreign.eval: it is not a log of moot's benchmarks; left out.",
        "none.eval: it contains no sample; left out.",
        "other.eval: its benchmark 'mine' is unknown; left out.",
    ]
    with pytest.raises(UserError, match=r"No log .* cut.eval: it cannot be read") as caught:
        read_logs(tmp_path / "cut.eval")
    assert caught.value.kind == "missing_file"
    with pytest.raises(UserError, match="There is no file or folder .*nowhere"):
        read_logs(tmp_path / "nowhere")


@pytest.mark.parametrize("damage", [{"turns": None}, {"calls": [{}]}, {"answer": ["REFUTES"]}, {"confidence": 2}])
def test_a_document_with_an_invalid_field_is_refused(tmp_path: Path, damage: dict[str, Any]) -> None:
    path = write_log(tmp_path, "log", {"1": debate("SUPPORTS"), "2": debate("REFUTES") | damage}, GOLD)
    with pytest.raises(UserError, match="log.eval, sample 2: it is not in moot's format") as caught:
        read_logs(path)
    assert caught.value.kind == "invalid_file"


# --- documents --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graph", "settings", "task"),
    [
        ("reconcile", {}, "fever"),
        ("proclaim", {"max_rounds": 2, "embedder": "openai:stub-embedding", "corpus": "demo-news"}, "fever"),
        ("madke", {"max_rounds": 2, "retrieval": "none"}, "hotpotqa"),
    ],
)
async def test_a_reduced_document_gives_the_same_measures(
    start_stub: StartStub, graph: str, settings: dict[str, Any], task: str
) -> None:
    """Reduced documents are also less than a fifth as long as whole documents."""
    start_stub()
    system = load_graph(graph)
    chosen = system.settings.model_validate({"model": "fake:3", **settings})
    claims = [f"Saffron is number {n}." for n in range(4)]
    documents = await asyncio.gather(
        *(system.graph.ainvoke({"claim": c, "task": task}, context=chosen) for c in claims)
    )
    reduced = [measured_fields(document) for document in documents]
    for measure in (
        consistent_share,
        citation_precision,
        cohen_kappas,
        disagreement,
        novelty_by_round,
        role_play_consistency,
    ):
        assert measure(reduced) == measure(documents)
    assert concession_rates(reduced) == concession_rates(documents)
    assert (concession_rates(reduced)["plaintiff"] is None) == (graph != "proclaim")
    assert right_consistent_share(reduced, [True] * 4) == right_consistent_share(documents, [True] * 4)
    assert [reflection_trajectory(one) for one in reduced] == [reflection_trajectory(one) for one in documents]
    assert len(json.dumps(reduced)) < 0.2 * len(json.dumps(documents))
