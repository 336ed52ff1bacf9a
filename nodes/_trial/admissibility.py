"""The weight of a piece of evidence, and the ruling on its admission (PROClaim, section 2.3, Eq. 6)."""

from __future__ import annotations

from collections.abc import Iterable

from moot.retrievers import Evidence
from moot.retrievers._evidence import Standing

SCORE_DECIMALS = 9
"""Decimal places to which weights, scores and their differences are rounded."""


def is_above(value: float, threshold: float) -> bool:
    """Whether a value is above a threshold, after their difference is rounded to `SCORE_DECIMALS`."""
    return round(value - threshold, SCORE_DECIMALS) > 0


def evidence_weight(relevance: float, credibility: float) -> float:
    """The weight of a piece of evidence: relevance x credibility (PROClaim, Eq. 6), in [0, 1]."""
    if not (0 <= relevance <= 1 and 0 <= credibility <= 1):
        raise ValueError(f"relevance and credibility must be from 0 to 1, not {relevance} and {credibility}")
    return round(relevance * credibility, SCORE_DECIMALS) + 0.0  # never -0.0


def ruling(weight: float, *, admitted: float = 0.5, disputed: float = 0.1) -> Standing:
    """The ruling on a piece of evidence by its weight: admitted, disputed or discarded (PROClaim, section 2.3)."""
    if is_above(weight, admitted):
        return "admitted"
    return "disputed" if is_above(weight, disputed) else "discarded"


def rank_by_weight(evidence: Iterable[Evidence]) -> list[Evidence]:
    """The evidence, highest weight first; a missing weight counts as 0, and pieces of equal weight keep their order."""
    return sorted(evidence, key=lambda piece: -piece.get("weight", 0.0))
