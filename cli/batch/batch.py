"""``moot batch``: runs a debate on each claim of a file, and reports the outcomes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from moot.cli.batch.jobs import BatchOptions, Job, jobs_of
from moot.cli.batch.outcomes import Outcome
from moot.cli.batch.progress import BatchProgress
from moot.cli.batch.runner import Limits, LocalRunner, RowRunner, Rows
from moot.cli.batch.store import Store
from moot.cli.batch.table import Summary, show_table, write_table
from moot.cli.batch.work import Folder, RowProcessor, existing_outcome
from moot.cli.batch.worker import WorkerConfig
from moot.cli.batch.workers import ProcessRunner
from moot.cli.signals import Stop, Threads, end_now
from moot.core.errors import MootError, UserError
from moot.core.store import open_store
from moot.core.words import count_with_noun
from moot.evals._benchmarks.claim_files import BadRow, ClaimsFile
from moot.nodes._models.budget import SETTINGS, Budget, debates_within
from moot.nodes._models.prices import read_prices
from moot.nodes._models.replies import Mode
from moot.nodes._models.spend import NOTHING, UNBOUNDED, Spend, in_words
from rich.console import Console

LOCK = ".batch.lock"
"""The file that locks the folder for one run."""
AT_ONCE = 500
"""Number of debates whose cost so far is read from the store in one query."""
FAILED = 3
"""The exit code if a row is not done. A row whose debates found no answer is done."""


class Batch:
    """A file of claims and the folder for its results.

    Args:
        claims: the file of claims.
        folder: the folder for documents, reports and the table.
        options: the options for all rows.
        mode: how stored replies are used.

    Raises:
        UserError: the folder's database or the file of prices cannot be used.
    """

    def __init__(self, claims: ClaimsFile, folder: Path, options: BatchOptions, mode: Mode) -> None:
        self.claims = claims
        self.folder = folder
        self.options = options
        self.mode = mode
        self.prices = read_prices()
        self.store = Store(folder)
        self.total = self.done = self.bad = self.replaced = 0
        self.spent = NOTHING
        """The cost of this file's debates in earlier runs. It is summed once, when the rows are read."""
        self._begun: dict[str, Spend] = {}
        """What the store counts for debates that have begun and are not done, by key."""

    def read_rows(self, spending: Callable[[list[str]], Mapping[str, Sequence[float]]]) -> None:
        """Reads the file once, stores its rows, and counts debates and bad rows. Blocking.

        Args:
            spending: takes the keys of debates. It returns the tokens, USD and number of calls so far, by key, of those
                debates that have begun. Calls whose replies were lost are included.

        Raises:
            UserError: the file cannot be read.
        """
        self.store.begin()
        jobs = self._jobs()
        while some := list(islice(jobs, AT_ONCE)):
            spent = spending([job.key for job in some])
            for job in some:
                self._add_debate(job, spent.get(job.key))
        self.store.commit()

    def _jobs(self) -> Iterator[Job]:
        """Stores all rows, and yields their debates."""
        for row in self.claims:
            if isinstance(row, BadRow):
                self.bad += 1
                self.store.add_bad_row(
                    row.number, row.id, row.cells.get("claim", ""), f"line {row.line}: {row.problem}"
                )
                continue
            name = self.store.add_row(row.number, row.id, row.claim, row.label, row.group)
            try:
                yield from jobs_of(row, name, self.options, self.store.batch)
            except UserError as error:
                self.bad += 1
                self.store.add_bad_row(row.number, row.id, row.claim, f"line {row.line}: {error.detail}")

    def _add_debate(self, job: Job, spent: Sequence[float] | None) -> None:
        """Stores a debate, and its outcome if an earlier run left one; counts the debate and its cost."""
        self.total += 1
        found = self.store.outcome(job.key)
        if found is None or not self._is_done(job, found):
            found = existing_outcome(self.folder, job, self.prices) or (found if found and "spent" in found else None)
        name = job.name.removesuffix(f".{job.system}")
        is_only_system = job.name == name  # the document's name contains the system only if there are several
        if found is None and (self.folder / f"{job.name}.json").exists():
            self.replaced += self.store.has_other_result(name, job.system, job.key, any_system=is_only_system)
        if is_only_system:
            self.store.forget_other_systems(name, job.system)
        self.store.add_debate(name, job.system, job.key, found)
        is_done = found is not None and self._is_done(job, found)
        self.done += is_done
        if spent and not is_done:
            self._begun[job.key] = Spend(*spent)
        known = _spend_of(found or {})
        # The larger values, because the outcome may have USD even if the store has none.
        self.spent = self.spent.plus(Spend(*map(max, known, spent or NOTHING)))

    def _is_done(self, job: Job, outcome: Outcome) -> bool:
        return outcome["status"] == "done" and (self.folder / f"{job.name}.json").exists()

    def share(self, most: Spend) -> Spend:
        """What each debate that is not done may spend from now on: an equal part of what the ceilings ``most`` leave.

        Raises:
            UserError: the part is nothing, or less than a call.
        """
        rows = max(1, self.total - self.done)
        share = Spend(*(max(0, left) / rows for left in most.minus(self.spent)))
        for name, part in share._asdict().items():
            if self.done < self.total and (part < 1 if name == "calls" else part == 0):
                raise UserError(
                    f"--{SETTINGS[name].replace('_', '-')} leaves {in_words(name, part * rows)} for "
                    f"{count_with_noun(rows, 'debate')}. If several processes run a batch, each debate gets an equal "
                    "share, which is too small here. Raise the ceiling, or run the batch without --workers and "
                    "--queue.",
                    kind="invalid_setting",
                )
        return share

    def remaining(self, share: Spend | None = None) -> Iterator[Job]:
        """Yields the debates that are not done, each with its ``share`` of the ceilings, if there is one. Blocking.

        Raises:
            UserError: the file of claims has changed, or can no longer be read.
        """
        for row in self.claims:
            if isinstance(row, BadRow) or (name := self.store.name_of(row.number)).startswith("!"):
                continue
            for job in jobs_of(row, name, self.options, self.store.batch):
                found = self.store.outcome(job.key)
                if found is None or not self._is_done(job, found):
                    yield replace(job, most=self._begun.get(job.key, NOTHING).plus(share)) if share else job


NO_OWN_MODEL = (
    "The model is moot's built-in model or a fake one. It shows that everything runs, but do not trust its verdicts. "
    "Name another model with --model."
)


def run_batch(batch: Batch, limits: Limits, stop: Stop) -> int:
    """Runs a batch, prints its outcomes, and returns the exit code: 0 if all rows are done, else `FAILED`.

    After a signal, or if a search still runs, the function ends the process (`end_now`) instead of returning.

    Raises:
        UserError, WorldError: the file, the folder or the queue cannot be used, a process cannot start, or the table
            cannot be written.
    """
    console = Console(stderr=True)
    with spending_so_far(batch.mode, limits) as spending:
        batch.read_rows(spending)
    for note in batch.claims.notes:
        console.print(f"{note[0].upper()}{note[1:]}.", markup=False, highlight=False, soft_wrap=True)
    chosen = [batch.options.settings(system, {}) for system in batch.options.systems]
    if any(settings.models_named() and not settings.own_model for settings in chosen):
        console.print(NO_OWN_MODEL, markup=False, soft_wrap=True)
    if batch.done:
        done = "1 debate is" if batch.done == 1 else f"{batch.done:,} debates are"
        rest = ": continuing with the others" if batch.done < batch.total else ""
        console.print(f"{done} already in {batch.folder}{rest}.", highlight=False, markup=False, soft_wrap=True)
    for line in _other_results(batch):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    if not batch.total and not batch.bad:
        raise UserError(f"{batch.claims.path.name} has no claims.", kind="invalid_file")
    share = batch.share(limits.most) if limits.are_split and limits.most != UNBOUNDED else None
    runner = asyncio.Runner()
    threads = Threads(runner)
    stop_reason = ""
    with contextlib.suppress(asyncio.CancelledError, KeyboardInterrupt):
        stop_reason = stop.run(runner, _run_remaining(batch, limits, share, console))
    summary = write_table(batch.store.table_rows(), batch.folder, batch.options.systems)
    show_table(summary, batch.folder, Console(), stop_reason)
    if stop.signal:
        console.print("Interrupted. The same command continues where it stopped.")
        if limits.queue:
            words = f"Workers still run the queued rows. `moot batch cancel {batch.store.batch}` cancels the batch."
            console.print(words, highlight=False)
        end_now(stop.exit_code)
    code = 0 if all_done(summary) else FAILED
    if threads.busy:  # a search that has exceeded its time limit still runs
        end_now(code)
    runner.close()
    return code


@contextlib.contextmanager
def spending_so_far(mode: Mode, limits: Limits) -> Iterator[Callable[[list[str]], Mapping[str, Sequence[float]]]]:
    """Context manager: a function that reads the tokens, USD and calls of debates from the store of the batch.

    It returns nothing if the batch has no ceilings for them, or does not use the store.

    Raises:
        UserError, WorldError: the queue cannot be used.
    """
    if limits.most == UNBOUNDED or mode not in ("record", "reuse"):
        yield lambda keys: {}
    elif limits.queue:
        from moot.core.postgres.connection import Postgres
        from moot.core.postgres.rows import QueuedRows
        from moot.core.postgres.store import PostgresStore

        with contextlib.closing(PostgresStore(postgres := Postgres(limits.queue), assigns=False)) as store:
            QueuedRows(postgres).prepare()
            yield store.spending_of
    else:
        yield open_store().spending_of


def _other_results(batch: Batch) -> list[str]:
    """Sentences about results of earlier runs that do not belong to this run."""
    lines = []
    if batch.replaced:
        lines.append(
            f"{count_with_noun(batch.replaced, 'result')} in {batch.folder} had another system, other settings or "
            "other texts than this run. New results replace the old ones. To keep the old ones, interrupt the command, "
            "and name another folder with --out."
        )
    if left := batch.store.count_rows_of_earlier_runs():
        lines.append(
            f"{count_with_noun(left, 'row')} of earlier runs in {batch.folder} {'is' if left == 1 else 'are'} not in "
            f"{batch.claims.path.name}. The table leaves them out; their documents and reports stay."
        )
    return lines


def all_done(summary: Summary) -> bool:
    """Whether all debates of all rows are done. A debate that found no answer is done, too."""
    return summary.complete == summary.rows


async def _run_remaining(batch: Batch, limits: Limits, share: Spend | None, console: Console) -> str:
    """Runs the debates that are not done, each with its ``share`` if the ceilings are split.

    Returns why the batch stopped; empty if nothing stopped it.
    """
    spent = (round(batch.spent.tokens), batch.spent.usd)
    progress = BatchProgress(console, batch.total - batch.done, limits.budget, limits.max_cost, spent)

    async def on_end(job: Job, outcome: Outcome) -> None:
        await asyncio.to_thread(batch.store.set_outcome, job.key, outcome)
        progress.note(outcome)

    with _runner(batch, limits, console) as runner, progress:
        rows = Rows(batch.remaining(share))
        try:
            await runner.run_rows(rows, on_end)
        except* MootError as errors:
            raise _first_error(errors) from None
    return rows.stopped


@contextlib.contextmanager
def _runner(batch: Batch, limits: Limits, console: Console) -> Iterator[RowRunner]:
    """Context manager that yields the runner: a queue, this process or several processes."""
    if limits.queue:
        from moot.cli.queue.runner import open_queue

        def print_line(text: str) -> None:
            console.print(text, highlight=False, markup=False, soft_wrap=True)

        name = batch.claims.path.name
        with open_queue(limits.queue, batch.store, batch.folder, name, batch.mode, limits, print_line) as runner:
            yield runner
        return
    folder, mode = batch.folder, batch.mode
    if limits.workers > 1:
        config = WorkerConfig(str(folder.resolve()), mode, time.time() + limits.seconds)
        yield ProcessRunner(limits.workers, limits.at_once, config)
        return
    with debates_within(Budget(limits.most, limits.seconds, spent=batch.spent, counts_earlier=False)) as budget:
        yield LocalRunner(RowProcessor(Folder(folder), mode, batch.prices), limits.at_once, budget)


def _first_error(errors: BaseExceptionGroup[MootError]) -> MootError:
    first = errors.exceptions[0]
    return _first_error(first) if isinstance(first, BaseExceptionGroup) else first


def _spend_of(outcome: Mapping[str, Any]) -> Spend:
    spent = outcome.get("spent") or {}
    return Spend(spent.get("tokens") or 0, spent.get("usd") or 0, spent.get("calls") or 0)
