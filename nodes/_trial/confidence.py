"""The panel's verdict and the confidence in it (PROClaim; S2, section 2.8, appendices M and N)."""

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
    """A panel's decision: ``winning`` of ``votes`` judges gave the verdict; ``tied`` if another verdict had as many."""

    verdict: Verdict
    winning: int
    votes: int
    tied: bool


def panel_verdict(verdicts: Sequence[Verdict | None]) -> PanelVerdict | None:
    """The majority of the judges' verdicts (S2, section 2.8); None if no judge gave one.

    If several verdicts are tied for most votes (all differ, 1-1, 2-2-1), the chief judge's verdict wins if it is among
    them (S2, appendix N), else the first of them in the judges' order. The chief judge is the first with a verdict.

    Args:
        verdicts: one for each judge, the chief judge's first; None if a judge gave none.
    """
    given = [verdict for verdict in verdicts if verdict is not None]
    if not given:
        return None
    counts = Counter(given)  # in the judges' order
    most = max(counts.values())
    leading = [verdict for verdict in counts if counts[verdict] == most]  # the chief judge's comes first
    return PanelVerdict(leading[0], most, len(given), len(leading) > 1)


def consensus_strength(winning: int, votes: int) -> float:
    """sigma = winning votes / votes (S2, Eq. 4), in (0, 1].

    Raises:
        ValueError: ``winning`` is not from 1 to ``votes``.
    """
    if not 1 <= winning <= votes:
        raise ValueError(f"{winning} of {votes} votes cannot have won")
    return winning / votes


def judge_quality(scores: Sequence[Mapping[str, float]]) -> float:
    """q = (mean evidence strength + mean argument validity + mean scientific reliability) / 30 (S2, Eq. 4), in [0, 1].

    Args:
        scores: `QUALITIES` of each judge with a verdict, from 0 to 10.

    Raises:
        ValueError: there is no judge.
    """
    if not scores:
        raise ValueError("there is no judge, so there is no mean")
    return sum(mean_scores(scores).values()) / 30


CONSENSUS_WEIGHT, QUALITY_WEIGHT = 0.8, 0.3
"""S2's weights of votes and of the judges' scores (Eq. 4)."""


def base_confidence(
    sigma: float, quality: float, consensus_weight: float = CONSENSUS_WEIGHT, quality_weight: float = QUALITY_WEIGHT
) -> float:
    """W sigma + V q (S2, Eq. 4: 0.8 sigma + 0.3 q), in [0, W + V].

    Args:
        sigma: winning votes / votes, in (0, 1].
        quality: the mean of the judges' scores, in [0, 1].
        consensus_weight: W.
        quality_weight: V.
    """
    return consensus_weight * sigma + quality_weight * quality


def role_switch_adjustment(consistency: float | None) -> float:
    """delta_rs for the overall consistency gamma from 0 to 10 (S2, Eq. 10); 0 if it is unknown."""
    if consistency is None:
        return 0.0
    return 0.10 if consistency >= 7 else 0.0 if consistency >= 5 else -0.05


def reflection_adjustment(score: float | None) -> float:
    """delta_ref = max(-0.15, (s_ref - 0.5) x 0.6) (S2, Eq. 3 and 11); 0 without a score.

    Args:
        score: the winning side's last reflection score, in [0, 1].
    """
    return 0.0 if score is None else max(-0.15, (score - 0.5) * 0.6)


def final_confidence(base: float, role_switch: float, reflection: float, winning: int, votes: int) -> float:
    """The sum of the parts, clamped to [0, 1]; at least 0.10 if two thirds of the judges or more agree (S2, Eq. 5).

    Args:
        base: from `base_confidence`.
        role_switch: the adjustment for consistency.
        reflection: the adjustment for the winner's reflection.
        winning: number of judges with this verdict.
        votes: number of judges with any verdict.
    """
    clamped = min(1.0, max(0.0, base + role_switch + reflection))
    return max(0.10, clamped) if 3 * winning >= 2 * votes else clamped


def mean_scores(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each of `QUALITIES`, from 0 to 10, over the judges with a verdict; there is at least one."""
    return {quality: sum(score[quality] for score in scores) / len(scores) for quality in QUALITIES}
