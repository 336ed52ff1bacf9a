"""Encodes the passages of a corpus and stores them. Other processes can do parts of this work (`fill_part`)."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from moot.core.errors import UserError, WorldError
from moot.retrievers._encoders import Encoder, TextsTooLong, Vector, open_encoder
from moot.retrievers._evidence import clean, encoded_text
from moot.retrievers._files import Passage
from moot.retrievers._stores import open_store


@dataclass(frozen=True)
class Target:
    """The corpus to fill: its name, its collection, its encoder and the dimension of its vectors."""

    name: str
    collection: Any
    encoder: Encoder
    dimension: int


Progress = Callable[[int, int], None]
"""Called with the numbers of passages seen and encoded so far."""
Fill = Callable[[Target, Iterator[list[Passage]], Progress], Awaitable[None]]
"""A function that stores all passages of the given batches."""


async def fill_in_process(
    target: Target,
    batches: Iterator[list[Passage]],
    progress: Progress,
    leave_out: Callable[[UserError], None] | None = None,
) -> None:
    """Encodes and stores new and changed passages in this process; at its end, the current write has ended.

    ``leave_out`` is called for each passage that is too long for the encoder's endpoint, and that is left out. Without
    it, such a passage is an error.
    """

    def read() -> tuple[int, list[Passage]] | None:
        batch = next(batches, None)
        return None if batch is None else (len(batch), passages_to_store(target.name, target.collection, batch))

    async def begin() -> tuple[int, asyncio.Future[tuple[list[Passage], list[Vector]]]] | None:
        found = await asyncio.to_thread(read)
        return found and (found[0], asyncio.ensure_future(encode_fitting(target, found[1], leave_out)))

    seen = encoded = 0
    begun = await begin()
    storing: asyncio.Future[None] | None = None
    next_begun: asyncio.Future[Any] | None = None
    try:
        # While a batch is encoded, the previous one is written, and the encoding of the next one begins.
        while begun is not None:
            next_begun = asyncio.ensure_future(begin())
            count, encoding = begun
            fresh, vectors = await encoding
            if storing:
                await asyncio.shield(storing)
                progress(seen, encoded)
            storing = asyncio.ensure_future(
                asyncio.to_thread(store_passages, target.name, target.collection, fresh, vectors)
            )
            seen, encoded = seen + count, encoded + len(fresh)
            begun = await next_begun
    finally:
        try:
            await _cancel_next(next_begun)
        finally:
            await _wait_for_write(storing)
    if storing:
        storing.result()
    progress(seen, encoded)


async def _wait_for_write(storing: asyncio.Future[None] | None) -> None:
    """Waits until the last write has ended, and only then raises the CancelledError of this task."""
    cancelled: asyncio.CancelledError | None = None
    while storing and not storing.done():
        try:
            await asyncio.wait({storing})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled:
        raise cancelled


async def _cancel_next(begun: asyncio.Future[Any] | None) -> None:
    """Waits until the next batch, if any, is read, and cancels its encoding."""
    if begun is not None:
        batch: Any = (await asyncio.gather(begun, return_exceptions=True))[0]
        if isinstance(batch, tuple):
            batch[1].cancel()
            await asyncio.gather(batch[1], return_exceptions=True)


async def fill_part(name: str, encoder: str, dimension: int, passages: list[Passage]) -> int:
    """Adds passages to a corpus on a Chroma server that another process builds; returns how many are new or changed."""
    store = await asyncio.to_thread(open_store)
    collection = await asyncio.to_thread(store.open, name)
    fresh = await asyncio.to_thread(passages_to_store, name, collection, passages)
    vectors = await encode_passages(await open_encoder(encoder), dimension, fresh)
    await asyncio.to_thread(store_passages, name, collection, fresh, vectors)
    return len(fresh)


async def encode_fitting(
    target: Target, passages: list[Passage], leave_out: Callable[[UserError], None] | None
) -> tuple[list[Passage], list[Vector]]:
    """The passages that are not too long for the encoder, with their vectors; the others are left out and named."""
    try:
        return passages, await encode_passages(target.encoder, target.dimension, passages)
    except TextsTooLong as error:
        if leave_out is None:
            raise
        fitting: list[Passage] = []
        for passage in passages:
            if encoded_text(passage.title, passage.text) in error.vectors:
                fitting.append(passage)
                continue
            leave_out(
                UserError(
                    f"The passage {passage.id!r} is too long for {target.encoder.name} and was left out. Split it, or "
                    f"use another encoder. {error.refusal.detail}",
                    kind="too_long",
                )
            )
        return fitting, [error.vectors[encoded_text(p.title, p.text)] for p in fitting]


async def encode_passages(encoder: Encoder, dimension: int, passages: list[Passage]) -> list[Vector]:
    """The vectors of passages; WorldError if their dimension is not ``dimension``."""
    if not passages:
        return []
    vectors = await encoder.embed([encoded_text(p.title, p.text) for p in passages])
    if len(vectors[0]) != dimension:
        raise WorldError(
            f"The encoder {encoder.name} returned vectors of {dimension} and then of {len(vectors[0])} dimensions. "
            "Run the same `moot index` again, or use another encoder.",
            kind="bad_response",
        )
    return vectors


def passages_to_store(name: str, collection: Any, batch: list[Passage]) -> list[Passage]:
    """The passages in ``batch`` that are new to a collection, or are stored there with other content; blocking."""
    batch = list({p.id: p for p in batch}.values())  # a batch may have the same passage twice
    with chroma_errors(name, "it cannot be read"):
        stored = collection.get(ids=[p.id for p in batch], include=["documents", "metadatas"])
    known = {i: (d, m) for i, d, m in zip(stored["ids"], stored["documents"], stored["metadatas"], strict=True)}
    return [p for p in batch if known.get(p.id) != (clean(p.text), metadata_of(p))]


def store_passages(name: str, collection: Any, passages: list[Passage], vectors: list[Vector]) -> None:
    """Stores passages with their vectors, in place of old passages with the same ids; blocking."""
    if not passages:
        return
    with chroma_errors(name, "it cannot be written"):
        collection.upsert(
            ids=[p.id for p in passages],
            documents=[clean(p.text) for p in passages],
            metadatas=[metadata_of(p) for p in passages],
            embeddings=vectors,
        )


def metadata_of(passage: Passage) -> dict[str, str]:
    """The fields of a passage that have a value, except its id and text."""
    fields = {"title": clean(passage.title), "url": passage.url, "published": passage.published}
    fields |= {"page": passage.page, "heading": clean(passage.heading or "")}
    fields |= {"fetched": passage.fetched, "sha256": passage.sha256, "note": clean(passage.note or "")}
    # Chroma rejects empty metadata, so there is always a source.
    return {"source": clean(passage.source) or "(no source)"} | {k: v for k, v in fields.items() if v}


def damaged(name: str, problem: str) -> UserError:
    """The error for a corpus with missing or changed data."""
    return open_store().damaged(name, problem)


@contextmanager
def chroma_errors(name: str, problem: str) -> Iterator[None]:
    """Context manager that turns errors of Chroma (not of a server) or SQLite into the error of `damaged`."""
    try:
        yield
    except Exception as error:
        chroma = sys.modules.get("chromadb.errors")  # not imported, because corpora without vectors do not need Chroma
        if isinstance(error, sqlite3.Error) or (chroma and isinstance(error, chroma.ChromaError)):
            raise damaged(name, f"{problem} ({error})") from error
        raise
