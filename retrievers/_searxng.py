"""SearXNG: a search engine of one's own (https://docs.searxng.org/dev/search_api.html).

``SEARXNG_BASE_URL`` is the address of an instance that answers in JSON. No key is needed.
"""

from __future__ import annotations

from html import unescape

from moot.core.errors import UserError
from moot.retrievers._web import Source, WebResult, WebRetriever, ask
from pydantic import BaseModel, FiniteFloat


class Result(BaseModel):
    """The fields that are read from a result; ``content`` is the snippet of an engine."""

    url: str
    title: str | None = None
    content: str | None = None
    publishedDate: str | None = None  # noqa: N815 - SearXNG's own name
    score: FiniteFloat | None = None


class Reply(BaseModel):
    """The fields that are read from an answer; each engine that failed is there with the reason."""

    results: list[Result]
    unresponsive_engines: list[list[str]] = []


class SearxngRetriever(WebRetriever):
    """Searches the web with the engines of a SearXNG instance; the text of each result is an engine's snippet."""

    name = "searxng"
    source = Source(
        "SearXNG",
        "",
        "SEARXNG_BASE_URL",
        remedies=(
            (403, "Add `json` to `formats` under `search` in its settings.yml, and restart it."),
            (429, "If it is yours, set `limiter: false` under `server` in its settings.yml, and restart it."),
        ),
    )
    gives_snippets = True
    reads_operators = True
    longest_query = 400
    most_results = 20

    @classmethod
    def is_set_up(cls) -> bool:
        """Whether the address is set."""
        return bool(cls.source.own_address())

    @classmethod
    def not_set_up(cls) -> UserError:
        """The error that the address is not set."""
        return UserError(
            "SEARXNG_BASE_URL is not set, so SearXNG cannot be searched. Set the address of your own: "
            "export SEARXNG_BASE_URL=http://127.0.0.1:8888. Or search `wikipedia`, which needs none.",
            kind="missing_key",
        )

    async def find(self, query: str, k: int) -> list[WebResult]:
        """The first page of results, in the order of SearXNG, which takes neither a number nor a last day."""
        params = {"q": query, "format": "json", "pageno": "1"}
        rows = await ask(self.source, self.limits, self._read, "/search", params=params)
        return [
            WebResult(unescape(row.content or ""), row.title or "", row.url, row.url, row.publishedDate, row.score)
            for row in rows
        ]

    def _read(self, body: bytes) -> list[Result]:
        reply = Reply.model_validate_json(body)
        failed = ", ".join(": ".join(engine) for engine in reply.unresponsive_engines)
        self.source.check_empty(reply.results, 0, failed and f"its engines did not answer: {failed}")
        return reply.results
