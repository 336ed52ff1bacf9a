"""What retrieval costs, as ratios: encoding to plain PyTorch, indexing to encoding, a query to its parts.

    python tests/benchmarks/retrieval.py [FILE.jsonl ...] [--texts 2000] [--memory 100000]

Passages come from the files (id, title, text), by default from the demo corpora, repeated with other words where there
are too few. ``--memory`` indexes that many more passages with vectors of chance, and prints the process's highest
memory after a dense, a lexical and a hybrid query.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from moot.cli.evaluate import processor
from moot.retrievers import DEMO_CORPORA, Passage, index_passages, open_encoder, open_retriever, read_passages
from moot.retrievers.corpus import demo_passages, open_corpus
from moot.retrievers.encoders import SentenceEncoder, encode

QUERIES = 100


def passages_of(files: list[Path], count: int) -> list[Passage]:
    """So many passages, in an order of chance that is always the same."""
    found = [p for file in files for p in read_passages(file)] or [p for n in DEMO_CORPORA for p in demo_passages(n)]
    random.Random(1).shuffle(found)
    while len(found) < count:
        found += [Passage(id=f"{p.id}+", title=p.title, text=f"{len(found)} {p.text}") for p in found]
    return [Passage(id=str(i), title=p.title, text=p.text, source="benchmark") for i, p in enumerate(found[:count])]


def text_of(passage: Passage) -> str:
    """What is encoded of a passage."""
    return f"{passage.title}. {passage.text}" if passage.title else passage.text


def seconds_since(start: float) -> float:
    """Seconds since a moment of `time.perf_counter`."""
    return time.perf_counter() - start


async def encoding(encoder: SentenceEncoder, texts: list[str]) -> None:
    """Three pairs of runs on the same texts, and how many of the ten nearest stay the same."""
    ratios = []
    for _ in range(3):
        start = time.perf_counter()
        fast = await encoder.embed(texts)
        mine = seconds_since(start)
        start = time.perf_counter()
        full = await asyncio.to_thread(encode, encoder._model, texts)
        ratios.append(seconds_since(start) / mine)
    one, other = np.array(fast), np.array(full)
    nearest = [np.argsort(-(v[:QUERIES] @ v.T), axis=1)[:, 1:11] for v in (one, other)]
    same = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(*nearest, strict=True)])
    print(
        f"encoding: {statistics.median(ratios):.2f} x plain PyTorch ({', '.join(f'{r:.2f}' for r in ratios)}),", end=" "
    )
    print(f"{len(texts) / mine:.0f} passages a second in the last run; recall@10 against full precision {same:.3f}")


async def indexing(encoder: SentenceEncoder, passages: list[Passage]) -> None:
    """Encoding alone against indexing, in pairs."""
    shares = []
    for i in range(3):
        start = time.perf_counter()
        await encoder.embed([text_of(p) for p in passages])
        alone = seconds_since(start)
        start = time.perf_counter()
        await index_passages(f"bench-{i}", iter(passages))
        shares.append(alone / seconds_since(start))
    runs = ", ".join(f"{share:.0%}" for share in shares)
    print(f"indexing: {statistics.median(shares):.0%} of the encoder's own speed ({runs})")


async def querying(encoder: SentenceEncoder, queries: list[str]) -> None:
    """A dense search against the encoder's time for a query and Chroma's for a vector; medians of single queries."""
    corpus = await open_corpus("bench-0", encoder.name)
    dense = await open_retriever("chroma:bench-0")
    await dense.search("warm", 10)
    ours, parts = [], []
    for i, query in enumerate(queries):
        start = time.perf_counter()
        vectors = await encoder.embed([f"{query} {i} a"])
        await asyncio.to_thread(corpus.collection.query, query_embeddings=vectors, n_results=10)
        parts.append(seconds_since(start))
        start = time.perf_counter()
        await dense.search(f"{query} {i} b", 10)
        ours.append(seconds_since(start))
    print(f"dense query: {statistics.median(ours) / statistics.median(parts):.2f} x encoder and Chroma alone", end=" ")
    print(f"({statistics.median(ours) * 1000:.1f} ms)")


class ByChance:
    """An encoder whose vectors are random, to fill a corpus quickly."""

    name = "all-MiniLM-L6-v2"

    async def embed(self, texts: Any) -> list[list[float]]:
        """Unit vectors of chance."""
        vectors = np.random.default_rng(len(texts)).standard_normal((len(texts), 384))
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).tolist()  # type: ignore[no-any-return]


async def memory(passages: list[Passage], count: int) -> None:
    """The highest memory of this process while it indexes and searches many passages."""

    async def opened(*_: Any) -> ByChance:
        return ByChance()

    def many() -> Iterator[Passage]:
        for i in range(count):
            p = passages[i % len(passages)]
            yield Passage(id=str(i), title=p.title, text=f"{i} {p.text}", source="benchmark")

    start = time.perf_counter()
    with mock.patch("moot.retrievers.corpus.open_encoder", opened):
        await index_passages("bench-many", many())
    took = seconds_since(start)
    for kind in ("chroma", "bm25", "hybrid"):
        found = await (await open_retriever(f"{kind}:bench-many")).search(passages[0].text[:200], 10)
        assert len(found) == 10
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(f"{count} passages: stored in {took:.0f} s beside the encoding, searched three ways; {most:.1f} GiB at most")


async def main() -> None:
    """Prints the figures."""
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("files", nargs="*", type=Path)
    given.add_argument("--texts", type=int, default=2000)
    given.add_argument("--memory", type=int, default=0)
    asked = given.parse_args()
    print(f"{processor()}, {os.cpu_count()} processors")
    with tempfile.TemporaryDirectory() as home:
        os.environ["MOOT_HOME"] = home
        passages = passages_of(asked.files, asked.texts)
        encoder = await open_encoder()
        assert isinstance(encoder, SentenceEncoder)
        await encoding(encoder, [text_of(p) for p in passages])
        await indexing(encoder, passages)
        await querying(encoder, [p.text[:100] for p in passages[:QUERIES]])
        if asked.memory:
            await memory(passages, asked.memory)


if __name__ == "__main__":
    asyncio.run(main())
