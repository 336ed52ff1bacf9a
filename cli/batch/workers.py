"""Distributes the rows of a batch over several processes, and replaces killed processes."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from moot.cli.batch.jobs import Job
from moot.cli.batch.outcomes import failed_outcome
from moot.cli.batch.process import MOST_DEATHS, Worker
from moot.cli.batch.runner import OnEnd, Rows
from moot.cli.batch.worker import WorkerConfig
from moot.nodes._models.joint_ceilings import JointFile


class ProcessRunner:
    """Distributes rows over processes.

    The rows that ran in a killed process are tried again, one at a time in a new process. So no row fails because of
    another row.

    Args:
        count: number of processes.
        at_once: maximum number of debates in flight in each process.
        config: the configuration of each process, except its slot and the time left.
        ceilings_file: the file of the ceilings that the processes share; None without ceilings.
    """

    def __init__(self, count: int, at_once: int, config: WorkerConfig, ceilings_file: JointFile | None) -> None:
        self.count = count
        self.at_once = at_once
        self.config = config
        self.ceilings_file = ceilings_file
        self.until = time.monotonic() + config.seconds

    async def run_rows(self, rows: Rows, on_end: OnEnd) -> None:
        """As `RowRunner.run_rows`.

        Raises:
            ExceptionGroup: its errors are as in `RowRunner.run_rows`, or a WorldError if a process ended before it was
                ready.
        """
        async with asyncio.TaskGroup() as group:
            for slot in range(1, self.count + 1):  # slot 0 is this process's own
                group.create_task(self._run_slot(slot, rows, on_end))

    async def _run_slot(self, slot: int, rows: Rows, on_end: OnEnd) -> None:
        """Runs the process of one slot, and starts a new process whenever the last one was killed.

        The slot ends if `MOST_DEATHS` processes in succession were killed while they ran no row.
        """
        suspects: list[Job] = []
        idle_deaths = 0
        while True:
            config = replace(self.config, slot=slot, seconds=max(self.until - time.monotonic(), 0.001))
            worker = await Worker.start(config.line())
            try:
                while suspects:
                    if not await worker.run_row(suspects[0], rows, on_end):
                        why = f"{MOST_DEATHS} processes ended while they ran this row ({await worker.exit_reason()})."
                        await on_end(suspects.pop(0), failed_outcome(why, "worker_killed"))
                        break
                    suspects.pop(0)
                else:
                    suspects = await self._run_until_killed(worker, rows, on_end)
                    idle_deaths = idle_deaths + 1 if worker.is_dead and not suspects else 0
                    if not suspects and idle_deaths in (0, MOST_DEATHS):
                        await worker.close()
                        return
            finally:
                await worker.end()
                if self.ceilings_file is not None:
                    self.ceilings_file.settle_killed(slot)

    async def _run_until_killed(self, worker: Worker, rows: Rows, on_end: OnEnd) -> list[Job]:
        """Lets a worker run rows, several at once.

        If the worker is killed, its unfinished rows are returned; else an empty list.
        """
        unfinished: list[Job] = []

        async def take_rows() -> None:
            while not worker.is_dead and (job := await rows.take()) is not None:
                if not await worker.run_row(job, rows, on_end):
                    unfinished.append(job)

        async with asyncio.TaskGroup() as group:
            for _ in range(self.at_once):
                group.create_task(take_rows())
        return unfinished
