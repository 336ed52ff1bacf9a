"""How much evidence a debate had, so that unequal evidence stands beside scores."""

from __future__ import annotations

from typing import NamedTuple

from moot.evals.stats.outcomes import Document
from moot.retrievers.evidence import GIVEN


class Found(NamedTuple):
    """What a debate found.

    Attributes:
        pieces: of evidence, those that were given with the claim too.
        searches: queries that a source found something for, each source by itself.
        failed: sources that could not answer somebody who asked them.
        stood_in: warnings that another source stood in for one.
    """

    pieces: int
    searches: int
    failed: int
    stood_in: int


def found_in(document: Document) -> Found:
    """What the debate of a result document found."""
    evidence = document["evidence"]
    asked = {(one["retriever"], one["query"]) for piece in evidence for one in piece["retrievals"]}
    failed = {(one["agent"], one["retriever"]) for one in document["corpora"] if one.get("failed")}
    stood_in = sum(warned["kind"] == "stand_in" for warned in document["warnings"])
    return Found(len(evidence), sum(source != GIVEN for source, _ in asked), len(failed), stood_in)
