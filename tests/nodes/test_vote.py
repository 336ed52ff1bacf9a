"""Voting: the winner, ties, votes without an answer, and weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moot.nodes._records.entries import Vote
from moot.nodes._steps.vote import Tie, majority

GROUPS = st.lists(st.none() | st.integers(0, 4), max_size=12)
TENTHS = st.sampled_from([10, 8, 5, 3, 1])
"""Weights of votes in ReConcile, in tenths."""


def votes(groups: Sequence[int | None]) -> list[Vote]:
    """One vote for each item of ``groups``. All answers have different texts."""
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
    ("groups", "with_first", "with_none"),
    [
        ([0, 1, 0, 1, 0], 0, 0),  # 3-2
        ([0, 1, 1, 0, 1], 1, 1),  # 2-3
        ([0, 1, 1, 2, 2], 1, None),  # 1-2-2: the first of the tied answers wins
        ([0, 1, 2, 1, 0], 0, None),
        ([1, 0], 1, None),
        ([None, None, 0, 1, 1], 1, 1),
        ([None, 1, None, None, 0], 1, None),  # missing answers do not count
        ([None, None, None, 0], 0, 0),
        ([None, None], None, None),
        ([], None, None),
    ],
)
def test_the_answer_with_the_most_votes_wins(
    groups: list[int | None], with_first: int | None, with_none: int | None
) -> None:
    """With the rule ``first``, a tie goes to the tied answer with the earliest vote. With ``none``, no answer wins."""
    assert (winner(groups), winner(groups, tie="none")) == (with_first, with_none)


@given(GROUPS)
def test_in_random_votes_the_first_of_the_leading_answers_wins(groups: list[int | None]) -> None:
    """With the rule ``none``, no answer wins if there are several leading answers."""
    given = [g for g in groups if g is not None]
    counts = Counter(given)
    leading = [g for g in given if counts[g] == max(counts.values())]
    assert winner(groups) == (leading[0] if leading else None)
    assert winner(groups, tie="none") == (leading[0] if len(set(leading)) == 1 else None)


@given(st.lists(st.tuples(st.none() | st.integers(0, 4), TENTHS), max_size=12))
def test_weights_are_summed_without_rounding_errors(weighted: list[tuple[int | None, int]]) -> None:
    groups, tenths = [group for group, _ in weighted], [weight for _, weight in weighted]
    sums = Counter[int]()
    for group, weight in weighted:
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


def test_fewer_weights_than_votes_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        majority(votes([0, 1]), [1.0])
    with pytest.raises(ValueError, match="shorter"):
        majority(votes([0, 1]), [])
