"""The amount of evidence in a debate, so that reports can show whether systems had the same amount."""

from __future__ import annotations

from typing import NamedTuple

from moot.evals._stats.outcomes import Document
from moot.retrievers._evidence import GIVEN


class EvidenceCount(NamedTuple):
    """The amount of evidence in a debate."""

    pieces: int
    """The number of pieces of evidence, including those given with the claim."""
    searches: int
    """The number of different pairs of a source and a query that found evidence."""
    failed: int
    """The number of different pairs of an agent and a source that failed for this agent."""
    stood_in: int
    """The number of warnings that a fallback source was used in place of another source."""


def count_evidence(document: Document) -> EvidenceCount:
    """Count the evidence in a result document."""
    evidence = document["evidence"]
    searches = {(retrieval["retriever"], retrieval["query"]) for piece in evidence for retrieval in piece["retrievals"]}
    failed = {
        (retrieval["agent"], retrieval["retriever"]) for retrieval in document["corpora"] if retrieval.get("failed")
    }
    fallbacks = sum(warning["kind"] == "stand_in" for warning in document["warnings"])
    return EvidenceCount(len(evidence), sum(source != GIVEN for source, _ in searches), len(failed), fallbacks)
