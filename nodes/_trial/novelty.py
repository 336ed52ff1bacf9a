"""The novelty of retrieved evidence, and the end of a side's search (PROClaim, Eq. 1, Table 1, appendix I)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from moot.core.lazy import imported
from moot.nodes._trial.admissibility import SCORE_DECIMALS, is_above
from moot.retrievers._encoders import Vector

RetrievalEnd = Literal["redundancy", "retrievals", "relevance_gain"]
"""Why a side's search ended: redundant results, the maximum number of retrievals, or too small a gain in relevance."""


def novelty(vector: Sequence[float], pool: Sequence[Sequence[float]]) -> float:
    """The novelty of a candidate: 1 minus its largest cosine with a piece in the pool, in [0, 2] (PROClaim, Eq. 1)."""
    np = imported("numpy")
    if not len(pool):
        return 1.0
    d, p = np.asarray(vector, dtype=float), np.asarray(pool, dtype=float)
    lengths = np.linalg.norm(p, axis=1) * np.linalg.norm(d)
    if not np.all(np.isfinite(lengths) & (lengths > 0)):
        raise ValueError("a vector is zero or not finite, so it has no cosine")
    return round(1 - float(np.max(p @ d / lengths)), SCORE_DECIMALS) + 0.0  # never -0.0


def similarity(vector: Sequence[float], other: Sequence[float]) -> float:
    """The cosine of two vectors, in [-1, 1]."""
    return round(1 - novelty(vector, [other]), SCORE_DECIMALS) + 0.0


def is_new(novelty: float, least: float) -> bool:
    """Whether a piece of this novelty is new: the novelty is at least ``least`` (PROClaim, section 2.4)."""
    return not is_above(least, novelty)


def novelties(
    candidates: Sequence[Vector],
    pool: Sequence[Vector],
    least: float = 0.20,
    ruled_out: Collection[int] = (),
    unfit: Collection[int] = (),
) -> list[float]:
    """The novelty of each candidate; a new one joins the pool, unless it is ``ruled_out`` (novelty 0) or ``unfit``."""
    known, found = list(pool), []
    for place, vector in enumerate(candidates):
        found.append(0.0 if place in ruled_out else novelty(vector, known))
        if is_new(found[-1], least) and place not in unfit and place not in ruled_out:
            known.append(vector)
    return found


def redundant_share(novelties: Sequence[float], similarity: float = 0.85) -> float | None:
    """The share of candidates whose similarity (1 - novelty) is above the threshold; None without candidates."""
    if not novelties:
        return None
    return sum(is_above(1 - value, similarity) for value in novelties) / len(novelties)


def retrieval_end(
    share: float | None,
    retrievals: int,
    gain: float | None = None,
    *,
    most_redundant: float = 0.70,
    most_retrievals: int = 10,
    least_gain: float | None = None,
) -> RetrievalEnd | None:
    """The reason why a side's search ends after its last retrieval; None if it goes on (PROClaim, Table 1)."""
    if share is not None and is_above(share, most_redundant):
        return "redundancy"
    if least_gain is not None and gain is not None and is_above(least_gain, gain):
        return "relevance_gain"
    return "retrievals" if retrievals >= most_retrievals else None


def relevance_gain(relevances: Sequence[float | None]) -> float | None:
    """The gain in relevance of the last retrieval over the previous one; None if either relevance is unknown."""
    if len(relevances) < 2 or relevances[-1] is None or relevances[-2] is None:
        return None
    return round(relevances[-1] - relevances[-2], SCORE_DECIMALS)
