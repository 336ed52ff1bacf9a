"""Tests of the beginning of a report: its findings, the table of systems, and the papers' figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from moot.evals._benchmarks.catalogue import BENCHMARKS
from moot.evals._report.comparison import Study, System, with_outcome
from moot.evals._report.findings import AT_EQUAL_COST, Findings, findings_of
from moot.evals._report.overview import overview_table
from moot.evals._report.published import published_figures, published_table, same_models
from moot.evals._report.tests import comparisons_of
from moot.evals._runs.controls import CONTROLS
from moot.evals._stats.observations import Observation
from moot.evals._stats.sample_size import ALPHA
from moot.evals._stats.significance import Interval, mcnemar

from tests.evals.made_logs import call, debate, failed_document
from tests.evals.made_study import CONTROL, DEBATE, GOLD, MODEL, OF_DEBATE, S, records, study, value
from tests.evals.test_plans import written_plan

approx: Any = pytest.approx
RIGHT = {id: debate(said) for id, said in GOLD.items()}
WRONG = {id: debate(None) for id in GOLD}
"""All debates abstained, which counts as wrong."""


def findings(*studies: Study) -> Findings:
    """The findings on studies; Holm's correction covers all their tests."""
    return findings_of(list(zip(studies, comparisons_of(studies), strict=True)), "report")


def test_the_headline_states_a_significant_difference(tmp_path: Path) -> None:
    found = findings(study(tmp_path, a=(WRONG, {}), b=(RIGHT, {})))
    assert found.headline == "b was right more often than a"
    assert found.sentences == (
        "FEVER, openai:gpt-4o-mini: b was right on 100.0 more items in 100 than a (95% interval +35.1 to +100.0), on 8 "
        "items; p = 0.008, p by Holm = 0.008.",
        "Holm's correction covers the only test of this report. Tests use the first measure of each benchmark.",
    )


def test_without_a_significant_difference_the_detectable_difference_is_named(tmp_path: Path) -> None:
    found = findings(study(tmp_path, a=(DEBATE, {}), b=(CONTROL, {})))
    assert found.headline == "No difference between the systems was found"
    sentences = " ".join(found.sentences)
    assert "This does not show that the systems are equally good." in sentences
    assert "A difference of 96.9 items in 100 would be found with a chance of 80%" in sentences
    few, alike = {id: GOLD[id] for id in "1234"}, {id: RIGHT[id] for id in "1234"}
    four = study(tmp_path / "f", a=(alike, {"gold": few}), b=(alike, {"gold": few}))
    none = "Not even the largest difference would be found with a chance of 80%: there are too few items."
    assert none in findings(four).sentences
    assert dict(found.not_measured)["Missing answers"] == (
        "1 of 16 answers are missing. They count neither as right nor as wrong. "
        "If items on which a system failed in every run counted as wrong, that would reverse or remove no difference."
    )
    many = {f"{n}-{id}": said for n in range(9) for id, said in GOLD.items()}
    documents = [{id: debate(said if number_of(id) % k else None) for id, said in many.items()} for k in (3, 4)]
    larger = study(tmp_path / "m", a=(documents[0], {"gold": many}), b=(documents[1], {"gold": many}))
    [one] = comparisons_of([larger])[0]
    assert isinstance(one.detectable, float)
    assert f"A difference of {one.detectable * 100:.1f} items in 100 would be found" in " ".join(
        findings(larger).sentences
    )


def test_tests_of_unequal_numbers_of_runs_are_called_approximations(tmp_path: Path) -> None:
    runs = {f"a__{seed}": (RIGHT, {"settings": {"seed": seed}, "seed": seed}) for seed in (1, 2)}
    unequal = dict(findings(study(tmp_path / "u", **runs, b=(WRONG, {}))).not_measured)["Equal numbers of runs"]
    assert unequal.startswith("Tests of systems with different numbers of runs: 1 of 1. Their p-values are approx")
    equal = findings(study(tmp_path / "e", a=(RIGHT, {}), b=(WRONG, {})))
    assert "Equal numbers of runs" not in dict(equal.not_measured)


def number_of(id: str) -> int:
    """A number that depends only on the characters of an id."""
    return sum(map(ord, id)) * 7919


def test_the_headline_says_that_nothing_was_tested(tmp_path: Path) -> None:
    found = findings(study(tmp_path, a=(RIGHT, {})))
    assert found.headline == "Nothing was compared, because there is no baseline"
    assert dict(found.not_measured)["Differences"].startswith("Nothing is compared on FEVER")
    failed = findings(study(tmp_path / "lost", a=({"1": failed_document()}, {}), b=(RIGHT, {})))
    assert failed.headline == "No difference could be tested"


@settings(max_examples=15)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=25), st.integers(1, 3))
def test_headlines_are_no_stronger_than_the_tests(items: list[tuple[bool, bool]], benchmarks: int) -> None:
    def system(name: str, column: int) -> System:
        seen = {str(n): Observation(str(n), (S,)) for n in range(len(items))}
        answers = {id: with_outcome(seen[id], S if items[int(id)][column] else "", fever) for id in seen}
        return System(name, (answers,), control="kept" if column else None)

    fever = BENCHMARKS["fever"]
    made = [Study(fever, "m", (system("a", 0), system("b", 1))) for _ in range(benchmarks)]
    compared = comparisons_of(made, "b")
    found = findings_of(list(zip(made, compared, strict=True)), "report")
    p = mcnemar([a for a, _ in items], [b for _, b in items]).p
    assert p is not None
    significant = min(1.0, p * benchmarks) <= ALPHA
    assert found.headline.startswith("No difference") is not significant
    if significant:
        better, worse = ("a", "b") if sum(a - b for a, b in items) > 0 else ("b", "a")
        assert found.headline.startswith(f"{better} was right more often")
        assert f"{worse} was right" not in " ".join(found.sentences)


def test_missing_answers_that_could_reverse_a_difference_are_reported(tmp_path: Path) -> None:
    documents = {id: RIGHT[id] if id in "12" else failed_document() for id in GOLD}
    found = findings(study(tmp_path, a=(documents, {}), b=(RIGHT | {"1": debate(None)}, {})))
    assert "would reverse or remove 1 of 1 differences." in dict(found.not_measured)["Missing answers"]


def test_a_debate_without_a_control_at_equal_cost_is_reported(tmp_path: Path) -> None:
    assert set(AT_EQUAL_COST) == {name for name, control in CONTROLS.items() if control.at_equal_cost}
    matched = study(tmp_path / "matched", debate=(DEBATE, {}), control=(CONTROL, OF_DEBATE))
    assert "The same cost" not in dict(findings(matched).not_measured)
    cheaper = OF_DEBATE | {"control": "single_call"}
    unmatched = study(tmp_path / "unmatched", debate=(DEBATE, {}), control=(CONTROL, cheaper))
    assert dict(findings(unmatched).not_measured)["The same cost"].startswith(
        "No control with the same cost was run for debate: "
    )


def test_a_control_that_took_much_less_than_its_systems_cost_is_named(tmp_path: Path) -> None:
    long = {id: document | {"calls": [call()] * 5} for id, document in DEBATE.items()}
    for equal, named in (("tokens", True), ("usd", True), ("calls", False)):
        made = study(tmp_path / equal, debate=(long, {}), own=(CONTROL, OF_DEBATE | {"equal": equal}))
        gap = dict(findings(made).not_measured).get("The whole cost", "")
        assert ("own on FEVER, openai:gpt-4o-mini (20%)" in gap) is named


# --- systems and benchmarks -------------------------------------------------------------------------------------------


def test_the_overview_table_by_hand(tmp_path: Path) -> None:
    fallback = {"kind": "stand_in", "where": "retrieve", "detail": "Another source was searched."}
    warned = {id: document | {"warnings": [fallback]} for id, document in CONTROL.items()}
    first = study(tmp_path / "x", a=(DEBATE, {}), a_own=(warned, {**OF_DEBATE, "of": "a"}))
    assert first.same_items == set(GOLD) - {"6"}  # item 6 failed
    other: dict[str, Any] = {**MODEL, "benchmark": "feverous"}
    second = study(tmp_path / "y", a=(RIGHT, other), c=(RIGHT, other))
    rows = records(overview_table([first, second]))
    assert list(rows) == [
        "a",
        "a_own",
        "a first-round majority",
        "label prior",
        "always the label for open claims",
        "c",
    ]
    assert value(rows["a"]["score_1"]) == approx(6 / 7)
    assert value(rows["a_own"]["score_1"]) == approx(4 / 7)  # its right answer to item 6 does not count
    assert value(rows["a"]["average"]) == approx((6 / 7 + 1) / 2)
    assert rows["a_own"]["average"] is None  # the control was not measured on the second benchmark
    assert (rows["a"]["errors"], rows["a_own"]["lost"]) == (1, 8)
    assert dict(findings(first).not_measured)["The same evidence"].endswith(" or nothing was found: a_own on 8.")
    assert (rows["a"]["tokens"], rows["a"]["calls"]) == (1500, 1)


# --- the papers' figures ----------------------------------------------------------------------------------------------


def test_the_papers_figures_and_intervals_are_shown_next_to_ours(tmp_path: Path) -> None:
    table = published_table([study(tmp_path, a=(RIGHT, {"graph": "tool_mad"}), b=(RIGHT, {"graph": "rag"}))])
    assert table is not None
    rows = [dict(zip([column.key for column in table.columns], row, strict=True)) for row in table.rows]
    assert [(row["system"], row["their_model"]) for row in rows] == [("a", "gpt-4o-mini")]  # S1 also has Llama-3.3-70B
    assert rows[0]["theirs"] == Interval(0.73, 0.67, 0.79, 200)
    assert rows[0]["interval"] == "theirs, as printed"
    assert "is not tested" in table.caption
    assert published_table([study(tmp_path / "none", a=(RIGHT, {}))]) is None


@pytest.mark.parametrize(
    ("models", "sources"),
    [
        (["vllm:meta-llama/Llama-3.3-70B-Instruct-Turbo"], {"Llama-3.3-70B"}),
        (["openai:gpt-4o-mini-2024-07-18"], {"gpt-4o-mini"}),
        (["openai:gpt-4o"], set[str]()),  # S1 has no debate with GPT-4o
        (["openai:gpt-4o-mini", "openai:gpt-4o"], set[str]()),
    ],
)
def test_a_papers_figure_stands_only_beside_a_system_with_the_papers_models(
    tmp_path: Path, models: list[str], sources: set[str]
) -> None:
    said = {id: debate(label, calls=[call(model=model) for model in models]) for id, label in GOLD.items()}
    table = published_table([study(tmp_path, a=(said, {"graph": "tool_mad"}))])
    assert (set() if table is None else set(table.column("their_model"))) == sources


def test_all_models_of_a_paper_with_several_are_needed() -> None:
    [figure] = [f for f in published_figures() if (f.graph, f.benchmark) == ("cortex_debate", "mmlu")]
    agents = written_plan(Path(__file__).parents[2] / "plans" / "s3-table-1.yaml")["settings"]["agents"]
    used = [(agent["model"], "") for agent in agents]
    assert [
        same_models(figure, System("a", ({"1": Observation("1", ("A",), models=frozenset(some))},)))
        for some in (used, used[:4])
    ] == [True, False]
