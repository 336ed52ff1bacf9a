"""Looking again: reads the pages that a check cites once more, says what changed, and debates a check anew.

What a page was like on the day of the check is in its document: its text, the hash of its bytes, and the quotes. Pages
are read as a debate reads them (`moot.retrievers._pages`): within limits, never in private networks, and never from the
store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid5

from moot.core.callers import program_in
from moot.core.config import value_of
from moot.core.errors import MootError, UserError, WorldError
from moot.core.fingerprints import new_id
from moot.core.reviews import Entry, Finding, Found, add_entry, due, history_of
from moot.core.store import open_store
from moot.core.words import count_with_noun
from moot.nodes._records.entries import ORIGIN
from moot.nodes._texts.given import GivenText
from moot.nodes._texts.given_files import read_given
from moot.nodes._texts.quotes import find_quote
from moot.nodes._texts.task import TASKS
from moot.nodes._texts.verdict import verdict_citations
from moot.retrievers._archives import is_url
from moot.retrievers._documents.placeholders import words_in
from moot.retrievers._evidence import GIVEN, Evidence
from moot.retrievers._excerpts import sentences
from moot.retrievers._pages import Page, is_found_page, is_gone, read_web_page
from moot.retrievers._retractions import BY_TITLE, RetractionNotices, doi_of, with_titles
from moot.transcript.document import checked_parts, settings_of
from moot.transcript.report.sources import sources_of, title_of, web_address
from moot.web import debates
from moot.web.caller import caller_client, has_auth
from moot.web.expected import expected, given_bytes
from moot.web.kept import Document, current_user
from moot.web.repeats import words_of
from moot.web.table import THREADS, RunRequest, find_debate, start, visible_threads
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

AT_ONCE = 10
"""Maximum number of pages of a check that are read at once."""
MOST_PAGES = 100
"""Maximum number of pages of a check that are read again."""
CHANGED: tuple[Found, ...] = ("passage_gone", "page_gone", "retracted")
"""What must have become of a quote that decides, so that its check is debated anew."""
NEAR = 0.5
"""The smallest share of the words of a quote that is gone that a sentence in its place has."""
LONGEST_NOW = 500
"""Maximum number of characters of that sentence."""
SUMMARISED = "The model quoted a summary of the page, whose text has changed."
FOUND: dict[Found, str] = {
    "unchanged": "unchanged",
    "text_changed": "the page has changed, the quote is still there",
    "passage_gone": "the quote is not on the page any more",
    "page_gone": "the page is gone",
    "retracted": "the work was retracted",
    "not_read": "could not be read, so nothing is known",
}
"""What became of a quote, in words."""


@dataclass(frozen=True)
class Cited:
    """A quote that its source contains, and whether the verdict cites it."""

    piece: Evidence
    quote: str
    decides: bool


@dataclass(frozen=True)
class Looked:
    """What looking again at a check found.

    Args:
        findings: what became of each quote from a web page.
        unread: the number of quotes that are from no web page.
        fault: why it is not known which works were retracted; empty if it is known.
    """

    findings: tuple[Finding, ...]
    unread: int = 0
    fault: str = ""

    @property
    def changed(self) -> list[Finding]:
        """The findings for which the check is to be debated anew."""
        return changed(self.findings)

    @property
    def is_complete(self) -> bool:
        """Whether it is known what became of every page."""
        return not self.fault and all(one.found != "not_read" for one in self.findings)


def changed(findings: Iterable[Finding]) -> list[Finding]:
    """Those findings for which a check is to be debated anew: a quote that decides is gone, or counts no more."""
    return [one for one in findings if one.decides and (one.found in CHANGED or one.detail == SUMMARISED)]


def latest(stem: str) -> tuple[str, Document]:
    """The id and the document of the newest finished version of a check; blocking."""
    document = debates.load(stem)
    for id in reversed(debates.versions(debates.check_of(stem))):
        newest = document if id == stem else debates.load(id)
        if newest["status"] == "done":
            return id, newest
    raise UserError("This check has not ended, so there is nothing to look at again.", kind="bad_request")


def cited(document: Mapping[str, Any]) -> list[Cited]:
    """The quotes of a check that their sources contain, each once, in the order of the report's sources."""
    with checked_parts():
        pieces = {piece["id"]: piece for piece in document["evidence"]}
        spans: dict[tuple[str, int, int], bool] = {}
        deciding = {(c["evidence_id"], c["start"], c["end"]) for c in verdict_citations(dict(document))}
        for turn in document["turns"]:
            for c in turn.get("citations") or []:
                if c["verified"] and c["evidence_id"] in pieces:
                    span = (c["evidence_id"], c["start"], c["end"])
                    spans[span] = span in deciding
        numbers = sources_of(document).numbers
        ordered = sorted(spans, key=lambda span: (numbers[span[0]], span[1:]))
        return [Cited(pieces[id], pieces[id]["text"][start:end], spans[id, start, end]) for id, start, end in ordered]


def addresses(quotes: Iterable[Cited]) -> list[str]:
    """The web pages that quotes are from, each once."""
    urls = (one.piece.get("url", "") for one in quotes)
    return list(dict.fromkeys(url for url in urls if is_url(url)))


# --- reading again ----------------------------------------------------------------------------------------------------


async def look(document: Mapping[str, Any]) -> Looked:
    """Reads the pages that a check cites again, and compares them with what the check's document keeps of them."""
    quotes = cited(document)
    urls = addresses(quotes)
    turn = asyncio.Semaphore(AT_ONCE)
    settings = document["settings"]
    named = {one.piece["url"] for one in quotes if one.piece.get("url") and not is_found_page(one.piece)}

    async def read(url: str) -> Page | MootError:
        async with turn:
            try:
                return await read_web_page(
                    url, respect_robots=settings.get("respect_robots") is not False and url not in named
                )
            except MootError as error:
                if error.kind == "invalid_environment":
                    raise
                return error

    notices, fault = await _notices([one.piece for one in quotes], asks=bool(settings.get("check_retractions")))
    some = urls[:MOST_PAGES]
    pages = _if_online(dict(zip(some, await asyncio.gather(*map(read, some)), strict=True)))
    from_web = [one for one in quotes if one.piece.get("url", "") in urls or doi_of(one.piece) in notices]
    compared = [
        asyncio.to_thread(_compare, one, pages.get(one.piece.get("url", "")), notices.get(doi_of(one.piece), ""))
        for one in from_web
    ]
    return Looked(tuple(await asyncio.gather(*compared)), len(quotes) - len(from_web), fault)


def _if_online(pages: dict[str, Page | MootError]) -> dict[str, Page | MootError]:
    """The pages; if no host answered, none counts as gone: without a network, some systems find no host at all."""
    kinds = [page.kind if isinstance(page, MootError) else "" for page in pages.values()]
    if any(kind in ("", "page_gone", "page_not_read") for kind in kinds):
        return pages
    return {
        url: WorldError(str(page.detail), kind="offline") for url, page in pages.items() if isinstance(page, MootError)
    }


async def _notices(pieces: Sequence[Evidence], *, asks: bool) -> tuple[dict[str, str], str]:
    """The notices of retraction of works that were not known to be retracted, by DOI; and why they are not known."""
    dois = sorted({doi_of(piece) for piece in pieces if "retracted" not in piece} - {""})
    if not (dois and asks):
        return {}, ""
    try:
        found = await RetractionNotices().search(" ".join(dois), len(dois))
    except MootError as error:
        return {}, f"{error.detail} Whether these works were retracted is not known: {', '.join(dois)}."
    return {notice["source"]: notice.get("url", "") for notice in found}, ""


def _compare(one: Cited, page: Page | MootError | None, notice: str) -> Finding:
    """What became of a quote; blocking."""
    piece, url = one.piece, one.piece.get("url", "")

    def finding(found: Found, detail: str = "", now: str = "") -> Finding:
        sha256 = page["sha256"] if isinstance(page, dict) else ""
        about: Any = {"passage": piece["id"], "quote": one.quote[:10_000], "decides": one.decides}
        return Finding(**about, found=found, detail=detail[:1000], now=now, sha256=sha256)

    if notice:
        return finding("retracted", f"The notice: {notice}")
    if page is None:
        return finding("not_read", f"At most {MOST_PAGES} pages of a check are read again.")
    if isinstance(page, MootError):
        why = page.detail.removeprefix(url).strip()
        return finding("page_gone" if is_gone(page) else "not_read", f"{why[:1].upper()}{why[1:]}")
    [titled] = with_titles([{**piece, "title": page["title"]}])
    if titled.get("retracted") == BY_TITLE and "retracted" not in piece:
        return finding("retracted", f"Its page says so: {page['title']}")
    kept = piece.get("summary_of", piece["text"])
    if page["sha256"] == piece.get("sha256") or (is_found_page(piece) and page["text"] == kept):
        return finding("unchanged")
    if "summary_of" in piece:
        return finding("text_changed", SUMMARISED)
    if find_quote(one.quote, page["text"]) is not None:
        return finding("text_changed" if piece.get("fetched") else "unchanged")
    if not piece.get("fetched"):
        why = "The check had a search's text of it, not the page, and the quote is not on the page."
        return finding("not_read", why)
    if words_in(page["text"]) < words_in(one.quote):
        return finding("not_read", "The page shows less text than the quote has.")
    moved = "" if page["url"] == url else f"The address now leads to {page['url']}."
    return finding("passage_gone", moved, _nearest(one.quote, page["text"]))


def _nearest(quote: str, text: str) -> str:
    """The sentence of a text with the most words of a quote; empty if there is none that is near."""
    parts, wanted = [" ".join(text[start:end].split()) for start, end in sentences(text)], words_of(quote)
    shares = [len(wanted & words_of(part)) / len(wanted) for part in parts]
    best = max(shares, default=0.0)
    return parts[shares.index(best)][:LONGEST_NOW] if best >= NEAR else ""


# --- the history ------------------------------------------------------------------------------------------------------


def record(
    stem: str, document: Mapping[str, Any], looked: Looked, person: str, *, next_day: str | None = None
) -> Entry:
    """Adds what looking again found to the history of a check; blocking.

    The check is no longer due if everything is known and nothing must be debated anew; ``next_day`` is the next day.
    """
    change: dict[str, Any] = {"note": summary(looked, sources_of(document).numbers), "found": looked.findings}
    if next_day:
        change["look_again"] = next_day
    elif looked.is_complete and not looked.changed:
        change |= _no_longer_due(stem)
    return _add(stem, change, person)


def record_version(
    stem: str, document: Mapping[str, Any], debate: str, person: str, verdict: str | None = None
) -> None:
    """Adds to the history of a check that it is debated anew, and with which ``verdict`` if it has ended; blocking."""
    change: dict[str, Any] = {"version": debate, "note": "A new debate of the check has begun."}
    if verdict is not None:
        change |= {"note": f"Debated anew: {verdict} (was: {document['answer']}).", **_no_longer_due(stem)}
    _add(stem, change, person)


def _no_longer_due(stem: str) -> dict[str, None]:
    """The change that takes away the day to look again if it has come; a later one stays."""
    last = history_of(open_store(), debates.check_of(stem)).last
    is_due = last and last.look_again and last.look_again <= datetime.now(UTC).date()
    return {"look_again": None} if is_due else {}


def _add(stem: str, change: Mapping[str, Any], person: str) -> Entry:
    about: Any = {"debate": debates.check_of(stem), "document": stem, "person": person}
    return add_entry(open_store(), "recheck", change, **about)[-1]


def summary(looked: Looked, numbers: Mapping[str, int]) -> str:
    """What looking again found, in sentences: "Read the 2 cited pages again. [1]: unchanged." and so on."""
    said: dict[str, list[str]] = {}
    for one in looked.findings:
        said.setdefault(FOUND[one.found], []).append(f"[{numbers.get(one.passage, '?')}]")
    parts = [f"{', '.join(dict.fromkeys(places))}: {words}" for words, places in said.items()]
    read = f"Looked again at {count_with_noun(len(looked.findings), 'quote')} from web pages."
    return " ".join(filter(None, (read, f"{'; '.join(parts)}." if parts else "", looked.fault)))


# --- debating anew ----------------------------------------------------------------------------------------------------


def input_anew(stem: str, document: Document, findings: Collection[Finding]) -> dict[str, Any]:
    """The input of a new debate of a check: that of the check, with given web pages as they are now; blocking."""
    run = open_store().run(stem[-32:])
    if run and (run.settings != document["settings"] or run.person != current_user.get()):
        run = None  # a document from outside with the id of a check that was made here
    if run is None and (program := program_in(document["settings"])):
        raise UserError(
            f"This check was not made here, and its settings name a program of its own ({program[:80]}), which is not "
            "run. Check the claim with settings of your own: `moot verify`.",
            kind="bad_request",
        )
    found: dict[str, Any] = {**run.input, "claim": document["claim"]} if run else _input_of(document)
    found.pop("messages", None)
    became = {one.passage: one.found for one in findings}
    pieces = {piece.get("url"): became[piece["id"]] for piece in document["evidence"] if piece["id"] in became}
    found["given"] = _given_now(found.get("given") or [], pieces)
    return found


def _input_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """The input of a check whose run is not stored here."""
    with checked_parts():
        task = document["task"]
        found: dict[str, Any] = {"claim": document["claim"], "task": task["name"]}
        found |= {key: task[key] for key in ORIGIN if key in task}
        if task["name"] == "labels":
            found["labels"] = {label: task["meanings"].get(label, "") for label in task["labels"]}
        elif (known := TASKS.get(task["name"])) and known.kind == "choice":
            found["options"] = [*task["meanings"].values()]
        given = [
            {key: piece[key] for key in GivenText.__annotations__ if piece.get(key)}
            for piece in document["evidence"]
            if any(one["retriever"] == GIVEN and one.get("agent") == GIVEN for one in piece["retrievals"])
        ]
        return found | {"given": given}


def _given_now(given: Sequence[Any], became: Mapping[str | None, Found]) -> list[Any]:
    """Given texts, those from web pages that changed as they are now, and without those from pages that are gone."""
    now: list[Any] = []
    read: set[str] = set()
    for text in given:
        url = text.get("url") if isinstance(text, dict) and text.get("fetched") else None
        found = became.get(url)
        if url is None or found in (None, "unchanged", "not_read", "retracted"):
            now.append(text)
        elif found != "page_gone" and url not in read:
            read.add(url)
            now += read_given(url)
    return now


# --- requests of the page ---------------------------------------------------------------------------------------------


async def look_again(request: Request) -> Any:
    """Looks at a check again, adds it to the history, and returns what was found; no model is asked.

    ``expected`` says what it takes to debate the check anew; it is empty if nothing decisive changed.
    """
    stem, document = await _newest(request)
    looked = await look(document)
    await run_in_threadpool(record, stem, document, looked, person_here())
    return await run_in_threadpool(_told, document, looked)


def _told(document: Document, looked: Looked) -> dict[str, Any]:
    sources = sources_of(document)
    found = [
        {
            **one.model_dump(),
            "source": sources.numbers[one.passage],
            "title": title_of(sources.pieces[one.passage]),
            "url": web_address(sources.pieces[one.passage].get("url")),
        }
        for one in looked.findings
    ]
    words = ""
    if looked.changed:
        size = given_bytes(piece for piece in document["evidence"] if piece["source"] == GIVEN)
        settings = settings_of(document)
        words = expected(document["graph"], settings, size, reads_store=not has_auth()).in_words()
    told = {"findings": found, "unread": looked.unread, "fault": looked.fault}
    return {**told, "changed": bool(looked.changed), "expected": words}


async def debate_anew(request: Request) -> Any:
    """Begins to debate a check anew, after looking again has found that it must be; returns its thread and its run."""
    stem, document = await _newest(request)
    findings = await run_in_threadpool(_to_debate, stem)
    given = await run_in_threadpool(input_anew, stem, document, findings)
    debate, client = new_id(), caller_client(request.scope)
    asked = RunRequest(debate=debate, replaces=stem)
    begun = await start(str(uuid5(THREADS, debate)), document["graph"], given, document["settings"], asked, client)
    await run_in_threadpool(record_version, stem, document, debate, person_here())
    return begun


def _to_debate(stem: str) -> tuple[Finding, ...]:
    """What looking again last found, if the check is to be debated anew because of it; blocking."""
    if not debates.is_mine(stem):
        raise UserError("Only the user who made this check can debate it anew.", kind="not_allowed")
    looks = [one for one in history_of(open_store(), debates.check_of(stem)) if one.action == "recheck"]
    last = looks[-1] if looks else None
    if last and last.version and last.document == stem:
        raise UserError(f"This check is debated anew already: {last.version}.", kind="bad_request")
    if last is None or last.document != stem or not changed(last.found):
        raise UserError(
            "Look at this check again first: it is debated anew only if a passage that decides has changed.",
            kind="bad_request",
        )
    return last.found


async def _newest(request: Request) -> tuple[str, Document]:
    stem, _ = await find_debate(request.path_params["id"], caller_client(request.scope))
    if stem is None:
        raise UserError("This debate has no document yet.", kind="missing_file")
    return await run_in_threadpool(latest, stem)


async def due_checks(request: Request) -> Any:
    """The checks to look at again by today, earliest first, each with its newest document, its claim and the day.

    The day is None if the history was changed by hand.
    """
    return {"due": await run_in_threadpool(_due, await visible_threads(caller_client(request.scope)))}


def _due(threads: set[str] | None) -> list[dict[str, Any]]:
    """As `due_checks`, of checks on these threads if they are given; blocking."""
    histories = due(open_store(), datetime.now(UTC).date())
    placed = {one.id: one.thread for one in debates.listed()} if threads is not None and histories else {}
    found = [(stem, history) for check, history in histories.items() for stem in debates.versions(check)[-1:]]
    return [
        {
            "id": stem,
            "claim": debates.entry(stem)["claim"],
            "day": None if isinstance(history, UserError) else str(history[-1].look_again),
        }
        for stem, history in found
        if threads is None or placed.get(stem) in threads
    ]


def person_here() -> str:
    """Who looks again: the user of a service, or the editor of the configuration."""
    return current_user.get() or value_of("editor") or "moot"
