"""Puts the rows of a batch on a queue for workers on any machine, and collects the results of the rows."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import closing
from dataclasses import asdict

from moot.cli.batch.batch import Batch, Limits, OnEnd
from moot.cli.batch.jobs import Job
from moot.cli.batch.work import Folder
from moot.core.batch_runner import Rows
from moot.core.postgres.connection import Postgres
from moot.service.queue.rows import QueuedBatch, QueuedRows

QUEUED_AT_ONCE = 500
"""Maximum number of rows that are queued in one transaction."""
FETCHED_AT_ONCE = 50
"""Maximum number of ended rows that are fetched in one query."""
POLL_SECONDS = 0.5
"""Seconds between two checks for rows that have ended."""
NO_WORKER = "No worker takes rows from the queue. Start `moot worker` with the same --queue or MOOT_QUEUE."


class WorkerWatch:
    """Prints a message if the queue has no worker at first, and each time the last worker has left.

    Args:
        rows: the queue's rows.
    """

    def __init__(self, rows: QueuedRows) -> None:
        self._rows = rows
        self._had_worker = True

    def check(self) -> None:
        """Prints the message if the queue has no worker, unless the previous check also found no worker. Blocking."""
        before, self._had_worker = self._had_worker, bool(self._rows.workers())
        if before and not self._had_worker:
            print(NO_WORKER, file=sys.stderr, flush=True)  # noqa: T201


async def run_on_queue(batch: Batch, limits: Limits, rows: Rows[Job], on_end: OnEnd) -> None:
    """Lets the workers of a queue, which has its tables, run rows until none is left or no further row may start.

    If the command is interrupted, the rows stay in the queue. If the batch is stopped while rows wait, ``rows.stopped``
    becomes the reason.
    """
    assert limits.queue
    with closing(Postgres(limits.queue)) as postgres:
        await QueueRunner(QueuedRows(postgres), batch, on_end).run(rows, time.time() + limits.seconds)


class QueueRunner:
    """Queues the rows of a batch and collects their results.

    Args:
        queued: the queue's rows.
        batch: the batch.
        on_end: called with each row that has ended, and its outcome.
    """

    def __init__(self, queued: QueuedRows, batch: Batch, on_end: OnEnd) -> None:
        self._queued = queued
        self._batch = batch
        self._on_end = on_end
        self._folder = Folder(batch.folder, has_runs=False)

    async def run(self, rows: Rows[Job], until: float) -> None:
        """The same as `run_on_queue`, until the latest end of the batch, in seconds since 1970."""
        id, watch = self._batch.id, WorkerWatch(self._queued)
        about = QueuedBatch(id, self._batch.claims.path.name, self._batch.mode, until)
        await asyncio.to_thread(self._queued.open_batch, about)
        chunk: list[Job] = []
        while (job := await rows.take()) is not None:
            chunk.append(job)
            if len(chunk) == QUEUED_AT_ONCE:
                await self._queue(chunk)
        await self._queue(chunk)
        while True:
            waiting, running, stopped = await asyncio.to_thread(self._queued.activity, id)
            if await self._collect():
                continue
            if not running and (stopped or not waiting):
                rows.stopped = stopped if waiting else rows.stopped
                return
            await asyncio.to_thread(watch.check)
            await asyncio.sleep(POLL_SECONDS)

    async def _queue(self, chunk: list[Job]) -> None:
        """Queues the jobs in ``chunk``, empties this list, and collects some ended rows."""
        if chunk:
            await asyncio.to_thread(self._queued.queue_rows, self._batch.id, [asdict(job) for job in chunk])
            chunk.clear()
            await self._collect()

    async def _collect(self) -> bool:
        """Writes the documents of some newly ended rows and reports their outcomes; returns whether there were any."""
        turn = self._batch.rows.turn
        found = await asyncio.to_thread(self._queued.ended_rows, self._batch.id, FETCHED_AT_ONCE, turn)
        for row in found:
            job = Job(**row.job)
            if row.document is not None:
                await asyncio.to_thread(self._folder.put, job, row.document, row.outcome)
            await self._on_end(job, row.outcome)
        if found:
            await asyncio.to_thread(self._queued.mark_collected, [row.key for row in found])
        return bool(found)
