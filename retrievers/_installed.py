"""Searches sources of installed packages. Packages declare them as entry points in the group ``moot.sources``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moot.retrievers._evidence import Evidence, make_evidence
from moot.retrievers._langchain_source import UserSource


class InstalledSource(UserSource):
    """A source of an installed package; its results become pieces whose retriever is the source's name."""

    async def _pieces(self, query: str, k: int) -> list[Evidence]:
        return [_piece(found, query, self.name) for found in (await self._searcher.search(query, k))[:k]]


def _piece(found: Mapping[str, Any], query: str, name: str) -> Evidence:
    """Converts a result of a package's source to a piece of evidence."""
    return make_evidence(
        text=found["text"],
        title=found.get("title") or "",
        source=found.get("source") or name,
        url=found.get("url"),
        published=found.get("published"),
        query=query,
        score=next((one.get("score") for one in found.get("retrievals") or ()), None),
        retriever=name,
    )
