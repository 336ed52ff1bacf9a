"""A process that runs rows of a batch. It reads and writes lines of JSON, and ends when its input ends.

It is started by ``python -m moot.cli.batch.worker``. The first line of its input is a `WorkerConfig`, and each further
line is a row.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from langsmith.utils import tracing_is_enabled
from moot.cli.batch.jobs import Job
from moot.cli.batch.process import CLOSE_SECONDS
from moot.cli.batch.work import RECORDED, Folder, RowProcessor, share_of
from moot.core.telemetry import begin_telemetry, finish_telemetry, is_on
from moot.nodes._models.prices import read_prices
from moot.nodes._models.replies import Mode
from moot.nodes._runtime.tracing import client_of_process, finish_at_exit

HEARTBEAT_SECONDS = 5.0
"""Seconds between two heartbeats."""


@dataclass(frozen=True)
class WorkerConfig:
    """A worker's configuration.

    Args:
        folder: the batch's folder.
        mode: how stored replies are used.
        until: the latest end of the batch, in seconds since 1970; infinite without a limit.
    """

    folder: str
    mode: Mode
    until: float

    def line(self) -> str:
        """The configuration as a line of JSON."""
        return json.dumps(asdict(self)) + "\n"


def main() -> None:
    """Runs rows until the standard input ends; then the process ends."""
    first, out = open_streams()
    begin_telemetry(port=False)
    config = WorkerConfig(**first)
    processor = RowProcessor(Folder(Path(config.folder), has_runs=config.mode in RECORDED), config.mode, read_prices())

    async def run_row(row: dict[str, Any]) -> dict[str, Any]:
        job = Job(**row)
        with share_of(job, config.until):
            outcome = await processor.run_row(job)
        return {"outcome": outcome, "full": time.time() >= config.until}

    asyncio.run(process_rows(run_row, out))


def open_streams() -> tuple[dict[str, Any], TextIO]:
    """Reserves the standard output for answers, and ignores Ctrl-C. Other prints go to standard error.

    Returns:
        The first line of the input, parsed, and the stream for answers.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal; the parent handles it
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # so that prints of libraries do not mix with answers
    return json.loads(sys.stdin.readline()), out


async def process_rows(run_row: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]], out: TextIO) -> None:
    """Processes rows as they arrive, and ends the process when the standard input ends.

    Args:
        run_row: runs a row and returns the answer. Each row has a ``key``, which is added to its answer.
        out: the stream for answers.
    """
    loop, running = asyncio.get_running_loop(), set()

    async def answer(row: dict[str, Any]) -> None:
        write_value(out, {"key": row["key"], **await run_row(row)})

    def start_row(line: str) -> None:
        task = loop.create_task(answer(json.loads(line)))
        running.add(task)
        task.add_done_callback(running.discard)

    def read_rows() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(start_row, line)
        if is_on() or tracing_is_enabled():
            loop.call_soon_threadsafe(finish_and_exit)  # blocks the loop, so that debates start no call meanwhile
            time.sleep(CLOSE_SECONDS)
        # the parent has ended or no longer needs this process; rows that still run are resumed from the store
        os._exit(0)

    threading.Thread(target=read_rows, daemon=True).start()
    write_value(out, {"ready": True})
    while True:
        await asyncio.sleep(HEARTBEAT_SECONDS)
        write_value(out, {"alive": True})


def finish_and_exit() -> None:
    """Sends the rest of the traces and of the metrics, and ends the process."""
    if tracing_is_enabled():
        finish_at_exit(client_of_process())
    finish_telemetry()
    os._exit(0)


def write_value(out: TextIO, value: dict[str, Any]) -> None:
    """Writes a value as a line of JSON for the parent process."""
    out.write(json.dumps(value) + "\n")


if __name__ == "__main__":
    main()
