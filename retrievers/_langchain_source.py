"""Searches LangChain retrievers and vector stores of the user, and imports LangChain objects by module and attribute.

``langchain:shop.search:store`` is the object ``store`` of the module ``shop.search``. Python looks for the module among
the installed packages, and then in the current directory. A server opens only the objects that
``MOOT_LANGCHAIN_SOURCES`` lists (separated by commas), because its callers must not choose which code is imported.
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

from moot.core.callers import check_listed_object
from moot.core.endpoint import DEFAULT_LIMITS, Limits
from moot.core.errors import MootError, UserError, WorldError
from moot.core.lazy import imported
from moot.core.redaction import redact
from moot.retrievers._evidence import Evidence, clean, make_evidence, merge_evidence

SEARCHES = ("asimilarity_search_with_relevance_scores", "asimilarity_search_with_score")
"""Search methods of a vector store, in order of preference; many stores do not implement the first."""


async def open_langchain(given: str, limits: Limits = DEFAULT_LIMITS) -> LangChainRetriever:
    """Opens the retriever or vector store ``module:attribute``, which a server must list, as a source."""
    kinds = (
        imported("langchain_core.retrievers").BaseRetriever,
        imported("langchain_core.vectorstores").VectorStore,
    )
    check_listed_object(given, "retriever")
    found = await asyncio.to_thread(import_object, given, kinds, "retriever", "retriever or vector store")
    return LangChainRetriever(f"langchain:{given}", found, limits)


def import_object(given: str, kinds: tuple[type, ...], noun: str, wanted: str) -> Any:
    """Imports the LangChain object ``module:attribute``, which must be of one of the kinds; blocking.

    Errors call the object ``noun`` (``retriever`` or ``model``), and what it should be ``wanted``.
    """

    def failure(why: str, advice: str) -> UserError:
        return UserError(f"The {noun} {f'langchain:{given}'!r} {why}. {advice}.", kind=f"unknown_{noun}")

    module, _, attribute = given.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # last, so that no local file replaces an installed package
    try:
        found = attrgetter(attribute)(imported(module))
    except (Exception, SystemExit) as error:
        why = f"cannot be opened ({short_error(error)})"
        advice = "Check the names of the module and the attribute, and that the module works"
        raise failure(why, advice) from error
    if not isinstance(found, kinds):
        why = f"is of the type {type(found).__name__}, not a LangChain {wanted}"
        raise failure(why, "If it is a factory, call it in the module, and name the result")
    return found


def short_error(error: BaseException) -> str:
    """An exception's type and message, without keys, in at most 200 characters."""
    return redact(f"{type(error).__name__}: {clean(str(error))}".removesuffix(": ")[:2000])[:200]


class UserSource:
    """The base class of sources that run code from outside moot; ``limits.timeout`` are the seconds of a search."""

    def __init__(self, name: str, searcher: Any, limits: Limits = DEFAULT_LIMITS) -> None:
        self.name = name
        self._searcher = searcher
        self._limits = limits

    async def search(self, query: str, k: int) -> list[Evidence]:
        """The pieces with text among the first ``k`` results; none for a blank query."""
        query = clean(query)
        if not query:
            return []
        try:
            async with asyncio.timeout(self._limits.timeout):
                pieces = await self._pieces(query, k)
        except MootError:
            raise
        except TimeoutError as error:
            text = f"{self.name} did not answer in time. Try again, or raise the setting `timeout`."
            raise WorldError(text, kind="timeout", retryable=True) from error
        except (Exception, SystemExit) as error:
            text = f"{self.name} failed ({short_error(error)}). Test it on its own."
            raise WorldError(text, kind="search_failed") from error
        return [piece for piece in pieces if piece["text"]]

    async def _pieces(self, query: str, k: int) -> list[Evidence]:
        """The first ``k`` results as pieces; each subclass implements this."""
        raise NotImplementedError


class LangChainRetriever(UserSource):
    """A LangChain retriever, which has no scores, or vector store as a source; LangChain searches in threads."""

    async def _pieces(self, query: str, k: int) -> list[Evidence]:
        return [piece_of(document, query, score, self.name) for document, score in (await self._find(query, k))[:k]]

    async def _find(self, query: str, k: int) -> list[tuple[Any, float | None]]:
        """The documents that the object finds, each with its score (None if there is no score)."""
        if isinstance(self._searcher, imported("langchain_core.retrievers").BaseRetriever):
            return [(document, None) for document in await self._searcher.ainvoke(query)]
        for search in SEARCHES:
            try:
                return list(await getattr(self._searcher, search)(query, k=k))
            except NotImplementedError:
                continue
        return [(document, None) for document in await self._searcher.asimilarity_search(query, k=k)]


def from_documents(documents: Iterable[Any], query: str = "", retriever: str = "documents") -> list[Evidence]:
    """Converts LangChain documents, for example results of your own graph, to evidence.

    Args:
        documents: the documents; their metadata ``title``, ``source``, ``url`` and ``published`` (or ``date``) are
            used.
        query: the query that found them.
        retriever: the retriever that found them. It is also the source of documents without ``source`` in their
            metadata.

    Returns:
        One piece for each text and source, in the order of the documents. Documents without text are left out.
    """
    pieces = [piece_of(document, query, None, retriever) for document in documents]
    return merge_evidence((), [piece for piece in pieces if piece["text"]])


def piece_of(document: Any, query: str, score: float | None, retriever: str) -> Evidence:
    """Converts a LangChain document to a piece of evidence; metadata of unsuitable types are ignored."""
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
