"""Runs the rows of a batch in this process, several at once, and says when no further row may start.

A row is one debate. `moot.cli.batch` runs rows in this process or in several, `moot.cli.queue` on a queue, and
`moot.web.batches` on the server. All take the same `Rows`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from moot.core.errors import STOPS_BATCH, OutageCount

J = TypeVar("J")
ADVICE = "The same command continues with the rows that are not done"
"""What to do after the sources of some rows could not be searched, as the end of a sentence."""
Outcome = Mapping[str, Any]
"""A debate's outcome as plain JSON; ``status``, ``kind``, ``outage`` and ``error`` decide whether the batch stops."""


class Rows(Generic[J]):
    """The rows to run, for several concurrent consumers."""

    def __init__(self, jobs: Iterator[J], advice: str = ADVICE) -> None:
        self._jobs = jobs
        self._lock = asyncio.Lock()
        self._advice = advice
        self.stopped = ""
        """Why no further row is started; empty if further rows may start."""
        self._outages = OutageCount()
        self.ended = False
        """Whether all rows have been taken, or no further row may start."""

    async def take(self) -> J | None:
        """Takes the next row; None if there is none, or if no further row may start."""
        async with self._lock:
            job = None if self.stopped else await asyncio.to_thread(next, self._jobs, None)
            self.ended = job is None
            return job

    def check_outcome(self, outcome: Outcome, *, ceiling_reached: bool) -> None:
        """Sets `stopped` if no further row may start after this outcome and those before it."""
        outages = outage_in_words(self._outages.stop_reason(outcome["outage"]), outcome, self._advice)  # counts each
        why = batch_stop_reason(outcome, ceiling_reached=ceiling_reached)
        self.stopped = self.stopped or why or outages


async def run_here(
    rows: Rows[J],
    at_once: int,
    run_row: Callable[[J], Awaitable[Outcome | None]],
    on_end: Callable[[J, Any], Awaitable[None]],
    ceiling_reached: Callable[[], bool],
) -> None:
    """Runs rows until none is left or no further row may start; ``run_row`` returns None if there was nothing to do."""

    async def take_rows() -> None:
        while (job := await rows.take()) is not None:
            if (outcome := await run_row(job)) is not None:
                rows.check_outcome(outcome, ceiling_reached=ceiling_reached())
                await on_end(job, outcome)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(take_rows())


def batch_stop_reason(outcome: Outcome, *, ceiling_reached: bool) -> str:
    """Why no further row may start after this outcome; empty if further rows may start."""
    if outcome["status"] == "done":
        return ""
    if ceiling_reached and outcome["kind"] == "budget_exhausted":
        return "a ceiling for all rows is reached; raise it, and the same command continues"
    return STOPS_BATCH.get(outcome["kind"] or "", "")


def outage_in_words(why: str, outcome: Outcome, advice: str) -> str:
    """Why no further row may start after several source outages, and what to do; empty if ``why`` is empty."""
    return why and f"{why}. {outcome['error']} {advice}"
