"""Sources whose results are stored, so that a replay needs neither the web nor a corpus."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from moot.core.errors import MootError, error_from_record
from moot.core.fingerprints import key_of
from moot.nodes._models.replies import DebateReplies
from moot.retrievers import Evidence, Retriever


class StoredSource:
    """A source whose results are stored; in one debate, equal searches return equal results."""

    def __init__(self, source: Retriever, replies: DebateReplies, parts: Mapping[str, Any]) -> None:
        self.name = source.name
        self.source = source
        self.replies = replies
        # Further values on which the results depend
        self.parts = parts

    async def search(self, query: str, k: int) -> list[Evidence]:
        """The same as the source's `search`, but uses stored results if the debate's mode allows this."""
        key = key_of("search", {**self.parts, "source": self.name, "query": query, "k": k})

        async def find_or_search() -> list[Evidence]:
            found: list[Evidence] | None = await stored(self.replies, key, search_in_words(self.name, query))
            return await search_and_keep(self.source, self.replies, key, query, k) if found is None else found

        found, _ = await self.replies.once(key, find_or_search)
        return copy.deepcopy(found)


class StoredCorpus:
    """A source that searches a corpus, and stores its results for replays."""

    def __init__(
        self, source: Retriever | None, replies: DebateReplies, parts: Mapping[str, Any], opened: Mapping[str, Any]
    ) -> None:
        self.name: str = opened["name"]
        self.passages: int | None = opened["passages"]
        self.encoder: str | None = opened["encoder"]
        self.source = source
        self.replies = replies
        self.parts = parts

    async def search(self, query: str, k: int) -> list[Evidence]:
        """The same as the source's `search`, but a replay takes the stored results."""
        key = key_of("search", {**self.parts, "passages": self.passages, "query": query, "k": k})
        if self.source is None:
            found: list[Evidence] = await stored(self.replies, key, search_in_words(self.name, query))
            return found
        # Only a replay reads results: a search costs nothing, and puts the results' vectors into the encoder's cache.
        return await search_and_keep(self.source, self.replies, key, query, k)


async def open_stored_corpus(
    open_source: Callable[[], Awaitable[Retriever]], replies: DebateReplies, parts: Mapping[str, Any]
) -> StoredCorpus:
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
    return StoredCorpus(source, replies, parts, replies.opened[arguments])


async def search_and_keep(source: Retriever, replies: DebateReplies, key: str, query: str, k: int) -> list[Evidence]:
    """Searches a source, and stores its results or its failure."""
    about = {"source": source.name, "query": query[:200]}
    try:
        found = await source.search(query, k)
    except MootError as error:
        await replies.keep("search", {key: error.record("")}, about, failed=True)
        raise
    await replies.keep("search", {key: found}, about)
    return found


async def stored(replies: DebateReplies, key: str, what: str) -> Any:
    """The stored results or properties of a source; None if there are none; raises the source's error if it failed."""
    if (reply := (await replies.find([key], what)).get(key)) is None:
        return None
    if reply.failed:
        raise error_from_record(reply.value)
    return reply.value


def search_in_words(name: str, query: str) -> str:
    """A search in words, for error messages."""
    return f"the search of {name} for {query[:200]!r}"
