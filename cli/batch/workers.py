"""Distributes the rows of a batch over several processes, and replaces killed processes."""

from __future__ import annotations

import asyncio
import logging

from moot.cli.batch.jobs import Job
from moot.cli.batch.outcomes import failed_outcome
from moot.cli.batch.process import MOST_DEATHS, Worker
from moot.cli.batch.runner import OnEnd, Rows
from moot.cli.batch.worker import WorkerConfig

log = logging.getLogger(__name__)
MOST_IDLE_DEATHS = 2
"""Number of processes in succession that may be killed before they end a row. Then their slot starts no more."""


class ProcessRunner:
    """Distributes rows over processes.

    The rows that ran in a killed process are tried again, one at a time in a new process. So no row fails because of
    another row.

    Args:
        count: number of processes.
        at_once: maximum number of debates in flight in each process.
        config: the configuration of each process.
    """

    def __init__(self, count: int, at_once: int, config: WorkerConfig) -> None:
        self.count = count
        self.at_once = at_once
        self.config = config

    async def run_rows(self, rows: Rows, on_end: OnEnd) -> None:
        """As `RowRunner.run_rows`.

        Raises:
            ExceptionGroup: its errors are as in `RowRunner.run_rows`, or a WorldError if a process ended before it was
                ready.
        """
        async with asyncio.TaskGroup() as group:
            for _ in range(self.count):
                group.create_task(self._run_slot(rows, on_end))

    async def _run_slot(self, rows: Rows, on_end: OnEnd) -> None:
        """Runs the process of one slot, and starts a new process whenever the last one was killed.

        The slot ends if `MOST_IDLE_DEATHS` processes in succession were killed before they ended a row.
        """
        suspects: list[Job] = []
        idle_deaths = 0
        while True:
            worker = await Worker.start(self.config.line())
            try:
                while suspects:
                    if not await worker.run_row(suspects[0], rows, on_end):
                        why = f"{MOST_DEATHS} processes ended while they ran this row ({await worker.exit_reason()})."
                        await on_end(suspects.pop(0), failed_outcome(why, "worker_killed"))
                        break
                    suspects.pop(0)
                else:
                    suspects, has_ended_rows = await self._run_until_killed(worker, rows, on_end)
                    idle_deaths = 0 if suspects or has_ended_rows else idle_deaths + 1
                    if idle_deaths == MOST_IDLE_DEATHS and not rows.ended:
                        log.error("%d worker processes were killed before they ended a row.", MOST_IDLE_DEATHS)
                    if not suspects and (not worker.is_dead or rows.ended or idle_deaths == MOST_IDLE_DEATHS):
                        await worker.close()
                        return
            finally:
                await worker.end()

    async def _run_until_killed(self, worker: Worker, rows: Rows, on_end: OnEnd) -> tuple[list[Job], bool]:
        """Lets a worker run rows, several at once.

        Returns:
            The worker's unfinished rows if it was killed, else an empty list. And whether it ended any row.
        """
        unfinished: list[Job] = []
        has_ended_rows = False

        async def take_rows() -> None:
            nonlocal has_ended_rows
            while not worker.is_dead and (job := await rows.take()) is not None:
                if await worker.run_row(job, rows, on_end):
                    has_ended_rows = True
                else:
                    unfinished.append(job)

        async with asyncio.TaskGroup() as group:
            for _ in range(self.at_once):
                group.create_task(take_rows())
        return unfinished, has_ended_rows
