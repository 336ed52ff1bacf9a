"""Puts the rows of a batch on a queue for workers on any machine, and collects the results of the rows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from moot.cli.batch.jobs import Job
from moot.cli.batch.runner import Limits, OnEnd, Rows
from moot.cli.batch.work import Folder
from moot.core.batches import BatchRows
from moot.core.postgres.connection import Postgres
from moot.core.postgres.queued import QueuedBatch
from moot.core.postgres.rows import QueuedRows

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
        print_line: prints a line.
    """

    def __init__(self, rows: QueuedRows, print_line: Callable[[str], object]) -> None:
        self._rows = rows
        self._print_line = print_line
        self._had_worker = True

    def check(self) -> None:
        """Prints the message if the queue has no worker, unless the previous check also found no worker. Blocking."""
        before, self._had_worker = self._had_worker, bool(self._rows.workers())
        if before and not self._had_worker:
            self._print_line(NO_WORKER)


@contextmanager
def open_queue(
    url: str, own: BatchRows, folder: Path, file: str, mode: str, limits: Limits, print_line: Callable[[str], object]
) -> Iterator[QueueRunner]:
    """Context manager: opens a queue, and yields the runner for the rows of a batch.

    Args:
        url: the address of the queue.
        own: the rows of this run of the batch.
        folder: the folder for documents.
        file: the name of the batch's file of claims.
        mode: how stored replies are used.
        limits: the limits for all rows together.
        print_line: prints a line.

    Raises:
        UserError: the address is invalid, or the extra ``queue`` is not installed.
    """
    batch = QueuedBatch(own.batch, file, mode, time.time() + limits.seconds)
    with closing(Postgres(url)) as postgres:
        rows = QueuedRows(postgres)
        yield QueueRunner(rows, batch, Folder(folder, has_runs=False), own.turn, WorkerWatch(rows, print_line))


class QueueRunner:
    """Lets the workers of a queue run the rows of a batch.

    Args:
        rows: the queue's rows.
        batch: the batch as the queue stores it.
        folder: the folder for documents.
        turn: the number of this run of the batch.
        watch: prints a message if the queue has no worker.
    """

    def __init__(self, rows: QueuedRows, batch: QueuedBatch, folder: Folder, turn: int, watch: WorkerWatch) -> None:
        self._rows = rows
        self._batch = batch
        self._folder = folder
        self._turn = turn
        self._watch = watch

    async def run_rows(self, rows: Rows, on_end: OnEnd) -> None:
        """The same as `RowRunner.run_rows`. If the command is interrupted, the rows stay in the queue.

        If the batch is stopped while rows wait, ``rows.stopped`` becomes the reason.

        Raises:
            UserError, WorldError: the queue cannot be used, or a document cannot be written.
        """
        await asyncio.to_thread(self._rows.prepare)
        await asyncio.to_thread(self._rows.open_batch, self._batch)
        chunk: list[dict[str, Any]] = []
        while (job := await rows.take()) is not None:
            chunk.append(asdict(job))
            if len(chunk) == QUEUED_AT_ONCE:
                await self._queue_rows(chunk, on_end)
        await self._queue_rows(chunk, on_end)
        while True:
            waiting, running, stopped = await asyncio.to_thread(self._rows.activity, self._batch.id)
            if await self._collect(on_end):
                continue
            if not running and (stopped or not waiting):
                rows.stopped = stopped if waiting else rows.stopped
                return
            await asyncio.to_thread(self._watch.check)
            await asyncio.sleep(POLL_SECONDS)

    async def _queue_rows(self, chunk: list[dict[str, Any]], on_end: OnEnd) -> None:
        """Queues the jobs in ``chunk``, empties this list, and collects some ended rows."""
        if chunk:
            await asyncio.to_thread(self._rows.queue_rows, self._batch.id, chunk)
            chunk.clear()
            await self._collect(on_end)

    async def _collect(self, on_end: OnEnd) -> bool:
        """Writes the documents of some newly ended rows and reports their outcomes.

        Returns whether there were such rows.
        """
        found = await asyncio.to_thread(self._rows.ended_rows, self._batch.id, FETCHED_AT_ONCE, self._turn)
        for row in found:
            job = Job(**row.job)
            if row.document is not None:
                await asyncio.to_thread(self._folder.put, job, row.document, row.outcome)
            await on_end(job, row.outcome)
        if found:
            await asyncio.to_thread(self._rows.mark_collected, [row.key for row in found])
        return bool(found)
