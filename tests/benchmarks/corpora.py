"""Measures how time and memory of retrieval grow with the size of a corpus.

    python tests/benchmarks/corpora.py [FILE.jsonl ...] [--passages 1000 26000 100000] [--json FILE]

Passages come from the files (id, title, text), by default from the demo corpora. If there are too few, passages are
drawn from them again, with every eighth word replaced by a word of another passage. Vectors are hashed bags of words
with the encoder's 384 dimensions: encoding takes almost no time, and similar texts are near each other. `retrieval.py`
measures the encoder. Queries are beginnings of passages. Chroma and hybrid search share one corpus. The corpus is built
in a new process, and each source is searched in a new process. Each process first indexes or searches a corpus of ten
passages, so that imports do not count. The program prints the rows as a Markdown table. ``--json`` writes the same rows
to a file. Their columns:

    passages, source      the number of passages; chroma, bm25 or hybrid
    build_s, build_mib    time and peak growth of memory of `index_passages` (bm25 has no separate build)
    build_cpu_s           processor time of `index_passages`
    first_query_ms        time to open the source and answer its first query
    first_cpu_ms          processor time for opening the source and its first query
    later_query_ms        median time of 50 queries, one after the other
    queries_at_once_ms    time to answer 64 queries that are sent at once
    later_cpu_ms          mean processor time of a query, over the 50 and the 64 queries
    open_mib              growth of memory from before the opening to after all queries
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from moot.cli.evaluate import processor
from moot.retrievers import Passage, index_passages, open_retriever, read_passages
from moot.retrievers import _corpus as corpus
from moot.retrievers import _local as local
from moot.retrievers._corpus import DEMO_CORPORA, demo_passages
from moot.retrievers._encoders import DEFAULT_ENCODER

SOURCES = ("chroma", "bm25", "hybrid")
ONE_BY_ONE, AT_ONCE = 50, 64
SMALL = "few"
COLUMNS = [
    *("passages", "source", "build_s", "build_cpu_s", "build_mib"),
    *("first_query_ms", "first_cpu_ms", "later_query_ms", "queries_at_once_ms", "later_cpu_ms", "open_mib"),
]
WORDS = np.random.default_rng(1).standard_normal((4096, 384))


class HashedWords:
    """An encoder whose vector of a text is the normalised sum of a random vector for each word."""

    name = DEFAULT_ENCODER

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One unit vector per text."""
        rows = np.array([WORDS[[zlib.crc32(w.encode()) % 4096 for w in text.lower().split()]].sum(0) for text in texts])
        vectors: list[list[float]] = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).tolist()
        return vectors

    def remember(self, texts: Sequence[str], vectors: Sequence[list[float]]) -> None:
        """Do nothing, because vectors are computed quickly."""


async def open_hashed(*_: Any) -> HashedWords:
    """Replaces `open_encoder`; the arguments are ignored."""
    return HashedWords()


def endless_passages(files: list[Path]) -> Iterator[Passage]:
    """Yield passages forever: first those of the files in a fixed random order, then changed copies of them.

    If the files have no passages, the passages of the demo corpora are used.
    """
    known = [p for file in files for p in read_passages(file)] or [p for n in DEMO_CORPORA for p in demo_passages(n)]
    chance = random.Random(1)
    chance.shuffle(known)
    for number in itertools.count():
        passage = known[number] if number < len(known) else chance.choice(known)
        words = passage.text.split()
        if number >= len(known):
            other = chance.choice(known).text.split()
            words[::8] = [chance.choice(other) for _ in words[::8]]
        yield Passage(id=str(number), title=passage.title, text=" ".join(words), source="benchmark")


def memory_mib() -> float:
    """The current memory of this process in MiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


async def build(file: Path, count: int) -> dict[str, float]:
    """Index the first ``count`` passages of a file; return the columns ``build_*``."""
    with file.open(encoding="utf-8") as lines:
        await index_passages(SMALL, [Passage.model_validate_json(next(lines)) for _ in range(10)])
    before, wall, cpu = memory_mib(), time.perf_counter(), time.process_time()
    with file.open(encoding="utf-8") as lines:
        await index_passages("many", map(Passage.model_validate_json, itertools.islice(lines, count)))
    return {
        "build_s": time.perf_counter() - wall,
        "build_cpu_s": time.process_time() - cpu,
        "build_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10 - before,
    }


async def query(file: Path, source: str, count: int) -> dict[str, float]:
    """Time queries in the corpus that `build` has indexed; return the columns of queries and ``open_mib``."""
    with file.open(encoding="utf-8") as lines:
        some = itertools.islice(lines, 0, count, max(1, count // (1 + ONE_BY_ONE + AT_ONCE)))
        queries = [" ".join(Passage.model_validate_json(line).text.split()[:12]) for line in some]
    await (await open_retriever(f"{source}:{SMALL}")).search("few words", 3)
    before, start = memory_mib(), time.perf_counter()

    async def search(words: str) -> None:
        assert await (await open_retriever(f"{source}:many")).search(words, 6)

    cpu = time.process_time()
    await search(queries[0])
    first, first_cpu, later, cpu = time.perf_counter() - start, time.process_time() - cpu, [], time.process_time()
    for words in queries[1 : 1 + ONE_BY_ONE]:
        start = time.perf_counter()
        await search(words)
        later.append(time.perf_counter() - start)
    start = time.perf_counter()
    await asyncio.gather(*map(search, queries[1 + ONE_BY_ONE : 1 + ONE_BY_ONE + AT_ONCE]))
    return {
        "first_query_ms": first * 1000,
        "first_cpu_ms": first_cpu * 1000,
        "later_query_ms": statistics.median(later) * 1000,
        "queries_at_once_ms": (time.perf_counter() - start) * 1000,
        "later_cpu_ms": (time.process_time() - cpu) * 1000 / (ONE_BY_ONE + AT_ONCE),
        "open_mib": memory_mib() - before,
    }


def run_child(*words: str) -> dict[str, Any]:
    """Run this program in a new process with ``--child`` and these words; return the JSON object that it prints."""
    done = subprocess.run([sys.executable, __file__, "--child", *words], stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def measure(files: list[Path], counts: list[int]) -> Iterator[dict[str, Any]]:
    """Yield a row for each pair of a number of passages and a source."""
    for count in counts:
        with tempfile.TemporaryDirectory() as home:
            os.environ["MOOT_HOME"] = home
            file = Path(home) / "passages.jsonl"
            with file.open("w", encoding="utf-8") as out:
                out.writelines(p.model_dump_json() + "\n" for p in itertools.islice(endless_passages(files), count))
            built = run_child("build", str(file), str(count))
            for source in SOURCES:
                stored = {} if source == "bm25" else built
                yield {"passages": count, "source": source, **stored, **run_child(source, str(file), str(count))}


def format_cell(value: Any) -> str:
    """A value as a cell of the table; empty for None."""
    return "" if value is None else value if isinstance(value, str) else f"{value:,.{1 if value < 10 else 0}f}"


def main() -> None:
    """Print the table. With ``--child`` (see `run_child`), measure once and print JSON."""
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("files", nargs="*", type=Path)
    given.add_argument("--passages", nargs="*", type=int, default=[1000, 26000, 100000])
    given.add_argument("--json", type=Path)
    given.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    asked = given.parse_args()
    if asked.child:
        for module in (corpus, local):
            module.open_encoder = open_hashed  # type: ignore[attr-defined]
        what, file, count = asked.child[0], Path(asked.child[1]), int(asked.child[2])
        print(json.dumps(asyncio.run(build(file, count) if what == "build" else query(file, what, count))))
        return
    print(f"{processor()}, {os.cpu_count()} processors\n\n| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    rows = []
    for row in measure(asked.files, asked.passages):
        rows.append(row)
        print(f"| {' | '.join(format_cell(row.get(column)) for column in COLUMNS)} |", flush=True)
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
