"""A process that does rows of a batch: lines of JSON come in and go out. It ends when nobody is left to tell it more.

``python -m moot.cli.batch.worker``: the first line says how to work, each further one is a row.
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
from moot.cli.batch.process import FAREWELL
from moot.cli.batch.work import Folder, Work
from moot.core.garbage import collected_seldom
from moot.core.telemetry.switch import finish, telemetry
from moot.nodes.models.ceilings import Spend, within
from moot.nodes.models.joint_ceilings import JointCeilings, JointFile
from moot.nodes.models.keeping import Mode
from moot.nodes.models.prices import read_prices
from moot.nodes.telemetry.start import begin_telemetry

ALIVE = 5.0
"""Seconds between two signs of life."""


@dataclass(frozen=True)
class Orders:
    """How a worker works.

    Args:
        folder: the batch's.
        mode: how the ledger is used.
        joint: the file of the ceilings that it shares; empty if there are none.
        place: its own in that file.
        most: the bounds.
        seconds: that are left.
    """

    folder: str
    mode: Mode
    joint: str
    place: int
    most: tuple[float, float, float]
    seconds: float

    def line(self) -> str:
        """As a line of JSON."""
        return json.dumps(asdict(self)) + "\n"


def main() -> None:
    """Works until the standard input ends."""
    told, out = opened()
    begin_telemetry(port=False)
    orders = Orders(**told)
    joint = JointFile(Path(orders.joint)) if orders.joint else None
    ceilings = JointCeilings(joint, orders.place, Spend(*orders.most), orders.seconds) if joint else None
    work = Work(Folder(Path(orders.folder)), orders.mode, read_prices())

    async def hold(told: dict[str, Any]) -> dict[str, Any]:
        outcome = await work.hold(Job(**told))
        return {"outcome": outcome, "full": bool(ceilings and ceilings.refused)}

    with within(ceilings) if ceilings else nullcontext(), collected_seldom():
        asyncio.run(listen(hold, out))


def opened() -> tuple[dict[str, Any], TextIO]:
    """How this process is to work, and whom it answers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C comes to all processes of a terminal: whoever began this acts
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # what a library prints is no answer
    return json.loads(sys.stdin.readline()), out


async def listen(hold: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]], out: TextIO) -> None:
    """Does rows as they come.

    Args:
        hold: does a row, which has a ``key``; what it returns is the answer.
        out: is told the answers.
    """
    loop, running = asyncio.get_running_loop(), set()
    context = copy_context()  # with the ceilings: a thread has none

    async def answer(told: dict[str, Any]) -> None:
        tell(out, {"key": told["key"], **await hold(told)})

    def begin(line: str) -> None:
        task = loop.create_task(answer(json.loads(line)))
        running.add(task)
        task.add_done_callback(running.discard)

    def hear() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(begin, line, context=context)
        if telemetry() is not None:
            loop.call_soon_threadsafe(finish_and_exit)  # in the loop, so that nothing more is asked meanwhile
            time.sleep(FAREWELL)
        os._exit(0)  # whoever began this has ended: the next command goes on with what is in the ledger

    threading.Thread(target=hear, daemon=True).start()
    tell(out, {"ready": True})
    while True:
        await asyncio.sleep(ALIVE)
        tell(out, {"alive": True})


def finish_and_exit() -> None:
    """Sends what telemetry is still to be sent, and ends the process."""
    finish()
    os._exit(0)


def tell(out: TextIO, value: dict[str, Any]) -> None:
    """Says something to whoever began this."""
    out.write(json.dumps(value) + "\n")


if __name__ == "__main__":
    main()
