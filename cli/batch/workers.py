"""Hands the rows of a batch to several processes, and does without those that are killed."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from moot.cli.batch.hands import Ended, Rows
from moot.cli.batch.jobs import Job
from moot.cli.batch.work import fault
from moot.cli.batch.worker import Orders
from moot.core.errors import WorldError
from moot.nodes.models.joint_ceilings import JointFile

LONGEST = 64 * 2**20
"""Bytes of a line from a worker."""
DEATHS = 2
"""Workers that a row may kill; the last of them did nothing else."""


class Processes:
    """Hands rows to processes.

    The rows that a killed process had are tried again, each alone in a new one: so none ends for what another did.

    Args:
        count: how many processes.
        at_once: debates in flight in each.
        orders: how they work.
        joint: the file of the ceilings that they share, if there are any.
    """

    def __init__(self, count: int, at_once: int, orders: Orders, joint: JointFile | None) -> None:
        self.count = count
        self.at_once = at_once
        self.orders = orders
        self.joint = joint
        self.until = time.monotonic() + orders.seconds

    async def hand_out(self, rows: Rows, ended: Ended) -> None:
        """As `Hands.hand_out`.

        Raises:
            WorldError: a process ended before it could begin.
        """
        async with asyncio.TaskGroup() as group:
            for place in range(1, self.count + 1):  # the first place is that of this process
                group.create_task(self._one(place, rows, ended))

    async def _one(self, place: int, rows: Rows, ended: Ended) -> None:
        """The processes at one place, each after the last one was killed."""
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
                        return
            finally:
                await worker.end()
                if self.joint is not None:
                    self.joint.left_by_dead(place)

    async def _several(self, worker: Worker, rows: Rows, ended: Ended) -> list[Job]:
        """Has a worker do rows, several at once; those that it had when it was killed."""
        left: list[Job] = []

        async def one_after_another() -> None:
            while not worker.is_dead and (job := await rows.take()) is not None:
                if not await worker.do(job, rows, ended):
                    left.append(job)

        async with asyncio.TaskGroup() as group:
            for _ in range(self.at_once):
                group.create_task(one_after_another())
        return left


class Worker:
    """A process that does rows.

    Args:
        process: it.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._asked: dict[str, asyncio.Future[dict[str, Any] | None]] = {}
        self._listening = asyncio.create_task(self._listen())
        self._ready: asyncio.Future[dict[str, Any] | None] = asyncio.get_running_loop().create_future()
        self.is_dead = False
        self.heard = time.monotonic()
        """When it last said something; it does so by and by."""

    @classmethod
    async def started(cls, orders: str, program: str = "moot.cli.batch.worker") -> Worker:
        """A new process that can do rows.

        Args:
            orders: the line that says how it works.
            program: the module that it runs.

        Raises:
            WorldError: it ended before it could.
        """
        pipe = asyncio.subprocess.PIPE
        words = (sys.executable, "-m", program)
        worker = cls(await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe, limit=LONGEST))
        try:
            await worker._say(orders)
            is_ready = await worker._ready is not None
        except BaseException:
            await worker.end()
            raise
        if not is_ready:
            raise WorldError(f"A worker ended before it began ({await worker.ending()}).", kind="worker_killed")
        return worker

    async def do(self, job: Job, rows: Rows, ended: Ended) -> bool:
        """Has a row done, and tells what came of it; False if the process ended before that."""
        if (said := await self.ask(asdict(job))) is None:
            return False
        rows.heed(said["outcome"], full=said["full"])
        await ended(job, said["outcome"])
        return True

    async def ask(self, row: dict[str, Any]) -> dict[str, Any] | None:
        """What the process answers on a row; None if it ended before that."""
        if self.is_dead:
            return None
        answer: asyncio.Future[dict[str, Any] | None] = asyncio.get_running_loop().create_future()
        self._asked[row["key"]] = answer
        await self._say(json.dumps(row) + "\n")
        return await answer

    async def ending(self) -> str:
        """How the process ended."""
        code = await self._process.wait()
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    async def end(self) -> None:
        """Ends the process."""
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._listening
        await self._process.wait()

    async def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        with suppress(ConnectionError):  # that it has ended is heard by whoever listens
            self._process.stdin.write(line.encode())
            await self._process.stdin.drain()

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            self.heard, said = time.monotonic(), json.loads(line)
            if "alive" not in said:
                _give(self._ready if "ready" in said else self._asked.pop(said["key"]), said)
        self.is_dead = True
        for waiting in (self._ready, *self._asked.values()):
            _give(waiting, None)


def _give(waiting: asyncio.Future[dict[str, Any] | None], said: dict[str, Any] | None) -> None:
    if not waiting.done():  # nobody waits any more if the batch was interrupted
        waiting.set_result(said)
