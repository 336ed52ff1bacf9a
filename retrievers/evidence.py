"""A piece of evidence, and the one protocol that every source speaks."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable
from typing import NotRequired, Protocol

from typing_extensions import TypedDict


class Retrieval(TypedDict):
    """One finding of a piece: by which query, how high it scored, and (once a debate holds it) who asked and when.

    ``score`` is the source's own: cosine similarity in [-1, 1] for dense search, the BM25 weight (0 or more) for
    lexical search, the weighted sum of both in [0, 1] for hybrid search, the vendor's figure for web search; null where
    the source gives none. ``rank`` counts from 1 in the source's own order, ``retrieved`` is the moment in ISO form.
    """

    query: str
    score: float | None
    retriever: str
    rank: NotRequired[int]
    retrieved: NotRequired[str]
    round: NotRequired[int]
    agent: NotRequired[str]


class Origin(TypedDict):
    """Where a text stands."""

    source: str
    title: str
    url: NotRequired[str]
    published: NotRequired[str]


class Evidence(TypedDict):
    """A piece of evidence. ``id`` is stable: it depends on the source and the text alone.

    ``published`` is as the source gives it; in a debate it is a date in ISO form (a year, a month or a day) where it
    could be read. ``also`` is where else the same text was found; ``truncated`` is there where the text was longer,
    ``summary_of`` where a model wrote the text: it holds what was summarised.
    """

    id: str
    title: str
    text: str
    source: str
    url: NotRequired[str]
    published: NotRequired[str]
    also: NotRequired[list[Origin]]
    truncated: NotRequired[bool]
    summary_of: NotRequired[str]
    retrievals: list[Retrieval]


class Retriever(Protocol):
    """A source of evidence. ``name`` says what was really used, e.g. ``bm25:demo-news``."""

    name: str

    async def search(self, query: str, k: int) -> list[Evidence]:
        """At most ``k`` (1 or more) pieces for a query, best first; an empty list for no finding or a blank query.

        Raises:
            UserError: the source is missing or misconfigured.
            WorldError: the source could not answer.
        """
        ...


def clean(text: str) -> str:
    """The text in Unicode's composed form, without control and format characters (new lines and tabs stay).

    Control characters that part words, such as a form feed, become spaces.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    if lines.replace("\n", "").replace("\t", "").isprintable():  # no such character; most texts
        return unicodedata.normalize("NFC", lines).strip()
    shown = "".join(c if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Cs") else _gap(c) for c in lines)
    return unicodedata.normalize("NFC", shown).strip()


def _gap(control: str) -> str:
    return " " if control.isspace() else ""


def evidence_id(source: str, text: str) -> str:
    """``ev-`` and ten hexadecimal digits of a hash over source and text."""
    return "ev-" + hashlib.blake2b(f"{source}\x1f{text}".encode(), digest_size=5).hexdigest()


def make_evidence(
    *,
    text: str,
    title: str,
    source: str,
    query: str,
    score: float | None,
    retriever: str,
    url: str | None = None,
    published: str | None = None,
) -> Evidence:
    """A piece as a source found it, cleaned and with its id."""
    text, source = clean(text), clean(source)
    piece: Evidence = {
        "id": evidence_id(source, text),
        "title": clean(title) or "(no title)",
        "text": text,
        "source": source,
        "retrievals": [{"query": query, "score": score, "retriever": retriever}],
    }
    if url and (url := clean(url)):
        piece["url"] = url
    if published and (published := clean(published)):
        piece["published"] = published
    return piece


def merge_evidence(old: Iterable[Evidence] | None, new: Iterable[Evidence] | None) -> list[Evidence]:
    """Both lists in order, where one piece found twice is one piece with both retrievals (each finding once).

    None in place of the new list begins anew.
    """
    if new is None:
        return []
    merged: dict[str, Evidence] = {}
    for piece in [*(old or ()), *new]:
        known = merged.get(piece["id"])
        if known is None:
            merged[piece["id"]] = piece
        else:
            fresh = [r for r in piece["retrievals"] if r not in known["retrievals"]]
            joined: Evidence = {**known, "retrievals": known["retrievals"] + fresh}
            merged[piece["id"]] = joined
            if also := [o for o in piece.get("also", []) if o not in known.get("also", [])]:
                joined["also"] = [*known.get("also", []), *also]
    return list(merged.values())
