"""Measures of a source's ranking for each query, and imports of the packages that measures need."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from moot.core.lazy import import_extra

MEASURES = {"recall@3": "recall@3", "recall@10": "recall@10", "ndcg@10": "ndcg_burges@10", "mrr@10": "mrr@10"}
"""The measures, each with ranx's name for it. "Burges" means the gain 2^rel - 1."""
K = 10
"""Number of documents that each query requests from a source."""
NO_GOLD, NO_MATCH = -2, -1
"""Indices that no gold document has. `NO_GOLD` fills the arrays of queries that have fewer gold documents than others.
`NO_MATCH` stands for a found document that scores nothing, or for a rank without a document."""


def load_extra(name: str) -> Any:
    """Import a module that the extra ``evals`` installs.

    Call this where the module is used, because some modules take seconds to import.
    """
    return import_extra(name, "evals", "Measuring")


def score_rankings(gold: Sequence[Mapping[str, int]], found: Sequence[Sequence[str]]) -> dict[str, list[float]]:
    """Compute each of `MEASURES` for each query.

    - recall@k is the share of gold documents that are among the first k. It is below 1 if there are more than k gold
      documents.
    - nDCG@10 is DCG / DCG of the best order. DCG is the sum of (2^rel - 1) / log2(rank + 1) to rank 10, and rel is the
      grade of the document, or 0 if it is not a gold document.
    - MRR@10 is 1 / rank of the first gold document; 0 if there is no gold document among the first ten.
    """
    if not gold or len(gold) != len(found) or not all(grades and min(grades.values()) >= 1 for grades in gold):
        raise ValueError("each query needs a ranking, and gold documents with grades of 1 or more")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="unsafe cast from uint64")  # numba warns about its own loop counters
        values = load_extra("ranx").evaluate(*as_arrays(gold, found), list(MEASURES.values()), return_mean=False)
    return {ours: values[theirs].tolist() for ours, theirs in MEASURES.items()}


def as_arrays(gold: Sequence[Mapping[str, int]], found: Sequence[Sequence[str]]) -> tuple[Any, Any]:
    """Convert judgements and rankings to arrays for ranx.

    Each document is represented by an index, because ranx compiles its code again for each length of a document's name.

    Judgements of shape (queries, documents, 2): for each gold document, best first, its index and its grade. Rankings
    of shape (queries, `K`, 2): for each document found, best first, its index and an unused 0.
    """
    judged = np.zeros((len(gold), max(map(len, gold)), 2))
    judged[:, :, 0] = NO_GOLD
    ranked = np.full((len(gold), K, 2), float(NO_MATCH))
    for n, (grades, documents) in enumerate(zip(gold, found, strict=True)):
        best_first = sorted(grades, key=lambda document: -grades[document])
        judged[n, : len(grades)] = [(i, grades[document]) for i, document in enumerate(best_first)]
        numbers = {document: i for i, document in enumerate(best_first)}
        ranked[n, : len(documents[:K]), 0] = [numbers.pop(document, NO_MATCH) for document in documents[:K]]
    return judged, ranked


def differences(values: Sequence[float], rival: Sequence[float]) -> list[float]:
    """For each query, one source's value minus its rival's. A bootstrap of these differences is a paired bootstrap."""
    return [ours - theirs for ours, theirs in zip(values, rival, strict=True)]
