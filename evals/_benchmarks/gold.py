"""Compares the evidence that a debate found with the gold evidence of an item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from moot.evals._stats.metrics import fever_page
from moot.nodes._texts.labels import fold_label
from moot.retrievers import Evidence
from moot.retrievers._archives import page_of


def gold_and_found(
    gold_evidence: Mapping[str, Any] | None, evidence: Sequence[Evidence]
) -> tuple[set[str], set[str]] | None:
    """Names of an item's gold evidence and of the evidence found, for `moot.evals._stats.metrics.gold_recall`.

    Names are normalised titles, ids, addresses or texts. A piece of gold evidence was found if its name is in both
    sets. If the item has several kinds of gold evidence, only the first kind in this list is used:

    - ``pages`` match the title of a piece of evidence;
    - ``documents`` match a piece's title, or the last part of its address (a PubMed id);
    - ``urls`` match a piece's address; only the host without "www." and the path are compared.
      For a copy, such as an archived page, the address of its page is compared;
    - ``texts`` match a piece if one text contains the other; case and the amount of white space are ignored.

    None if the item has no gold evidence of these kinds.
    """
    named = gold_evidence or {}
    if pages := named.get("pages"):
        return {_normal_title(page) for page in pages}, {_normal_title(piece["title"]) for piece in evidence}
    if documents := named.get("documents"):
        ends = {_normal_address(piece.get("url", "")).rpartition("/")[2] for piece in evidence}
        return {fold_label(str(document)) for document in documents}, {fold_label(end) for end in ends} | {
            _normal_title(p["title"]) for p in evidence
        }
    if urls := named.get("urls"):
        return {_normal_address(url) for url in urls}, {_normal_address(piece.get("url", "")) for piece in evidence} - {
            ""
        }
    if texts := named.get("texts"):
        gold, found = {_normal_text(text) for text in texts}, [_normal_text(piece["text"]) for piece in evidence]
        return gold, {text for text in gold if any(text in piece or (piece and piece in text) for piece in found)}
    return None


def _normal_title(title: str) -> str:
    return fever_page(title).casefold()


def _normal_address(url: str) -> str:
    try:
        parts = urlsplit(page_of(url))
    except ValueError:  # the text is not an address, so it must match nothing
        return ""
    return f"{(parts.hostname or '').removeprefix('www.')}{parts.path.rstrip('/')}"


def _normal_text(text: str) -> str:
    return " ".join(text.casefold().split())
