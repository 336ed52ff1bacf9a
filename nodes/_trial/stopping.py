"""The reasons to stop a courtroom debate (PROClaim, section 2.5), and the reflection score."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from moot.nodes._records.entries import StopReason
from moot.nodes._trial.admissibility import SCORE_DECIMALS, is_above

CONSECUTIVE_ROUNDS = 2
"""Number of last values that must all be below the threshold: changes for a plateau, mean novelties for exhaustion."""


def reflection_score(logic: float, novelty: float, rebuttal: float) -> float:
    """The reflection score of a side: 0.4 logic + 0.3 novelty + 0.3 rebuttal (PROClaim, Eq. 2), all in [0, 1]."""
    return round(0.4 * logic + 0.3 * novelty + 0.3 * rebuttal, SCORE_DECIMALS) + 0.0  # never -0.0


def reflection_total(plaintiff: float | None, defense: float | None) -> float | None:
    """The sum of both sides' reflection scores of a round, in [0, 2]; None if either is unknown."""
    return None if plaintiff is None or defense is None else round(plaintiff + defense, SCORE_DECIMALS)


def changes(totals: Sequence[float | None]) -> list[float | None]:
    """The absolute differences between consecutive totals; None if one of the two is unknown."""
    return [
        None if before is None or now is None else round(abs(now - before), SCORE_DECIMALS)
        for before, now in pairwise(totals)
    ]


def is_plateau(totals: Sequence[float | None], least: float = 0.05) -> bool:
    """Whether the last two changes of the reflection total are known and below ``least`` (PROClaim, section 2.5, i)."""
    return _all_below(changes(totals), least)


def is_exhausted(novelties: Sequence[float | None], least: float = 0.10) -> bool:
    """Whether the mean novelty is known and below ``least`` in the last two rounds (PROClaim, section 2.5, iii)."""
    return _all_below(novelties, least)


def _all_below(values: Sequence[float | None], least: float) -> bool:
    """Whether the last `CONSECUTIVE_ROUNDS` values are known and below ``least``; False if there are fewer values."""
    last = values[-CONSECUTIVE_ROUNDS:]
    return len(last) == CONSECUTIVE_ROUNDS and all(value is not None and is_above(least, value) for value in last)


def stop_reason(
    *,
    rounds: int,
    totals: Sequence[float | None],
    novelties: Sequence[float | None],
    resolved: bool,
    closed: bool,
    min_rounds: int = 2,
    max_rounds: int = 10,
    plateau: float = 0.05,
    exhaustion: float = 0.10,
) -> StopReason | None:
    """The reason to stop a debate after a round; None if the debate continues (PROClaim, section 2.5)."""
    # Of several reasons, the first counts.
    reasons: list[tuple[StopReason, bool]] = [
        ("reflection_plateau", is_plateau(totals, plateau)),
        ("critic_resolved", resolved),
        ("novelty_exhausted", is_exhausted(novelties, exhaustion)),
        ("judicial_signal", closed),
    ]
    if rounds >= min_rounds:
        for reason, holds in reasons:
            if holds:
                return reason
    return "max_rounds" if rounds >= max_rounds else None
