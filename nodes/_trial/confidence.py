"""The panel's verdict and the confidence in it (PROClaim, section 2.8, appendices M and N)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

Verdict = Literal["SUPPORTED", "NOT SUPPORTED", "INCONCLUSIVE"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
QUALITIES = ("evidence_strength", "argument_validity", "scientific_reliability")
"""The qualities that a judge scores, from 0 to 10."""


@dataclass(frozen=True)
class PanelVerdict:
    """A panel's verdict."""

    verdict: Verdict
    winning: int  # the judges who voted for this verdict
    votes: int  # the judges with any verdict
    tied: bool  # whether another verdict has as many votes


def panel_verdict(verdicts: Sequence[Verdict | None]) -> PanelVerdict | None:
    """The verdict with the most votes (PROClaim, section 2.8); None if no judge gave a verdict."""
    given = [verdict for verdict in verdicts if verdict is not None]
    if not given:
        return None
    counts = Counter(given)  # its keys are in the judges' order
    most = max(counts.values())
    leading = [verdict for verdict in counts if counts[verdict] == most]
    # Of tied verdicts the first one wins: the chief judge's, if it is one of them (PROClaim, appendix N).
    return PanelVerdict(leading[0], most, len(given), len(leading) > 1)


def consensus_strength(winning: int, votes: int) -> float:
    """The share of winning votes: sigma = winning / votes (PROClaim, Eq. 4), in (0, 1]."""
    if not 1 <= winning <= votes:
        raise ValueError(f"{winning} of {votes} votes cannot have won")
    return winning / votes


def judge_quality(scores: Sequence[Mapping[str, float]]) -> float:
    """q, the judges' mean scores as one number in [0, 1]: the sum of the means of `QUALITIES` / 30 (PROClaim, Eq.
    4).
    """
    if not scores:
        raise ValueError("there is no judge with a verdict, so there is no mean score")
    return sum(mean_scores(scores).values()) / 30


CONSENSUS_WEIGHT, QUALITY_WEIGHT = 0.8, 0.3
"""PROClaim's weights of votes and of the judges' scores (Eq. 4)."""


def base_confidence(
    sigma: float, quality: float, consensus_weight: float = CONSENSUS_WEIGHT, quality_weight: float = QUALITY_WEIGHT
) -> float:
    """The confidence before its adjustments (PROClaim, Eq. 4, with 0.8 sigma + 0.3 q)."""
    return consensus_weight * sigma + quality_weight * quality


def role_switch_adjustment(consistency: float | None) -> float:
    """The adjustment of the confidence for the counsel's consistency, from 0 to 10 (PROClaim, Eq. 10)."""
    if consistency is None:
        return 0.0
    return 0.10 if consistency >= 7 else 0.0 if consistency >= 5 else -0.05


def reflection_adjustment(score: float | None) -> float:
    """The adjustment for the winning side's reflection score (PROClaim, Eq. 3 and 11); 0 if there is no score."""
    return 0.0 if score is None else max(-0.15, (score - 0.5) * 0.6)


def final_confidence(base: float, role_switch: float, reflection: float, winning: int, votes: int) -> float:
    """The confidence: the sum of its parts in [0, 1], at least 0.10 with two thirds of the votes (PROClaim, Eq. 5)."""
    clamped = min(1.0, max(0.0, base + role_switch + reflection))
    return max(0.10, clamped) if 3 * winning >= 2 * votes else clamped


def mean_scores(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean score of each of `QUALITIES`, from 0 to 10, over the judges with a verdict."""
    return {quality: sum(score[quality] for score in scores) / len(scores) for quality in QUALITIES}
