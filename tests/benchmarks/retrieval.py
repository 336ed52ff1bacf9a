"""Measures the speed of encoding, indexing and searching.

Encoding is compared with plain PyTorch. Indexing is compared with encoding alone. A query is compared with its two
steps: encoding, and Chroma's search.

    python tests/benchmarks/retrieval.py [FILE.jsonl ...] [--texts 2000]

Passages come from the files (id, title, text), by default from the demo corpora. If there are too few, they are
repeated with a number before their text. `corpora.py` measures how the costs grow with the size of a corpus.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from moot.cli.evaluate import processor
from moot.retrievers import Passage, index_passages, open_encoder, open_retriever, read_passages
from moot.retrievers._corpus import DEMO_CORPORA, demo_passages, open_corpus
from moot.retrievers._encoders import SentenceEncoder, encode
from moot.retrievers._evidence import encoded_text

QUERIES = 100


def passages_of(files: list[Path], count: int) -> list[Passage]:
    """``count`` passages of the files in a fixed random order; without files, passages of the demo corpora."""
    found = [p for file in files for p in read_passages(file)] or [p for n in DEMO_CORPORA for p in demo_passages(n)]
    random.Random(1).shuffle(found)
    while len(found) < count:
        found += [Passage(id=f"{p.id}+", title=p.title, text=f"{len(found)} {p.text}") for p in found]
    return [Passage(id=str(i), title=p.title, text=p.text, source="benchmark") for i, p in enumerate(found[:count])]


def seconds_since(start: float) -> float:
    """Seconds since ``start``, a value of `time.perf_counter`."""
    return time.perf_counter() - start


async def time_encoding(encoder: SentenceEncoder, texts: list[str]) -> None:
    """Print the encoder's speed relative to plain PyTorch in three pairs of runs, and its recall.

    The recall is the share of a text's ten nearest texts that are also among the ten nearest with vectors of full
    precision. It is the mean over the first `QUERIES` texts.
    """
    ratios = []
    for _ in range(3):
        start = time.perf_counter()
        fast = await encoder.embed(texts)
        own_seconds = seconds_since(start)
        start = time.perf_counter()
        full = await asyncio.to_thread(encode, encoder._model, texts)
        ratios.append(seconds_since(start) / own_seconds)
    one, other = np.array(fast), np.array(full)
    nearest = [np.argsort(-(v[:QUERIES] @ v.T), axis=1)[:, 1:11] for v in (one, other)]
    same = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(*nearest, strict=True)])
    print(
        f"encoding: {statistics.median(ratios):.2f} x plain PyTorch ({', '.join(f'{r:.2f}' for r in ratios)}),", end=" "
    )
    print(
        f"{len(texts) / own_seconds:.0f} passages a second in the last run; recall@10 against full precision {same:.3f}"
    )


async def time_indexing(encoder: SentenceEncoder, passages: list[Passage]) -> None:
    """Print the time of encoding alone relative to the time of indexing, in three pairs of runs.

    The runs write the corpora ``bench-0`` to ``bench-2``.
    """
    shares = []
    for i in range(3):
        start = time.perf_counter()
        await encoder.embed([encoded_text(p.title, p.text) for p in passages])
        alone = seconds_since(start)
        start = time.perf_counter()
        await index_passages(f"bench-{i}", iter(passages))
        shares.append(alone / seconds_since(start))
    runs = ", ".join(f"{share:.0%}" for share in shares)
    print(f"indexing: {statistics.median(shares):.0%} of the encoder's own speed ({runs})")


async def time_queries(encoder: SentenceEncoder, queries: list[str]) -> None:
    """Print the median time of a dense search in ``bench-0``, relative to that of the encoder and Chroma alone."""
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


async def main() -> None:
    """Measure encoding, indexing and queries, and print the figures."""
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("files", nargs="*", type=Path)
    given.add_argument("--texts", type=int, default=2000)
    asked = given.parse_args()
    print(f"{processor()}, {os.cpu_count()} processors")
    with tempfile.TemporaryDirectory() as home:
        os.environ["MOOT_HOME"] = home
        passages = passages_of(asked.files, asked.texts)
        encoder = await open_encoder()
        assert isinstance(encoder, SentenceEncoder)
        await time_encoding(encoder, [encoded_text(p.title, p.text) for p in passages])
        await time_indexing(encoder, passages)
        await time_queries(encoder, [p.text[:100] for p in passages[:QUERIES]])


if __name__ == "__main__":
    asyncio.run(main())
