"""Runs the rows of a batch in this process.

In this module, a row is a `Job`: one debate of a row of the file. `moot.cli.batch.workers` runs rows in several
processes, and `moot.cli.queue.runner` on a queue. All runners take the same rows (`moot.cli.batch.jobs`) and process
them in the same way (`moot.cli.batch.work`).
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from moot.cli.batch.jobs import Job
from moot.cli.batch.outcomes import Outcome
from moot.cli.batch.work import RowProcessor
from moot.core import batch_runner
from moot.core.batch_runner import run_here
from moot.core.endpoint import close_clients
from moot.nodes._models.budget import Budget
from moot.nodes._models.spend import Spend

OnEnd = Callable[[Job, Outcome], Awaitable[None]]
"""Callback that receives a row that has ended, and its outcome."""
Rows = batch_runner.Rows[Job]


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

        try:
            await run_here(rows, self.at_once, self.processor.run_row, on_end, lambda: self.budget.refused)
        finally:
            await close_clients()
