"""Distributes the rows of a batch over several processes, and replaces killed ones."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from moot.cli.batch.hands import Ended, Rows
from moot.cli.batch.jobs import Job
from moot.cli.batch.outcomes import fault
from moot.cli.batch.process import DEATHS, Worker
from moot.cli.batch.worker import Orders
from moot.nodes._models.joint_ceilings import JointFile


class Processes:
    """Distributes rows over processes.

    The rows of a killed process are tried again, each alone in a new process, so that no row fails because of another.

    Args:
        count: number of processes.
        at_once: debates in flight in each.
        orders: their configuration.
        joint: the file of their shared ceilings, if there are any.
    """

    def __init__(self, count: int, at_once: int, orders: Orders, joint: JointFile | None) -> None:
        self.count = count
        self.at_once = at_once
        self.orders = orders
        self.joint = joint
        self.until = time.monotonic() + orders.seconds

    async def run_rows(self, rows: Rows, ended: Ended) -> None:
        """As `Hands.run_rows`.

        Raises:
            WorldError: a process ended before it was ready.
        """
        async with asyncio.TaskGroup() as group:
            for place in range(1, self.count + 1):  # slot 0 is this process's own
                group.create_task(self._one(place, rows, ended))

    async def _one(self, place: int, rows: Rows, ended: Ended) -> None:
        """Runs the process of one slot, and starts a new one if it was killed."""
        suspects: list[Job] = []
        while True:
            orders = replace(self.orders, place=place, seconds=max(self.until - time.monotonic(), 0.001))
            worker = await Worker.started(orders.line())
            try:
                while suspects:
                    if not await worker.do(suspects[0], rows, ended):
                        died = f"The row ended {DEATHS} processes that worked on it ({await worker.ending()})."
                        await ended(suspects.pop(0), fault(died, "worker_killed"))
                        break
                    suspects.pop(0)
                else:
                    suspects = await self._several(worker, rows, ended)
                    if not suspects:
                        await worker.close()
                        return
            finally:
                await worker.end()
                if self.joint is not None:
                    self.joint.settle_killed(place)

    async def _several(self, worker: Worker, rows: Rows, ended: Ended) -> list[Job]:
        """Has a worker process rows, several at once; returns the rows that it had in flight when it was killed."""
        left: list[Job] = []

        async def one_after_another() -> None:
            while not worker.is_dead and (job := await rows.take()) is not None:
                if not await worker.do(job, rows, ended):
                    left.append(job)

        async with asyncio.TaskGroup() as group:
            for _ in range(self.at_once):
                group.create_task(one_after_another())
        return left
