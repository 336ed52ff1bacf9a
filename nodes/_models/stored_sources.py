"""Sources whose results are stored, so that a replay needs neither the web nor a corpus."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from moot.core.errors import MootError, error_from_record
from moot.core.fingerprints import key_of
from moot.nodes._models.replies import DebateReplies
from moot.retrievers import Evidence, Retriever


class StoredSource:
    """A source whose results are stored; in one debate, equal searches return equal results."""

    # ``source`` is None in a replay of a search in a corpus; ``opened`` are the source's properties. ``parts`` are
    # further values on which the results depend. If searches are ``free``, only a replay uses stored results.
    def __init__(
        self,
        source: Retriever | None,
        replies: DebateReplies,
        parts: Mapping[str, Any],
        opened: Mapping[str, Any],
        *,
        free: bool,
    ) -> None:
        self.name: str = opened["name"]
        self.passages: int | None = opened.get("passages")
        self.encoder: str | None = opened.get("encoder")
        self.gives_snippets: bool = getattr(source, "gives_snippets", False)
        self._source, self._replies, self._free = source, replies, free
        self._parts = {**parts, "passages": self.passages} if free else {**parts, "source": self.name}

    async def search(self, query: str, k: int) -> list[Evidence]:
        """The same as the source's `search`, but uses stored results if the debate's mode allows this."""
        key = key_of("search", {**self._parts, "query": query, "k": k})
        found, _ = await self._replies.once(key, partial(self._find_or_search, key, query, k))
        return copy.deepcopy(found)

    async def _find_or_search(self, key: str, query: str, k: int) -> list[Evidence]:
        if self._source is None or not self._free:
            found: list[Evidence] | None = await stored(
                self._replies, key, f"the search of {self.name} for {query[:200]!r}"
            )
            if found is not None:
                return found
        assert self._source is not None  # without a source, a missing result is an error
        about = {"source": self.name, "query": query[:200]}
        try:
            found = await self._source.search(query, k)
        except MootError as error:
            await self._replies.keep("search", {key: error.record("")}, about, failed=True)
            raise
        await self._replies.keep("search", {key: found}, about)
        return found


async def open_stored_corpus(
    open_source: Callable[[], Awaitable[Retriever]], replies: DebateReplies, parts: Mapping[str, Any]
) -> StoredSource:
    """Opens a source that searches a corpus; a replay only reads the source's properties from the store."""
    arguments, about = tuple(parts.values()), {"source": parts["source"]}
    key, is_new = key_of("search", {**parts, "opened": True}), arguments not in replies.opened
    source = None
    if replies.mode != "replay":
        try:
            source = await open_source()
        except MootError as error:
            if is_new:
                await replies.keep("search", {key: error.record("")}, about, failed=True)
            raise
    if is_new:
        if source is None:
            opened = await stored(replies, key, f"the source {parts['source']}")
        else:
            opened = {name: getattr(source, name, None) for name in ("name", "passages", "encoder")}
            await replies.keep("search", {key: opened}, about)
        replies.opened[arguments] = opened
    return StoredSource(source, replies, parts, replies.opened[arguments], free=True)


async def stored(replies: DebateReplies, key: str, what: str) -> Any:
    """The stored results or properties of a source; None if there are none; raises the source's error if it failed."""
    if (reply := (await replies.find([key], what)).get(key)) is None:
        return None
    if reply.failed:
        raise error_from_record(reply.value)
    return reply.value
