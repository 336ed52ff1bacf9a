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
from contextlib import nullcontext
from contextvars import copy_context
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from moot.cli.batch.jobs import Job
from moot.cli.batch.process import CLOSE_SECONDS
from moot.cli.batch.work import Folder, RowProcessor
from moot.core.telemetry.switch import finish, telemetry
from moot.nodes._models.ceilings import debates_within
from moot.nodes._models.joint_ceilings import JointCeilings, JointFile
from moot.nodes._models.prices import read_prices
from moot.nodes._models.replies import Mode
from moot.nodes._models.spend import Spend
from moot.nodes._telemetry.start import begin_telemetry

HEARTBEAT_SECONDS = 5.0
"""Seconds between two heartbeats."""


@dataclass(frozen=True)
class WorkerConfig:
    """A worker's configuration.

    Args:
        folder: the batch's folder.
        mode: how stored replies are used.
        ceilings_file: the file of the shared ceilings; empty if there are none.
        slot: this worker's slot in that file.
        most: the limits on tokens, USD and calls.
        seconds: the time left for the batch, in seconds.
    """

    folder: str
    mode: Mode
    ceilings_file: str
    slot: int
    most: tuple[float, float, float]
    seconds: float

    def line(self) -> str:
        """The configuration as a line of JSON."""
        return json.dumps(asdict(self)) + "\n"


def main() -> None:
    """Runs rows until the standard input ends; then the process ends."""
    first, out = open_streams()
    begin_telemetry(port=False)
    config = WorkerConfig(**first)
    ceilings_file = JointFile(Path(config.ceilings_file)) if config.ceilings_file else None
    ceilings = JointCeilings(ceilings_file, config.slot, Spend(*config.most), config.seconds) if ceilings_file else None
    processor = RowProcessor(Folder(Path(config.folder)), config.mode, read_prices())

    async def run_row(row: dict[str, Any]) -> dict[str, Any]:
        outcome = await processor.run_row(Job(**row))
        return {"outcome": outcome, "full": bool(ceilings and ceilings.refused)}

    with debates_within(ceilings) if ceilings else nullcontext():
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
    context = copy_context()  # has the ceilings, unlike the context of the thread that reads rows

    async def answer(row: dict[str, Any]) -> None:
        write_value(out, {"key": row["key"], **await run_row(row)})

    def start_row(line: str) -> None:
        task = loop.create_task(answer(json.loads(line)))
        running.add(task)
        task.add_done_callback(running.discard)

    def read_rows() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(start_row, line, context=context)
        if telemetry() is not None:
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
    """Sends the remaining telemetry and ends the process."""
    finish()
    os._exit(0)


def write_value(out: TextIO, value: dict[str, Any]) -> None:
    """Writes a value as a line of JSON for the parent process."""
    out.write(json.dumps(value) + "\n")


if __name__ == "__main__":
    main()
