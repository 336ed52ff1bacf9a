"""Hands the rows of a batch to the workers of a queue, on whatever machines, and collects what comes of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moot.cli.batch.hands import Ended, Rows
from moot.cli.batch.jobs import Job
from moot.cli.batch.store import Store
from moot.cli.batch.work import Folder
from moot.core.postgres.connection import Postgres
from moot.core.postgres.rows import BatchOf, QueuedRows

if TYPE_CHECKING:
    from moot.cli.batch.run import Limits

AT_ONCE = 500
"""Rows that are queued in one transaction."""
COLLECTED = 50
"""Documents that are fetched at once."""
LOOK = 0.5
"""Seconds between two looks for rows that have ended."""
LEFT = ("waiting", "running")


@contextmanager
def queued(url: str, store: Store, folder: Path, file: str, mode: str, limits: Limits) -> Iterator[Queued]:
    """Who hands the rows of a batch to a queue.

    Args:
        url: of the queue.
        store: the batch's record.
        folder: where documents are collected.
        file: the name of its file of claims.
        mode: how the ledger is used.
        limits: what all rows may take.
    """
    batch = BatchOf(store.batch, file, mode, limits.most, time.time() + limits.seconds)
    with closing(Postgres(url)) as postgres:
        yield Queued(QueuedRows(postgres), batch, Folder(folder), store)


class Queued:
    """Hands rows to a queue.

    Args:
        rows: the queue's.
        batch: the batch as the queue has it.
        folder: where documents are collected.
        store: knows which rows are asked for.
    """

    def __init__(self, rows: QueuedRows, batch: BatchOf, folder: Folder, store: Store) -> None:
        self._rows = rows
        self._batch = batch
        self._folder = folder
        self._store = store

    async def hand_out(self, rows: Rows, ended: Ended) -> None:
        """As `Hands.hand_out`. Interrupted, it leaves the rows in the queue.

        Raises:
            UserError, WorldError: the queue cannot be used, or a document cannot be written.
        """
        await asyncio.to_thread(self._rows.prepare)
        await asyncio.to_thread(self._rows.open_batch, self._batch)
        some: list[dict[str, Any]] = []
        while (job := await rows.take()) is not None:
            some.append(asdict(job))
            if len(some) == AT_ONCE:
                await self._enter(some, ended)
        await self._enter(some, ended)
        while True:
            counts, stopped = await asyncio.to_thread(self._rows.state, self._batch.id)
            collected = await self._collect(ended)
            if not collected and not any(counts.get(status) for status in LEFT):
                return
            if not collected and stopped and not counts.get("running"):
                rows.stopped = stopped
                return
            if not collected:
                await asyncio.sleep(LOOK)

    async def _enter(self, some: list[dict[str, Any]], ended: Ended) -> None:
        if some:
            await asyncio.to_thread(self._rows.enter, self._batch.id, some)
            some.clear()
            await self._collect(ended)

    async def _collect(self, ended: Ended) -> bool:
        """Writes the documents of some rows that have ended; whether there were any."""
        found = await asyncio.to_thread(self._rows.ended, self._batch.id, COLLECTED)
        for row in found:
            if not await asyncio.to_thread(self._store.expects, row.key):
                continue  # of another reading of the file
            job = Job(**row.job)
            if row.document is not None:
                await asyncio.to_thread(self._folder.put, job, row.document, row.outcome)
            await ended(job, row.outcome)
        if found:
            await asyncio.to_thread(self._rows.collected, [row.key for row in found])
        return bool(found)
