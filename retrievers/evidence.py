"""A piece of evidence, and the one protocol that every source speaks."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NotRequired, Protocol, get_args

from typing_extensions import TypedDict

Standing = Literal["seed", "discarded", "disputed", "discovered", "admitted"]
"""What a piece is in a courtroom's record: found and not ruled on, kept out, in the panel's record alone, found during
the debate, part of the record from the start. A later one holds against an earlier one."""
STANDINGS: tuple[Standing, ...] = get_args(Standing)

UNTITLED = "(no title)"
"""The title of a piece that has none."""
GIVEN = "given"
"""In place of a retriever, an agent and a source: the piece was given with the claim."""


class Retrieval(TypedDict):
    """One finding of a piece: by which query, how high it scored, and (once a debate holds it) who asked and when.

    Of what was given with the claim ``retriever`` and ``agent`` are `GIVEN`, ``query`` is empty and ``round`` 0.
    ``score`` is the source's own: cosine similarity in [-1, 1] for dense search, the BM25 weight (0 or more) for
    lexical search, the weighted sum of both in [0, 1] for hybrid search, the vendor's figure for web search; null where
    the source gives none. ``rank`` counts from 1 in the source's own order, ``retrieved`` is the moment in ISO form.
    ``phase`` is there where a debate has several. Of a search in court, ``novelty`` says how new the piece was beside
    what was there before (0 to 2; 0 if it had been ruled out), ``request_similarity`` how near it is to what the side
    asked for (a cosine). ``left_out`` is true if the piece was shown to nobody, as its origin has its share.
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
    left_out: NotRequired[bool]


class Origin(TypedDict):
    """Where a text stands."""

    source: str
    title: str
    url: NotRequired[str]
    published: NotRequired[str]
    page: NotRequired[str]


class Evidence(TypedDict):
    """A piece of evidence. ``id`` is stable: it depends on the source and the text alone.

    ``published`` is as the source gives it; in a debate it is a date in ISO form (a year, a month or a day) where it
    could be read. ``page`` and ``heading`` say where it stands in a document. Of a page of the web that a user named,
    ``fetched`` is the moment in ISO form (UTC) at which it was read, and ``sha256`` the hash of its bytes. ``also`` is
    where else the same text was found; ``shown`` is there if the text is too long to be shown whole: the parts of it
    that somebody was shown, in order, as pairs of a start and an end in code points; ``summary_of`` if a model wrote
    the text: it holds what was summarised. ``truncated`` is in documents of moot 0.1, whose texts were cut off. In a
    courtroom, ``pool`` is the first pool that held the piece, ``status`` what became of it, and ``weight`` its
    admissibility, ``relevance`` x ``credibility``, all from 0 to 1. ``struck`` is true where a person struck the piece:
    nobody is shown it any more.
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
    also: NotRequired[list[Origin]]
    shown: NotRequired[list[list[int]]]
    truncated: NotRequired[bool]
    summary_of: NotRequired[str]
    pool: NotRequired[str]
    status: NotRequired[Standing]
    relevance: NotRequired[float]
    credibility: NotRequired[float]
    weight: NotRequired[float]
    struck: NotRequired[bool]
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


def encoded_text(title: str, text: str) -> str:
    """What encoders read of a passage, or of a piece of evidence: its title, where it has one, and its text."""
    title, text = clean(title), clean(text)
    return f"{title}. {text}" if title not in ("", UNTITLED) else text


def evidence_id(source: str, text: str) -> str:
    """``ev-`` and ten hexadecimal digits of a hash over source and text."""
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
) -> Evidence:
    """A piece as a source found it, or as it is given; cleaned and with its id.

    Args:
        text: what it says.
        title: its title, if it has one.
        source: whose text it is; the id depends on it and on the text.
        query: what it was found by.
        score: the source's own figure for how well it fits (see `Retrieval`); None where there is none.
        retriever: what found it, e.g. ``bm25:notes``.
        url: its address.
        published: when it was published, as the source says it.
        page: the page of a document that it is from, from 1.
        heading: what stands over it in a document.
        fetched: the moment at which its page was read, in ISO form.
        sha256: the hash of that page's bytes, in hexadecimal.

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
    return piece


def standing(evidence: Iterable[Evidence]) -> list[Evidence]:
    """The pieces that no person has struck, and that were not left out whenever they were found."""
    return [piece for piece in evidence if not piece.get("struck") and not is_left_out(piece)]


def is_left_out(piece: Mapping[str, Any]) -> bool:
    """Whether nobody is shown a piece, as its origin had its share of the evidence whenever it was found."""
    return bool(piece["retrievals"]) and all(found.get("left_out") for found in piece["retrievals"])


def left_out(piece: Evidence) -> Evidence:
    """The piece, which nobody is shown, as its origin has its share of the evidence."""
    return {**piece, "retrievals": [{**found, "left_out": True} for found in piece["retrievals"]]}


def given_in(evidence: Iterable[Evidence]) -> list[Evidence]:
    """The pieces that were given with the claim, or added by a person since."""
    return [piece for piece in standing(evidence) if any(r["retriever"] == GIVEN for r in piece["retrievals"])]


def merge_evidence(old: Iterable[Evidence], new: Iterable[Evidence]) -> list[Evidence]:
    """Both lists in order, where one piece found twice is one piece with both retrievals (each finding once).

    Args:
        old: the pieces so far.
        new: what is added.
    """
    merged: dict[str, Evidence] = {}
    for piece in [*old, *new]:
        known = merged.get(piece["id"])
        if known is None:
            merged[piece["id"]] = piece
        elif known is not piece:  # a graph within a graph hands back what it was given
            joined: Evidence = {**known, "retrievals": _findings(known["retrievals"], piece["retrievals"])}
            merged[piece["id"]] = joined = _ruled(joined, piece)
            if "shown" in joined:
                _show(joined, piece)
            if also := [o for o in piece.get("also", []) if o not in known.get("also", [])]:
                joined["also"] = [*known.get("also", []), *also]
    return list(merged.values())


def _show(known: Evidence, new: Evidence) -> None:
    """Adds what is shown of another finding of a piece: all of it, if that is not cut."""
    if "shown" in new:
        known["shown"] = joined_spans([*known["shown"], *new["shown"]], known["text"])
    else:
        del known["shown"]


def joined_spans(spans: Iterable[Sequence[int]], text: str) -> list[list[int]]:
    """Parts of a text in its order; those that overlap, or have nothing but white space between them, are one."""
    joined: list[list[int]] = []
    for start, end in sorted((start, end) for start, end in spans):
        if joined and not text[joined[-1][1] : start].strip():
            joined[-1][1] = max(end, joined[-1][1])
        else:
            joined.append([start, end])
    return joined


RULED = ("novelty", "request_similarity", "left_out")
"""What is said of a finding once it was made."""


def _findings(known: list[Retrieval], new: list[Retrieval]) -> list[Retrieval]:
    """Both lists in order, each finding once, with what either says of it (`RULED`)."""
    merged: dict[frozenset[tuple[str, object]], Retrieval] = {}
    for finding in [*known, *new]:
        same = frozenset((k, v) for k, v in finding.items() if k not in RULED)
        merged[same] = {**merged.get(same, finding), **finding}
    return list(merged.values())


def _ruled(known: Evidence, new: Evidence) -> Evidence:
    """The piece with what a court found of it, in whichever of the two that stands."""
    ruled: Evidence = {**known}
    if "weight" in new:
        ruled |= {"relevance": new["relevance"], "credibility": new["credibility"], "weight": new["weight"]}
    if "pool" in new and "pool" not in ruled:
        ruled["pool"] = new["pool"]
    if "status" in new:
        ruled["status"] = max(known.get("status", new["status"]), new["status"], key=STANDINGS.index)
    if new.get("struck"):
        ruled["struck"] = True
    return ruled
