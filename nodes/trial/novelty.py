"""Novelty of what progressive retrieval finds, and when it ends (PROClaim; S2, Eq. 1, Table 1 and appendix I)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from moot.core.lazy import imported
from moot.nodes.trial.admissibility import PLACES, is_above
from moot.retrievers.encoders import Vector

RetrievalEnd = Literal["redundancy", "retrievals", "relevance_gain"]
"""Why a side's progressive retrieval ended: too much was redundant, so many were made, too little was gained."""


def novelty(vector: Sequence[float], pool: Sequence[Sequence[float]]) -> float:
    """novelty(d) = 1 - max cos(e_d, e_p) over the pool (S2, Eq. 1), in [0, 2]; 1 where the pool is empty.

    Args:
        vector: of the candidate.
        pool: of the evidence in the pool; all have the candidate's dimension, and any length but 0.

    Raises:
        ValueError: a vector is zero or not finite.
    """
    np = imported("numpy")
    if not len(pool):
        return 1.0
    d, p = np.asarray(vector, dtype=float), np.asarray(pool, dtype=float)
    lengths = np.linalg.norm(p, axis=1) * np.linalg.norm(d)
    if not np.all(np.isfinite(lengths) & (lengths > 0)):
        raise ValueError("a vector without a direction has no cosine")
    return round(1 - float(np.max(p @ d / lengths)), PLACES) + 0.0  # never -0.0


def similarity(vector: Sequence[float], other: Sequence[float]) -> float:
    """The cosine of two vectors of one dimension, in [-1, 1].

    Raises:
        ValueError: as `novelty`.
    """
    return round(1 - novelty(vector, [other]), PLACES) + 0.0


def is_new(novelty: float, least: float) -> bool:
    """Whether something of this novelty joins the pool (S2, section 2.4)."""
    return not is_above(least, novelty)


def novelties(
    candidates: Sequence[Vector],
    pool: Sequence[Vector],
    least: float = 0.20,
    barred: Collection[int] = (),
    beside: Collection[int] = (),
) -> list[float]:
    """Each candidate's novelty, in their order; one of at least ``least`` joins the pool that the next one meets.

    Args:
        candidates: their vectors.
        pool: the vectors of what is in the pool before.
        least: the novelty from which on a candidate joins.
        barred: places of candidates that were ruled out before: they are known, so that their novelty is 0.
        beside: places of candidates that do not join, however new they are.
    """
    known, found = list(pool), []
    for place, vector in enumerate(candidates):
        found.append(0.0 if place in barred else novelty(vector, known))
        if is_new(found[-1], least) and place not in beside and place not in barred:
            known.append(vector)
    return found


def redundant_share(novelties: Sequence[float], similarity: float = 0.85) -> float | None:
    """The share of candidates whose similarity to the pool, 1 - novelty, is above ``similarity``; None without any.

    Args:
        novelties: 1 - similarity of each candidate to the pool, in [0, 2].
        similarity: cosine above which a candidate is redundant.
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
    """Why a side's retrieval ends after its last one, or None (S2, Table 1).

    Args:
        share: the redundant share of the last retrieval; None where it found nothing.
        retrievals: how many the side has made.
        gain: what the last one gained in relevance over the one before; None where it is not known.
        most_redundant: a share above it ends the retrieval.
        most_retrievals: so many end it.
        least_gain: a gain below it ends it; None where gains do not count.
    """
    if share is not None and is_above(share, most_redundant):
        return "redundancy"
    if least_gain is not None and gain is not None and is_above(least_gain, gain):
        return "relevance_gain"
    return "retrievals" if retrievals >= most_retrievals else None


def relevance_gain(relevances: Sequence[float | None]) -> float | None:
    """What the last retrieval gained in relevance (mean cos(query, document)) over the one before it.

    None where there is none before it, or either is unknown.
    """
    if len(relevances) < 2 or relevances[-1] is None or relevances[-2] is None:
        return None
    return round(relevances[-1] - relevances[-2], PLACES)
