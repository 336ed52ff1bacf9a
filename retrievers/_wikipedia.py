"""Wikipedia: whole articles in passages, from the Action API (https://www.mediawiki.org/wiki/API:Search).

No key is needed. The wiki is that of the claim's language, unless ``WIKIPEDIA_BASE_URL`` sets another wiki's root, e.g.
https://de.wikipedia.org; in it, ``{language}`` stands for the language's code. The User-Agent includes
``WIKIPEDIA_CONTACT``, an e-mail address or a page, if it is set
(https://foundation.wikimedia.org/wiki/Policy:User-Agent_policy).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from moot.core.endpoint import DEFAULT_LIMITS, Limits
from moot.retrievers._excerpts import ranks_by_words
from moot.retrievers._files import split_paragraph
from moot.retrievers._languages import DEFAULT
from moot.retrievers._web import Source, WebResult, WebRetriever, ask
from pydantic import BaseModel

COMMON = {
    "action": "query",
    "prop": "extracts|info",
    "explaintext": "1",
    "exsectionformat": "wiki",
    "inprop": "url",
    "format": "json",
    "formatversion": "2",
}
SEARCH = COMMON | {"generator": "search", "exintro": "1", "exlimit": "max", "redirects": "1"}
READ_WHOLE = 3
"""Number of articles that are read whole, each in a request of its own, as the API requires; of others, the first
section."""
LATER = 1.5
"""The second passage of an article comes after the first passage of the next ``LATER`` articles, and so on."""
HEADING = re.compile(r"^(={2,6})\s*(\S.*?)\s*\1\s*$", re.MULTILINE)


class Page(BaseModel):
    """The fields that are read from an article; ``index`` is the article's rank in a search."""

    pageid: int
    lastrevid: int
    title: str
    fullurl: str
    index: int = 0
    extract: str = ""

    def revision(self) -> str:
        """The address of the article as it was read."""
        return f"{self.fullurl}{'&' if '?' in self.fullurl else '?'}oldid={self.lastrevid}"


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


def sections(text: str) -> Iterator[tuple[str, str]]:
    """The sections of an article that have a text, each with its heading after those above it (`` > ``).

    >>> list(sections("Deep.\\n== Life ==\\n=== Fish ===\\nMany."))
    [('', 'Deep.'), ('Life > Fish', 'Many.')]
    """
    first, *rest = HEADING.split(text)
    path: list[str] = []
    for marks, heading, body in [("=", "", first), *zip(rest[::3], rest[1::3], rest[2::3], strict=True)]:
        path = [*path[: len(marks) - 2], heading] if heading else []
        if body.strip():
            yield " > ".join(path), body.strip()


def passages(page: Page, query: str) -> list[WebResult]:
    """The passages of an article, the nearest to the query first."""
    found = [(heading, text) for heading, body in sections(page.extract) for text in split_paragraph(body)]
    ranks = ranks_by_words(query, [f"{heading} {text}" for heading, text in found])
    ordered = [pair for _, pair in sorted(zip(ranks, found, strict=True))]
    return [
        WebResult(
            text, f"{page.title}: {heading}" if heading else page.title, page.fullurl, page.revision(), heading=heading
        )
        for heading, text in ordered
    ]


class WikipediaRetriever(WebRetriever):
    """Searches for articles in a language; the results are the passages of the first articles nearest to the query."""

    name = "wikipedia"
    source = Source(
        "Wikipedia",
        "https://{language}.wikipedia.org",
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

    def __init__(
        self, limits: Limits = DEFAULT_LIMITS, published_before: str | None = None, language: str = DEFAULT
    ) -> None:
        self.source = replace(self.source, language=language)
        super().__init__(limits, published_before)

    async def find(self, query: str, k: int) -> list[WebResult]:
        """Passages of the articles that match a query best."""
        found = await self._pages(SEARCH | {"gsrsearch": query, "gsrlimit": str(k)})
        ranked = sorted(found, key=lambda page: page.index)
        # One after the other, as the wiki asks of programs (https://www.mediawiki.org/wiki/API:Etiquette)
        whole = [
            page for one in ranked[:READ_WHOLE] for page in await self._pages(COMMON | {"pageids": str(one.pageid)})
        ]
        placed = [
            (article + LATER * place, article, result)
            for article, page in enumerate([*whole, *ranked[READ_WHOLE:]])
            for place, result in enumerate(passages(page, query))
        ]
        return [result for *_, result in sorted(placed, key=lambda one: one[:2])]

    async def _pages(self, params: dict[str, str]) -> list[Page]:
        return await ask(self.source, self.limits, self._read, "/w/api.php", params=params)

    def _read(self, body: bytes) -> list[Page]:
        """Parses an answer; ValueError if it cannot be read, MootError if it reports an error."""
        reply = Reply.model_validate_json(body)
        if reply.error:
            raise self.source.refusal(200, f"{reply.error.code}: {reply.error.info}")
        if reply.query is None and reply.batchcomplete is None:
            raise ValueError("it has neither results nor an error")
        pages = reply.query.pages if reply.query else []
        self.source.check_empty(pages, 0, reply.warnings.get("search"))
        return pages
