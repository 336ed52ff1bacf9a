"""Simultaneous searches are one batch for Chroma; each gets the result that it would get alone."""

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


def batch_sizes(source: ChromaRetriever, monkeypatch: pytest.MonkeyPatch, before: Any = lambda: None) -> list[int]:
    """A list to which each further batch adds its number of queries; ``before`` is called before each batch."""
    sizes: list[int] = []
    found = source._query_batch

    def count_and_search(vectors: Any, k: int) -> Any:
        sizes.append(len(vectors))
        before()
        return found(vectors, k)

    monkeypatch.setattr(source, "_query_batch", count_and_search)
    return sizes


async def test_simultaneous_searches_are_one_batch_per_number_of_passages(
    source: ChromaRetriever, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = [await source.search(query, 1 + place % 2) for place, query in enumerate(QUERIES)]
    sizes = batch_sizes(source, monkeypatch)
    together = await asyncio.gather(*(source.search(query, 1 + place % 2) for place, query in enumerate(QUERIES)))
    assert together == alone
    assert sizes == [20, 20]


async def test_each_search_gets_its_own_error(source: ChromaRetriever, monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_error() -> None:
        raise WorldError("The disk is gone.", kind="unreachable")

    sizes = batch_sizes(source, monkeypatch, raise_error)
    errors = await asyncio.gather(*(source.search(query, 2) for query in QUERIES[:3]), return_exceptions=True)
    assert [str(error) for error in errors] == ["The disk is gone."] * 3
    assert len({id(error) for error in errors}) == 3
    assert sizes == [3]


async def test_an_incomplete_batch_fails_each_search(source: ChromaRetriever, monkeypatch: pytest.MonkeyPatch) -> None:
    found = source._query_batch
    monkeypatch.setattr(source, "_query_batch", lambda vectors, k: found(vectors, k)[:-1])
    errors = await asyncio.gather(*(source.search(query, 2) for query in QUERIES[:3]), return_exceptions=True)
    assert {getattr(error, "kind", None) for error in errors} == {"damaged_corpus"}


async def test_a_hanging_batch_does_not_block_others(source: ChromaRetriever, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moot.retrievers._local.PATIENCE", 0.01)
    ended, first = threading.Event(), threading.Event()

    def hangs_once() -> None:
        if not first.is_set():
            first.set()
            ended.wait()

    batch_sizes(source, monkeypatch, hangs_once)
    hung = asyncio.create_task(source.search(QUERIES[0], 2))
    await asyncio.to_thread(first.wait)
    try:
        assert len(await source.search(QUERIES[1], 2)) == 2
        assert not hung.done()
    finally:
        ended.set()
    assert len(await hung) == 2
