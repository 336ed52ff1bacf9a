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
    """A panel's verdict.

    ``winning`` counts the judges who voted for this verdict, and ``votes`` the judges with any verdict. ``tied``
    is true if another verdict has as many votes as this one.
    """

    verdict: Verdict
    winning: int
    votes: int
    tied: bool


def panel_verdict(verdicts: Sequence[Verdict | None]) -> PanelVerdict | None:
    """The verdict with the most votes (PROClaim, section 2.8); None if no judge gave a verdict.

    If several verdicts have the most votes, the tied verdict that comes first in the order of the judges wins. So the
    chief judge's verdict wins if it is one of the tied verdicts (PROClaim, appendix N).

    Args:
        verdicts: one for each judge, the chief judge's first; None if a judge gave no verdict.
    """
    given = [verdict for verdict in verdicts if verdict is not None]
    if not given:
        return None
    counts = Counter(given)  # its keys are in the judges' order
    most = max(counts.values())
    leading = [verdict for verdict in counts if counts[verdict] == most]
    return PanelVerdict(leading[0], most, len(given), len(leading) > 1)


def consensus_strength(winning: int, votes: int) -> float:
    """The share of winning votes: sigma = winning / votes (PROClaim, Eq. 4), in (0, 1].

    Args:
        winning: the number of judges who voted for the panel's verdict.
        votes: the number of judges with a verdict.

    Raises:
        ValueError: ``winning`` is not from 1 to ``votes``.
    """
    if not 1 <= winning <= votes:
        raise ValueError(f"{winning} of {votes} votes cannot have won")
    return winning / votes


def judge_quality(scores: Sequence[Mapping[str, float]]) -> float:
    """The judges' mean scores as one number in [0, 1] (PROClaim, Eq. 4).

    It is q = (mean evidence strength + mean argument validity + mean scientific reliability) / 30.

    Args:
        scores: for each judge with a verdict, the scores of `QUALITIES`, from 0 to 10.

    Raises:
        ValueError: ``scores`` is empty.
    """
    if not scores:
        raise ValueError("there is no judge with a verdict, so there is no mean score")
    return sum(mean_scores(scores).values()) / 30


CONSENSUS_WEIGHT, QUALITY_WEIGHT = 0.8, 0.3
"""PROClaim's weights of votes and of the judges' scores (Eq. 4)."""


def base_confidence(
    sigma: float, quality: float, consensus_weight: float = CONSENSUS_WEIGHT, quality_weight: float = QUALITY_WEIGHT
) -> float:
    """The confidence before its adjustments (PROClaim, Eq. 4, with 0.8 sigma + 0.3 q).

    It is the weighted sum of ``sigma`` and ``quality``, from 0 to the sum of both weights.

    Args:
        sigma: the share of winning votes, from `consensus_strength`.
        quality: q, from `judge_quality`.
        consensus_weight: the weight of sigma.
        quality_weight: the weight of q.
    """
    return consensus_weight * sigma + quality_weight * quality


def role_switch_adjustment(consistency: float | None) -> float:
    """The adjustment of the confidence for the counsel's consistency (PROClaim, Eq. 10).

    It is 0.10 for a consistency of at least 7, -0.05 for one below 5, and 0 otherwise.

    Args:
        consistency: the overall consistency of the counsel, from 0 to 10; None if unknown.
    """
    if consistency is None:
        return 0.0
    return 0.10 if consistency >= 7 else 0.0 if consistency >= 5 else -0.05


def reflection_adjustment(score: float | None) -> float:
    """The adjustment of the confidence for the winning side's reflection (PROClaim, Eq. 3 and 11).

    It is (score - 0.5) x 0.6, but at least -0.15. Without a score, it is 0.

    Args:
        score: the winning side's last reflection score, in [0, 1]; None if there is no score.
    """
    return 0.0 if score is None else max(-0.15, (score - 0.5) * 0.6)


def final_confidence(base: float, role_switch: float, reflection: float, winning: int, votes: int) -> float:
    """The confidence: the sum of its three parts, clamped to [0, 1] (PROClaim, Eq. 5).

    It is at least 0.10 if two thirds or more of the judges with a verdict voted for the panel's verdict.

    Args:
        base: from `base_confidence`.
        role_switch: from `role_switch_adjustment`.
        reflection: from `reflection_adjustment`.
        winning: the number of judges with the panel's verdict.
        votes: the number of judges with any verdict.
    """
    clamped = min(1.0, max(0.0, base + role_switch + reflection))
    return max(0.10, clamped) if 3 * winning >= 2 * votes else clamped


def mean_scores(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean score of each of `QUALITIES`, from 0 to 10, over the judges with a verdict.

    Args:
        scores: the scores of each judge with a verdict; at least one judge.
    """
    return {quality: sum(score[quality] for score in scores) / len(scores) for quality in QUALITIES}
