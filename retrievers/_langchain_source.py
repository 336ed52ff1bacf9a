"""Searches LangChain retrievers, vector stores and search tools of the user, and imports LangChain objects by name.

``langchain:shop.search:store`` is the object ``store`` of the module ``shop.search``. Python looks for the module among
the installed packages, and then in the current directory. A server opens only the objects that
``MOOT_LANGCHAIN_SOURCES`` lists (separated by commas), because its callers must not choose which code is imported.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import os
import sys
import weakref
from collections.abc import Iterable
from operator import attrgetter
from typing import Any, Protocol, runtime_checkable
from uuid import uuid4

from moot.core.callers import check_listed_object
from moot.core.endpoint import DEFAULT_LIMITS, Limits
from moot.core.errors import UserError
from moot.core.lazy import imported
from moot.retrievers._evidence import Evidence, merge_evidence
from moot.retrievers._results import COUNTS, MOST, ToolSource, piece_of, tool_arguments
from moot.retrievers._user_source import UserSource, short_error

SEARCHES = ("asimilarity_search_with_relevance_scores", "asimilarity_search_with_score")
"""Search methods of a vector store, in order of preference; many stores do not implement the first."""


class ObjectName(str):
    """The name of an object, which holds the object; it is equal to the same name as a plain text."""

    held: Any = None


_own: dict[int, tuple[weakref.ref[Any], str]] = {}
"""By its address in memory: an object that cannot be described, and what stands for it in keys of the store."""


def identity_of(held: Any) -> str:
    """What stands for an object in the store's keys: a digest of all its options, else a text for this object alone."""
    described = imported("langchain_core.load").dumps(held) if getattr(held, "is_lc_serializable", bool)() else ""
    if described and '"not_implemented"' not in described:
        return hashlib.sha256(described.encode()).hexdigest()
    # LangChain cannot write down all options, so an object that looks equal may reply differently.
    found = _own.get(id(held))
    if found is None or found[0]() is not held:
        _own[id(held)] = found = weakref.ref(held), uuid4().hex
        weakref.finalize(held, _own.pop, id(held), None)
    return found[1]


@runtime_checkable
class _WithResults(Protocol):
    def results(self, query: str) -> Any: ...


@runtime_checkable
class _WithLoad(Protocol):
    def load(self, query: str) -> Any: ...


@runtime_checkable
class _WithDocuments(Protocol):
    def download_documents(self, query: str) -> Any: ...


WRAPPERS = (_WithResults, _WithLoad, _WithDocuments)
"""LangChain's wrappers of search APIs, which have no common class."""
SEARCHABLE = "LangChain retriever, vector store, search tool or search wrapper"


def searchable_kinds() -> tuple[type, ...]:
    """The kinds of objects that can be sources; `WRAPPERS` are protocols."""
    return (
        imported("langchain_core.retrievers").BaseRetriever,
        imported("langchain_core.vectorstores").VectorStore,
        imported("langchain_core.tools").BaseTool,
        *WRAPPERS,
    )


async def open_langchain(given: str, limits: Limits = DEFAULT_LIMITS) -> UserSource:
    """Opens the object ``module:attribute``, which a server must list, as a source."""
    check_listed_object(given, "retriever")
    found = await asyncio.to_thread(import_object, given, searchable_kinds(), "retriever", SEARCHABLE)
    return source_of(f"langchain:{given}", found, limits)


def source_of(name: str, found: Any, limits: Limits = DEFAULT_LIMITS) -> UserSource:
    """An object of one of the `searchable_kinds` as a source."""
    if isinstance(found, searchable_kinds()[:2]):
        return LangChainRetriever(name, found, limits)
    if isinstance(found, imported("langchain_core.tools").BaseTool):
        return LangChainTool(name, found, limits)
    return LangChainWrapper(name, found, limits)


def import_object(given: str, kinds: tuple[type, ...], noun: str, wanted: str) -> Any:
    """Imports the LangChain object ``module:attribute``, which must be of one of the kinds; blocking.

    Errors call the object ``noun`` (``retriever``, ``model`` or ``encoder``), and what it should be ``wanted``.
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
    if isinstance(found, type) or not isinstance(found, kinds):
        why = f"is of the type {type(found).__name__}, not a {wanted}"
        raise failure(why, "If it is a factory, call it in the module, and name the result")
    return found


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


class LangChainTool(ToolSource):
    """A LangChain tool that takes a query as a source."""

    async def _answer(self, query: str, k: int) -> Any:
        # A tool that handles its errors would return them as if they were results.
        tool = self._searcher.model_copy(update={"handle_tool_error": False, "handle_validation_error": False})
        schema = tool.tool_call_schema
        schema = schema if isinstance(schema, dict) else schema.model_json_schema()
        arguments = tool_arguments(self.name, schema, query, k, {})
        if tool.response_format == "content":
            return await tool.ainvoke(arguments)
        message = await tool.ainvoke({"type": "tool_call", "name": tool.name, "id": "search", "args": arguments})
        return message.artifact if message.artifact is not None else message.content


class LangChainWrapper(ToolSource):
    """One of LangChain's wrappers of search APIs as a source; it searches in a thread."""

    async def _answer(self, query: str, k: int) -> Any:
        found = self._searcher
        method = next(
            getattr(found, name) for name in ("results", "load", "download_documents") if hasattr(found, name)
        )
        takes = [*inspect.signature(method).parameters][1:2]
        return await asyncio.to_thread(method, query, **{name: min(k, MOST) for name in takes if name in COUNTS})


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

    Raises:
        UserError: an object is no document.
    """
    documents = list(documents)
    if other := next((one for one in documents if not hasattr(one, "page_content")), None):
        raise UserError(
            f"from_documents takes LangChain's documents, not {type(other).__name__}; a piece of evidence from a text: "
            "make_evidence(text=..., title=..., source=...).",
            kind="invalid_given",
        )
    pieces = [piece_of(document, query, None, retriever) for document in documents]
    return merge_evidence((), [piece for piece in pieces if piece["text"]])
