"""Sources without an index: `shelf` finds two of four texts, `down` fails, and `silent` never answers.

`unsteady` is a shelf that fails in chosen searches.
"""

from __future__ import annotations

import asyncio
from typing import Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

TEXTS = (
    "The platypus lays eggs, as do the four species of echidna.",
    "Monotremes are mammals; they feed their young with milk.",
    "The bill of the platypus senses electric fields under water.",
    "A platypus was first described in 1799 by George Shaw.",
)


class Shelf(BaseRetriever):
    """A source that finds two texts; the query decides which."""

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        first = sum(map(ord, query)) % len(TEXTS)
        found = TEXTS[first], TEXTS[(first + 1) % len(TEXTS)]
        return [Document(text, metadata={"title": text[:20], "source": "Shelf"}) for text in found]


class Down(Shelf):
    """A source that fails."""

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        raise ConnectionError("the source is down")


class Silent(Shelf):
    """A source that never answers an asynchronous search."""

    async def _aget_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")


class Unsteady(Shelf):
    """A source that fails in the searches ``fails``, which are counted from 1."""

    fails: frozenset[int] = frozenset()
    count: int = 0

    def _get_relevant_documents(self, query: str, **options: Any) -> list[Document]:
        self.count += 1
        if self.count in self.fails:
            raise ConnectionError("the source is down")
        return super()._get_relevant_documents(query, **options)


shelf, down, silent, unsteady = Shelf(), Down(), Silent(), Unsteady()
