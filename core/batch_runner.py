"""Runs the rows of a batch, several at once, says when no further row may start, and how far the batch is.

A row is one debate. `moot batch` runs a row in its own process or in one of several, and the page on its server, all
with `run_here`. A queue takes the same `Rows`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from moot.core.errors import MOST_OUTAGES, STOPS_BATCH, OutageCount

J = TypeVar("J")
ADVICE = "The same command continues with the rows that are not done"
"""What to do after an outage, as the end of a sentence."""
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
        self._unreachable = 0
        """How many rows in succession could not reach an endpoint."""
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
        self._unreachable = self._unreachable + 1 if outcome["kind"] == "unreachable" else 0
        if self._unreachable >= MOST_OUTAGES:
            unreachable = f"{MOST_OUTAGES} rows in succession could not reach an endpoint"
            why = why or outage_in_words(unreachable, outcome, self._advice)
        self.stopped = self.stopped or why or outages


class Progress:
    """What the debates of this run of a batch have taken, as far as they have ended."""

    def __init__(self, total: int) -> None:
        self.total = total  # number of debates to run
        self.started = time.monotonic()
        self.ended = self.failed = self.tokens = 0
        self.usd = 0.0
        self.all_priced = True

    def note(self, outcome: Outcome) -> None:
        """Counts a debate that has ended."""
        self.ended += 1
        self.failed += outcome["status"] != "done"
        if paid := outcome.get("paid"):
            self.tokens += paid["tokens"]
            self.usd += paid["usd"] or 0
            self.all_priced = self.all_priced and paid["usd"] is not None

    def seconds_left(self, left: int, running: int) -> float | None:
        """An estimate of the seconds until no debate is left; None if no debate has ended."""
        return seconds_left(time.monotonic() - self.started, self.ended, left, running) if self.ended else None


def seconds_left(seconds: float, ended: int, left: int, running: int) -> float:
    """The time for the debates that are left, ``running`` of them in flight, if ``ended`` ones took these seconds.

    On average, a debate in flight is half done: if 2 ended in 30 s, and 2 of 4 that are left run, then 3 were done in
    30 s, so the other 3 take 30 s.
    """
    halves = min(running, left) / 2
    return seconds * (left - halves) / (ended + halves)


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
    """Why no further row may start after several outages, and what to do; empty if ``why`` is empty."""
    return why and f"{why}. {outcome['error']} {advice}"
