"""OpenAlex: abstracts of scholarly works (https://docs.openalex.org/api-entities/works/search-works).

No key is needed; ``OPENALEX_API_KEY`` and ``OPENALEX_MAILTO`` are sent where they are set, ``OPENALEX_BASE_URL`` names
another address of the same API.
"""

from __future__ import annotations

import os
from typing import Any

from moot.retrievers.endpoint import (
    DEFAULT_LIMITS,
    Limits,
    check_address,
    made_in_thread,
    make_client,
    retry_after_seconds,
    with_retries,
)
from moot.retrievers.errors import MootError, UserError, WorldError, redact
from moot.retrievers.evidence import Evidence, clean, make_evidence
from moot.retrievers.lazy import imported
from pydantic import BaseModel, ValidationError

LONGEST_QUERY = 300
"""Characters of a query that are sent."""
LONGEST_ANSWER = 5_000_000
"""Bytes of an answer that are read."""
FIELDS = "id,doi,display_name,publication_date,abstract_inverted_index"


class Work(BaseModel):
    """A work as far as it is read. The abstract comes as the places of each of its words."""

    id: str
    doi: str | None = None
    display_name: str | None = None
    publication_date: str | None = None
    abstract_inverted_index: dict[str, list[int]] | None = None


class Works(BaseModel):
    """An answer as far as it is read."""

    results: list[Work]


def abstract_of(index: dict[str, list[int]]) -> str:
    """The text whose words stand at these places."""
    placed = sorted((place, word) for word, places in index.items() for place in places)
    return " ".join(word for _, word in placed)


class OpenAlexRetriever:
    """Search for works with an abstract; each piece is an abstract."""

    name = "openalex"

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._base_url = os.environ.get("OPENALEX_BASE_URL", "").strip() or "https://api.openalex.org"
        check_address(self._base_url, "OPENALEX_BASE_URL")
        self._limits = limits

    async def search(self, query: str, k: int) -> list[Evidence]:
        """The abstracts of the first ``k`` works for a query.

        Raises:
            UserError, WorldError: OpenAlex refused the search, or could not answer it.
        """
        query = clean(query)[:LONGEST_QUERY]
        if not query:
            return []
        given = {"api_key": os.environ.get("OPENALEX_API_KEY"), "mailto": os.environ.get("OPENALEX_MAILTO")}
        wanted = {"search": query, "filter": "has_abstract:true", "per-page": str(k), "select": FIELDS}
        client = await self._client()

        async def call() -> Works:
            try:
                return await self._get(client, wanted | {name: v for name, v in given.items() if v})
            except MootError:
                raise
            except Exception as error:
                raise _explain(error) from error

        works, _ = await with_retries(call, self._limits.attempts)
        pieces = [(w, clean(abstract_of(w.abstract_inverted_index or {}))) for w in works.results[:k]]
        return [
            make_evidence(
                text=text,
                title=work.display_name or "",
                source=work.doi or work.id,
                url=work.doi or work.id,
                published=work.publication_date,
                query=query,
                score=None,
                retriever=self.name,
            )
            for work, text in pieces
            if text
        ]

    async def _client(self) -> Any:
        def make() -> Any:
            return make_client(imported("httpx").AsyncClient, self._base_url, timeout=self._limits.timeout)

        return await made_in_thread(("http for openalex", self._base_url, self._limits.timeout), make)

    async def _get(self, client: Any, wanted: dict[str, str]) -> Works:
        async with client.stream("GET", f"{self._base_url.rstrip('/')}/works", params=wanted) as response:
            body = b""
            async for part in response.aiter_bytes():
                body += part
                if len(body) > LONGEST_ANSWER:
                    raise WorldError(
                        "OpenAlex sent more than can be read. Ask for fewer documents.", kind="bad_response"
                    )
        status, said = response.status_code, f": {redact(body[:200].decode(errors='replace'))}" if body else ""
        if status == 200:
            return Works.model_validate_json(body)
        if status == 401:
            raise UserError(
                f"OpenAlex refused the key (HTTP 401{said}). Check OPENALEX_API_KEY.", kind="authentication"
            )
        if status == 429 or status >= 500:
            raise WorldError(
                f"OpenAlex cannot answer at present (HTTP {status}{said}). Try again later.",
                kind="rate_limited" if status == 429 else "server_error",
                retryable=True,
                retry_after=retry_after_seconds(response.headers.get("retry-after")),
            )
        text = f"OpenAlex did not accept the search (HTTP {status}{said}). Check OPENALEX_BASE_URL and the query."
        raise WorldError(text, kind="search_refused")


def _explain(error: Exception) -> MootError:
    """An exception on the way to OpenAlex, as an error of ours that says what to do."""
    httpx = imported("httpx")
    if isinstance(error, httpx.TimeoutException):
        return WorldError("OpenAlex did not answer in time. Try again later.", kind="timeout", retryable=True)
    if isinstance(error, httpx.TransportError):
        why = str(error) or type(error).__name__
        text = f"OpenAlex could not be reached ({why}). Check the network and OPENALEX_BASE_URL."
        return WorldError(text, kind="unreachable", retryable=True)
    why = "it has another shape" if isinstance(error, ValidationError) else type(error).__name__
    text = f"OpenAlex sent an answer that cannot be read ({why}). Check OPENALEX_BASE_URL."
    return WorldError(text, kind="bad_response")
