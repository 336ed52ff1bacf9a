"""OpenAlex: abstracts of scholarly works (https://docs.openalex.org/api-entities/works/search-works).

``OPENALEX_API_KEY`` and ``OPENALEX_MAILTO`` are sent if they are set. The key is free, and allows more searches a day.
``OPENALEX_BASE_URL`` sets another address of the same API.
"""

from __future__ import annotations

import os
from typing import Any

from moot.retrievers._web import Source, WebResult, WebRetriever, ask
from pydantic import BaseModel

FIELDS = "id,doi,display_name,publication_date,abstract_inverted_index,is_retracted,best_oa_location"


class Location(BaseModel):
    """The fields that are read from a place at which everyone can read a work."""

    pdf_url: str | None = None
    landing_page_url: str | None = None

    @property
    def address(self) -> str | None:
        """The address of the text or, if only that is known, of its page."""
        return self.pdf_url or self.landing_page_url


class Work(BaseModel):
    """The fields that are read from a work; ``abstract_inverted_index`` maps each word to its positions."""

    id: str
    doi: str | None = None
    display_name: str | None = None
    publication_date: str | None = None
    abstract_inverted_index: dict[str, list[int]] | None = None
    is_retracted: bool = False
    best_oa_location: Location | None = None


class Meta(BaseModel):
    """The field that is read from an answer's description: the number of all works that match."""

    count: int = 0


class Works(BaseModel):
    """The fields that are read from an answer of the API."""

    results: list[Work]
    meta: Meta = Meta()
    error: Any = None


def abstract_of(index: dict[str, list[int]]) -> str:
    """The text of an abstract; ``index`` maps each word to its positions."""
    placed = sorted((place, word) for word, places in index.items() for place in places)
    return " ".join(word for _, word in placed)


class OpenAlexRetriever(WebRetriever):
    """Searches for works that have an abstract, which is the text of the result."""

    name = "openalex"
    source = Source(
        "OpenAlex",
        "https://api.openalex.org",
        "OPENALEX_BASE_URL",
        "OPENALEX_API_KEY",
        meanings=((429, "insufficient budget", "quota"),),
    )
    longest_query = 300
    most_results = 100

    async def find(self, query: str, k: int) -> list[WebResult]:
        """The works that match a query best, with their abstracts."""
        until = f",to_publication_date:{self.last_day}" if self.last_day else ""
        required = {"search": query, "filter": f"has_abstract:true{until}", "per-page": str(k), "select": FIELDS}
        optional = {"api_key": self.source.key(), "mailto": os.environ.get("OPENALEX_MAILTO", "")}
        params = required | {name: value for name, value in optional.items() if value}
        works = await ask(self.source, self.limits, self._read, "/works", params=params)
        return [
            WebResult(
                abstract_of(work.abstract_inverted_index or {}),
                work.display_name or "",
                work.doi or work.id,
                work.doi or work.id,
                work.publication_date,
                retracted=work.id if work.is_retracted else None,
                open_copy=work.best_oa_location.address if work.best_oa_location else None,
            )
            for work in works
        ]

    def _read(self, body: bytes) -> list[Work]:
        works = Works.model_validate_json(body)
        self.source.check_empty(works.results, works.meta.count, works.error)
        return works.results
