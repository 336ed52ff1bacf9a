"""Brave Search: web search (https://api-dashboard.search.brave.com/app/documentation/web-search/get-started).

``BRAVE_API_KEY`` is needed; ``BRAVE_BASE_URL`` sets another address of the same API.
"""

from __future__ import annotations

from html import unescape
from typing import Literal

from moot.retrievers._web import Source, WebResult, WebRetriever, ask
from pydantic import BaseModel

MOST_WORDS = 50
"""Maximum number of words of a query."""


class Result(BaseModel):
    """The fields that are read from a result; ``page_age`` is the date and time of the page."""

    url: str
    title: str = ""
    description: str = ""
    extra_snippets: list[str] = []
    page_age: str | None = None


class Web(BaseModel):
    """The part of an answer that holds the results."""

    results: list[Result] = []


class Failure(BaseModel):
    """The description of an error."""

    detail: str = "no reason given"


class Reply(BaseModel):
    """The fields that are read from an answer; without results, it has no ``web``."""

    type: Literal["search", "ErrorResponse"]
    web: Web = Web()
    error: Failure | None = None


class BraveRetriever(WebRetriever):
    """Searches the web with Brave's index; the text of each result is Brave's snippets of the page."""

    name = "brave"
    source = Source(
        "Brave Search",
        "https://api.search.brave.com",
        "BRAVE_BASE_URL",
        "BRAVE_API_KEY",
        meanings=(
            (403, "", "authentication"),
            (422, "subscription_token", "authentication"),
            (402, "", "quota"),
            (429, "quota_limited", "quota"),
        ),
    )
    gives_snippets = True
    needs_key = True
    reads_operators = True
    longest_query = 400
    most_results = 20

    async def find(self, query: str, k: int) -> list[WebResult]:
        """Brave's results, in Brave's order."""
        params = {"q": " ".join(query.split()[:MOST_WORDS]), "count": str(k), "text_decorations": "false"}
        if self.last_day:
            params["freshness"] = f"1900-01-01to{self.last_day}"
        headers = {"X-Subscription-Token": self.source.key(), "Accept": "application/json"}
        rows = await ask(self.source, self.limits, self._read, "/res/v1/web/search", params=params, headers=headers)
        return [
            WebResult(
                unescape(" ".join([row.description, *row.extra_snippets])),
                unescape(row.title),
                row.url,
                row.url,
                row.page_age,
            )
            for row in rows
        ]

    def _read(self, body: bytes) -> list[Result]:
        reply = Reply.model_validate_json(body)
        self.source.check_empty(reply.web.results, 0, reply.error and reply.error.detail)
        return reply.web.results
