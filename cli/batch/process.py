"""The parent's handle of a process that runs rows of a batch.

In this module, a row is a `Job`: one debate of a row of the file.

This module does not import the debate systems, because only the child process needs them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from moot.core.errors import WorldError

if TYPE_CHECKING:
    from moot.cli.batch.jobs import Job
    from moot.cli.batch.runner import OnEnd, Rows

log = logging.getLogger(__name__)
MOST_LINE_BYTES = 64 * 2**20
"""Maximum size of a line from a worker, in bytes."""
CLOSE_SECONDS = 5.0
"""Maximum time, in seconds, for a process to send its telemetry before it is ended."""
MOST_DEATHS = 2
"""A row fails if this many processes are killed while they run it.

The last of these processes runs no other row at the same time.
"""


class Worker:
    """A process that runs rows.

    Args:
        process: the started process.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._pending: dict[str, asyncio.Future[dict[str, Any] | None]] = {}
        self._reading = asyncio.create_task(self._read_answers())
        self._ready: asyncio.Future[dict[str, Any] | None] = asyncio.get_running_loop().create_future()
        self.is_dead = False
        self.last_message = time.monotonic()
        """The time (`time.monotonic`) of the process's last message. Processes also send heartbeats."""

    @classmethod
    async def start(cls, config: str, program: str = "moot.cli.batch.worker") -> Worker:
        """Starts a process and waits until it is ready.

        Args:
            config: a line with the process's configuration.
            program: the module that the process runs.

        Raises:
            WorldError: the process ended before it was ready.
            OSError: the process cannot be created.
        """
        pipe = asyncio.subprocess.PIPE
        command = (sys.executable, "-m", program)
        worker = cls(await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, limit=MOST_LINE_BYTES))
        try:
            await worker._send(config)
            is_ready = await worker._ready is not None
        except BaseException:
            await worker.end()
            raise
        if not is_ready:
            raise WorldError(
                f"A worker process ended before it was ready ({await worker.exit_reason()}).", kind="worker_killed"
            )
        return worker

    async def run_row(self, job: Job, rows: Rows, on_end: OnEnd) -> bool:
        """Lets the process run a row, and passes the outcome to ``on_end``.

        Args:
            job: the row to run.
            rows: the rows of the batch, which are stopped if the outcome requires it (`Rows.check_outcome`).
            on_end: called with the row and its outcome.

        Returns:
            False if the process ended without an outcome, else True.
        """
        if (answer := await self.ask(asdict(job))) is None:
            return False
        rows.check_outcome(answer["outcome"], ceiling_reached=answer["full"])
        await on_end(job, answer["outcome"])
        return True

    async def ask(self, row: dict[str, Any]) -> dict[str, Any] | None:
        """Sends a row to the process and returns the answer; None if the process ended without an answer.

        The answer belongs to the row with the same ``key``, so no two unanswered rows may share a ``key``.
        """
        if self.is_dead:
            return None
        answer: asyncio.Future[dict[str, Any] | None] = asyncio.get_running_loop().create_future()
        self._pending[row["key"]] = answer
        await self._send(json.dumps(row) + "\n")
        return await answer

    async def exit_reason(self) -> str:
        """Waits for the end of the process, and says how it ended: ``signal 9`` or ``exit code 1``."""
        code = await self._process.wait()
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    async def close(self) -> None:
        """Ends the process, which first has up to `CLOSE_SECONDS` seconds to send its telemetry."""
        if self._process.stdin is not None:
            self._process.stdin.close()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), CLOSE_SECONDS)
        await self.end()

    async def end(self) -> None:
        """Kills the process and waits for its end."""
        with suppress(ProcessLookupError):
            self._process.kill()
        await asyncio.shield(self._reading)  # so that cancelling a call of `end` does not cancel this task
        await self._process.wait()

    async def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        with suppress(ConnectionError):  # the process has ended, which `_read_answers` notices
            self._process.stdin.write(line.encode())
            await self._process.stdin.drain()

    async def _read_answers(self) -> None:
        assert self._process.stdout is not None
        try:
            async for line in self._process.stdout:
                self.last_message, answer = time.monotonic(), json.loads(line)
                if "alive" not in answer:
                    _resolve(self._ready if "ready" in answer else self._pending.pop(answer["key"]), answer)
        except (ValueError, KeyError) as error:
            log.error("A worker process sent a line that cannot be read (%s), so the process is ended.", error)
            with suppress(ProcessLookupError):
                self._process.kill()
        finally:
            self.is_dead = True
            for future in (self._ready, *self._pending.values()):
                _resolve(future, None)


def _resolve(future: asyncio.Future[dict[str, Any] | None], answer: dict[str, Any] | None) -> None:
    # A future may already be done, because an interrupted batch cancels futures, and a ready process has set `_ready`.
    if not future.done():
        future.set_result(answer)
