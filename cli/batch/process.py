"""The parent's side of the processes that run rows, for ``moot batch --workers`` and ``moot worker``.

In this module, a row is a line for the child program (`moot.cli.batch.child`), as a mapping: a debate or a piece of a
corpus. This module does not import the debate systems, because only the child processes need them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from moot.core.errors import WorldError
from moot.transcript.outcome import failed_outcome

log = logging.getLogger(__name__)
PROGRAM = "moot.cli.batch.child"
"""The module that each process runs."""
MOST_LINE_BYTES = 64 * 2**20
"""Maximum size of a line from a process, in bytes."""
CLOSE_SECONDS = 5.0
"""Maximum time, in seconds, for a process to send its telemetry before it is ended."""
SILENT_SECONDS = 60.0
"""A process that sends no message for this many seconds is ended, because its event loop hangs."""
CHECK_SECONDS = 5.0
"""Seconds between two checks for processes that hang."""
DEAD = "worker_killed"
"""The kind of the error of a row whose processes ended."""


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
    async def start(cls, config: Mapping[str, Any]) -> Worker:
        """Starts a process and waits until it is ready."""
        pipe = asyncio.subprocess.PIPE
        command = (sys.executable, "-m", PROGRAM)
        worker = cls(await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, limit=MOST_LINE_BYTES))
        try:
            await worker._send(json.dumps(config) + "\n")
            is_ready = await worker._ready is not None
        except BaseException:
            await worker.end()
            raise
        if not is_ready:
            raise WorldError(f"A worker process ended before it was ready ({await worker.exit_reason()}).", kind=DEAD)
        return worker

    async def ask(self, row: Mapping[str, Any]) -> dict[str, Any] | None:
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


class Workers:
    """Processes on this machine that run rows; use it as an asynchronous context manager.

    If a process ends or hangs, it is replaced, and each row that it ran is tried once more, alone in a new process. If
    that process also ends or hangs, the row fails. So no row fails because of another row.

    Args:
        count: number of processes.
        config: what each process is told first; see `moot.cli.batch.child`.
        row_seconds: seconds after which a row counts as hanging.
    """

    def __init__(self, count: int, config: Mapping[str, Any], row_seconds: float = math.inf) -> None:
        self._count = count
        self._config = config
        self._row_seconds = None if row_seconds == math.inf else row_seconds
        self._processes: list[Worker] = []
        self._load: dict[Worker, int] = {}
        self._start_lock = asyncio.Lock()
        self._alone_lock = asyncio.Lock()
        self._alone: list[Worker] = []
        """The process that runs a row alone, if there is one."""

    async def __aenter__(self) -> Workers:
        starting = (self._start_process() for _ in range(self._count))
        try:
            for error in await asyncio.gather(*starting, return_exceptions=True):
                if error:
                    raise error
        except BaseException:
            await self.end_all()
            raise
        self._watching = asyncio.create_task(self._end_silent_processes())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._watching.cancel()
        await asyncio.gather(*(process.close() for process in self._processes))

    async def run(
        self, row: Mapping[str, Any], *, alone: bool = False, may_repeat: Callable[[], bool] = lambda: True
    ) -> dict[str, Any] | None:
        """Runs a row and returns the answer: that of its process, or a failed ``outcome`` if two processes ended.

        With ``alone``, its process runs no other row. If the first process has ended and ``may_repeat`` is false, the
        answer is None.
        """
        if not alone:
            process = await self._least_busy_process()
            self._load[process] += 1
            try:
                answer, _ = await self._ask(process, row)
            finally:
                self._load[process] -= 1
            if answer or not may_repeat():
                return answer
        async with self._alone_lock:
            process = await Worker.start(self._config)
            self._alone = [process]
            try:
                answer, why = await self._ask(process, row)
            finally:
                self._alone = []
                await process.end()
        return answer or {"outcome": failed_outcome(f"The process that ran only this row ended ({why}).", DEAD)}

    async def end_all(self) -> None:
        """Kills all processes; the next row starts new ones."""
        for process in self._processes:
            await process.end()

    async def _ask(self, process: Worker, row: Mapping[str, Any]) -> tuple[dict[str, Any] | None, str]:
        """Sends a row to a process. Returns the answer and "", or None and the reason if the process ends or hangs."""
        try:
            async with asyncio.timeout(self._row_seconds):
                answer = await process.ask(row)
        except TimeoutError:
            await process.end()
            return None, f"no answer for more than {self._row_seconds:,.0f} s"
        return answer, "" if answer else await process.exit_reason()

    async def _start_process(self) -> None:
        process = await Worker.start(self._config)
        self._processes.append(process)
        self._load[process] = 0

    async def _least_busy_process(self) -> Worker:
        """Replaces the processes that have ended, and returns the process with the fewest rows."""
        async with self._start_lock:
            for process in [process for process in self._processes if process.is_dead]:
                await self._start_process()
                self._processes.remove(process)  # last, so that the next call tries again if no process can start
        return min(self._processes, key=self._load.__getitem__)

    async def _end_silent_processes(self) -> None:
        while True:
            for process in (*self._processes, *self._alone):
                if not process.is_dead and time.monotonic() > process.last_message + SILENT_SECONDS:
                    log.warning("A process is ended, because it has sent nothing for %.0f s.", SILENT_SECONDS)
                    await process.end()
            await asyncio.sleep(CHECK_SECONDS)
