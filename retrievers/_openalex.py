"""OpenAlex: abstracts of scholarly works (https://docs.openalex.org/api-entities/works/search-works).

``OPENALEX_API_KEY`` (free, for more than a few searches a day) and ``OPENALEX_MAILTO`` are sent if they are set;
``OPENALEX_BASE_URL`` sets another address of the same API.
"""

from __future__ import annotations

import os

from moot.retrievers._web import Source, WebResult, WebRetriever, ask
from pydantic import BaseModel

FIELDS = "id,doi,display_name,publication_date,abstract_inverted_index"


class Work(BaseModel):
    """The fields of a work that we read. The abstract is given as an index from words to their positions."""

    id: str
    doi: str | None = None
    display_name: str | None = None
    publication_date: str | None = None
    abstract_inverted_index: dict[str, list[int]] | None = None


class Works(BaseModel):
    """The fields of an answer that we read."""

    results: list[Work]


def abstract_of(index: dict[str, list[int]]) -> str:
    """The text of an abstract from its index, which maps each word to its positions."""
    placed = sorted((place, word) for word, places in index.items() for place in places)
    return " ".join(word for _, word in placed)


class OpenAlexRetriever(WebRetriever):
    """Search for works with an abstract; each result is an abstract."""

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
        """The abstracts of the first works for a query."""
        until = f",to_publication_date:{self.last_day}" if self.last_day else ""
        wanted = {"search": query, "filter": f"has_abstract:true{until}", "per-page": str(k), "select": FIELDS}
        given = {"api_key": self.source.key(), "mailto": os.environ.get("OPENALEX_MAILTO", "")}
        params = wanted | {name: value for name, value in given.items() if value}
        works = await ask(self.source, self.limits, Works.model_validate_json, "/works", params=params)
        return [
            WebResult(
                abstract_of(work.abstract_inverted_index or {}),
                work.display_name or "",
                work.doi or work.id,
                work.doi or work.id,
                work.publication_date,
            )
            for work in works.results
        ]
