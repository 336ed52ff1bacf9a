"""``moot worker``: takes rows from a queue and runs them in its own processes.

Procrastinate delivers a row, and `moot.core.postgres.rows` decides whether this worker runs the row. If the process of
a row ends or hangs, the row is tried once more, alone in a new process. If the new process also ends or hangs, the row
fails. Each other row of the first process is tried alone in the same way. If several workers died while they had a row,
the row is tried only once, alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict
from typing import Any, TypeVar

from moot.cli.batch.outcomes import failed_outcome
from moot.cli.batch.process import Worker
from moot.core.errors import MootError, UserError, WorldError
from moot.core.postgres.connection import LONGEST_PAUSE, PATIENCE, PAUSE, Postgres, queue_module
from moot.core.postgres.queued import AssignedRow
from moot.core.postgres.rows import MOST_LOSSES, QUEUE, TASK, QueuedRows
from moot.core.telemetry import show_queue

log = logging.getLogger(__name__)

T = TypeVar("T")
PROGRAM = "moot.cli.queue.child"
"""The module that each process runs."""
POLL_SECONDS = 1.0
"""Seconds between two checks of an empty queue."""
HEARTBEATS = 6
"""Number of heartbeats that a worker sends in the time after which a silent worker counts as dead."""
CONNECT_SECONDS = 5.0
"""Seconds for which procrastinate waits for a connection before it tries again."""
SILENT_SECONDS = 60.0
"""A process that sends no message for this many seconds is ended, because its event loop hangs."""
LOST_ROW = failed_outcome(f"{MOST_LOSSES} workers were lost while they had this row.", "worker_killed")


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
        self.count = count
        self.at_once = at_once
        self.row_seconds = row_seconds
        self.done = 0
        """Number of rows whose outcome, done or failed, a process has stored."""
        self._connections = (Postgres(url), Postgres(url, patience=0))
        self._rows = QueuedRows(self._connections[0])
        self._impatient_rows = QueuedRows(self._connections[1], patience=0)  # for metrics and shutdown
        self._config = json.dumps({"queue": url}) + "\n"
        self._processes: list[Worker] = []
        self._load: dict[Worker, int] = {}
        self._start_lock = asyncio.Lock()
        self._alone_lock = asyncio.Lock()
        self._running: dict[str, asyncio.Task[None] | None] = {}
        self._worker_id = 0
        self._ending = asyncio.Event()

    async def work(self, *, drain: bool) -> None:
        """Runs rows until this coroutine is cancelled, unless ``drain`` ends it earlier.

        Args:
            drain: whether to end when no row waits and the rows of this worker have ended.

        Raises:
            UserError: this machine lacks something that the rows need, such as a key. Other workers get this worker's
                rows.
            UserError, WorldError: the queue cannot be used.
            WorldError: a process cannot start, or the queue delivers no more rows although ``drain`` is false.
            OSError: a process cannot be created.
        """
        await asyncio.to_thread(self._rows.prepare)
        self._worker_id = await asyncio.to_thread(self._rows.join)
        show_queue("postgres", self._impatient_rows.queue_lengths)
        seconds = await asyncio.to_thread(self._rows.heartbeat_timeout) / HEARTBEATS
        self._resigned = asyncio.get_running_loop().create_future()
        async with self._running_processes(), _procrastinate(self.url, self._run_delivered_row, self._ending) as app:
            heartbeats = asyncio.create_task(self._send_heartbeats(seconds))
            taking = asyncio.create_task(
                app.run_worker_async(
                    queues=[QUEUE],
                    concurrency=self.count * self.at_once,
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

    # --- rows ---------------------------------------------------------------------------------------------------------

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
        """Runs a row in a process. If the process ends or hangs, runs the row once more, alone in a new process."""
        row = {"key": assigned.key, "job": assigned.job, "batch": asdict(assigned.batch), "worker": self._worker_id}
        answer, worker_id = None, self._worker_id
        if not assigned.alone:
            process = await self._least_busy_process()
            self._load[process] += 1
            try:
                answer, why = await self._ask(process, row)
            finally:
                self._load[process] -= 1
        if answer is None and worker_id == self._worker_id:  # if the id has changed, other workers have the row
            async with self._alone_lock:
                process = await Worker.start(self._config, PROGRAM)
                try:
                    answer, why = await self._ask(process, row)
                finally:
                    await process.end()
            if answer is None:
                outcome = failed_outcome(f"The process that ran only this row ended ({why}).", "worker_killed")
                await asyncio.to_thread(self._rows.end, assigned.key, outcome, None)
        self.done += bool(answer and answer["stored"])
        if answer and "resigned" in answer and not self._resigned.done():
            note = "This worker cannot process its rows, so it ends; other workers get them."
            self._resigned.set_exception(UserError(f"{answer['resigned']} {note}", kind="invalid_environment"))

    async def _ask(self, process: Worker, row: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
        """Sends a row to a process. Returns the answer and "", or None and the reason if the process ends or hangs."""
        try:
            async with asyncio.timeout(self.row_seconds):
                answer = await process.ask(row)
        except TimeoutError:
            await process.end()
            return None, f"no answer for more than {self.row_seconds:,.0f} s"
        return answer, "" if answer else await process.exit_reason()

    # --- processes ----------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _running_processes(self) -> AsyncIterator[None]:
        """Context manager: starts the processes, and ends them at exit. Fails if a process cannot start."""
        try:
            for _ in range(self.count):
                await self._start_process()
            yield
        finally:
            await asyncio.gather(*(process.close() for process in self._processes))

    async def _start_process(self) -> None:
        process = await Worker.start(self._config, PROGRAM)
        self._processes.append(process)
        self._load[process] = 0

    async def _end_all_processes(self) -> None:
        for process in self._processes:
            await process.end()

    async def _least_busy_process(self) -> Worker:
        """Replaces the processes that have ended, and returns the process with the fewest rows."""
        async with self._start_lock:
            for process in [process for process in self._processes if process.is_dead]:
                await self._start_process()
                self._processes.remove(process)  # last, so that the next call tries again if no process can start
        return min(self._processes, key=self._load.__getitem__)

    async def _send_heartbeats(self, seconds: float) -> None:
        """Sends heartbeats, ends processes that hang, and returns the rows of dead workers to the queue.

        If this worker counted as dead, it joins the queue again with a new id, and all its processes are ended.

        Args:
            seconds: the time between two heartbeats.
        """
        while True:
            for process in self._processes:
                if not process.is_dead and time.monotonic() > process.last_message + SILENT_SECONDS:
                    log.warning("A process is ended, because it has sent nothing for %.0f s.", SILENT_SECONDS)
                    await process.end()
            try:
                mine = [key for key, task in self._running.items() if task]
                if not await asyncio.to_thread(self._rows.heartbeat, self._worker_id, mine):
                    log.warning("This worker sent no heartbeat in time, so its rows go to other workers.")
                    self._worker_id = await asyncio.to_thread(self._rows.join)
                    await self._end_all_processes()
                await asyncio.to_thread(self._rows.requeue_lost, LOST_ROW)
            except MootError as error:
                log.warning("%s", error.detail)
            await asyncio.sleep(seconds)


@contextlib.asynccontextmanager
async def _procrastinate(
    url: str, run_row: Callable[[str], Awaitable[None]], ending: asyncio.Event
) -> AsyncIterator[Any]:
    """Context manager: yields a Procrastinate app with the task that runs a row.

    The app repeats queries while the database is unreachable.

    Args:
        url: the address of the queue.
        run_row: runs the row that has the given key.
        ending: set when the worker ends. After that, no query is repeated.

    Raises:
        UserError: the extra ``queue`` is not installed.
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
