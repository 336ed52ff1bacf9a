"""Tables of a comparison of systems, compared with figures that were worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from moot.core.errors import UserError
from moot.evals._report.comparison import Study, System, check_baseline, studies_of
from moot.evals._report.confidence import calibration_table, reliability_table, selective_table, thresholds_table
from moot.evals._report.debates import consistency_table, evidence_table, rounds_table, stops_table, trials_table
from moot.evals._report.runs import errors_table, study_notes
from moot.evals._report.scores import costs_table, seeds_table, strata_table, systems_table
from moot.evals._report.tables import Nested, Table
from moot.evals._report.tests import differences_table, policies_table
from moot.evals._runs.logs import LoggedRun, read_runs
from moot.evals._stats.estimates import mean_over_runs
from moot.evals._stats.metrics import item_score
from moot.evals._stats.outcomes import UNUSABLE
from moot.nodes._runtime.document import usage

from tests.evals.made_logs import call, debate, failed_document, write_log
from tests.evals.made_study import CONTROL, DEBATE, GOLD, MODEL, OF_DEBATE, R, S, compared_pairs, records, study, value


@pytest.fixture
def comparison(tmp_path: Path) -> Study:
    """A debate, its control ``debate_own``, and a separate system with the same answers as the control."""
    return study(tmp_path, debate=(DEBATE, {}), debate_own=(CONTROL, OF_DEBATE), another=(CONTROL, {}))


# --- scores -----------------------------------------------------------------------------------------------------------


def test_scores_are_over_items_that_every_system_finished(comparison: Study) -> None:
    rows = records(systems_table(comparison))
    assert list(rows) == [
        *("another", "debate", "debate_own", "debate first-round majority"),
        *("label prior: SUPPORTS", "always NOT ENOUGH INFO"),
    ]
    assert isinstance(systems_table(comparison).rows[2][0], Nested)  # type: ignore[union-attr]
    assert {name: value(row["accuracy"]) for name, row in rows.items()} == {
        "another": 4 / 7,
        "debate": 6 / 7,
        "debate_own": 4 / 7,  # 5/8 with item 6, on which the debate failed
        "debate first-round majority": 5 / 7,
        "label prior: SUPPORTS": 3 / 7,  # the most frequent label of these seven items
        "always NOT ENOUGH INFO": 2 / 7,
    }
    assert [rows[name]["items"] for name in ("another", "debate", "debate_own")] == [8, 7, 8]
    assert records(costs_table(comparison))["another"]["score"] == pytest.approx(4 / 7)
    assert [rows["debate"][name] for name in ("items", "errors", "abstained")] == [7, 1, 1]
    assert rows["debate first-round majority"]["errors"] == 1
    # F1 is 1 for SUPPORTS, 1 for REFUTES (item 6 is missing), 2/3 for NOT ENOUGH INFO (item 8 counts as wrong).
    assert value(rows["debate"]["macro_f1"]) == pytest.approx((1 + 1 + 2 / 3) / 3)
    assert rows["debate"]["accuracy"].low == pytest.approx(0.4869, abs=1e-4)


def test_differences_are_over_common_items(comparison: Study) -> None:
    own = records(differences_table(comparison, "self_consistency"))["debate"]
    assert (own["against"], own["items"], own["missing"], own["elsewhere"]) == ("debate_own", 7, 1, 0)
    assert value(own["difference_accuracy"]) == pytest.approx(2 / 7)  # (6 - 4) / 7 on common items, not 6/7 - 5/8
    # Better on items 2, 5 and 7, worse on 8.
    assert (own["better"], own["worse"], own["test"]) == (3, 1, "McNemar, exact")
    assert own["p"] == pytest.approx(0.625)  # two-sided: at most 1 head in 4 throws of a coin, 2 x 5/16
    assert own["p_holm"] == own["p"]
    # If only 4 of 7 items are discordant, no difference is significant. If 6 or 7 are, and the better system is right
    # on all of them, p is at most 2 / 2^6. So this share of discordant items is needed:
    share = own["detectable"]
    assert share**7 + 7 * share**6 * (1 - share) == pytest.approx(0.8)


def test_holms_correction_covers_all_tests_of_a_table(tmp_path: Path) -> None:
    gold = {str(n): S for n in range(20)}
    right, wrong = ({id: debate(answer) for id in gold} for answer in (S, R))
    half = {id: right[id] if int(id) % 2 else wrong[id] for id in gold}
    made = study(
        tmp_path,
        a=(right, {"gold": gold}),
        b=(wrong, {"gold": gold, "control": "self_consistency", "of": "a"}),
        c=(half, {"gold": gold, "control": "single_call", "of": "a"}),
    )
    rows = differences_table(made)
    assert rows is not None
    assert rows.column("against") == ["b", "c"]
    assert rows.column("p") == [pytest.approx(2 / 2**20), pytest.approx(2 / 2**10)]
    assert rows.column("p_holm") == [pytest.approx(2 * 2 / 2**20), pytest.approx(2 / 2**10)]


def test_the_test_of_several_runs_uses_means_per_item(tmp_path: Path) -> None:
    """The debate is wrong only on item 9 in the second run. Its control is right on items 0 and 1, and failed on 8."""
    gold = {str(n): S for n in range(10)}
    first = {id: debate(S) for id in gold}
    second = first | {"9": debate(R)}
    control = {id: debate(S if id in "01" else R) for id in gold}
    facts: dict[str, Any] = {"gold": gold}
    made = study(
        tmp_path,
        a__1=(first, {**facts, "seed": 1}),
        a__2=(second, {**facts, "seed": 2}),
        b=(control | {"8": failed_document()}, {**facts, "control": "new kind", "of": "a"}),
    )
    [row] = records(differences_table(made)).values()
    assert (row["against"], row["items"], row["missing"], row["better"], row["worse"]) == ("b", 9, 1, 7, 0)
    assert value(row["difference_accuracy"]) == pytest.approx(6.5 / 9)
    assert (row["test"], row["p"]) == ("sign flips, exact", pytest.approx(2 / 2**7))
    # Of nine differences, six are 1, one is 1/2, and two are 0. If only that of 1/2 favours the other system, p is
    # 4 / 2^7; if one of the others does, p is 16 / 2^7. So all six must favour the better system.
    better = (1 + row["detectable"] * 9 / 6.5) / 2
    assert better**6 == pytest.approx(0.8, abs=1e-4)


def test_figures_of_several_runs_are_means_over_runs() -> None:
    kinds = [((S,), (S, S)), ((R,), (S, None)), ((R,), (R, None))]
    counts = np.array([[2.0, 1.0, 1.0], [0.0, 1.0, 1.0]])
    # In the first resample, the second run is right on all its items. In the second, only the first run has items.
    first = ((2 * 2 / 5) + 2 / 3) / 2
    assert mean_over_runs(kinds, "macro_f1")(counts) == pytest.approx([(first + 1) / 2, 2 / 3])
    assert mean_over_runs(kinds, "balanced_accuracy")(counts) == pytest.approx([(3 / 4 + 1) / 2, 1 / 2])
    scored = [((S,), (1.0, 1.0)), ((R,), (0.0, None)), ((R,), (1.0, None))]
    assert mean_over_runs(scored, "accuracy")(counts) == pytest.approx([(3 / 4 + 1) / 2, 1 / 2])
    assert np.isnan(mean_over_runs([((S,), (None,))], "accuracy")(np.array([[3.0]]))).all()


def test_scores_under_every_abstention_policy_by_hand(comparison: Study) -> None:
    row = records(policies_table(comparison))["debate"]
    assert (row["abstained"], row["missing"], row["coverage"]) == (1, 1, 6 / 7)
    assert (row["lowest"], row["highest"]) == (6 / 8, 7 / 8)  # item 6 counts as wrong, or as right
    shown = {key: row[f"accuracy_{key}"] for key in ("wrong", "left_out", "open_label", "burden_of_refutation")}
    assert shown == {"wrong": 6 / 7, "left_out": 1.0, "open_label": 1.0, "burden_of_refutation": 6 / 7}
    assert row["macro_f1_open_label"] == 1.0


def test_abstained_unusable_and_missing_answers_are_counted_separately(tmp_path: Path) -> None:
    gold = dict.fromkeys("1234", S)
    documents = {"1": debate(S), "2": failed_document("unparsed"), "3": failed_document("timeout"), "4": debate(None)}
    made = study(tmp_path, a=(documents, {"gold": gold}))
    [system] = made.measured
    outcomes = [(seen.outcome, seen.unmapped, seen.error) for seen in system.observations]
    assert outcomes == [(S, S, None), ("", UNUSABLE, None), (None, None, "timeout"), ("", "", None)]
    row = records(policies_table(made))["a"]
    assert [row[name] for name in ("abstained", "unusable", "missing")] == [1, 1, 1]
    shown = {key: row[f"accuracy_{key}"] for key in ("wrong", "left_out", "burden_of_refutation")}
    assert shown == {"wrong": 1 / 3, "left_out": 1 / 2, "burden_of_refutation": 2 / 3}
    assert (row["unusable_missing"], row["lowest"], row["highest"]) == (1 / 2, 1 / 4, 2 / 4)
    stops = stops_table(made)
    assert stops is not None
    assert {row[1]: row[2] for row in stops.rows} == {"max_rounds": 2, UNUSABLE: 1}


def test_bounds_of_scores_with_missing_items(tmp_path: Path) -> None:
    """Of ten items, one is right, one is wrong, one is an abstention, one failed and six were not run."""
    documents = {"1": debate(S), "2": debate(R), "3": debate(None), "4": failed_document()}
    made = study(tmp_path, a=(documents, {"planned": list("1234567890")}))
    row = records(policies_table(made))["a"]
    assert (row["missing"], row["accuracy_wrong"], row["lowest"], row["highest"]) == (7, 1 / 3, 0.1, 0.8)


def test_an_inconclusive_trial_counts_as_an_abstention_in_the_table_of_policies(tmp_path: Path) -> None:
    inconclusive = debate(S, raw_verdict="INCONCLUSIVE", metrics={"panel": {}})
    made = study(tmp_path, trial=({"1": inconclusive, "4": debate(R)}, {}))
    assert records(systems_table(made))["trial"]["abstained"] == 0  # the trial turned INCONCLUSIVE into SUPPORTS
    row = records(policies_table(made))["trial"]
    assert (row["abstained"], row["accuracy_wrong"], row["accuracy_burden_of_refutation"]) == (1, 0.5, 1.0)


def test_costs_by_hand(tmp_path: Path) -> None:
    expensive = {id: document | {"calls": [call(), call()]} for id, document in DEBATE.items()}
    made = study(tmp_path, debate=(expensive, {}), debate_own=(CONTROL, OF_DEBATE))
    rows = records(costs_table(made))
    assert rows["debate"]["cost"] == pytest.approx(0.002)
    assert rows["debate"]["total"] == pytest.approx(0.016)  # includes the cost of the failed item
    assert (rows["debate"]["tokens"], rows["debate"]["errors"], rows["debate"]["priced"]) == (3000, 1, 7)
    assert rows["debate_own"]["relative"] == 0.5
    assert [row["front_cost"] for row in rows.values()] == ["yes", "yes"]


def test_an_interrupted_run_costs_as_much_as_an_uninterrupted_one(tmp_path: Path) -> None:
    """Its stored replies were paid for by the run that was killed; the time that they took is not known."""
    calls: Any = [{**call(), "from_store": True}, call(), {**call(None, None), "shared": True}]
    resumed = debate(S, calls=calls, usage=usage(calls))
    made = study(tmp_path, debate=({"1": resumed, "2": debate(S)}, {}), own=({"1": debate(S)}, OF_DEBATE))
    rows = records(costs_table(made))
    assert (rows["debate"]["cost"], rows["debate"]["total"]) == (0.0015, 0.003)
    assert (rows["debate"]["seconds"], rows["own"]["relative_cost"]) == (1.5, 0.5)
    assert "relative_seconds" not in rows["own"]
    assert "debate: 1 of 4 replies were stored by an earlier run" in " ".join(study_notes(made))


def test_the_cost_of_a_sample_without_a_document_is_unknown(tmp_path: Path) -> None:
    """A sample has no document if, for example, Inspect's time limit ends it after some calls."""
    made = study(tmp_path, a=({"1": debate(S), "2": None}, {}), b=({"1": debate(S), "2": failed_document()}, {}))
    rows = records(costs_table(made))
    assert (rows["a"]["cost"], rows["a"]["total"]) == (0.001, None)
    assert rows["b"]["total"] == 0.002
    assert [note for note in study_notes(made) if "document" in note] == [
        "a: 1 samples have no result document, so their cost and the total cost are unknown."
    ]


def test_the_cost_of_a_model_without_a_known_price_is_unknown(tmp_path: Path) -> None:
    write_log(tmp_path, "a", {"1": debate(S), "2": debate(S)}, GOLD)
    runs, _ = read_runs([tmp_path], lambda calls: None)
    [made] = studies_of(runs)
    [row] = records(costs_table(made)).values()
    assert (row["cost"], row["total"], row["priced"]) == (None, None, 0)
    assert "No price is known for openai:gpt-4o-mini" in " ".join(study_notes(made))


# --- baselines --------------------------------------------------------------------------------------------------------


def test_the_baseline_selects_the_compared_pairs(comparison: Study) -> None:
    own, first = ("debate", "debate_own"), ("debate", "debate first-round majority")
    assert compared_pairs(comparison, None) == [own, first, ("debate", "another")]
    assert compared_pairs(comparison, "self_consistency") == [own]
    assert compared_pairs(comparison, "first-round majority") == [first]
    assert len(compared_pairs(comparison, "another")) == 5  # one pair for each other system
    prior = compared_pairs(comparison, "label prior")
    assert prior == compared_pairs(comparison, "label prior: SUPPORTS")
    assert prior[0] == ("another", "label prior: SUPPORTS")
    assert len(prior) == len(compared_pairs(comparison, "always")) == 5
    with pytest.raises(UserError, match="There is no system or control 'debat'. Did you mean debate") as caught:
        check_baseline([comparison], "debat")
    assert caught.value.kind == "invalid_setting"
    check_baseline([comparison], "label prior")


# --- debates ----------------------------------------------------------------------------------------------------------


def test_accuracy_by_round_and_by_stop_reason_by_hand(comparison: Study) -> None:
    made = rounds_table(comparison)
    assert made is not None
    assert [(row[0], row[1], row[2], row[4]) for row in made.rows] == [
        ("debate", "1", 7, 5 / 7),
        ("debate", "2", 2, 1.0),
        ("debate", "3", 1, 1.0),
        ("debate", "verdict", 7, None),
    ]
    # Five debates ended after round 1. Their answers still count in round 2, so all seven are right there. The
    # debate on item 8 abstained at the end.
    assert [value(cell) for cell in made.column("score")] == [5 / 7, 1.0, 1.0, 6 / 7]
    stops = stops_table(comparison)
    assert stops is not None
    ours = [row for row in stops.rows if row[0] == "debate"]
    assert [(row[1], row[2], value(row[5])) for row in ours] == [("consensus", 2, 1.0), ("max_rounds", 5, 4 / 5)]


def test_citations_and_gold_recall_by_hand(tmp_path: Path) -> None:
    counts = {"total": 4, "verified": 1, "unverified": 2, "fabricated": 1}
    none = dict.fromkeys(counts, 0)
    documents = {
        "1": debate(S, metrics={"citations": counts}),
        "2": debate(S, metrics={"citations": none}),
        "3": failed_document(),
    }
    scores = {"1": {"gold_recall": 0.5}, "2": {"gold_recall": float("nan")}, "3": {"gold_recall": 1.0}}
    row = records(evidence_table(study(tmp_path, a=(documents, {"scores": scores}))))["a"]
    assert (row["citations"], row["verified"], row["fabricated"], row["uncited"]) == (4, 1, 1, 1)
    assert (row["citation_precision"], row["gold_recall"], row["gold_recall_items"]) == (0.25, 0.5, 1)


def test_thresholds_of_scores_by_hand(tmp_path: Path) -> None:
    def scored(answers: str, *values: float | None, query: str | None = "?") -> dict[str, Any]:
        document = debate(S, [{"S": S, "R": R}[letter] for letter in answers])
        for turn, faithful in zip(document["turns"], values, strict=True):
            turn["scores"] = {"faithfulness": faithful, "answer_relevance": 0.9, "questions": ["?"]}
            turn["query"] = query
        return document

    documents = {"1": scored("SR", 0.5, 0.75), "4": scored("RS", 1.0, None), "5": failed_document()}
    table = thresholds_table(study(tmp_path, a=(documents, {}), b=(CONTROL, {})))
    assert table is not None
    assert set(table.column("system")) == {"a"}  # system b has no scores
    rows: dict[Any, Any] = {(row[1], row[4]): (row[2], row[3], *row[5:]) for row in table.rows}
    assert rows["faithfulness", 0.0] == (3, 1, 3, 1.0, pytest.approx(2 / 3))
    assert rows["faithfulness", 0.5] == rows["faithfulness", 0.0]
    assert rows["faithfulness", 0.75] == (3, 1, 2, pytest.approx(2 / 3), 0.5)
    assert rows["faithfulness", 0.95] == (3, 1, 1, pytest.approx(1 / 3), 1.0)
    assert rows["answer relevance", 0.9] == (4, 0, 4, 1.0, 0.5)
    assert rows["answer relevance", 0.95] == (4, 0, 0, 0.0, None)
    assert thresholds_table(study(tmp_path / "none", b=(CONTROL, {}))) is None


def test_each_stratum_has_its_own_row(tmp_path: Path) -> None:
    assert strata_table(study(tmp_path, a=(CONTROL, {}))) is None
    made = study(tmp_path, a=(DEBATE, {"strata": {id: "even" if int(id) % 2 == 0 else "odd" for id in GOLD}}))
    table = strata_table(made)
    assert table is not None
    assert [(row[1], row[2], row[3], value(row[4])) for row in table.rows] == [
        ("even", 3, 1, pytest.approx(2 / 3)),
        ("odd", 4, 0, 1.0),
    ]
    assert trials_table(made) is None  # no system is a trial


# --- other tasks ------------------------------------------------------------------------------------------------------


def test_scores_of_short_answers_by_hand(tmp_path: Path) -> None:
    gold = {"1": ["Saint Paul", "St. Paul"], "2": ["no"]}
    documents = {"1": debate("the St. Paul!", task="hotpotqa"), "2": debate("no way", task="hotpotqa")}
    scores = {"1": {"judged": 1.0}, "2": {"judged": 1.0}}
    facts: dict[str, Any] = {"benchmark": "hotpotqa", "gold": gold, "scores": scores}
    made = study(
        tmp_path,
        a=(documents, facts),
        b=({"1": debate(None, task="hotpotqa"), "2": debate(None, task="hotpotqa")}, {**facts, "scores": None}),
    )
    rows = records(systems_table(made))
    assert list(rows) == ["a", "b"]  # no labels, so no label prior
    assert [value(rows["a"][name]) for name in ("exact_match", "token_f1", "judged")] == [0.5, 0.5, 1.0]
    assert value(rows["b"]["judged"]) is None
    row = records(policies_table(made))["b"]
    assert (row["exact_match_wrong"], row["exact_match_left_out"], row["coverage"]) == (0.0, None, 0.0)


@pytest.mark.parametrize(
    ("measure", "task", "outcome", "gold", "expected"),
    [
        ("exact_match", "triviaqa", "well-known", ["well known"], 1.0),  # TriviaQA turns punctuation into spaces
        ("exact_match", "nq_open", "well-known", ["well known"], 0.0),
        ("exact_match", "math", "\\dfrac{1}{2}", ["0.5"], 1.0),
        ("token_f1", "2wikimultihopqa", "no idea", ["no"], 0.0),
        ("token_f1", "squad", "no idea", ["no"], pytest.approx(2 / 3)),
        ("numeric_match", "gsm8k", "1,000", ["1000.0"], 1.0),
        ("accuracy", "fever", "", [S], 0.0),
        ("accuracy", "fever", None, [S], None),
    ],
)
def test_answers_are_scored_by_the_rules_of_their_benchmark(
    measure: str, task: str, outcome: str | None, gold: list[str], expected: float | None
) -> None:
    assert item_score(measure, task, outcome, gold) == expected


# --- notes ------------------------------------------------------------------------------------------------------------


def test_notes_name_missing_items_and_other_gaps_of_a_comparison(tmp_path: Path) -> None:
    other_gold = GOLD | {"2": R}
    fewer = {id: CONTROL[id] for id in "1234"}
    facts: dict[str, Any] = {
        "gold": other_gold,
        "planned": list(GOLD),
        "status": "cancelled",
        "notes": ["3 records have no gold answer"],
    }
    made = study(tmp_path, a=(DEBATE, {}), b=(fewer, facts))
    notes = " ".join(study_notes(made))
    for part in (
        "4 of 8 are common to all (a 8, b 4)",
        "The right answers of 1 items differ between systems (for example, item 2)",
        "b.eval (b): Inspect's status is cancelled.",
        "b.eval (b): 4 of 8 items were not run.",
        "b.eval: the benchmark's reader: 3 records have no gold answer.",
    ):
        assert part in notes
    same_note = {"notes": ["3 records have no gold answer"]}
    together = study_notes(study(tmp_path / "alike", a=(DEBATE, same_note), b=(DEBATE, same_note)))
    assert "all logs: the benchmark's reader: 3 records have no gold answer." in together
    row = records(differences_table(made))["b"]
    assert (row["items"], row["elsewhere"]) == (3, 5)  # item 2 has another right answer; items 5 to 8 were not run
    table = errors_table(made)
    assert table is not None
    assert table.rows == (("a", "timeout", 1, "6: No reply within 120 s."),)


def test_each_benchmark_and_model_has_its_own_comparison(tmp_path: Path) -> None:
    named: dict[str, dict[str, Any]] = {"a": MODEL, "b": {"model": None}, "c": {**MODEL, "benchmark": "feverous"}}
    for name, facts in named.items():
        write_log(tmp_path, name, {"1": debate(S)}, GOLD, system="s", **facts)
    runs: list[LoggedRun] = read_runs([tmp_path], lambda calls: 0.0)[0]
    assert [made.title for made in studies_of(runs)] == [
        *("FEVER, openai:gpt-4o-mini", "FEVER, several models", "FEVEROUS, openai:gpt-4o-mini")
    ]


Maker = Callable[[Study], Table | None]
TABLES: list[Maker] = [systems_table, differences_table, costs_table, seeds_table, policies_table, calibration_table]
TABLES += [reliability_table, selective_table, thresholds_table, rounds_table, stops_table]
TABLES += [consistency_table, evidence_table, errors_table]


@pytest.mark.parametrize(
    "documents", [{"1": failed_document()}, {"1": None}, {"1": debate(None)}, {"1": debate(S, [None])}]
)
def test_tables_are_made_even_if_the_only_debate_is_incomplete(tmp_path: Path, documents: dict[str, Any]) -> None:
    made = study(tmp_path, a=(documents, {}), b=(documents, {"seed": 1}), b__2=(documents, {"seed": 2}))
    tables = [table for make in TABLES if (table := make(made)) is not None]
    row = records(tables[0])["a"]
    assert row["errors"] == (documents["1"] is None or documents["1"]["status"] == "failed")
    assert isinstance(made.systems[0], System)
