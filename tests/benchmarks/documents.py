"""Measures the speed of `moot index` relative to that of the encoder alone.

The program makes PDF files with pages of random words. The relative speed is the time to encode the passages of these
files, divided by the time to index the files.

    python -m tests.benchmarks.documents [--documents 200] [--pages 10] [--turns 3]

Encoding and indexing alternate. Both are measured in wall time and in processor time. The processor time includes that
of finished child processes.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import tempfile
import time
from pathlib import Path

from moot.cli.index import index_path
from moot.retrievers import open_encoder, read_passages
from moot.retrievers._evidence import encoded_text

from tests.papers import pdf

WORDS = [
    "the",
    "of",
    "council",
    "river",
    "report",
    "vaccine",
    "child",
    "fever",
    "percent",
    "study",
    "trade",
    "winter",
    "market",
    "year",
    "canal",
    "energy",
    "law",
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=200)
    parser.add_argument("--pages", type=int, default=10)
    parser.add_argument("--turns", type=int, default=3)
    asked = parser.parse_args()
    draw = random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MOOT_HOME"] = f"{folder}/home"
        papers = Path(folder) / "papers"
        papers.mkdir()
        for n in range(asked.documents):
            pages = [" ".join(draw.choices(WORDS, k=500)) for _ in range(asked.pages)]
            (papers / f"paper-{n}.pdf").write_bytes(pdf(pages, [f"Chapter {i}" for i in range(asked.pages)]))
        started = clock()
        passages = list(read_passages(papers))
        print(f"{len(passages)} passages; reading alone: {elapsed_since(started)}")
        texts = [encoded_text(p.title, p.text) for p in passages]
        asyncio.run(encode(texts[:64]))
        for turn in range(asked.turns):
            started = clock()
            asyncio.run(encode(texts))
            alone = [b - a for a, b in zip(started, clock(), strict=True)]
            started = clock()
            index_path(str(papers), f"turn-{turn}", None)
            indexing = [b - a for a, b in zip(started, clock(), strict=True)]
            shares = [f"{a / b:.0%} ({a:.1f} of {b:.1f} s)" for a, b in zip(alone, indexing, strict=True)]
            print(f"speed relative to the encoder's: {shares[0]}; by processor time {shares[1]}")


async def encode(texts: list[str]) -> None:
    """Encode texts with the local encoder, in batches."""
    encoder = await open_encoder("all-MiniLM-L6-v2")
    for start in range(0, len(texts), 512):
        await encoder.embed(texts[start : start + 512])


def clock() -> tuple[float, float]:
    """The wall time (s), and the processor time (s) of this process and its finished children."""
    return time.perf_counter(), sum(os.times()[:4])


def elapsed_since(started: tuple[float, float]) -> str:
    """The wall and processor time since ``started`` (a result of `clock`), as text."""
    return " s, ".join(f"{b - a:.1f}" for a, b in zip(started, clock(), strict=True)) + " s of processor time"


if __name__ == "__main__":
    main()
