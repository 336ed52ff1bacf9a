"""Gold evidence that a debate found: by page, document, address or sentence, depending on the benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from moot.evals._stats.metrics import fever_page
from moot.nodes._texts.answers import fold
from moot.retrievers import Evidence


def gold_and_found(
    gold_evidence: Mapping[str, Any] | None, evidence: Sequence[Evidence]
) -> tuple[set[str], set[str]] | None:
    """Ids of an item's gold evidence, and of the part that was found, for `moot.evals._stats.metrics.gold_recall`.

    The first kind that the benchmark has counts: ``pages`` match the title of a piece, ``documents`` its title or the
    last part of its address (a PubMed id), ``urls`` the address without scheme and query, and ``texts`` match if one
    text contains the other, ignoring spaces and case.

    Args:
        gold_evidence: as `moot.evals._benchmarks.records.Item` has it.
        evidence: of a result document, without the texts given with the claim.

    Returns:
        None if the benchmark names no gold evidence that could be found.
    """
    named = gold_evidence or {}
    if pages := named.get("pages"):
        return {_title(page) for page in pages}, {_title(piece["title"]) for piece in evidence}
    if documents := named.get("documents"):
        ends = {_address(piece.get("url", "")).rpartition("/")[2] for piece in evidence}
        return {fold(str(one)) for one in documents}, {fold(end) for end in ends} | {
            _title(p["title"]) for p in evidence
        }
    if urls := named.get("urls"):
        return {_address(url) for url in urls}, {_address(piece.get("url", "")) for piece in evidence} - {""}
    if texts := named.get("texts"):
        gold, found = {_plain(text) for text in texts}, [_plain(piece["text"]) for piece in evidence]
        return gold, {text for text in gold if any(text in piece or (piece and piece in text) for piece in found)}
    return None


def _title(title: str) -> str:
    return fever_page(title).casefold()


def _address(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:  # not an address: it matches nothing
        return ""
    return f"{(parts.hostname or '').removeprefix('www.')}{parts.path.rstrip('/')}"


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
