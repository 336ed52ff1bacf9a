"""Tavily: web search (https://docs.tavily.com/documentation/api-reference/endpoint/search).

``TAVILY_API_KEY`` is needed; ``TAVILY_BASE_URL`` sets another address of the same API.
"""

from __future__ import annotations

from typing import Any

from moot.core.endpoint import create_once_in_thread
from moot.core.lazy import imported
from moot.retrievers._web import Source, WebResult, WebRetriever, call_within_limits, open_client
from pydantic import BaseModel, FiniteFloat


class Result(BaseModel):
    """The fields that are read from a result; ``content`` is an excerpt of the page."""

    url: str
    content: str
    title: str | None = None
    score: FiniteFloat | None = None
    published_date: str | None = None


class Reply(BaseModel):
    """The fields that are read from an answer of the API."""

    results: list[Result]
    error: Any = None


class TavilyRetriever(WebRetriever):
    """Searches the web with Tavily's own client; the text of each result is an excerpt of the page."""

    name = "tavily"
    source = Source(
        "Tavily",
        "https://api.tavily.com",
        "TAVILY_BASE_URL",
        "TAVILY_API_KEY",
        meanings=((403, "", "quota"), (432, "", "quota"), (433, "", "quota")),
    )
    gives_snippets = True
    needs_key = True
    longest_query = 400
    most_results = 20

    async def find(self, query: str, k: int) -> list[WebResult]:
        """Tavily's results with their scores."""
        # moot assumes that Tavily also finds pages of the day ``end_date``; Tavily's documentation contradicts itself.
        end = self.last_day.isoformat() if self.last_day else None
        named = self.sites.named()
        sites = {"include_domains": list(named.only) or None, "exclude_domains": list(named.never) or None}
        client = await self._client()

        async def call() -> Reply:
            try:
                found = await client.search(query, max_results=k, end_date=end, timeout=self.limits.timeout, **sites)
            except imported("tavily.errors").TimeoutError as error:
                raise TimeoutError from error
            reply = Reply.model_validate(found)
            self.source.check_empty(reply.results, 0, reply.error)
            return reply

        reply = await call_within_limits(self.source, self.limits, call)
        return [
            WebResult(row.content, row.title or "", row.url, row.url, row.published_date, row.score)
            for row in reply.results
        ]

    async def _client(self) -> Any:
        key, base_url = self.source.key(), self.source.address()
        # `Reply` must check each answer before Tavily's client, because this client replaces missing results with [].
        http = await open_client(self.source, Reply.model_validate_json)

        def make() -> Any:
            return imported("tavily").AsyncTavilyClient(key, api_base_url=base_url, client_source="moot", client=http)

        return await create_once_in_thread(("tavily", base_url, key), make)
