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
from contextlib import nullcontext
from contextvars import copy_context
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from moot.cli.batch.jobs import Job
from moot.cli.batch.work import Work
from moot.core.garbage import collected_seldom
from moot.nodes.models.ceilings import Spend, within
from moot.nodes.models.joint_ceilings import JointCeilings, JointFile
from moot.nodes.models.keeping import Mode
from moot.nodes.models.prices import read_prices


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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C comes to all processes of a terminal: whoever began this acts
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # what a library prints is no answer
    orders = Orders(**json.loads(sys.stdin.readline()))
    joint = JointFile(Path(orders.joint)) if orders.joint else None
    ceilings = JointCeilings(joint, orders.place, Spend(*orders.most), orders.seconds) if joint else None
    with within(ceilings) if ceilings else nullcontext(), collected_seldom():
        asyncio.run(work(Work(Path(orders.folder), orders.mode, read_prices()), out, ceilings))


async def work(of: Work, out: TextIO, ceilings: JointCeilings | None) -> None:
    """Does rows as they come."""
    loop, running = asyncio.get_running_loop(), set()
    context = copy_context()  # with the ceilings: a thread has none

    async def hold(job: Job) -> None:
        outcome = await of.hold(job)
        tell(out, {"key": job.key, "outcome": outcome, "full": bool(ceilings and ceilings.refused)})

    def begin(line: str) -> None:
        task = loop.create_task(hold(Job(**json.loads(line))))
        running.add(task)
        task.add_done_callback(running.discard)

    def listen() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(begin, line, context=context)
        os._exit(0)  # whoever began this has ended: the next command goes on with what is in the ledger

    threading.Thread(target=listen, daemon=True).start()
    tell(out, {"ready": True})
    await asyncio.Event().wait()


def tell(out: TextIO, value: dict[str, Any]) -> None:
    """Says something to whoever began this."""
    out.write(json.dumps(value) + "\n")


if __name__ == "__main__":
    main()
