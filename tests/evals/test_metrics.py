"""Scores of answers and evidence equal figures worked out by hand, and the figures of scikit-learn."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from moot.evals._stats.metrics import (
    YES_NO,
    LabelMetrics,
    accuracy,
    balanced_accuracy,
    best_score,
    by_label,
    citation_precision,
    exact_match,
    fever_page,
    fever_score,
    gold_recall,
    macro_f1,
    normalise_squad,
    normalise_triviaqa,
    numeric_match,
    token_f1,
    under_policies,
)
from moot.evals._stats.outcomes import (
    ABSTAINED,
    UNUSABLE,
    Score,
    majority_of_runs,
    mean_score,
    oracle_of_runs,
    outcome_of,
)
from moot.nodes._texts.answers import same_answer
from moot.nodes._texts.task import make_task

from tests.conftest import SHARED

approx: Any = pytest.approx  # Any, so that mypy accepts it in fields of type float
S, R, N = "SUPPORTS", "REFUTES", "NOT ENOUGH INFO"
VISIBLE = SHARED / "data" / "visible"

# --- scores and outcomes ----------------------------------------------------------------------------------------------


def test_a_mean_score_counts_missing_and_left_out_items() -> None:
    assert mean_score([1.0, 0.0, None, 1.0], left_out=2) == Score(approx(2 / 3), n=3, missing=1, left_out=2)
    assert mean_score([None, None]) == Score(None, 0, missing=2)
    assert mean_score([]) == Score(None, 0)
    assert mean_score([], 3).coverage == 0.0
    assert Score(0.5, 3, missing=9, left_out=1).coverage == 3 / 4
    assert Score(None, 0, missing=2).coverage is None


def document(**fields: Any) -> dict[str, Any]:
    """A result document with these fields; by default of a debate with the answer SUPPORTS."""
    return {"status": "done", "answer": S, "raw_verdict": S, "metrics": {}, "turns": [], **fields}


def test_the_outcome_of_a_document_depends_on_its_status_and_error() -> None:
    assert outcome_of(document()) == S
    assert outcome_of(document(answer=None, raw_verdict=None)) == ABSTAINED
    for status in ("failed", "cancelled", "interrupted"):
        assert outcome_of(document(status=status)) is None
    assert outcome_of(None) is None
    lost = document(status="failed", error={"kind": "cut"}, turns=[{"outcome": "cut"}])
    assert (outcome_of(lost), outcome_of(lost, mapped=False)) == (ABSTAINED, UNUSABLE)
    assert outcome_of({**lost, "turns": [{"outcome": "cut"}, {"outcome": "failed"}]}) is None
    assert outcome_of({**lost, "error": {"kind": "timeout"}}) is None
    trial = document(raw_verdict="INCONCLUSIVE", metrics={"panel": {}})
    assert outcome_of(trial) == S
    assert outcome_of(trial, mapped=False) == ABSTAINED
    assert outcome_of({**trial, "status": "failed"}, mapped=False) is None
    own_label = document(answer="INCONCLUSIVE", raw_verdict="INCONCLUSIVE")  # an ordinary label, as this is no trial
    assert outcome_of(own_label, mapped=False) == "INCONCLUSIVE"


# --- texts ------------------------------------------------------------------------------------------------------------


def test_texts_are_normalised_as_in_the_official_scripts() -> None:
    assert normalise_squad("The  Well-known  (U.S.) cat, an animal!") == "wellknown us cat animal"
    assert normalise_triviaqa("The  Well-known  (U.S.) cat, an_animal!") == "well known u s cat animal"
    assert normalise_triviaqa("O’Brien `s") == "o brien s"
    assert normalise_squad("O’Brien") == "o’brien"  # SQuAD's script removes ASCII punctuation only
    assert normalise_squad("Theatre and banana") == "theatre and banana"


def test_exact_match_by_hand() -> None:
    assert exact_match("the Eiffel Tower.", "Eiffel Tower") == 1.0
    assert exact_match("Eiffel", "Eiffel Tower") == 0.0
    assert exact_match("well known", "well-known") == 0.0
    assert exact_match("well known", "well-known", normalise_triviaqa) == 1.0
    assert exact_match(None, "Eiffel Tower") is None
    assert exact_match(ABSTAINED, "The The") == 0.0  # although both texts are empty after normalisation


def test_token_f1_by_hand() -> None:
    assert token_f1("the red red fox", "red fox") == approx(2 * 2 / (3 + 2))  # the second `red` has no match
    assert token_f1("in Paris, France", "Paris") == approx(2 * 1 / (3 + 1))
    assert token_f1("Rome", "Paris") == 0.0
    assert token_f1("The", "a") == 1.0
    assert token_f1("The", "fox") == 0.0
    assert token_f1(None, "fox") is None
    assert token_f1(ABSTAINED, "the") == 0.0
    assert token_f1("yes it is", "yes") == approx(1 / 2)
    assert token_f1("yes it is", "yes", whole=YES_NO) == 0.0
    assert token_f1("Yes.", "yes", whole=YES_NO) == 1.0


def test_the_alias_with_the_best_score_counts() -> None:
    assert best_score(exact_match, "JFK", ["John F. Kennedy", "jfk"]) == 1.0
    assert best_score(token_f1, "John Kennedy", ["JFK", "John F. Kennedy"]) == approx(4 / 5)
    assert best_score(exact_match, None, ["JFK"]) is None
    triviaqa = partial(exact_match, normalise=normalise_triviaqa)
    assert best_score(triviaqa, "rock 'n' roll", ["rock n roll"]) == 1.0
    with pytest.raises(ValueError, match="at least one right answer"):
        best_score(exact_match, "JFK", [])


def test_numeric_match_by_hand() -> None:
    assert numeric_match("1000", "so it is 10 x 100 #### 1,000") == 1.0
    assert numeric_match("0.5", "1/2") == 1.0
    assert numeric_match("72", "#### 71") == 0.0
    assert numeric_match("none of them", "71") == numeric_match(ABSTAINED, "71") == 0.0
    assert numeric_match(None, "71") is None
    with pytest.raises(ValueError, match="'about five' is not a number"):
        numeric_match("5", "about five")


# --- labels -----------------------------------------------------------------------------------------------------------

GOLD = [S, S, S, S, R, R, N, N]
GIVEN: list[str | None] = [S, S, R, ABSTAINED, R, S, N, None]
"""7 outcomes are known, of which 4 are right.

SUPPORTS has 2 TP, 1 FP and 2 FN. REFUTES has 1 TP, 1 FP and 1 FN. NOT ENOUGH INFO has 1 TP.
"""


def test_label_scores_by_hand() -> None:
    assert accuracy(GOLD, GIVEN) == Score(approx(4 / 7), 7, missing=1)
    assert macro_f1(GOLD, GIVEN) == Score(approx((4 / 7 + 2 / 4 + 2 / 2) / 3), 7, missing=1)
    assert balanced_accuracy(GOLD, GIVEN) == Score(approx((2 / 4 + 1 / 2 + 1 / 1) / 3), 7, missing=1)


def test_macro_f1_averages_over_right_labels_or_over_listed_labels() -> None:
    """A listed label counts only if it is right for an item or is given as an answer."""
    # F1 is 2/3 for SUPPORTS, 1 for REFUTES, and 0 for NOT ENOUGH INFO.
    gold, outcomes = [S, S, R], [S, N, R]
    assert macro_f1(gold, outcomes).value == approx(5 / 6)
    assert macro_f1(gold, outcomes, [S, R, N]).value == approx(5 / 9)
    assert macro_f1([S, R], [S, R], [S, R, N]).value == 1.0  # N is neither gold nor given
    with pytest.raises(ValueError, match="not among"):
        macro_f1(gold, outcomes, [S, N])


@pytest.mark.parametrize("score", [accuracy, macro_f1, balanced_accuracy])
def test_label_scores_refuse_lists_of_unequal_length_and_empty_labels(score: Any) -> None:
    with pytest.raises(ValueError, match="shorter"):
        score([S, R], [S])
    with pytest.raises(ValueError, match="empty"):
        score([S, ""], [S, S])


def test_scores_under_each_abstention_policy() -> None:
    gold = [S, S, R, N, N, S]
    outcomes = [S, ABSTAINED, ABSTAINED, ABSTAINED, R, None]
    found = under_policies(gold, outcomes, open_label=N, supported=S)
    assert found == {
        "wrong": Score(1 / 5, 5, missing=1),
        "left_out": Score(1 / 2, 2, missing=1, left_out=3),
        "open_label": Score(2 / 5, 5, missing=1),
        "burden_of_refutation": Score(2 / 5, 5, missing=1),
    }
    assert found["left_out"] is not None
    assert found["left_out"].coverage == 2 / 5
    binary = under_policies([S, R], [ABSTAINED, R], supported=S)
    assert binary["open_label"] is None
    assert binary["burden_of_refutation"] == Score(1.0, 2)


# --- several runs -----------------------------------------------------------------------------------------------------


def test_oracle_of_runs_by_hand() -> None:
    runs = [[True, False, False, None, True], [False, False, None, None, None], [False, False, False, None, False]]
    found = oracle_of_runs(runs)
    assert found == [True, False, None, None, True]  # a missing answer could have been right
    assert mean_score(found) == Score(approx(2 / 3), 3, missing=2)


def test_majority_of_runs_by_hand() -> None:
    runs: list[list[str | None]] = [
        [S, S, S, ABSTAINED, ABSTAINED, S],
        [R, S, R, ABSTAINED, R, R],
        [R, None, None, ABSTAINED, ABSTAINED, N],
    ]
    assert majority_of_runs(runs) == [R, S, None, ABSTAINED, R, S]
    assert majority_of_runs([[None], [None]]) == [None]
    assert majority_of_runs([[S], [None], [None]]) == [None]


def test_the_majority_of_runs_counts_answers_with_the_same_meaning_together() -> None:
    same = partial(same_answer, make_task("short_answer"))
    runs: list[list[str | None]] = [["Rome"], ["the Beatles"], ["Beatles"]]
    assert majority_of_runs(runs, same) == ["the Beatles"]
    assert majority_of_runs(runs) == ["Rome"]
    numbers: list[list[str | None]] = [["7"], ["212"], ["7"], ["212 km"], ["212 miles"]]
    # `212 miles` is not counted with `212 km`, so 7 and 212 have two answers each; 7 came first
    assert majority_of_runs(numbers, partial(same_answer, make_task("gsm8k"))) == ["7"]


# --- evidence ---------------------------------------------------------------------------------------------------------

SETS = [[("Copper", 0), ("Metal_-LRB-music-RRB-", 3)], [("Copper", 7)]]


@pytest.mark.parametrize(
    ("outcome", "found", "value"),
    [
        (S, [("Metal (music)", 3), ("Iron", 1), ("Copper", 0)], 1.0),
        (S, [("Copper", 7)], 1.0),
        (S, [("Copper", 0), ("Iron", 3)], 0.0),  # half of a set
        (S, [("Copper", 0), ("Metal_-LRB-music-RRB-", 4)], 0.0),
        (R, [("Copper", 7)], 0.0),
        (S, [*(("Iron", n) for n in range(4)), ("Copper", 7)], 1.0),
        (S, [*(("Iron", n) for n in range(5)), ("Copper", 7)], 0.0),  # only the first five count
        (S, [], 0.0),
        (ABSTAINED, [("Copper", 7)], 0.0),
    ],
)
def test_fever_score_of_one_claim(outcome: str, found: list[tuple[str, int]], value: float) -> None:
    assert fever_score([S], [outcome], [SETS], [found]) == Score(value, 1)


def test_fever_score_of_a_run() -> None:
    gold, sets = [S, N, N, R, S], [SETS, [], [], SETS, SETS]
    outcomes = [S, N, S, None, S]
    found: list[Any] = [[("Copper", 7)], [], [], [], None]
    assert fever_score(gold, outcomes, sets, found) == Score(approx(2 / 3), 3, missing=1, left_out=1)
    nothing = fever_score(gold, outcomes, sets, [None] * 5)
    assert nothing == Score(None, 0, missing=1, left_out=4)  # even claims that need no evidence are left out


@pytest.mark.parametrize("sets", [[], [[]], [[("Copper", 7)], []]])
def test_the_fever_score_needs_sets_of_gold_evidence_that_are_not_empty(sets: Any) -> None:
    with pytest.raises(ValueError, match="needs sets of evidence"):
        fever_score([R], [R], [sets], [[]])


def test_page_names_of_fever_are_decoded_and_normalised() -> None:
    assert fever_page("Soul_Food_-LRB-film-RRB-") == fever_page("Soul Food (film)") == "Soul Food (film)"
    assert fever_page("Star_Trek-COLON-_Picard") == "Star Trek: Picard"
    assert fever_page("Beyonce\u0301") == fever_page("Beyoncé")


def citations(verified: int, total: int) -> dict[str, int]:
    """The field ``citations`` of a document's metrics."""
    return {"total": total, "verified": verified, "unverified": total - verified, "fabricated": 0}


def test_citation_precision_by_hand() -> None:
    cited = [{"verified": True, "fabricated": False}, {"verified": False, "fabricated": True}]
    documents = [
        document(metrics={"citations": citations(3, 4)}),
        document(metrics={"citations": citations(0, 0)}),
        # The turns' citations are counted, because the metrics have no counts.
        document(turns=[{"citations": cited}, {"citations": None}, {}]),
        document(status="failed", metrics={"citations": citations(1, 1)}),
        None,
    ]
    assert citation_precision(documents) == Score(approx((3 / 4 + 1 / 2) / 2), 2, missing=2, left_out=1)
    assert citation_precision([document()]) == Score(None, 0, left_out=1)


def test_gold_recall_by_hand() -> None:
    gold = [{"a", "b"}, {"c"}, set[str](), {"d"}]
    assert gold_recall(gold, [["b", "x", "b"], ["x"], ["y"], None]) == Score(1 / 4, 2, missing=1, left_out=1)
    assert gold_recall([{"a"}], [["a", "b"]]) == Score(1.0, 1)
    assert gold_recall([set[str](), set[str]()], [None, []]) == Score(None, 0, missing=1, left_out=1)
    with pytest.raises(ValueError, match="shorter"):
        gold_recall(gold, [["a"]])


def test_metrics_of_each_label_by_hand() -> None:
    found = by_label(["a", "a", "a", "b", "b"], ["a", ABSTAINED, None, "a", "b"], "abc")
    assert found["a"] == LabelMetrics(2, 2, 0.5, 0.5, 0.5)
    assert found["b"] == LabelMetrics(2, 1, 1.0, 0.5, approx(2 / 3))
    assert found["c"] == LabelMetrics(0, 0, None, None, None)
    assert by_label(["a"], ["b"], "ab") == {
        "a": LabelMetrics(1, 0, None, 0.0, 0.0),
        "b": LabelMetrics(0, 1, 0.0, None, 0.0),
    }
    assert by_label(["a"], [None], "a") == {"a": LabelMetrics(0, 0, None, None, None)}
