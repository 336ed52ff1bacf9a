"""Who hands out the rows of a batch: to this process. `moot.cli.batch.workers` hands them to several.

What a row is (`moot.cli.batch.jobs`) and how it is done (`moot.cli.batch.work`) does not depend on who hands it out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol

from moot.cli.batch.jobs import Job
from moot.cli.batch.outcomes import Outcome
from moot.cli.batch.work import Work
from moot.core.endpoint import close_clients
from moot.core.errors import ENDS_ALL
from moot.nodes.models.ceilings import Ceilings

Ended = Callable[[Job, Outcome], Awaitable[None]]
"""Is told what came of a row."""


class Rows:
    """The rows that are left, for several who take them.

    Args:
        jobs: the rows. It is gone through in a thread.
    """

    def __init__(self, jobs: Iterator[Job]) -> None:
        self._jobs = jobs
        self._lock = asyncio.Lock()
        self.stopped = ""
        """Why no further row is handed out; empty if all are."""

    async def take(self) -> Job | None:
        """The next row; None if there is none, or no more are to be begun."""
        async with self._lock:
            return None if self.stopped else await asyncio.to_thread(next, self._jobs, None)

    def heed(self, outcome: Outcome, *, full: bool) -> None:
        """Begins no further rows if one failed for what all would fail for, or a ceiling for all left no room."""
        self.stopped = self.stopped or why_all_end(outcome, full=full)


def why_all_end(outcome: Outcome, *, full: bool) -> str:
    """Why no further row is to be begun after one that came to this; empty if they are.

    Args:
        outcome: what came of the row.
        full: whether a ceiling for all left no room.
    """
    if outcome["status"] == "done":
        return ""
    if full and outcome["kind"] == "budget_exhausted":
        return "a ceiling for all rows is reached; with a higher one the same command goes on"
    return ENDS_ALL.get(outcome["kind"] or "", "")


class Hands(Protocol):
    """Hands out rows."""

    async def hand_out(self, rows: Rows, ended: Ended) -> None:
        """Has all rows done, and tells what came of each.

        Args:
            rows: what there is to do.
            ended: is told of each row that was done.
        """
        ...


class Here:
    """Hands rows to this process.

    Args:
        work: does them.
        at_once: debates in flight.
        ceilings: what all debates share.
    """

    def __init__(self, work: Work, at_once: int, ceilings: Ceilings) -> None:
        self.work = work
        self.at_once = at_once
        self.ceilings = ceilings

    async def hand_out(self, rows: Rows, ended: Ended) -> None:
        """As `Hands.hand_out`."""

        async def one_after_another() -> None:
            while (job := await rows.take()) is not None:
                outcome = await self.work.hold(job)
                rows.heed(outcome, full=self.ceilings.refused)
                await ended(job, outcome)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self.at_once):
                    group.create_task(one_after_another())
        finally:
            await close_clients()
