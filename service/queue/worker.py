"""``moot worker``: takes rows from a queue and runs them in its own processes.

Procrastinate delivers a row, `moot.service.queue.rows` decides whether this worker runs the row, and
`moot.cli.batch.process.Workers` runs it. If several workers died while they had a row, the row is tried only once,
alone. The outcome of a row is stored together with its document.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from moot.cli.batch.process import DEAD, Workers
from moot.core.batch_runner import ADVICE, batch_stop_reason, outage_in_words
from moot.core.errors import MOST_OUTAGES, MootError, OutageCount, UserError, WorldError
from moot.core.postgres.connection import LONGEST_PAUSE, PATIENCE, PAUSE, Postgres, queue_module
from moot.core.telemetry import show_queue
from moot.service.queue.rows import MOST_LOSSES, QUEUE, TASK, AssignedRow, QueuedRows
from moot.transcript.outcome import Outcome, failed_outcome

log = logging.getLogger(__name__)

T = TypeVar("T")
UNREACHABLE = "queue"
"""The error kind for an unreachable Postgres. A row with this error has not failed; it is queued again."""
MACHINE_FAULTS = frozenset({"missing_key", "authentication", "missing_package", "invalid_environment", "not_written"})
"""Kinds of errors that this machine may have caused. A row with such an error may succeed on another machine."""
POLL_SECONDS = 1.0
"""Seconds between two checks of an empty queue."""
HEARTBEATS = 6
"""Number of heartbeats that a worker sends in the time after which a silent worker counts as dead."""
CONNECT_SECONDS = 5.0
"""Seconds for which procrastinate waits for a connection before it tries again."""
LOST_ROW = failed_outcome(f"{MOST_LOSSES} workers were lost while they had this row.", DEAD)


class QueueWorker:
    """A worker: it takes rows from a queue and runs them in processes on this machine.

    Args:
        url: the address of the queue.
        count: number of processes.
        at_once: debates in flight in each process.
        row_seconds: seconds after which a row counts as hanging.

    Raises:
        UserError: the address is invalid, or the extra ``queue`` is not installed.
    """

    def __init__(self, url: str, count: int, at_once: int, row_seconds: float) -> None:
        self.url = url
        self.at_once = count * at_once
        self.done = 0
        """Number of rows whose outcome, done or failed, this worker has stored."""
        self._connections = (Postgres(url), Postgres(url, patience=0))
        self._rows = QueuedRows(self._connections[0])
        self._impatient_rows = QueuedRows(self._connections[1], patience=0)  # for metrics and shutdown
        self._processes = Workers(count, {"queue": url}, row_seconds)
        self._proven: set[str] = set()
        """Batches with a row that succeeded here. If a row of such a batch fails, this machine is not the cause."""
        self._running: dict[str, asyncio.Task[None] | None] = {}
        self._worker_id = 0
        self._ending = asyncio.Event()

    async def work(self, *, drain: bool) -> None:
        """Runs rows until this coroutine is cancelled, or with ``drain`` until no row waits or runs here."""
        await asyncio.to_thread(self._connections[0].prepare)
        self._worker_id = await asyncio.to_thread(self._rows.join)
        show_queue("postgres", self._impatient_rows.queue_lengths)
        seconds = await asyncio.to_thread(self._rows.heartbeat_timeout) / HEARTBEATS
        self._resigned = asyncio.get_running_loop().create_future()
        async with self._processes, _procrastinate(self.url, self._run_delivered_row, self._ending) as app:
            heartbeats = asyncio.create_task(self._send_heartbeats(seconds))
            taking = asyncio.create_task(
                app.run_worker_async(
                    queues=[QUEUE],
                    concurrency=self.at_once,
                    wait=not drain,
                    fetch_job_polling_interval=POLL_SECONDS,
                    listen_notify=False,
                    delete_jobs="always",
                    shutdown_graceful_timeout=None if drain else 0,
                    install_signal_handlers=False,
                )
            )
            try:
                await asyncio.wait((taking, self._resigned), return_when=asyncio.FIRST_COMPLETED)
                ended = self._resigned if self._resigned.done() else taking
                ended.result()
                if not drain:  # then procrastinate ends only after an error, which it has logged
                    raise WorldError(
                        "The queue delivers no more rows to this worker. Restart the worker.", kind="queue"
                    )
            finally:
                self._ending.set()
                taking.cancel()
                try:
                    await asyncio.wait((taking,))  # with ``drain``, until the running rows have ended
                finally:
                    heartbeats.cancel()
                try:
                    await asyncio.to_thread(self._impatient_rows.leave, self._worker_id)
                except MootError as error:
                    log.warning("%s Other workers will get this worker's rows.", error.detail)
                for connection in self._connections:
                    await asyncio.to_thread(connection.close)

    async def _run_delivered_row(self, key: str) -> None:
        """Runs a row that procrastinate delivers, unless this worker already runs it or must not run it."""
        if key in self._running:
            return
        self._running[key] = None
        try:
            assigned = await asyncio.to_thread(self._rows.assign, key, self._worker_id)
            if assigned is not None:
                self._running[key] = asyncio.current_task()
                await self._run_row(assigned)
        except MootError as error:
            log.warning("%s The row will run later.", error.detail)
        finally:
            del self._running[key]

    async def _run_row(self, assigned: AssignedRow) -> None:
        """Runs a row in a process, and stores its outcome, unless other workers have the row meanwhile."""
        batch, own_id = assigned.batch, self._worker_id
        row = {"key": assigned.key, "job": assigned.job, "mode": batch.mode, "until": batch.until}
        answer = await self._processes.run(row, alone=assigned.alone, may_repeat=lambda: own_id == self._worker_id)
        if answer is None or answer["outcome"].get("kind") == UNREACHABLE:
            return
        outcome = answer["outcome"]
        if outcome["status"] == "done":
            self._proven.add(batch.id)
        elif await self._leave_to_others(batch.id, own_id, outcome):
            return
        document = base64.b64decode(answer["document"]) if "document" in answer else None
        await asyncio.to_thread(self._rows.end, assigned.key, outcome, document)
        self.done += 1
        if why := await self._stop_reason(batch.id, outcome, ceiling_reached=time.time() >= batch.until):
            await asyncio.to_thread(self._rows.stop, batch.id, why)

    async def _stop_reason(self, batch: str, outcome: Outcome, *, ceiling_reached: bool) -> str:
        """Why no further row of a batch may start after this outcome and the last ones of all workers; else empty."""
        why = batch_stop_reason(outcome, ceiling_reached=ceiling_reached)
        if why or not outcome.get("outage"):
            return why
        outages, reason = OutageCount(), ""
        for outage in await asyncio.to_thread(self._rows.last_outages, batch, MOST_OUTAGES):
            reason = outages.stop_reason(outage)
        return outage_in_words(reason, outcome, ADVICE)

    async def _leave_to_others(self, batch: str, own_id: int, outcome: Outcome) -> bool:
        """Leaves all rows of this worker to other workers if this machine may have caused the outcome.

        Returns whether the rows were left. If no other worker is alive, they stay with this worker.
        """
        if outcome["kind"] not in MACHINE_FAULTS or batch in self._proven:
            return False
        if not await asyncio.to_thread(self._rows.resign, own_id):
            return False
        if not self._resigned.done():
            note = "This worker cannot process its rows, so it ends; other workers get them."
            self._resigned.set_exception(UserError(f"{outcome['error']} {note}", kind="invalid_environment"))
        return True

    async def _send_heartbeats(self, seconds: float) -> None:
        """Sends heartbeats, and returns the rows of dead workers to the queue.

        If this worker counted as dead, it joins the queue again with a new id, and all its processes are ended.
        """
        while True:
            try:
                mine = [key for key, task in self._running.items() if task]
                if not await asyncio.to_thread(self._rows.heartbeat, self._worker_id, mine):
                    log.warning("This worker sent no heartbeat in time, so its rows go to other workers.")
                    self._worker_id = await asyncio.to_thread(self._rows.join)
                    await self._processes.end_all()
                await asyncio.to_thread(self._rows.requeue_lost, LOST_ROW)
            except MootError as error:
                log.warning("%s", error.detail)
            await asyncio.sleep(seconds)


@contextlib.asynccontextmanager
async def _procrastinate(
    url: str, run_row: Callable[[str], Awaitable[None]], ending: asyncio.Event
) -> AsyncIterator[Any]:
    """Context manager: yields a Procrastinate app with the task that runs a row.

    The app repeats queries while the database is unreachable, until ``ending`` is set.
    """
    package, psycopg, pools = queue_module("procrastinate"), queue_module("psycopg"), queue_module("psycopg_pool")
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)  # the pool would warn of each failed attempt to connect

    warned = -math.inf

    async def retry_query(send: Callable[..., Awaitable[T]], query: str, values: dict[str, Any]) -> T:
        nonlocal warned
        began, pause = time.monotonic(), PAUSE
        while True:
            try:
                return await send(query, **values)
            except Exception as error:
                is_temporary = isinstance(error.__cause__, psycopg.OperationalError | psycopg.InterfaceError)
                if not is_temporary or ending.is_set():
                    raise
                if time.monotonic() > max(began, warned) + PATIENCE:  # one warning for all waiting queries
                    warned = time.monotonic()
                    log.warning(
                        "The database could not be used for more than %.0f s. This worker waits for it.", PATIENCE
                    )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await ending.wait()
            pause = min(2 * pause, LONGEST_PAUSE)

    class RetryingConnector(package.PsycopgConnector):  # type: ignore[misc, name-defined]
        async def execute_query_async(self, query: str, **values: Any) -> None:
            await retry_query(super().execute_query_async, query, values)

        async def execute_query_one_async(self, query: str, **values: Any) -> Any:
            return await retry_query(super().execute_query_one_async, query, values)

        async def execute_query_all_async(self, query: str, **values: Any) -> Any:
            return await retry_query(super().execute_query_all_async, query, values)

    class LazyPool(pools.AsyncConnectionPool):  # type: ignore[misc, name-defined]
        async def open(self, wait: bool = False, timeout: float = 0) -> None:
            await super().open()  # without waiting for connections; the first query waits

    def make_pool(**options: Any) -> Any:
        return LazyPool(**{**options, "check": None})  # not needed, because failed queries are repeated

    app = package.App(
        connector=RetryingConnector(
            conninfo=url, min_size=1, max_size=4, timeout=CONNECT_SECONDS, pool_factory=make_pool
        )
    )
    app.task(name=TASK, queue=QUEUE)(run_row)
    async with app.open_async():
        yield app
