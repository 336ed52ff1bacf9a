"""Wikipedia: the first section of articles, from the Action API (https://www.mediawiki.org/wiki/API:Search).

No key is needed. ``WIKIPEDIA_BASE_URL`` sets another wiki's root, e.g. https://de.wikipedia.org. The
User-Agent includes ``WIKIPEDIA_CONTACT``, an e-mail address or a page, if it is set
(https://foundation.wikimedia.org/wiki/Policy:User-Agent_policy).
"""

from __future__ import annotations

from typing import Any

from moot.retrievers._web import Source, WebResult, WebRetriever, ask
from pydantic import BaseModel

SEARCH = {
    "action": "query",
    "generator": "search",
    "prop": "extracts|info",
    "exintro": "1",
    "explaintext": "1",
    "exlimit": "max",
    "inprop": "url",
    "redirects": "1",
    "format": "json",
    "formatversion": "2",
}


class Page(BaseModel):
    """The fields that are read from an article; ``index`` is the article's rank."""

    title: str
    index: int
    fullurl: str
    extract: str = ""


class Query(BaseModel):
    """The part of an answer that holds the articles."""

    pages: list[Page]


class Failure(BaseModel):
    """An error, which comes with HTTP status 200 (https://www.mediawiki.org/wiki/API:Errors_and_warnings)."""

    code: str
    info: str = ""


class Reply(BaseModel):
    """The fields that are read from an answer; an answer without results has only ``batchcomplete``."""

    error: Failure | None = None
    warnings: dict[str, Any] = {}
    query: Query | None = None
    batchcomplete: bool | None = None


class WikipediaRetriever(WebRetriever):
    """Searches for articles; the text of each result is an article's first section."""

    name = "wikipedia"
    source = Source(
        "Wikipedia",
        "https://en.wikipedia.org",
        "WIKIPEDIA_BASE_URL",
        contact_variable="WIKIPEDIA_CONTACT",
        meanings=(
            (200, "ratelimited", "rate_limited"),
            (200, "maxlag", "server_error"),
            (200, "too-busy", "server_error"),
            (200, "internal_api_error", "server_error"),
        ),
    )
    longest_query = 300
    most_results = 20

    async def find(self, query: str, k: int) -> list[WebResult]:
        """The articles that match a query best, with their first sections."""
        params = SEARCH | {"gsrsearch": query, "gsrlimit": str(k)}
        pages = await ask(self.source, self.limits, self._read, "/w/api.php", params=params)
        return [WebResult(page.extract, page.title, page.fullurl, page.fullurl) for page in pages]

    def _read(self, body: bytes) -> list[Page]:
        """Parses an answer; ValueError if it cannot be read, MootError if it reports an error."""
        reply = Reply.model_validate_json(body)
        if reply.error:
            raise self.source.refusal(200, f"{reply.error.code}: {reply.error.info}")
        if reply.query is None and reply.batchcomplete is None:
            raise ValueError("it has neither results nor an error")
        pages = reply.query.pages if reply.query else []
        self.source.check_empty(pages, 0, reply.warnings.get("search"))
        return sorted(pages, key=lambda page: page.index)
