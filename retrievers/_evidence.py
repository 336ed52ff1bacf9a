"""Defines pieces of evidence and the protocol of all sources, creates pieces, and merges them."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NotRequired, Protocol, get_args

from moot.core.errors import UserError
from typing_extensions import TypedDict

Standing = Literal["seed", "discarded", "disputed", "discovered", "admitted"]
"""The standing of a piece in a trial's record. ``seed``: found before the debate, without a ruling yet. ``discarded``:
excluded. ``disputed``: shown only to the panel. ``discovered``: found during the debate, and added to the record.
``admitted``: part of the record from the start. If two versions of a piece are merged, the standing that comes later in
`STANDINGS` is kept.
"""
STANDINGS: tuple[Standing, ...] = get_args(Standing)

UNTITLED = "(no title)"
"""The title of a piece that has no title."""
GIVEN = "given"
"""The retriever and the agent of a piece that was given with the claim; also its source if the user named none."""


class Retrieval(TypedDict):
    """One retrieval of a piece: the query and the score; in a debate's state, also the agent and the round.

    For pieces given with the claim, ``retriever`` and ``agent`` are `GIVEN`, ``query`` is empty and ``round`` 0.
    ``score`` comes from the source, and is null if the source gives none. It is the cosine similarity (-1 to 1) for
    dense search, and the BM25 weight (0 or more) for lexical search. For hybrid search, it is the fused score of both
    (at most 1) or the reranker's rating; for web search, the vendor's score. ``rank`` counts from 1 in the source's
    order. ``retrieved`` is the time in ISO form. ``phase`` exists if the debate has several phases. In a trial,
    ``novelty`` is 1 minus the largest cosine with an earlier piece (0 to 2; 0 if the piece was excluded before), and
    ``request_similarity`` is the cosine with the side's request.
    """

    query: str
    score: float | None
    retriever: str
    rank: NotRequired[int]
    retrieved: NotRequired[str]
    round: NotRequired[int]
    agent: NotRequired[str]
    phase: NotRequired[str]
    novelty: NotRequired[float]
    request_similarity: NotRequired[float]


class Origin(TypedDict):
    """A place of publication of a text."""

    source: str
    title: str
    url: NotRequired[str]
    published: NotRequired[str]
    page: NotRequired[str]


class Evidence(TypedDict):
    """A piece of evidence. ``id`` is stable: it depends only on the source and the text.

    ``published`` comes from the source; in a debate, it is a date in ISO form (a year, a month or a day) if it could be
    parsed. ``page`` and ``heading`` give the place in a document. For a web page that a user named, or that was read
    because a search found it (`read_pages`), ``fetched`` is the time of the fetch in ISO form (UTC), and ``sha256`` is
    the hash of the page's bytes; ``publisher`` is the name that the page gives to its website, and ``archived`` is the
    address of its copy in the Wayback Machine. ``snippet`` is true if the page was to be read, but could not be: the
    text is then the search engine's snippet. ``open_copy`` is the address of the whole text of a work, whose abstract
    is the text. ``note`` says how its document was read, such as what was left out.
    ``also`` lists other places
    where the same text was found. ``shown`` exists if the text is too long to be shown in full. It has the parts that
    were shown to any agent, in order, as pairs of a start and an end (exclusive) in code points. ``summary_of`` holds
    the original text if a model wrote ``text`` as its summary. ``truncated`` exists only in documents of moot 0.1,
    which cut texts off. In a trial, ``pool`` is the first pool with the piece, ``status`` is its standing, and
    ``weight`` is its admissibility: ``relevance`` x ``credibility``, all from 0 to 1. ``retracted`` exists for a
    scholarly work that was retracted: it is the address of the notice or of the record that says so, or "its title".
    ``site_label`` is the user's label for the site. ``claim_page`` is true if the piece is from the page or the
    site on which the claim appeared. ``fact_check`` is true for a verdict that others have published. ``struck`` is
    true if a person struck the piece; then the piece is no longer shown to any agent.
    """

    id: str
    title: str
    text: str
    source: str
    url: NotRequired[str]
    published: NotRequired[str]
    page: NotRequired[str]
    heading: NotRequired[str]
    fetched: NotRequired[str]
    sha256: NotRequired[str]
    note: NotRequired[str]
    publisher: NotRequired[str]
    archived: NotRequired[str]
    snippet: NotRequired[bool]
    open_copy: NotRequired[str]
    also: NotRequired[list[Origin]]
    shown: NotRequired[list[list[int]]]
    truncated: NotRequired[bool]
    summary_of: NotRequired[str]
    pool: NotRequired[str]
    status: NotRequired[Standing]
    relevance: NotRequired[float]
    credibility: NotRequired[float]
    weight: NotRequired[float]
    retracted: NotRequired[str]
    site_label: NotRequired[str]
    claim_page: NotRequired[bool]
    fact_check: NotRequired[bool]
    struck: NotRequired[bool]
    retrievals: list[Retrieval]


def check_pieces(evidence: Iterable[Any]) -> None:
    """Raises a `UserError` if an object is no piece of evidence, such as a text or a document of LangChain."""
    for piece in evidence:
        lacking: Sequence[str] = ()
        if isinstance(piece, Mapping):
            lacking = [key for key in ("id", "title", "text", "source", "retrievals") if key not in piece]
            if not lacking:
                continue
        what = f"a piece without {lacking[0]!r}" if lacking else f"an object of the type {type(piece).__name__}"
        raise UserError(
            f"The evidence has {what}; make pieces of evidence: "
            "make_evidence(text=document.page_content, title=..., source=...).",
            kind="invalid_given",
        )


class Retriever(Protocol):
    """A source of evidence. ``name`` is its full name, such as ``bm25:demo-news``, even if it was opened as ``web``."""

    name: str

    async def search(self, query: str, k: int) -> list[Evidence]:
        """At most ``k`` (1 or more) pieces for a query, best first; none for a blank query.

        Raises:
            UserError: the source is missing or misconfigured.
            WorldError: the source could not answer.
        """
        ...


def clean(text: str) -> str:
    """A text in Unicode's composed form (NFC), without control and format characters and lone surrogates."""
    # Tabs and line ends stay. Control characters that separate words, such as a form feed, become spaces.
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    if not lines.replace("\n", "").replace("\t", "").isprintable():
        lines = "".join(map(_cleaned_character, lines))
    return unicodedata.normalize("NFC", lines).strip()


def _cleaned_character(char: str) -> str:
    """The character itself, a space, or an empty text; see `clean`."""
    if char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cf", "Cs"):
        return char
    return " " if char.isspace() else ""


def encoded_text(title: str, text: str) -> str:
    """The text that encoders read for a passage or a piece of evidence: the title, if there is one, and the text."""
    title, text = clean(title), clean(text)
    return f"{title}. {text}" if title not in ("", UNTITLED) else text


def evidence_id(source: str, text: str) -> str:
    """The id of a piece: ``ev-`` and ten hexadecimal digits of a hash of source and text."""
    return "ev-" + hashlib.blake2b(f"{source}\x1f{text}".encode(), digest_size=5).hexdigest()


def make_evidence(
    *,
    text: str,
    title: str = "",
    source: str = GIVEN,
    query: str = "",
    score: float | None = None,
    retriever: str = GIVEN,
    url: str | None = None,
    published: str | None = None,
    page: str | None = None,
    heading: str | None = None,
    fetched: str | None = None,
    sha256: str | None = None,
    retracted: str | None = None,
    fact_check: bool = False,
    open_copy: str | None = None,
    note: str | None = None,
) -> Evidence:
    """Creates a piece of evidence from a source's result or a user's text, and cleans its texts.

    The fields from ``url`` to ``note`` are left out if they are empty. An empty title becomes ``(no title)``.

    Args:
        text: its text.
        title: its title, if it has one.
        source: the source of the text; the id depends on the source and the text.
        query: the query that found it; empty for a user's text.
        score: the source's score (see `Retrieval`); None if there is none.
        retriever: the retriever that found it, e.g. ``bm25:notes``.
        url: its address.
        published: its date of publication, as the source gives it.
        page: its page in a document, counted from 1.
        heading: the heading above it in a document.
        fetched: the time at which its web page was fetched, in ISO form.
        sha256: the hash of the web page's bytes, in hexadecimal.
        retracted: the address of the notice or of the record that says that the work was retracted.
        fact_check: whether the text is a verdict that others have published.
        open_copy: the address of the whole text of a work, whose abstract is the text.
        note: how its document was read, such as what was left out; no model sees it.

    Returns:
        The piece, with one retrieval.
    """
    text, source = clean(text), clean(source)
    piece: Evidence = {
        "id": evidence_id(source, text),
        "title": clean(title) or UNTITLED,
        "text": text,
        "source": source,
        "retrievals": [{"query": query, "score": score, "retriever": retriever}],
    }
    if url and (url := clean(url)):
        piece["url"] = url
    if published and (published := clean(published)):
        piece["published"] = published
    if page:
        piece["page"] = page
    if heading and (heading := clean(heading)):
        piece["heading"] = heading
    if fetched:
        piece["fetched"] = fetched
    if sha256:
        piece["sha256"] = sha256
    if retracted and (retracted := clean(retracted)):
        piece["retracted"] = retracted
    if fact_check:
        piece["fact_check"] = True
    if open_copy and (open_copy := clean(open_copy)):
        piece["open_copy"] = open_copy
    if note and (note := clean(note)):
        piece["note"] = note
    return piece


def active_evidence(evidence: Iterable[Evidence]) -> list[Evidence]:
    """The pieces that were not struck by a person."""
    return [piece for piece in evidence if not piece.get("struck")]


def given_evidence(evidence: Iterable[Evidence]) -> list[Evidence]:
    """The active pieces (see `active_evidence`) that were given with the claim, added by a person, or inherited."""
    return [piece for piece in active_evidence(evidence) if any(r["retriever"] == GIVEN for r in piece["retrievals"])]


def merge_evidence(old: Iterable[Evidence], new: Iterable[Evidence]) -> list[Evidence]:
    """Both lists in order; pieces with the same id are merged, at the position of the first piece."""
    new = list(new)
    check_pieces(new)
    merged: dict[str, Evidence] = {}
    for piece in [*old, *new]:
        known = merged.get(piece["id"])
        if known is None:
            merged[piece["id"]] = piece
        elif known is not piece:  # a subgraph also returns its input pieces, as the same objects
            joined: Evidence = {**known, "retrievals": _merge_retrievals(known["retrievals"], piece["retrievals"])}
            merged[piece["id"]] = joined = _merge_ruling(joined, piece)
            if "shown" in joined:
                _merge_shown(joined, piece)
            if also := [o for o in piece.get("also", []) if o not in known.get("also", [])]:
                joined["also"] = [*known.get("also", []), *also]
    return list(merged.values())


def _merge_shown(known: Evidence, new: Evidence) -> None:
    """Adds the shown parts of ``new`` to ``known``, which becomes shown in full if ``new`` is."""
    if "shown" in new:
        known["shown"] = joined_spans([*known["shown"], *new["shown"]], known["text"])
    else:
        del known["shown"]


def joined_spans(spans: Iterable[Sequence[int]], text: str) -> list[list[int]]:
    """Sorts parts of a text by position, and joins parts that overlap or have only white space between them."""
    joined: list[list[int]] = []
    for start, end in sorted((start, end) for start, end in spans):
        if joined and not text[joined[-1][1] : start].strip():
            joined[-1][1] = max(end, joined[-1][1])
        else:
            joined.append([start, end])
    return joined


SET_LATER = ("novelty", "request_similarity")
"""The fields of a retrieval that are set after it was recorded."""


def _merge_retrievals(known: list[Retrieval], new: list[Retrieval]) -> list[Retrieval]:
    """Both lists in order, each retrieval once; the fields in `SET_LATER` come preferably from ``new``."""
    merged: dict[frozenset[tuple[str, object]], Retrieval] = {}
    for retrieval in [*known, *new]:
        key = frozenset((k, v) for k, v in retrieval.items() if k not in SET_LATER)
        merged[key] = {**merged.get(key, retrieval), **retrieval}
    return list(merged.values())


def _standing(piece: Evidence) -> int:
    """The place of a piece's status in `STANDINGS`; -1 without one."""
    return STANDINGS.index(piece["status"]) if "status" in piece else -1


def _merge_ruling(known: Evidence, new: Evidence) -> Evidence:
    """A copy of ``known`` with the rulings on ``new`` by the court or a person, and by default with its ``pool``."""
    merged: Evidence = {**known}
    # Two debates may weigh a piece differently; its weight is that of the ruling that counts.
    if "weight" in new and ("weight" not in known or _standing(new) >= _standing(known)):
        merged |= {"relevance": new["relevance"], "credibility": new["credibility"], "weight": new["weight"]}
    if "pool" in new and "pool" not in merged:
        merged["pool"] = new["pool"]
    if "status" in new:
        merged["status"] = max(known, new, key=_standing)["status"]
    if "retracted" in new:
        merged.setdefault("retracted", new["retracted"])
    if "archived" in new:
        merged["archived"] = new["archived"]
    if new.get("struck"):
        merged["struck"] = True
    return merged
