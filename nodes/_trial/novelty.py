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
    """The novelty of a candidate: 1 minus its largest cosine with a piece in the pool (PROClaim, Eq. 1), in [0, 2].

    The novelty is 1 if the pool is empty.

    Args:
        vector: the vector of the candidate.
        pool: the vectors of the evidence in the pool.

    Raises:
        ValueError: a vector is zero or not finite, or the vectors differ in their number of dimensions. With an empty
            pool, there is no such check.
    """
    np = imported("numpy")
    if not len(pool):
        return 1.0
    d, p = np.asarray(vector, dtype=float), np.asarray(pool, dtype=float)
    lengths = np.linalg.norm(p, axis=1) * np.linalg.norm(d)
    if not np.all(np.isfinite(lengths) & (lengths > 0)):
        raise ValueError("a vector is zero or not finite, so it has no cosine")
    return round(1 - float(np.max(p @ d / lengths)), SCORE_DECIMALS) + 0.0  # never -0.0


def similarity(vector: Sequence[float], other: Sequence[float]) -> float:
    """The cosine of two vectors, in [-1, 1].

    Raises:
        ValueError: a vector is zero or not finite, or the vectors differ in their number of dimensions.
    """
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
    """The novelty of each candidate, in order.

    The novelties are computed one after another. A new candidate joins the pool as soon as its own novelty is known,
    unless its index is in ``ruled_out`` or ``unfit``.

    Args:
        candidates: the vectors of the candidates.
        pool: the vectors of the evidence in the pool.
        least: the minimum novelty of a new candidate.
        ruled_out: the indices of candidates that were ruled out earlier. The novelty of these candidates is 0.
        unfit: the indices of candidates that do not join the pool, even if they are new.
    """
    known, found = list(pool), []
    for place, vector in enumerate(candidates):
        found.append(0.0 if place in ruled_out else novelty(vector, known))
        if is_new(found[-1], least) and place not in unfit and place not in ruled_out:
            known.append(vector)
    return found


def redundant_share(novelties: Sequence[float], similarity: float = 0.85) -> float | None:
    """The share of redundant candidates, in [0, 1]; None without candidates.

    Args:
        novelties: the novelty of each candidate, in [0, 2].
        similarity: the threshold. A candidate's similarity to the pool is 1 - novelty. A candidate whose similarity is
            above the threshold is redundant.
    """
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
    """The reason why a side's search ends after its latest retrieval; None if the search continues (PROClaim, Table 1).

    Args:
        share: the share of redundant results in the last retrieval; None without results, or if it is unknown.
        retrievals: the number of the side's retrievals so far.
        gain: the gain in relevance of the last retrieval over the previous one; None if unknown.
        most_redundant: a share above this ends the search.
        most_retrievals: this number of retrievals ends the search.
        least_gain: a gain below this ends the search; None if gains do not count.
    """
    if share is not None and is_above(share, most_redundant):
        return "redundancy"
    if least_gain is not None and gain is not None and is_above(least_gain, gain):
        return "relevance_gain"
    return "retrievals" if retrievals >= most_retrievals else None


def relevance_gain(relevances: Sequence[float | None]) -> float | None:
    """The gain in relevance of the last retrieval over the previous one.

    None if there are fewer than two retrievals, or if the relevance of either of the last two is unknown.

    Args:
        relevances: for each retrieval, the mean cosine of the query and its results; None if unknown.
    """
    if len(relevances) < 2 or relevances[-1] is None or relevances[-2] is None:
        return None
    return round(relevances[-1] - relevances[-2], SCORE_DECIMALS)
