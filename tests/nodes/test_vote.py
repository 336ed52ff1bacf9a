"""Majorities: the winner, the votes that do not count, and ties."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moot.nodes._records.entries import Vote
from moot.nodes._steps.vote import Tie, confidence_weight, majority

GROUPS = st.lists(st.none() | st.integers(0, 4), max_size=12)
TENTHS = st.sampled_from([10, 8, 5, 3, 1])
"""Weights of votes in ReConcile, in tenths."""


def votes(groups: Sequence[int | None]) -> list[Vote]:
    """Votes of agents in order; equal answers may be written differently."""
    return [
        {"agent": f"agent-{i}", "answer": None if g is None else f"answer {g}, as agent-{i} puts it", "group": g}
        for i, g in enumerate(groups, 1)
    ]


def winner(groups: Sequence[int | None], weights: Sequence[float] | None = None, tie: Tie = "first") -> int | None:
    """The group of the winning vote, which must be the first vote of that group; None if no vote wins."""
    given = votes(groups)
    won = majority(given, weights, tie)
    if won is None:
        return None
    assert won == next(vote for vote in given if vote["group"] == won["group"])
    return won["group"]


@pytest.mark.parametrize(
    ("groups", "first", "none"),
    [
        ([0, 1, 0, 1, 0], 0, 0),  # 3-2
        ([0, 1, 1, 0, 1], 1, 1),  # 2-3
        ([0, 1, 1, 2, 2], 1, None),  # 1-2-2: the first of the tied answers wins
        ([0, 1, 2, 1, 0], 0, None),
        ([1, 0], 1, None),
        ([None, None, 0, 1, 1], 1, 1),
        ([None, 1, None, None, 0], 1, None),  # missing answers are no majority
        ([None, None, None, 0], 0, 0),
        ([None, None], None, None),
        ([], None, None),
    ],
)
def test_a_majority_wins_and_a_tie_goes_to_the_first_or_to_none(
    groups: list[int | None], first: int | None, none: int | None
) -> None:
    assert (winner(groups), winner(groups, tie="none")) == (first, none)


@given(GROUPS)
def test_most_votes_win_and_ties_go_to_the_first(groups: list[int | None]) -> None:
    given = [g for g in groups if g is not None]
    counts = Counter(given)
    leading = [g for g in given if counts[g] == max(counts.values())]
    assert winner(groups) == (leading[0] if leading else None)
    assert winner(groups, tie="none") == (leading[0] if len(set(leading)) == 1 else None)


@given(GROUPS, st.integers(0, 12))
def test_missing_answers_change_nothing(groups: list[int | None], place: int) -> None:
    assert winner([*groups[:place], None, *groups[place:]]) == winner(groups)


@given(st.lists(st.tuples(st.none() | st.integers(0, 4), TENTHS), max_size=12))
def test_sums_of_weights_have_no_rounding_errors(cast: list[tuple[int | None, int]]) -> None:
    groups, tenths = [group for group, _ in cast], [weight for _, weight in cast]
    sums = Counter[int]()
    for group, weight in cast:
        if group is not None:
            sums[group] += weight  # tenths as whole numbers, so the sum is exact
    leading = [g for g in groups if g is not None and sums[g] == max(sums.values())]
    weights = [weight / 10 for weight in tenths]
    assert winner(groups, weights) == (leading[0] if leading else None)
    assert winner(groups, weights, "none") == (leading[0] if len(set(leading)) == 1 else None)


def test_sums_that_differ_only_by_rounding_are_a_tie() -> None:
    groups, weights = [1, 0, 0, 0], [0.3, 0.1, 0.1, 0.1]
    assert sum(weights[1:]) != weights[0]
    assert (winner(groups, weights), winner(groups, weights, "none")) == (1, None)


@pytest.mark.parametrize(
    ("confidence", "weight"),
    [(1.0, 1.0), (0.99, 0.8), (0.9, 0.8), (0.89, 0.5), (0.8, 0.5), (0.79, 0.3), (0.61, 0.3), (0.6, 0.1), (0.0, 0.1)],
)
def test_the_weight_of_a_vote_follows_from_its_confidence(confidence: float, weight: float) -> None:
    assert confidence_weight(confidence) == weight


def test_fewer_weights_than_votes_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        majority(votes([0, 1]), [1.0])
