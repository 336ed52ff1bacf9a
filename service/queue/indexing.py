"""Lets the workers of a queue encode the passages of a corpus and store them on a Chroma server.

Each row of the queue is a piece of the corpus: some of its passages. The rows of one command form a batch of the queue.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from uuid import uuid4

from moot.core.errors import UserError, WorldError
from moot.core.postgres.connection import Postgres
from moot.retrievers._files import Passage
from moot.retrievers._filling import Progress, Target
from moot.service.queue.rows import QueuedBatch, QueuedRows
from moot.service.queue.runner import WorkerWatch

MOST_QUEUED = 64
"""Maximum number of pieces of a corpus in the queue. This is enough to keep the workers busy."""
POLL_SECONDS = 0.25
"""Seconds between two checks of the pieces in the queue."""


class FillByQueue:
    """Puts the pieces of a corpus on a queue, and waits until workers have stored all pieces.

    Args:
        url: the address of the queue.
    """

    def __init__(self, url: str) -> None:
        self._url = url

    async def __call__(self, target: Target, batches: Iterator[list[Passage]], progress: Progress) -> None:
        """The same as `moot.retrievers._filling.Fill`, on the workers of the queue.

        An interruption removes the pieces from the queue. The same command then adds the missing pieces to the corpus.
        """
        prefix = hashlib.sha256(f"{target.name} {target.collection.id}".encode()).hexdigest()[:8]
        batch = QueuedBatch(prefix + uuid4().hex[:8], f"corpus {target.name}", "off", math.inf)
        with closing(Postgres(self._url)) as postgres:
            rows = QueuedRows(postgres)
            await asyncio.to_thread(postgres.prepare)
            await self._end_earlier_runs(rows, prefix)
            await asyncio.to_thread(rows.open_batch, batch)
            try:
                await self._queue_pieces(rows, batch.id, target, batches, progress)
            finally:
                await asyncio.to_thread(rows.forget, batch.id)

    async def _end_earlier_runs(self, rows: QueuedRows, prefix: str) -> None:
        """Ends earlier runs that index this corpus, so that workers do not replace newer pieces with older pieces.

        It waits for the running pieces of these runs. The whole wait lasts at most for the heartbeat timeout.
        """
        batches = await asyncio.to_thread(rows.batches)
        earlier = [batch["id"] for batch in batches if batch["id"].startswith(prefix)]
        deadline = time.monotonic() + await asyncio.to_thread(rows.heartbeat_timeout)
        for id in earlier:
            await asyncio.to_thread(rows.stop, id, "the corpus is indexed again")
            while time.monotonic() < deadline:
                counts, _ = await asyncio.to_thread(rows.state, id)
                if not counts.get("running"):
                    break
                await asyncio.sleep(POLL_SECONDS)
            await asyncio.to_thread(rows.forget, id)

    async def _queue_pieces(
        self, rows: QueuedRows, batch: str, target: Target, batches: Iterator[list[Passage]], progress: Progress
    ) -> None:
        """Queues the pieces, at most `MOST_QUEUED` at a time, and waits until workers have stored all of them."""
        waiting: dict[str, int] = {}
        watch = WorkerWatch(rows)
        seen = encoded = number = 0
        more = True
        while more or waiting:
            while more and len(waiting) < MOST_QUEUED:
                passages = await asyncio.to_thread(next, batches, None)
                if passages is None:
                    more = False
                    break
                number += 1
                job = make_piece(f"{batch}-{number}", number, target, passages)
                await asyncio.to_thread(rows.queue_rows, batch, [job])
                waiting[job["key"]] = len(passages)
            ended = await asyncio.to_thread(rows.ended_rows, batch, MOST_QUEUED)
            for row in ended:
                if row.outcome["status"] != "done":
                    raise WorldError(
                        f"A worker could not store a piece of the corpus: {row.outcome['error']} Fix this, then run "
                        "the same command again to continue.",
                        kind=row.outcome["kind"],
                    )
                seen, encoded = seen + waiting.pop(row.key), encoded + row.outcome["encoded"]
            if ended:
                await asyncio.to_thread(rows.mark_collected, [row.key for row in ended])
                progress(seen, encoded)
            elif waiting:
                if not (await asyncio.to_thread(rows.state, batch))[0]:
                    raise UserError(
                        f"Another `moot index` into the corpus {target.name!r} has started. Run this command again "
                        "when the other command has ended.",
                        kind="unfinished_corpus",
                    )
                await asyncio.to_thread(watch.check)
                await asyncio.sleep(POLL_SECONDS)


def make_piece(key: str, number: int, target: Target, passages: list[Passage]) -> dict[str, Any]:
    """The job of the row for a piece of a corpus: the passages, and the names of the corpus and of the encoder."""
    fields = {*Passage.model_fields}
    return {
        "key": key,
        "number": number,
        "corpus": target.name,
        "encoder": target.encoder.name,
        "dimension": target.dimension,
        "passages": [json.loads(one.model_dump_json(include=fields)) for one in passages],
    }
