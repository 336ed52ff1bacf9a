"""Sources that run code from outside moot: their time limit and their errors; those of installed packages."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from moot.core.endpoint import DEFAULT_LIMITS, Limits
from moot.core.errors import MootError, WorldError
from moot.core.redaction import redact
from moot.retrievers._evidence import Evidence, clean, make_evidence


def short_error(error: BaseException) -> str:
    """An exception's type and message, without keys, in at most 200 characters; of a group, its first exception."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return short_text(f"{type(error).__name__}: {error}").removesuffix(":")


def short_text(text: object) -> str:
    """A text of a fault, without keys, in at most 200 characters."""
    return redact(clean(str(text))[:2000])[:200]


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


class InstalledSource(UserSource):
    """A source of an installed package, which declares it as an entry point in the group ``moot.sources``."""

    async def _pieces(self, query: str, k: int) -> list[Evidence]:
        return [_piece(found, query, self.name) for found in (await self._searcher.search(query, k))[:k]]


def _piece(found: Mapping[str, Any], query: str, name: str) -> Evidence:
    """A result of a package's source as a piece of evidence, whose retriever is the source's name."""
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
