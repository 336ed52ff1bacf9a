"""The progress bar of a batch, with estimates of the time, tokens and USD still needed."""

from __future__ import annotations

from moot.core.batch_runner import Outcome, Progress
from moot.transcript.line import format_duration
from moot.web.expected import in_dollars
from rich import progress
from rich.console import Console

STEPS = 10
"""Minimum number of lines that are printed if there is no terminal. If there are fewer debates, each has a line."""


class BatchProgress(Progress):
    """A progress bar of debates; without a terminal, lines of text.

    Args:
        console: the console to draw on.
        total: number of debates to run.
        at_once: the number of debates in flight; 0 if it is not known.
        budget: the maximum number of tokens for all rows; None for no limit.
        max_cost: the maximum cost of all rows in USD; None for no limit.
        spent: the tokens and USD of earlier runs of the batch.
    """

    def __init__(
        self,
        console: Console,
        total: int,
        at_once: int,
        budget: float | None,
        max_cost: float | None,
        spent: tuple[int, float],
    ) -> None:
        super().__init__(total)
        self.console = console
        columns = (progress.BarColumn(), progress.MofNCompleteColumn(), progress.TimeElapsedColumn())
        shown = (*columns, progress.TextColumn("{task.description}"))
        self.bars = progress.Progress(*shown, console=console, disable=not console.is_terminal)
        self.at_once = at_once
        self.budget, self.max_cost = budget, max_cost
        self.spent_before = spent

    def __enter__(self) -> BatchProgress:
        self.bars.start()
        self.bar = self.bars.add_task("", total=self.total)
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    def note(self, outcome: Outcome) -> None:
        """Counts a debate that has ended, and shows the new progress."""
        super().note(outcome)
        self.bars.update(self.bar, completed=self.ended, description=self.estimate())
        if self.bars.disable and self.ended % max(1, self.total // STEPS) == 0:
            self.console.print(f"{self.ended}/{self.total} debates; {self.estimate()}", highlight=False, soft_wrap=True)

    def estimate(self) -> str:
        """An estimate of the remaining time and cost, from the ended debates, of which there must be at least one.

        The text also has what is left of the ceilings, and the number of failed debates.
        """
        left = max(self.total - self.ended, 0)
        share, seconds = left / self.ended, self.seconds_left(left, self.at_once) or 0
        text = f"about {format_duration(seconds)} and {self.tokens * share:,.0f} tokens" if share else "none"
        if share and self.all_priced and self.usd:
            text += f" ({in_dollars(self.usd * share)})"
        text += " to go"
        if self.budget is not None:
            tokens = max(self.budget - self.spent_before[0] - self.tokens, 0)
            text += f"; {tokens:,.0f} tokens of {self.budget:,.0f} are left"
        if self.max_cost is not None and self.all_priced:
            usd = max(self.max_cost - self.spent_before[1] - self.usd, 0)
            text += f"; {in_dollars(usd)} of {in_dollars(self.max_cost)} are left"
        return text + (f"; {self.failed} failed" if self.failed else "")
