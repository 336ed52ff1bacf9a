"""LangChain retrievers and vector stores of the user's own, by module and attribute.

``langchain:shop.search:store`` is the object ``store`` of the module ``shop.search``, which is looked for among the
installed packages and then in the current directory. A server opens only what ``MOOT_LANGCHAIN_SOURCES`` lists
(comma separated), as whoever calls it must not choose what is imported.
"""

from __future__ import annotations

import asyncio
import math
import os
import sys
from collections.abc import Iterable
from datetime import date
from operator import attrgetter
from typing import Any

from moot.core.endpoint import DEFAULT_LIMITS, Limits
from moot.core.errors import UserError, WorldError
from moot.core.lazy import imported
from moot.core.redaction import redact
from moot.retrievers.evidence import Evidence, clean, make_evidence, merge_evidence
from moot.retrievers.listed import check_source

SEARCHES = ("asimilarity_search_with_relevance_scores", "asimilarity_search_with_score")
"""Searches of a vector store, the better known first; many stores have not implemented the first."""


async def open_langchain(given: str, limits: Limits = DEFAULT_LIMITS) -> LangChainRetriever:
    """The retriever for ``module:attribute``.

    Raises:
        UserError: it may not be imported, is not there, or is no retriever.
    """
    check_source(given)
    return LangChainRetriever(given, await asyncio.to_thread(load, given), limits)


def refused(given: str, why: str, mend: str) -> UserError:
    """The error for a retriever that cannot be opened."""
    return UserError(f"The retriever {f'langchain:{given}'!r} {why}. {mend}.", kind="unknown_retriever")


def load(given: str) -> Any:
    """The object of that module and name. Blocking.

    Raises:
        UserError: it cannot be imported, or is no retriever or vector store.
    """
    module, _, attribute = given.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # last, so that no file here takes an installed package's place
    try:
        found = attrgetter(attribute)(imported(module))
    except (Exception, SystemExit) as error:
        why = f"cannot be opened ({told(error)})"
        raise refused(given, why, "Check the module's and the attribute's name, and that the module works") from error
    kinds = (
        imported("langchain_core.retrievers").BaseRetriever,
        imported("langchain_core.vectorstores").VectorStore,
    )
    if not isinstance(found, kinds):
        why = f"is a {type(found).__name__}, and no LangChain retriever or vector store"
        raise refused(given, why, "Name an object that is one; what makes one has to be called in the module")
    return found


def told(error: BaseException) -> str:
    """An exception's type and words, cut to what fits a sentence."""
    return redact(f"{type(error).__name__}: {clean(str(error))}".removesuffix(": ")[:2000])[:200]


class LangChainRetriever:
    """A LangChain retriever or vector store as a source. Scores are the vector store's own."""

    def __init__(self, given: str, tool: Any, limits: Limits = DEFAULT_LIMITS) -> None:
        self.name = f"langchain:{given}"
        self._tool = tool
        self._limits = limits

    async def search(self, query: str, k: int) -> list[Evidence]:
        """The first ``k`` documents that hold text; searches that block run in threads, as LangChain sees to.

        Raises:
            WorldError: the retriever failed, or gave nothing in time.
        """
        query = clean(query)
        if not query:
            return []
        try:
            async with asyncio.timeout(self._limits.timeout):
                found = await self._find(query, k)
            pieces = [piece_of(document, query, score, self.name) for document, score in found[:k]]
        except TimeoutError as error:
            text = f"{self.name} found nothing in time. Try again, or raise the setting `timeout`."
            raise WorldError(text, kind="timeout", retryable=True) from error
        except (Exception, SystemExit) as error:
            text = f"{self.name} failed ({told(error)}). Check it on its own."
            raise WorldError(text, kind="search_failed") from error
        return [piece for piece in pieces if piece["text"]]

    async def _find(self, query: str, k: int) -> list[tuple[Any, float | None]]:
        if isinstance(self._tool, imported("langchain_core.retrievers").BaseRetriever):
            return [(document, None) for document in await self._tool.ainvoke(query)]
        for search in SEARCHES:
            try:
                return list(await getattr(self._tool, search)(query, k=k))
            except NotImplementedError:
                continue
        return [(document, None) for document in await self._tool.asimilarity_search(query, k=k)]


def from_documents(documents: Iterable[Any], query: str = "", retriever: str = "documents") -> list[Evidence]:
    """LangChain documents as evidence, for steps that read what your own graph has found.

    Args:
        documents: of their metadata ``title``, ``source``, ``url`` and ``published`` (or ``date``) are taken over.
        query: what they were found by.
        retriever: what found them; it is also their source where their metadata names none.

    Returns:
        One piece for each text and source, in their order; documents without text are left out.
    """
    pieces = [piece_of(document, query, None, retriever) for document in documents]
    return merge_evidence((), [piece for piece in pieces if piece["text"]])


def piece_of(document: Any, query: str, score: float | None, retriever: str) -> Evidence:
    """A LangChain document as a piece of evidence."""
    about = {name: value for name, value in document.metadata.items() if isinstance(value, str)}
    dates = (document.metadata.get(name) for name in ("published", "date"))
    return make_evidence(
        text=document.page_content,
        title=about.get("title", ""),
        source=about.get("source") or retriever,
        url=about.get("url"),
        published=next((str(day) for day in dates if isinstance(day, str | int | date) and day), None),
        query=query,
        score=float(score) if score is not None and math.isfinite(score) else None,
        retriever=retriever,
    )
