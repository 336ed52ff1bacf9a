"""``moot worker``: takes rows from a queue and has them done by processes of its own, as long as there are any.

Procrastinate calls for a row; `moot.core.postgres.rows` says whether it is to be done, and by whom. A row whose process
ends or hangs is tried alone in a process of its own, and then fails; what else the process did is tried alone, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, TypeVar

from moot.cli.batch.outcomes import fault
from moot.cli.batch.process import DEATHS, Worker
from moot.core.errors import MootError
from moot.core.postgres.connection import LONGEST_PAUSE, PATIENCE, PAUSE, Postgres, needed
from moot.core.postgres.rows import LOSSES, QUEUE, TASK, Given, QueuedRows
from moot.core.telemetry.switch import telemetry

log = logging.getLogger(__name__)

T = TypeVar("T")
PROGRAM = "moot.cli.queue.child"
LOOK = 1.0
"""Seconds between two looks into an empty queue."""
BEATS = 6
"""How often a worker says that it lives, in the time after which it is taken for dead."""
STILL = 60.0
"""Seconds after which a process that says nothing is ended: its event loop hangs."""
LOST = fault(f"The row was lost {LOSSES} times with the worker that had it.", "worker_killed")


class Site:
    """The processes of a machine that do rows.

    Args:
        url: of the queue.
        count: how many processes.
        at_once: debates in flight in each.
        row_seconds: after which a row is taken to hang.
    """

    def __init__(self, url: str, count: int, at_once: int, row_seconds: float) -> None:
        self.url = url
        self.count = count
        self.at_once = at_once
        self.row_seconds = row_seconds
        self.done = 0
        """Rows that were done here."""
        self._rows = QueuedRows(Postgres(url))
        self._seen_rows = QueuedRows(Postgres(url), patience=0)  # whoever reads metrics does not wait
        self._orders = json.dumps({"queue": url}) + "\n"
        self._workers: list[Worker] = []
        self._load: dict[Worker, int] = {}
        self._starting = asyncio.Lock()
        self._one = asyncio.Lock()
        self._running: dict[str, asyncio.Task[None] | None] = {}
        self._number = 0

    async def work(self, *, drain: bool) -> None:
        """Does rows until it is cancelled.

        Args:
            drain: ends as soon as no row waits.

        Raises:
            UserError, WorldError: the queue cannot be used, or no process can begin.
        """
        await asyncio.to_thread(self._rows.prepare)
        self._number = await asyncio.to_thread(self._rows.join)
        if seen := telemetry():
            seen.show_queue(self._queue)
        beat = await asyncio.to_thread(self._rows.silence) / BEATS
        async with self._processes(), _procrastinate(self.url, self._row) as app:
            beating = asyncio.create_task(self._beat(beat))
            try:
                await app.run_worker_async(
                    queues=[QUEUE],
                    concurrency=self.count * self.at_once,
                    wait=not drain,
                    fetch_job_polling_interval=LOOK,
                    listen_notify=False,
                    delete_jobs="always",
                    shutdown_graceful_timeout=None if drain else 0,
                    install_signal_handlers=False,
                )
            finally:
                beating.cancel()
                await asyncio.to_thread(self._rows.leave, self._number)

    def _queue(self) -> Iterator[tuple[float, Mapping[str, str]]]:
        """The queue's length; the same at each of its workers."""
        for state, count in self._seen_rows.lengths().items():
            yield count, {"moot.queue": "postgres", "moot.state": state}

    # --- rows ---------------------------------------------------------------------------------------------------------

    async def _row(self, key: str) -> None:
        """Does a row that procrastinate calls for."""
        if key in self._running:
            return
        self._running[key] = None
        try:
            given = await asyncio.to_thread(self._rows.take, key, self._number)
            if given is not None:
                self._running[key] = asyncio.current_task()
                await self._do(given)
        finally:
            del self._running[key]

    async def _do(self, given: Given) -> None:
        row = {"key": given.key, "job": given.job, "batch": asdict(given.batch)}
        answer, number = None, self._number
        if not given.alone:
            worker = await self._least_busy()
            self._load[worker] += 1
            try:
                answer, why = await self._answer(worker, row)
            finally:
                self._load[worker] -= 1
        if answer is None and number == self._number:
            async with self._one:
                worker = await Worker.started(self._orders, PROGRAM)
                try:
                    answer, why = await self._answer(worker, row)
                finally:
                    await worker.end()
            if answer is None:
                outcome = fault(f"The row ended {DEATHS} processes that worked on it ({why}).", "worker_killed")
                await asyncio.to_thread(self._rows.end, given.key, outcome, None)
        self.done += bool(answer and answer["stored"])

    async def _answer(self, worker: Worker, row: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
        """What a process answers on a row, or why it does not: it ended, or took too long and was ended."""
        try:
            async with asyncio.timeout(self.row_seconds):
                answer = await worker.ask(row)
        except TimeoutError:
            await worker.end()
            return None, f"more than {self.row_seconds:,.0f} s"
        return answer, "" if answer else await worker.ending()

    # --- processes ----------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _processes(self) -> AsyncIterator[None]:
        """The processes, which are there from the start: one that cannot begin ends the command."""
        try:
            for _ in range(self.count):
                await self._started()
            yield
        finally:
            await asyncio.gather(*(worker.close() for worker in self._workers))

    async def _started(self) -> None:
        worker = await Worker.started(self._orders, PROGRAM)
        self._workers.append(worker)
        self._load[worker] = 0

    async def _end_all(self) -> None:
        for worker in self._workers:
            await worker.end()

    async def _least_busy(self) -> Worker:
        """The process that has the fewest rows; new ones take the place of those that ended."""
        async with self._starting:
            for worker in [worker for worker in self._workers if worker.is_dead]:
                self._workers.remove(worker)
                await self._started()
        return min(self._workers, key=self._load.__getitem__)

    async def _beat(self, seconds: float) -> None:
        """Says that this worker lives, ends processes that hang, and sees to what dead workers had."""
        while True:
            for worker in self._workers:
                if time.monotonic() > worker.heard + STILL:
                    log.warning("A process has said nothing for %.0f s, and is ended.", STILL)
                    await worker.end()
            try:
                mine = [key for key, task in self._running.items() if task]
                if not await asyncio.to_thread(self._rows.seen, self._number, mine):
                    log.warning("This worker was taken for dead: others do its rows.")
                    self._number = await asyncio.to_thread(self._rows.join)
                    await self._end_all()
                await asyncio.to_thread(self._rows.sweep, LOST)
            except MootError as error:
                log.warning("%s", error.detail)
            await asyncio.sleep(seconds)


@contextlib.asynccontextmanager
async def _procrastinate(url: str, row: Callable[[str], Awaitable[None]]) -> AsyncIterator[Any]:
    """Procrastinate with the task that does a row; what it asks of the server it asks again if that is away."""
    package, psycopg, pools = needed("procrastinate"), needed("psycopg"), needed("psycopg_pool")

    class Patient(package.PsycopgConnector):  # type: ignore[misc, name-defined]
        async def execute_query_async(self, query: str, **values: Any) -> None:
            await _patiently(psycopg, super().execute_query_async, query, values)

        async def execute_query_one_async(self, query: str, **values: Any) -> Any:
            return await _patiently(psycopg, super().execute_query_one_async, query, values)

        async def execute_query_all_async(self, query: str, **values: Any) -> Any:
            return await _patiently(psycopg, super().execute_query_all_async, query, values)

    def pool(**options: Any) -> Any:
        return pools.AsyncConnectionPool(**{**options, "check": None})  # what fails is asked again

    app = package.App(connector=Patient(conninfo=url, min_size=1, max_size=4, timeout=PATIENCE, pool_factory=pool))
    app.task(name=TASK, queue=QUEUE)(row)
    async with app.open_async():
        yield app


async def _patiently(psycopg: Any, ask: Callable[..., Awaitable[T]], query: str, values: dict[str, Any]) -> T:
    until, pause = time.monotonic() + PATIENCE, PAUSE
    while True:
        try:
            return await ask(query, **values)
        except Exception as error:
            passing = isinstance(error.__cause__, psycopg.OperationalError | psycopg.InterfaceError)
            if not passing or time.monotonic() + pause > until:
                raise
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
