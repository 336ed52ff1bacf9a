"""Reads web pages that sources found: robots.txt, the fetch, the main text, and the passages near a query."""

from __future__ import annotations

import asyncio
import hashlib
import socket
import tempfile
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from moot.core.errors import MootError, WorldError
from moot.core.lazy import imported
from moot.retrievers._documents.charsets import decode
from moot.retrievers._documents.children import read_page
from moot.retrievers._documents.fetch import TEXTS, Answer, get, in_utf8, in_words
from moot.retrievers._documents.parse import kind_of
from moot.retrievers._documents.parsed import ParsedDocument, UnreadableDocument, new_document, note_of
from moot.retrievers._documents.placeholders import words_in
from moot.retrievers._evidence import GIVEN, UNTITLED, Evidence, clean, evidence_id, joined_spans
from moot.retrievers._excerpts import READ, count_tokens, is_short, ranks_by_words, sentences
from moot.retrievers._normalise import is_late, iso_date, last_day
from moot.retrievers._search import CORPUS_SOURCES
from typing_extensions import TypedDict

LARGEST = 10 * 2**20
"""The maximum size of a page, in bytes."""
SECONDS = 20.0
"""The time limit of a page, from the first request to the text, in seconds."""
PAGE_TOKENS = 768
"""Maximum number of tokens of a page's passages in a prompt: a short article, or about ten passages of a long one."""
ROBOTS = "/robots.txt"
AGENT = "moot"
"""moot's name in files robots.txt."""
LARGEST_ROBOTS = 500 * 2**10
"""Only this number of bytes of a robots.txt is read; RFC 9309, section 2.5, requires at least as much."""
ROBOTS_AGE = 3600.0
"""Seconds for which the rules of a robots.txt are used; RFC 9309 allows a day."""
MOST_HOSTS = 1000
"""Maximum number of hosts whose rules are remembered."""
GONE = (404, 410)
"""The statuses of HTTP with which a website says that there is no such page."""
NO_ADDRESS = getattr(socket, "EAI_NODATA", socket.EAI_NONAME)
"""The error of a host whose name exists, but has no address."""


class Page(TypedDict):
    """A page as it was read."""

    url: str  # that answered, after redirects
    status: int  # of HTTP
    retrieved: str  # the time in ISO form, UTC
    kind: str  # the media type
    sha256: str  # of the answer's bytes, in hexadecimal
    bytes: int
    title: str
    publisher: str
    published: str  # dates as the page states them; empty if it does not
    modified: str
    headings: list[str]  # those lines of the text that are headings
    text: str


async def read_web_page(url: str, *, respect_robots: bool, seconds: float = SECONDS) -> Page:
    """The main text of a page, a PDF or another document; a MootError says why it cannot be read."""
    # With ``respect_robots``, each address is requested only if the robots.txt of its host allows it. Subresources of
    # the page are never fetched.
    until = time.monotonic() + seconds
    allow: dict[str, Any] = {"allow": check_robots} if respect_robots else {}
    answer = await get(url, largest=LARGEST, seconds=seconds, **allow)
    if answer.status in GONE:
        raise WorldError(in_words(answer.status), kind="page_gone")
    if answer.status != 200:
        raise _unread(in_words(answer.status))
    retrieved = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        found = await asyncio.to_thread(_parse, answer, max(1.0, until - time.monotonic()))
    except UnreadableDocument as why:
        raise _unread(str(why)) from why
    text, headings = _text_of(found)
    if not text:
        raise _unread("it contains no text")
    return {
        "url": answer.url,
        "status": answer.status,
        "retrieved": retrieved,
        "kind": answer.kind,
        "sha256": hashlib.sha256(answer.content).hexdigest(),
        "bytes": len(answer.content),
        "title": clean(found["title"]),
        "publisher": clean(found["publisher"])[:200],
        "published": iso_date(found["published"]) or "" if found["published"] else "",
        "modified": iso_date(found["modified"]) or "" if found["modified"] else "",
        "headings": headings,
        "text": text,
    }


def is_gone(error: MootError) -> bool:
    """Whether a page could not be read because there is none: its website says so, or its host has no address."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, socket.gaierror):
        cause = cause.__cause__
    return error.kind == "page_gone" or (cause is not None and cause.errno in (socket.EAI_NONAME, NO_ADDRESS))


def _unread(why: str) -> WorldError:
    return WorldError(why, kind="page_not_read")


def _parse(answer: Answer, seconds: float) -> ParsedDocument:
    """Parses an answer in a child process, by way of a temporary file that only this user can read; blocking."""
    suffix = answer.suffix
    if not suffix:
        raise UnreadableDocument(f"it is {answer.kind or 'of an unknown kind'}, which is not supported")
    recoded = in_utf8(answer.content, answer.charset) if suffix in TEXTS and answer.charset else None
    with tempfile.TemporaryDirectory(prefix="moot-page-") as folder:
        file = Path(folder, f"page{suffix}")
        file.write_bytes(recoded or answer.content)
        if kind := kind_of(file):
            found = read_page(file, kind, seconds)
            if found["excerpt"]:
                raise UnreadableDocument(note_of(found | {"note": ""}))
            return found
        text = decode(file.read_bytes()).text
        return new_document([{"text": text, "heading": "", "page": 0}])


def _text_of(found: ParsedDocument) -> tuple[str, list[str]]:
    """A document's text, with each heading as a line above its part, at most `READ` characters; and the headings."""
    blocks: list[str] = []
    headings: dict[str, None] = {}
    last, size = "", 0
    for part in found["parts"]:
        heading, text = " ".join(clean(part["heading"]).split()), clean(part["text"])
        if heading and heading != last:
            blocks.append(heading)
            headings[heading] = None
        last = heading
        blocks.append(text)
        if (size := size + len(text) + len(heading)) > READ:
            break
    return clean("\n\n".join(filter(None, blocks))[:READ]), list(headings)


# --- robots.txt -------------------------------------------------------------------------------------------------------

_rules: OrderedDict[str, tuple[float, Any]] = OrderedDict()
"""The rules of hosts' files, with the time at which they are too old, by scheme, host and port."""


async def check_robots(url: str) -> None:
    """Raises a MootError if the robots.txt of an address's host forbids reading it, or cannot be read (RFC 9309)."""
    parts = urlsplit(url)
    host = f"{parts.scheme}://{parts.netloc}"
    until, rules = _rules.get(host, (0.0, None))
    if until < time.monotonic():
        key = (id(asyncio.get_running_loop()), host)
        if key not in _asked:
            _asked[key] = asyncio.ensure_future(_read_rules(host))
            _asked[key].add_done_callback(lambda task: (_asked.pop(key), task.cancelled() or task.exception()))
        rules = await asyncio.shield(_asked[key])
    if rules is not None and not rules.can_fetch(url, AGENT):
        raise _unread("the website's robots.txt forbids it")


_asked: dict[tuple[int, str], asyncio.Future[Any]] = {}
"""The requests for rules that run, by event loop and host; pages of one host share them."""


async def _read_rules(host: str) -> Any:
    """The rules of a host's robots.txt; None if it has none. Without an answer, nothing may be read."""
    try:
        answer = await get(host + ROBOTS, largest=LARGEST)
    except MootError as error:
        if error.kind in ("unreachable", "timeout"):
            raise  # so is the page
        raise _unread(f"its website's robots.txt cannot be read ({error.detail.rstrip('.')})") from error
    if answer.status >= 500 or answer.status == 429:
        raise _unread(f"its website's robots.txt cannot be read ({in_words(answer.status)})")
    text = answer.content[:LARGEST_ROBOTS].decode(errors="replace")  # empty if there is no such file
    rules = imported("protego").Protego.parse(text) if answer.status == 200 else None
    _rules[host] = time.monotonic() + ROBOTS_AGE, rules
    _rules.move_to_end(host)
    while len(_rules) > MOST_HOSTS:
        _rules.popitem(last=False)
    return rules


# --- from pages to evidence -------------------------------------------------------------------------------------------


def fault_of_date(piece: Evidence, page: Page | None, before: date | None) -> str:
    """Why a page must not be read in a debate about the time before a day; empty if it may.

    Safe is a page whose source gives a date before this day, and which itself states such a date, and no later change.
    Without a page, only the source's date is known.
    """
    if before is None:
        return ""
    if not _is_early(piece.get("published"), before):
        return "the search names no safe date"
    if page is None:
        return ""
    if not _is_early(page["published"], before):
        return f"it states the date {page['published']}" if page["published"] else "it states no date of its own"
    return f"it was changed on {page['modified']}" if is_late(page["modified"] or None, before) else ""


def _is_early(published: str | None, before: date) -> bool:
    """Whether a date is known, and before a day."""
    known = iso_date(published) if published else None
    return known is not None and last_day(known) is not None and not is_late(known, before)


def fault_of_length(piece: Evidence, page: Page) -> str:
    """Why a page must not replace what the search gave: it shows less, such as “Loading …”; empty if it may."""
    given = "snippet" if "snippet" in piece else "abstract"
    return f"it shows less text than the {given}" if words_in(page["text"]) < words_in(piece["text"]) else ""


def as_evidence(piece: Evidence, page: Page) -> Evidence:
    """A search result with its page's text instead of the snippet or abstract, and therefore with another id."""
    found: Evidence = {**piece, "text": page["text"], "id": evidence_id(piece["source"], page["text"])}
    for mark in ("snippet", "open_copy"):
        found.pop(mark, None)  # type: ignore[misc]
    found |= {"url": page["url"], "fetched": page["retrieved"], "sha256": page["sha256"]}
    if page["publisher"]:
        found["publisher"] = page["publisher"]
    if page["published"]:
        found.setdefault("published", page["published"])
    if piece["title"] == UNTITLED and page["title"]:
        found["title"] = page["title"]
    return found


def is_found_page(piece: Mapping[str, Any]) -> bool:
    """Whether a piece is a web page that was read because a search found it, not one that a user named."""
    used = {retrieval["retriever"].partition(":")[0] for retrieval in piece["retrievals"]}
    return bool(piece.get("fetched")) and used.isdisjoint((GIVEN, *CORPUS_SOURCES))


def passages(text: str, headings: Collection[str], query: str, most: int) -> list[list[int]] | None:
    """The parts of a page to show: those nearest to a query by their words (`ranks_by_words`), in the page's order.

    A passage is a sentence with one on each side, and the heading above. Together they have at most ``most`` tokens.
    None if the whole text is that short.
    """
    if is_short(text, most):
        return None
    sections: list[tuple[list[tuple[int, int]], list[tuple[int, int]]]] = [([], [])]
    start = 0
    for block in text.split("\n\n"):
        if block in headings:
            sections.append(([(start, start + len(block))], []))
        else:
            sections[-1][1].extend((start + a, start + b) for a, b in sentences(block, max(16, most // 4)))
        start += len(block) + 2
    own = [[*above, *spans[max(0, at - 1) : at + 2]] for above, spans in sections for at in range(len(spans))]
    ranks = ranks_by_words(query, [" ".join(text[a:b] for a, b in parts) for parts in own])
    chosen: dict[tuple[int, int], None] = {}
    room = most
    for _, parts in sorted(zip(ranks, own, strict=True), key=lambda pair: pair[0]):
        new = [part for part in parts if part not in chosen]
        if (cost := sum(count_tokens(text[a:b]) for a, b in new)) <= room:
            room -= cost
            chosen |= dict.fromkeys(new)
    return joined_spans(chosen, text)


def with_passages(piece: Evidence, page: Page, query: str, most: int) -> Evidence:
    """The piece of a page with its passages near a query marked as shown."""
    shown = passages(piece["text"], page["headings"], query, min(most, PAGE_TOKENS))
    found: Evidence = {**piece}
    found.pop("shown", None)
    return found if shown is None else {**found, "shown": shown}
