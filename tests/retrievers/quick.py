"""An encoder that needs no model, for this process and for processes that tests start (`CHILD`).

`CHILD` is a program with three tasks:

index CORPUS FIRST END     indexes the passages FIRST to END - 1; prints after each batch how many of them are stored
search CORPUS COUNT        searches for the passages 0 to COUNT - 1, and prints how many were the first result
damaged FOLDER...          uses the corpus `big` of each home folder three times, and prints the results as JSON
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from moot.retrievers import MootError, Passage, index_passages, open_retriever
from moot.retrievers import _corpus as corpus
from moot.retrievers import _local as local
from moot.retrievers._encoders import DEFAULT_ENCODER

from tests.forked import start

CHILD = [sys.executable, "-c", "from tests.retrievers.quick import run; run()"]


class QuickEncoder:
    """An encoder that gives each text its own unit vector."""

    name = DEFAULT_ENCODER

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        rows = np.array([np.random.default_rng(zlib.crc32(text.encode())).standard_normal(64) for text in texts])
        vectors: list[list[float]] = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).tolist()
        return vectors

    def remember(self, texts: Sequence[str], vectors: Sequence[list[float]]) -> None:
        """Do nothing, because it is quick to compute a vector again."""


def output_of_child(*words: str, **options: Any) -> str:
    """Run a task in `CHILD`, which must succeed; return what it prints."""
    with start([*CHILD, *words], stdout=subprocess.PIPE, text=True, **options) as child:
        printed: str = child.communicate(timeout=120)[0]
    assert child.returncode == 0
    return printed


async def open_quick_encoder(*_: Any) -> QuickEncoder:
    """Tests replace `open_encoder` by this function, which ignores the encoder's name."""
    return QuickEncoder()


def numbered_passages(first: int, end: int) -> list[Passage]:
    """The passages with the numbers ``first`` to ``end`` - 1. `is_found` searches for their texts."""
    return [Passage(id=str(i), text=f"Entry {i} of the ledger.", source="ledger") for i in range(first, end)]


async def is_found(corpus: str, number: int, kind: str = "chroma") -> bool:
    """Open a corpus for a kind of search; return whether a search for a numbered passage returns its text first."""
    text = f"Entry {number} of the ledger."
    best = await (await open_retriever(f"{kind}:{corpus}")).search(text, 3)
    return bool(best) and best[0]["text"] == text


async def _use_corpus(folder: str) -> list[str]:
    """Index passages in the corpus `big` of a home folder, and search it twice; return three results or errors."""
    os.environ["MOOT_HOME"] = folder
    results = []
    for call in (index_passages("big", numbered_passages(0, 3)), is_found("big", 777), is_found("big", 777, "bm25")):
        try:
            results.append(str(await call))
        except MootError as error:
            results.append(f"{error.kind}: {error.detail}")
    return results


async def main(task: str, *words: str) -> None:
    """Do a task of `CHILD`. ``words`` are its arguments."""
    if task == "index":
        passages = numbered_passages(int(words[1]), int(words[2]))
        await index_passages(words[0], passages, progress=lambda seen, _: print(seen, flush=True))
    elif task == "search":
        print(sum([await is_found(words[0], i) for i in range(int(words[1]))]))
    for folder in words if task == "damaged" else ():
        print(json.dumps(await _use_corpus(folder)), flush=True)


def run() -> None:
    """Do the task that this process's arguments name. The encoder is `QuickEncoder`."""
    for module in (corpus, local):
        module.open_encoder = open_quick_encoder  # type: ignore[attr-defined]
    asyncio.run(main(*sys.argv[1:]))
