"""Reading the pages that searches found: their text replaces the search engine's snippet, or a work's abstract."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from moot.core.errors import BudgetExhausted, MootError
from moot.nodes._models.parallel import all_at_once
from moot.nodes._runtime.ceilings import in_time
from moot.nodes._runtime.node import NodeContext
from moot.retrievers import Evidence
from moot.retrievers._gather import most_online
from moot.retrievers._normalise import Rules, normalise, origins_of
from moot.retrievers._pages import PAGE_TOKENS, Page, as_evidence, fault_of_date, fault_of_length
from moot.retrievers._search import SCHOLARLY, WEB, resolve


def marked(pieces: Sequence[Evidence], source: object, settings: object) -> list[Evidence]:
    """A source's results; those whose pages are to be read are marked as snippets until they are."""
    if not (getattr(settings, "read_pages", False) and getattr(source, "gives_snippets", False)):
        return [*pieces]
    return [{**piece, "snippet": True} if piece.get("url") else piece for piece in pieces]


async def read_found(
    found: Sequence[Sequence[Evidence]], rules: Rules, retrieved: datetime, claim_page: str, run: NodeContext
) -> list[list[Evidence]]:
    """The results of one or more sources, with the texts of the pages of those that may be chosen (`best_results`).

    All pages are read at once, also of results beyond the first ``k``, because a page may turn out to be a copy of
    another one, or too late; and the claim's own page, for `read_claim_page`. What cannot be read stays a snippet,
    and `warn_of_unread` says why.
    """
    if claim_page and run.settings.read_pages:
        _begin(claim_page, run)
    if not any(_address(piece, run) for pieces in found for piece in pieces):
        return [*map(list, found)]
    most = replace(rules, k=most_online(rules.k, are_sifted=rules.are_sifted))
    places = [place["source"] for piece in normalise(found, most, retrieved) for place in origins_of(piece)]
    wanted = [piece for pieces in found for piece in pieces if _address(piece, run) and piece["source"] in places]
    read = dict(zip((p["id"] for p in wanted), await all_at_once(_read(p, run) for p in wanted), strict=True))
    return [[_with_page(piece, read.get(piece["id"]), run) for piece in pieces] for pieces in found]


def warn_of_unread(chosen: Iterable[Evidence], run: NodeContext) -> None:
    """Warns of results that are shown as snippets or abstracts, with the reason for each page."""
    faults = run.session.pages.faults
    unread: dict[str, list[str]] = {"the search engine's snippet": [], "the abstract": []}
    for piece in chosen:
        if url := _address(piece, run):
            shown = "the search engine's snippet" if "snippet" in piece else "the abstract"
            unread[shown].append(f"{url} ({faults.get(url, 'too far down')})")
    for shown, pages in unread.items():
        if pages:
            run.record.warn("pages_not_read", f"Not read, so only {shown} is shown: {'; '.join(pages)}.")


def _address(piece: Evidence, run: NodeContext) -> str:
    """The address at which a result's whole text is to be read; empty if it is not."""
    if "snippet" in piece:
        return piece["url"]
    return piece.get("open_copy", "") if run.settings.read_pages else ""


async def _read(piece: Evidence, run: NodeContext) -> Page | None:
    """The page of a search result, also if it must not be shown; None if it cannot be read."""
    url, before = _address(piece, run), run.settings.published_before
    page: Page | str = fault_of_date(piece, None, before) or await _page_at(url, run)
    if isinstance(page, str):
        run.session.pages.faults[url] = page
        return None
    run.session.pages.faults[url] = fault_of_date(piece, page, before) or fault_of_length(piece, page)
    return page


async def _page_at(url: str, run: NodeContext) -> Page | str:
    """The page at an address, or why it cannot be read."""
    try:
        page = await in_time(_begin(url, run), "page")
    except BudgetExhausted as error:
        page = error
    return page.detail.removeprefix(url).strip().rstrip(".") if isinstance(page, MootError) else page


def _begin(url: str, run: NodeContext) -> asyncio.Future[Page | MootError]:
    return run.session.pages.read(url, run.session.replies, respect_robots=run.settings.respect_robots)


async def read_claim_page(url: str, run: NodeContext) -> tuple[list[str], str]:
    """The addresses of the page on which the claim appeared, and its text, which is empty if it is not read."""
    if not run.settings.read_pages:
        return [url], ""
    page = await _page_at(url, run)
    if isinstance(page, str):
        run.record.warn(
            "claim_page_not_read",
            f"The page on which the claim appeared was not read, so copies of it may be evidence: {url} ({page}).",
        )
        return [url], ""
    return [url, page["url"]], page["text"]


def _with_page(piece: Evidence, page: Page | None, run: NodeContext) -> Evidence:
    """The piece with its page's text; of a page that must not be shown, only the date, which may exclude the piece."""
    if page is None:
        return piece
    if run.session.pages.faults[_address(piece, run)]:
        return {**piece, "published": page["published"]} if page["published"] else piece
    read = as_evidence(piece, page)
    run.session.pages.pages[read["id"]] = page
    return read


def cost_of_reading(settings: Any, sources: Iterable[str]) -> str:
    """What a debate with these sources reads, and what this adds to its prompts, in a sentence; empty for nothing."""
    kinds = {name: resolve(name, settings.corpus)[0] for name in sources}
    # Objects of LangChain are left out: whether they are search tools is only known once they are imported.
    tools = [name for name, kind in kinds.items() if kind == "mcp"]
    reads = {kind for kind in kinds.values() if kind in SCHOLARLY or (kind in WEB and WEB[kind].gives_snippets)}
    named = [*(kind for kind in dict.fromkeys(kinds.values()) if kind in reads), *tools]
    if not named or not getattr(settings, "read_pages", False):
        return ""
    most = settings.k * min(PAGE_TOKENS, settings.max_evidence_tokens)
    return (
        f"for each search in {' and '.join(named)}, up to {most_online(settings.k)} pages are fetched and read, and "
        f"prompts have up to {most:,} tokens of them; read_pages=false leaves it at what the search gives."
    )


def page_of(piece: Evidence, run: NodeContext) -> Page | None:
    """The page whose text a piece is; None if it was not read in this run."""
    return run.session.pages.pages.get(piece["id"])
