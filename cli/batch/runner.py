"""Runs the rows of a batch in this process.

In this module, a row is a `Job`: one debate of a row of the file. `moot.cli.batch.workers` runs rows in several
processes, and `moot.cli.queue.runner` on a queue. All runners take the same rows (`moot.cli.batch.jobs`) and process
them in the same way (`moot.cli.batch.work`).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from moot.cli.batch.jobs import Job
from moot.cli.batch.outcomes import Outcome
from moot.cli.batch.work import RowProcessor
from moot.core.endpoint import close_clients
from moot.core.errors import STOPS_BATCH, OutageCount
from moot.nodes._models.budget import Budget
from moot.nodes._models.spend import Spend

OnEnd = Callable[[Job, Outcome], Awaitable[None]]
"""Callback that receives a row that has ended, and its outcome."""


@dataclass(frozen=True)
class Limits:
    """The limits of a batch.

    Args:
        at_once: maximum number of debates in flight in each process.
        workers: number of processes; 1 for this process alone.
        budget: the maximum number of tokens for all rows, including earlier runs of the batch.
        max_cost: the maximum cost of all rows in USD, including earlier runs of the batch.
        max_calls: the maximum number of calls for all rows, including earlier runs of the batch.
        max_seconds: the maximum duration of this run, in seconds.
        queue: the address of the queue whose workers run the rows; None to run them here.
    """

    at_once: int = 4
    workers: int = 1
    budget: int | None = None
    max_cost: float | None = None
    max_calls: int | None = None
    max_seconds: float | None = None
    queue: str | None = None

    @property
    def most(self) -> Spend:
        """The limits on tokens, USD and calls; infinity for each that has no limit."""
        bounds = (self.budget, self.max_cost, self.max_calls)
        return Spend(*(math.inf if most is None else most for most in bounds))

    @property
    def seconds(self) -> float:
        """The limit on time in seconds; infinity if there is no limit."""
        return math.inf if self.max_seconds is None else self.max_seconds

    @property
    def are_split(self) -> bool:
        """Whether several processes run the rows, so that each row has its own share of the ceilings."""
        return self.workers > 1 or self.queue is not None


class Rows:
    """The rows to run, for several concurrent consumers.

    Args:
        jobs: the rows; the iterator runs in a thread.
    """

    def __init__(self, jobs: Iterator[Job]) -> None:
        self._jobs = jobs
        self._lock = asyncio.Lock()
        self.stopped = ""
        """Why no further row is started; empty if further rows may start."""
        self._outages = OutageCount()
        self.ended = False
        """Whether all rows have been taken, or no further row may start."""

    async def take(self) -> Job | None:
        """Takes the next row; None if there is none, or if no further row may start."""
        async with self._lock:
            job = None if self.stopped else await asyncio.to_thread(next, self._jobs, None)
            self.ended = job is None
            return job

    def check_outcome(self, outcome: Outcome, *, ceiling_reached: bool) -> None:
        """Sets `stopped` if no further row may start after this outcome and those before it."""
        outages = outage_in_words(self._outages.stop_reason(outcome["outage"]), outcome)  # counts each outcome
        why = batch_stop_reason(outcome, ceiling_reached=ceiling_reached)
        self.stopped = self.stopped or why or outages


def batch_stop_reason(outcome: Outcome, *, ceiling_reached: bool) -> str:
    """Why no further row may start after this outcome; empty if further rows may start.

    Args:
        outcome: the row's outcome.
        ceiling_reached: whether a ceiling for all rows refused a call, or the time for all rows is over.
    """
    if outcome["status"] == "done":
        return ""
    if ceiling_reached and outcome["kind"] == "budget_exhausted":
        return "a ceiling for all rows is reached; raise it, and the same command continues"
    return STOPS_BATCH.get(outcome["kind"] or "", "")


def outage_in_words(why: str, outcome: Outcome) -> str:
    """Why no further row may start after several source outages, and what to do; empty if ``why`` is empty.

    Args:
        why: the result of `OutageCount.stop_reason`.
        outcome: the last row's outcome.
    """
    return why and f"{why}. {outcome['error']} The same command continues with the rows that are not done"


class RowRunner(Protocol):
    """Runs rows somewhere: in this process, in several, or on a queue."""

    async def run_rows(self, rows: Rows, on_end: OnEnd) -> None:
        """Runs rows until none is left or no further row may start, and reports each outcome.

        Args:
            rows: the rows to run.
            on_end: called with each row that has ended, and its outcome.

        Raises:
            MootError, ExceptionGroup: a row cannot be taken or run, or ``on_end`` failed.
        """
        ...


class LocalRunner:
    """Runs rows in this process.

    Args:
        processor: processes each row.
        at_once: maximum number of debates in flight.
        budget: the budget of all debates together.
    """

    def __init__(self, processor: RowProcessor, at_once: int, budget: Budget) -> None:
        self.processor = processor
        self.at_once = at_once
        self.budget = budget

    async def run_rows(self, rows: Rows, on_end: OnEnd) -> None:
        """As `RowRunner.run_rows`."""

        async def take_rows() -> None:
            while (job := await rows.take()) is not None:
                outcome = await self.processor.run_row(job)
                rows.check_outcome(outcome, ceiling_reached=self.budget.refused)
                await on_end(job, outcome)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self.at_once):
                    group.create_task(take_rows())
        finally:
            await close_clients()
