"""PROClaim's formulas for admissibility, for novelty, and for the ends of retrieval and of debates."""

from __future__ import annotations

import math
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moot.nodes._records.entries import Turn
from moot.nodes._trial.critique import (
    is_exhausted,
    is_plateau,
    reflection_score,
    stop_reason,
    values_by_round,
)
from moot.nodes._trial.discovery import Candidate, novelty, rate, redundant_share, relevance_gain, retrieval_end
from moot.nodes._trial.negotiation import evidence_weight, ruling
from moot.retrievers._evidence import Standing

from tests.each import each

TENTHS = st.integers(0, 10)
HUNDREDTHS = st.integers(0, 100)


def is_finite_and_not_minus_zero(value: float) -> bool:
    """Whether a number is finite, and not -0.0."""
    return math.isfinite(value) and not (value == 0 and math.copysign(1, value) < 0)


# --- admissibility --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("relevance", "credibility", "weight", "status"),
    [
        (0.9, 0.9, 0.81, "admitted"),  # the highest weight in the paper's appendix J
        (0.9, 0.6, 0.54, "admitted"),  # the lowest weight in the appendix
        (0.51, 1, 0.51, "admitted"),
        (1, 0.5, 0.5, "disputed"),  # a weight equal to the threshold is not above it
        (0.625, 0.8, 0.5, "disputed"),
        (0.95, 0.15, 0.1425, "disputed"),  # hearsay: relevant, but without a credible source
        (0.11, 1, 0.11, "disputed"),
        (0.2, 0.5, 0.1, "discarded"),
        (0.125, 0.8, 0.1, "discarded"),
        (1, 0, 0, "discarded"),
    ],
)
def test_a_ruling_follows_from_relevance_times_credibility(
    relevance: float, credibility: float, weight: float, status: Standing
) -> None:
    assert evidence_weight(relevance, credibility) == evidence_weight(credibility, relevance) == pytest.approx(weight)
    assert ruling(evidence_weight(relevance, credibility)) == status


@pytest.mark.parametrize("share", [-0.001, 1.001, math.nan, math.inf])
def test_a_relevance_or_credibility_outside_0_to_1_is_refused(share: float) -> None:
    for factors in ((share, 0.5), (0.5, share)):
        with pytest.raises(ValueError, match="from 0 to 1"):
            evidence_weight(*factors)


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_rulings_agree_with_integer_arithmetic(relevance: int, credibility: int) -> None:
    weight, millionths = evidence_weight(relevance / 1000, credibility / 1000), relevance * credibility
    status = "admitted" if millionths > 500_000 else "disputed" if millionths > 100_000 else "discarded"
    assert ruling(weight) == status
    assert 0 <= weight <= 1
    assert is_finite_and_not_minus_zero(weight)


def test_thresholds_such_as_two_thirds_are_compared_without_rounding_errors() -> None:
    assert ruling(evidence_weight(2 / 3, 1), admitted=2 / 3) == "disputed"
    assert retrieval_end(2 / 3, 1, most_redundant=2 / 3) is None
    near = [2, math.sqrt(5)]
    # The first candidate is new, so it joined the record.
    assert novelties([Candidate(near, 1)] * 2, [[1, 0]], 1 / 3)[1] == 0


# --- novelty --------------------------------------------------------------------------------------------------------


def vector_at(degrees: float, length: float = 1) -> list[float]:
    """The vector in the plane with this angle and length."""
    return [length * math.cos(math.radians(degrees)), length * math.sin(math.radians(degrees))]


COS_30 = math.sqrt(3) / 2


def novelties(candidates: list[Candidate], record: list[Any], least_new: float = 0.20) -> list[float]:
    return [new for new, _ in rate(candidates, record, least_new)]


@pytest.mark.parametrize(
    ("vector", "pool", "expected"),
    [
        ([1, 0], [], 1),
        ([3, 4], [[1, 0]], 0.4),
        ([4, 3], [[1, 0]], 0.2),
        ([40, 30], [[0, 7], [0.5, 0]], 0.2),  # the nearest vector counts, and lengths do not matter
        ([1, 0], [[0, 1]], 1),
        ([1, 0], [[-2, 0]], 2),
        ([0.1, 0.7], [[0.3, 2.1]], 0),
    ],
)
def test_novelty_is_the_cosine_distance_to_the_nearest_vector(
    vector: list[float], pool: list[list[float]], expected: float
) -> None:
    assert novelty(vector, pool) == expected


@pytest.mark.parametrize("bad", [[0, 0], [math.nan, 1], [math.inf, 1]])
def test_vectors_without_a_cosine_are_refused(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="no cosine"):
        novelty(bad, [[1, 0]])
    with pytest.raises(ValueError, match="no cosine"):
        novelty([1, 0], [[1, 0], bad])


@given(st.floats(0, 360), st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_a_novelty_equal_to_the_threshold_counts_as_new(angle: float, known_length: float, length: float) -> None:
    """Evidence is not redundant if its similarity equals the threshold for redundancy."""
    known, found = vector_at(angle, known_length), vector_at(angle + math.degrees(math.acos(0.8)), length)
    assert novelties([Candidate(found, 1)] * 2, [known]) == [0.2, 0]
    found = vector_at(angle + math.degrees(math.acos(0.85)), length)
    assert novelties([Candidate(found, 1)] * 2, [known]) == [0.15, 0.15]
    assert redundant_share([0.15, novelty(found, [known])]) == 0  # the similarity 0.85 equals the threshold


def test_candidates_are_compared_with_the_record_and_with_earlier_candidates_that_joined() -> None:
    candidates = [Candidate(vector_at(degrees), 1) for degrees in (0, 30, 60, 90, 0)]
    first, *others = candidates
    near = 1 - COS_30
    assert novelties(candidates, []) == pytest.approx([1, near, 0.5, near, 0])
    assert novelties(candidates, [vector_at(180)]) == pytest.approx([2, near, 0.5, near, 0])
    assert novelties([first._replace(is_barred=True), *others], []) == pytest.approx([0, 1, near, 0.5, near])
    assert novelties([first._replace(similarity=0.1), *others], []) == pytest.approx([1, 1, near, 0.5, near])
    assert novelties(candidates, [], 0.13) == pytest.approx([1, near, near, near, 0])
    assert rate([], [vector_at(0)]) == []


def test_a_candidate_joins_the_record_if_it_is_new_and_fits_its_request() -> None:
    """A candidate that was discarded before may join with another request; a barred one never does."""
    new = Candidate(vector_at(0), 0.2)
    joins = [new, new._replace(was_discarded=True)]
    stays_out = [new._replace(similarity=0.19), new._replace(is_barred=True)]
    assert [rate([one], []) for one in joins] == [[(1, True)]] * 2
    assert [rate([one], []) for one in stays_out] == [[(1, False)], [(0, False)]]
    assert rate([new._replace(similarity=0.19, was_discarded=True)], []) == [(0, False)]
    [(value, joins_in)] = rate([new], [vector_at(30)])
    assert value == pytest.approx(1 - COS_30)
    assert not joins_in


# --- the end of retrieval -------------------------------------------------------------------------------------------


def test_evidence_more_similar_than_the_threshold_is_redundant() -> None:
    assert redundant_share([]) is None
    assert redundant_share([0.05, 0.149, 0.15, 0.2]) == 0.5
    assert redundant_share([0, 0, 0]) == 1
    assert redundant_share([0.3, 2]) == 0
    assert redundant_share([0.3, 0.5], similarity=0.6) == 0.5
    assert redundant_share([0.18], similarity=0.82) == 0  # 1 - 0.18 is 0.8200000000000001 in floating point


@given(st.lists(HUNDREDTHS, min_size=1, max_size=12))
def test_the_end_by_redundancy_agrees_with_integer_arithmetic(hundredths: list[int]) -> None:
    redundant = sum(value < 15 for value in hundredths)
    share = redundant_share([value / 100 for value in hundredths])
    assert share == redundant / len(hundredths)
    assert (retrieval_end(share, 1) == "redundancy") == (10 * redundant > 7 * len(hundredths))


@each(
    ("share", "retrievals", "gain", "least_gain", "expected"),
    [
        (0.70, 1, None, None, None),
        (21 / 30, 9, None, None, None),
        (1 - 0.3, 1, None, None, None),
        (0.71, 1, None, None, "redundancy"),
        (3 / 4, 1, None, None, "redundancy"),
        (2 / 3, 1, None, None, None),
        (None, 1, None, None, None),  # the search found nothing
        (None, 10, None, None, "retrievals"),
        (0.0, 9, None, None, None),
        (0.0, 10, None, None, "retrievals"),
        (0.0, 11, None, None, "retrievals"),
        (0.0, 2, -0.5, None, None),  # gains do not count by default
        (0.0, 2, 0.05, 0.05, None),
        (0.0, 2, 0.85 - 0.80, 0.05, None),  # 0.04999999999999993 in floating point
        (0.0, 2, 0.049, 0.05, "relevance_gain"),
        (0.0, 2, -0.5, 0.05, "relevance_gain"),
        (0.0, 1, None, 0.05, None),
    ],
)
def test_the_limits_decide_whether_retrieval_ends(
    share: float | None, retrievals: int, gain: float | None, least_gain: float | None, expected: str | None
) -> None:
    assert retrieval_end(share, retrievals, gain, least_gain=least_gain) == expected


def test_the_limits_of_retrieval_can_be_set() -> None:
    assert retrieval_end(0.5, 3, most_redundant=0.4) == "redundancy"
    assert retrieval_end(0.9, 3, most_redundant=1, most_retrievals=3) == "retrievals"


def test_the_relevance_gain_is_the_difference_of_the_last_two_relevances() -> None:
    assert relevance_gain([]) is relevance_gain([0.4]) is None
    assert relevance_gain([0.9, 0.80, 0.85]) == 0.05
    assert relevance_gain([0.6, 0.4]) == -0.2
    assert relevance_gain([0.4, None]) is relevance_gain([None, 0.4]) is relevance_gain([0.2, None, 0.4]) is None


# --- when a debate stops --------------------------------------------------------------------------------------------


def test_a_reflection_score_is_a_weighted_sum() -> None:
    assert reflection_score(0.8, 0.6, 0.5) == 0.65  # 0.32 + 0.18 + 0.15
    assert [reflection_score(*parts) for parts in ((1, 0, 0), (0, 1, 0), (0, 0, 1))] == [0.4, 0.3, 0.3]
    assert [reflection_score(value, value, value) for value in (0, 0.5, 1)] == [0, 0.5, 1]


@each(
    ("totals", "expected"),
    [
        ([], False),
        ([1.2], False),
        ([1.2, 1.2], False),  # one change is too few
        ([1.2, 1.2, 1.2], True),
        ([1.20, 1.24, 1.20], True),  # up, then down
        ([0.80, 0.85, 0.80], False),  # the changes are 0.05, but 0.04999999999999993 in floating point
        ([0.80, 0.85, 0.85], False),
        ([0.85, 0.85, 0.80], False),
        ([0.80, 0.849, 0.80], True),
        ([0.2, 1.2, 1.2], False),
        ([0.2, 1.2, 1.2, 1.2], True),
        ([1.2, 1.2, 1.2, 0.2], False),  # the plateau has ended
        ([1.2, None, 1.2, 1.2], False),
        ([1.2, 1.2, None], False),
        ([None, 1.2, 1.2, 1.2], True),
        ([1.183, 1.280, 1.30], False),  # a change of 0.097, as in the paper's appendix J
    ],
)
def test_a_plateau_needs_two_small_changes_in_a_row(totals: list[float | None], expected: bool) -> None:
    assert is_plateau(totals) is expected


@pytest.mark.parametrize(
    ("means", "expected"),
    [
        ([], False),
        ([0.05], False),
        ([0.05, 0.05], True),
        ([0.5, 0.099, 0], True),
        ([0.05, 0.1], False),
        ([0.3 - 0.2, 0.05], False),  # 0.09999999999999998 in floating point
        ([0.05, None, 0.05], False),  # the second round had no candidates
        ([0.05, 0.05, None], False),
        ([None, 0.05, 0.05], True),
        ([0.05, 0.05, 0.5], False),
    ],
)
def test_novelty_is_exhausted_after_two_rounds_below_the_threshold(means: list[float | None], expected: bool) -> None:
    assert is_exhausted(means) is expected


ALL_REASONS: dict[str, Any] = {"totals": [1, 1, 1], "novelties": [0, 0, 0], "resolved": True, "closed": True}
NO_REASON: dict[str, Any] = {"totals": [0, 1, 2], "novelties": [1, 1, 1], "resolved": False, "closed": False}


@pytest.mark.parametrize(
    ("without", "reason"),
    [
        ((), "reflection_plateau"),
        (("totals",), "critic_resolved"),
        (("totals", "resolved"), "novelty_exhausted"),
        (("totals", "resolved", "novelties"), "judicial_signal"),
        (("totals", "resolved", "novelties", "closed"), None),
        (("resolved",), "reflection_plateau"),
        (("totals", "novelties"), "critic_resolved"),
        (("totals", "resolved", "closed"), "novelty_exhausted"),
    ],
)
def test_the_first_stop_reason_that_holds_is_returned(without: tuple[str, ...], reason: str | None) -> None:
    values = ALL_REASONS | {name: NO_REASON[name] for name in without}
    assert stop_reason(rounds=3, **values) == reason
    assert stop_reason(rounds=3, max_rounds=3, **values) == (reason or "max_rounds")


def test_only_max_rounds_stops_a_debate_before_min_rounds() -> None:
    first: dict[str, Any] = {"totals": [1], "novelties": [0], "resolved": True, "closed": True}
    assert stop_reason(rounds=1, **first) is None
    assert stop_reason(rounds=1, max_rounds=1, **first) == "max_rounds"
    assert stop_reason(rounds=1, min_rounds=1, **first) == "critic_resolved"
    assert stop_reason(rounds=3, min_rounds=4, **ALL_REASONS) is None
    assert stop_reason(rounds=3, min_rounds=4, max_rounds=3, **ALL_REASONS) == "max_rounds"


def test_the_limits_of_a_debate_can_be_set() -> None:
    """By default, a debate has at most 10 rounds."""
    course: dict[str, Any] = {"totals": [1, 1.08, 1], "novelties": [1, 0.12, 0.12], "resolved": False, "closed": False}
    assert stop_reason(rounds=3, **course) is None
    assert stop_reason(rounds=3, **course, plateau=0.1) == "reflection_plateau"
    assert stop_reason(rounds=3, **course, exhaustion=0.2) == "novelty_exhausted"
    assert [stop_reason(rounds=rounds, **NO_REASON) for rounds in (9, 10, 11)] == [None, "max_rounds", "max_rounds"]


def turn(round: int, step: str, side: str, scores: dict[str, float | None], **more: Any) -> Turn:
    key = {"round": round, "phase": "primary", "agent": side, "step": step, "side": side}
    return cast("Turn", {**key, "scores": scores, "evidence_ids": [], **more})


def test_the_values_of_each_round_are_computed_from_the_turns() -> None:
    turns = [
        turn(1, "discover", "plaintiff", {"novelty": 0.3}, evidence_ids=["a", "b", "c"]),
        turn(1, "discover", "defense", {"novelty": 0.1}, evidence_ids=["d"], ended="redundancy"),
        turn(1, "reflect", "plaintiff", {"reflection": 0.65}),
        turn(1, "reflect", "defense", {"reflection": 0.57}),
        turn(2, "discover", "plaintiff", {"novelty": None}),
        turn(2, "reflect", "plaintiff", {"reflection": 0.7}),
        turn(2, "reflect", "defense", {}),  # no usable reply
        turn(3, "discover", "plaintiff", {"novelty": 0.2}, evidence_ids=["e", "f"], ended=None),
        turn(3, "reflect", "defense", {"reflection": 0.5}),
    ]
    assert values_by_round(turns, 4) == {
        "reflection": {"plaintiff": [0.65, 0.7, None, None], "defense": [0.57, None, 0.5, None]},
        "reflection_total": [1.22, None, None, None],
        "novelty": [pytest.approx(0.25), None, pytest.approx(0.2), None],  # 0.25 is (3 x 0.3 + 0.1) / 4
        "retrieval_ended": {"defense": "redundancy"},
    }


SIDE = st.fixed_dictionaries(
    {"reflected": st.none() | st.tuples(TENTHS, TENTHS, TENTHS), "found": st.lists(st.integers(0, 20), max_size=3)}
)
"""A side's round: the parts of its reflection score in tenths, and the novelties of its evidence in hundredths."""
STEADY_SCORES = st.tuples(st.integers(5, 7), st.integers(4, 5), st.just(5))
"""Parts of reflection scores that vary little. So the totals of two rounds often differ by about 0.05."""
ROUND = st.fixed_dictionaries({"plaintiff": SIDE, "defense": SIDE})
STEADY_ROUND = st.fixed_dictionaries(
    dict.fromkeys(
        ("plaintiff", "defense"),
        st.fixed_dictionaries({"reflected": STEADY_SCORES, "found": st.lists(st.integers(8, 11))}),
    )
)


@given(st.lists(ROUND, min_size=1, max_size=10) | st.lists(STEADY_ROUND, min_size=3, max_size=4), st.booleans())
def test_stop_reasons_agree_with_integer_arithmetic(rounds: list[dict[str, Any]], closed: bool) -> None:
    turns, totals, means = [], [], []
    for number, sides in enumerate(rounds, 1):
        for side, given_values in sides.items():
            if given_values["reflected"] is not None:
                score = reflection_score(*(value / 10 for value in given_values["reflected"]))
                turns.append(turn(number, "reflect", side, {"reflection": score}))
            if found := given_values["found"]:
                mean = sum(value / 100 for value in found) / len(found)
                turns.append(turn(number, "discover", side, {"novelty": mean}, evidence_ids=[*map(str, found)]))
        reflected = [given_values["reflected"] for given_values in sides.values()]
        totals.append(
            None if None in reflected else sum(4 * logic + 3 * new + 3 * rebuttal for logic, new, rebuttal in reflected)
        )
        found = [value for given_values in sides.values() for value in given_values["found"]]
        means.append((sum(found), len(found)))

    def is_small_change(before: int | None, now: int | None) -> bool:
        return before is not None and now is not None and abs(now - before) < 5

    course, last = values_by_round(turns, len(rounds)), totals[-3:]
    reason = stop_reason(
        rounds=len(rounds),
        totals=course["reflection_total"],
        novelties=course["novelty"],
        resolved=False,
        closed=closed,
    )
    plateau = len(last) == 3 and is_small_change(last[0], last[1]) and is_small_change(last[1], last[2])
    exhausted = len(rounds) > 1 and all(count and total < 10 * count for total, count in means[-2:])
    expected = "reflection_plateau" if plateau else "novelty_exhausted" if exhausted else "judicial_signal"
    if len(rounds) > 1 and (plateau or exhausted or closed):
        assert reason == expected
    else:
        assert reason == ("max_rounds" if len(rounds) == 10 else None)
