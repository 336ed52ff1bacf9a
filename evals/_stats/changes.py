"""What debate did to the answers: changes from round to round, drift, conformity and the oracle gap.

The functions take the rounds of one debate: for each round whether each speaker's answer is right, by the speaker's
name. An answer that could not be read counts as wrong. A speaker without an answer in a round is not in this round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

Round = Mapping[str, bool]
"""Whether each speaker's answer in a round is right."""


class Changes(NamedTuple):
    """How many answers changed from one round to another, and how many stayed; they add up to all answers."""

    wrong_to_right: int
    right_to_wrong: int
    stayed_right: int
    stayed_wrong: int


class Minority(NamedTuple):
    """How often the speakers of a minority changed to the other side, and how often they could.

    A right minority: the right speakers, if they are at most half of the speakers of a round, and not all agree.
    """

    right: int
    """The number of answers in right minorities."""
    gave_in: int
    """How many of them were wrong in the next round."""
    wrong: int
    """The number of answers in wrong minorities."""
    corrected: int
    """How many of them were right in the next round."""


def changes(before: Round, after: Round) -> Changes:
    """The changes between two rounds, over the speakers who answered in both.

    Args:
        before: whether each speaker's answer in the earlier round is right.
        after: the same for the later round.
    """
    both = [(before[name], after[name]) for name in before if name in after]
    return Changes(*(both.count(pair) for pair in ((False, True), (True, False), (True, True), (False, False))))


def drift(rounds: Sequence[Round]) -> float | None:
    """The share of right answers in the last round minus that in the first, in [-1, 1].

    If debate only exchanges answers, expected correctness is a martingale (Choi, Zhu and Li, NeurIPS 2025,
    arXiv:2508.17536): the mean of this figure over debates is 0, also if debates end early.

    Args:
        rounds: the debate's rounds, in order. A speaker who has left counts with its last answer.

    Returns:
        0.0 for a debate with one round; None for one without answers.
    """
    if not rounds or not rounds[0]:
        return None
    last = {name: answer for answers in rounds for name, answer in answers.items() if name in rounds[0]}
    return (sum(last.values()) - sum(rounds[0].values())) / len(rounds[0])


def minorities(rounds: Sequence[Round]) -> Minority:
    """How often minorities gave in, over all rounds but the last.

    Args:
        rounds: the debate's rounds, in order. With two speakers, each side of a disagreement is a minority.
    """
    counts = [0, 0, 0, 0]
    for before, after in pairwise(rounds):
        known = [name for name in before if name in after]
        for place, side in ((0, True), (2, False)):
            members = [name for name in known if before[name] is side]
            if 0 < 2 * sum(answer is side for answer in before.values()) <= len(before):
                counts[place] += len(members)
                counts[place + 1] += sum(after[name] is not side for name in members)
    return Minority(*counts)


def anyone_right(rounds: Sequence[Round]) -> bool | None:
    """Whether any speaker was right in any round, as an oracle would pick it; None without an answer."""
    answers = [answer for one in rounds for answer in one.values()]
    return any(answers) if answers else None


def split(rounds: Sequence[Round]) -> bool:
    """Whether some of the last answers are right, and others wrong."""
    return bool(rounds) and len(set(rounds[-1].values())) == 2
