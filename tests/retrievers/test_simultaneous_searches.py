"""Simultaneous searches are sent to Chroma in batches. Each search gets the result that it would get alone."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from moot.core.errors import WorldError
from moot.retrievers import Passage, index_passages, open_encoder, open_retriever
from moot.retrievers._local import ChromaRetriever

from ..conftest import StartStub

STUB = "openai:stub-embedding"
QUERIES = [f"What is thing {number}?" for number in range(40)]


@pytest.fixture
async def source(start_stub: StartStub, empty_home: Path) -> ChromaRetriever:
    """Dense search in a small corpus."""
    start_stub()
    passages = [Passage(id=str(number), title="", text=f"Thing {number} is a thing.") for number in range(9)]
    await index_passages("things", passages, encoder=STUB)
    found = await open_retriever("chroma:things", encoder=STUB)
    assert isinstance(found, ChromaRetriever)
    encoder = await open_encoder(STUB)
    encoder.remember(QUERIES, await encoder.embed(QUERIES))  # so that the searches start together
    return found


def record_batch_sizes(
    source: ChromaRetriever, monkeypatch: pytest.MonkeyPatch, before: Any = lambda: None
) -> list[int]:
    """Record the number of queries of each later batch in the returned list. Call ``before`` before each batch."""
    sizes: list[int] = []
    query_batch = source._query_batch

    def record_and_search(vectors: Any, k: int) -> Any:
        sizes.append(len(vectors))
        before()
        return query_batch(vectors, k)

    monkeypatch.setattr(source, "_query_batch", record_and_search)
    return sizes


async def test_each_search_of_a_failed_batch_gets_a_separate_error(
    source: ChromaRetriever, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_error() -> None:
        raise WorldError("The disk is gone.", kind="unreachable")

    sizes = record_batch_sizes(source, monkeypatch, raise_error)
    errors = await asyncio.gather(*(source.search(query, 2) for query in QUERIES[:3]), return_exceptions=True)
    assert [str(error) for error in errors] == ["The disk is gone."] * 3
    assert len({id(error) for error in errors}) == 3
    assert sizes == [3]


async def test_a_hanging_batch_does_not_block_the_next_batch(
    source: ChromaRetriever, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moot.retrievers._local.PATIENCE", 0.01)
    released, hanging = threading.Event(), threading.Event()

    def hang_once() -> None:
        if not hanging.is_set():
            hanging.set()
            released.wait()

    record_batch_sizes(source, monkeypatch, hang_once)
    hung = asyncio.create_task(source.search(QUERIES[0], 2))
    await asyncio.to_thread(hanging.wait)
    try:
        assert len(await source.search(QUERIES[1], 2)) == 2
        assert not hung.done()
    finally:
        released.set()
    assert len(await hung) == 2
