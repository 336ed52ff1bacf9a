"""Sources whose results are stored in the ledger, so that a replay needs neither the web nor a corpus."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from moot.core.errors import MootError, error_from_record
from moot.core.ledger import Key, StoredCall, key_of
from moot.core.ledger.records import FAILED
from moot.nodes._models.debate_ledger import DebateLedger
from moot.retrievers import Evidence, Retriever


class LedgerSource:
    """A source whose results are stored in the ledger; in one debate, equal searches return equal results."""

    def __init__(self, source: Retriever, debate_ledger: DebateLedger, parts: Mapping[str, Any]) -> None:
        self.name = source.name
        self.source = source
        self.debate_ledger = debate_ledger
        # Further parts of the ledger key: values that the results depend on.
        self.parts = parts

    async def search(self, query: str, k: int) -> list[Evidence]:
        """The same as the source's `search`, but uses a result in the ledger if the debate's mode allows this."""
        key = key_of("search", {**self.parts, "source": self.name, "query": query, "k": k})

        async def find_or_search() -> list[Evidence]:
            entry = await self.debate_ledger.find(key, search_in_words(self.name, query))
            if entry is not None:
                stored: list[Evidence] = stored_value(entry)
                return stored
            return await search_and_store(self.source, self.debate_ledger, key, query, k)

        found, _ = await self.debate_ledger.once(key.hash, find_or_search)
        return copy.deepcopy(found)


class LedgerCorpus:
    """A source that searches a corpus, and stores its results in the ledger for replays."""

    def __init__(
        self, source: Retriever | None, debate_ledger: DebateLedger, parts: Mapping[str, Any], opened: Mapping[str, Any]
    ) -> None:
        self.name: str = opened["name"]
        self.passages: int | None = opened["passages"]
        self.encoder: str | None = opened["encoder"]
        self.source = source
        self.debate_ledger = debate_ledger
        self.parts = parts

    async def search(self, query: str, k: int) -> list[Evidence]:
        """The same as the source's `search`, but a replay takes the results from the ledger."""
        key = key_of("search", {**self.parts, "passages": self.passages, "query": query, "k": k})
        if self.source is None:
            entry = await self.debate_ledger.find_in_replay(key, search_in_words(self.name, query))
            found: list[Evidence] = stored_value(entry)
            return found
        # Only a replay reads results: a search costs nothing, and puts the results' vectors into the encoder's cache.
        return await search_and_store(self.source, self.debate_ledger, key, query, k)


async def search_and_store(
    source: Retriever, debate_ledger: DebateLedger, key: Key, query: str, k: int
) -> list[Evidence]:
    """Searches a source, and writes its results or its failure to the ledger."""
    about = {"source": source.name, "query": query[:200]}
    try:
        found = await source.search(query, k)
    except MootError as error:
        await debate_ledger.store_failure(key, error.record(""), about)
        raise
    await debate_ledger.store_result(key, found, about)
    return found


async def open_ledger_corpus(
    open_source: Callable[[], Awaitable[Retriever]], debate_ledger: DebateLedger, parts: Mapping[str, Any]
) -> LedgerCorpus:
    """Opens a source that searches a corpus; a replay only reads the source's properties from the ledger."""
    arguments = tuple(parts.values())
    key = None if arguments in debate_ledger.opened else key_of("search", {**parts, "opened": True})
    source = None
    if debate_ledger.mode != "replay":
        try:
            source = await open_source()
        except MootError as error:
            if key is not None:
                await debate_ledger.store_failure(key, error.record(""), {"source": parts["source"]})
            raise
    if key is not None:
        if source is None:
            entry = await debate_ledger.find_in_replay(key, f"the source {parts['source']}")
            opened: Mapping[str, Any] = stored_value(entry)
        else:
            opened = {name: getattr(source, name, None) for name in ("name", "passages", "encoder")}
            await debate_ledger.store_result(key, opened, {"source": source.name})
        debate_ledger.opened[arguments] = opened
    return LedgerCorpus(source, debate_ledger, parts, debate_ledger.opened[arguments])


def search_in_words(name: str, query: str) -> str:
    """A search in words, for error messages."""
    return f"the search of {name} for {query[:200]!r}"


def stored_value(entry: StoredCall) -> Any:
    """A source's results or properties from an entry of the ledger; raises the source's error if it is a failure."""
    if entry.about.get(FAILED):
        raise error_from_record(entry.value)
    return entry.value
