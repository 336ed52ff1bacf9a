"""An encoder that needs no model, for this process and for processes that tests start (`CHILD`).

index CORPUS FIRST END     indexes numbered passages, and prints the count after each batch
search CORPUS TIMES        searches for TIMES passages, and prints how many of them came first
damaged FOLDER...          prints for each home folder the results of three uses of the corpus `big`
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
        """Do nothing: vectors are computed quickly."""


def output_of_child(*words: str, **options: Any) -> str:
    """The output of `CHILD` for a task."""
    with start([*CHILD, *words], stdout=subprocess.PIPE, text=True, **options) as child:
        printed: str = child.communicate(timeout=120)[0]
    assert child.returncode == 0
    return printed


async def open_quick_encoder(*_: Any) -> QuickEncoder:
    """Replaces `open_encoder`."""
    return QuickEncoder()


def numbered_passages(first: int, end: int) -> list[Passage]:
    """Passages that `is_found` finds by their numbers."""
    return [Passage(id=str(i), text=f"Entry {i} of the ledger.", source="ledger") for i in range(first, end)]


async def is_found(corpus: str, number: int, kind: str = "chroma") -> bool:
    """Whether a search in the newly opened corpus returns the passage of that number first."""
    text = f"Entry {number} of the ledger."
    best = await (await open_retriever(f"{kind}:{corpus}")).search(text, 3)
    return bool(best) and best[0]["text"] == text


async def _use(folder: str) -> list[str]:
    """Index into, and search, the corpus `big` of a home folder; return the results or errors."""
    os.environ["MOOT_HOME"] = folder
    results = []
    for call in (index_passages("big", numbered_passages(0, 3)), is_found("big", 777), is_found("big", 777, "bm25")):
        try:
            results.append(str(await call))
        except MootError as error:
            results.append(f"{error.kind}: {error.detail}")
    return results


async def main(task: str, *words: str) -> None:
    if task == "index":
        some = numbered_passages(int(words[1]), int(words[2]))
        await index_passages(words[0], some, progress=lambda seen, _: print(seen, flush=True))
    elif task == "search":
        print(sum([await is_found(words[0], i) for i in range(int(words[1]))]))
    for folder in words if task == "damaged" else ():
        print(json.dumps(await _use(folder)), flush=True)


def run() -> None:
    """Do this process's task with the encoder that needs no model."""
    for module in (corpus, local):
        module.open_encoder = open_quick_encoder  # type: ignore[attr-defined]
    asyncio.run(main(*sys.argv[1:]))
