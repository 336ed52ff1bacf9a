"""``moot batch``: runs a debate on each claim of a file, and reports the outcomes."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from moot.cli.batch.jobs import BatchOptions, Job, jobs_of
from moot.cli.batch.outcomes import Outcome
from moot.cli.batch.progress import BatchProgress
from moot.cli.batch.runner import LocalRunner, RowRunner, Rows
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
from moot.nodes._models.ceilings import Ceilings, debates_within
from moot.nodes._models.joint_ceilings import HAS_PROCESS_LOCKS, SPENT, JointFile
from moot.nodes._models.prices import read_prices
from moot.nodes._models.replies import Mode
from moot.nodes._models.spend import NOTHING, Spend
from rich.console import Console

LOCK = ".batch.lock"
"""The file that locks the folder for one run."""
AT_ONCE = 500
"""Number of debates whose cost so far is read from the store in one query."""
FAILED = 3
"""The exit code if a row is not done. A row whose debates found no answer is done."""


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
    def is_bounded(self) -> bool:
        """Whether tokens, USD, calls or time are limited."""
        return self.most != Spend(math.inf, math.inf, math.inf) or self.seconds < math.inf


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

    def read_rows(self, spending: Callable[[list[str]], Mapping[str, tuple[float, float, float]]]) -> None:
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
                self.store.add_bad_row(row.number, row.id, "", f"line {row.line}: {row.problem}")
                continue
            name = self.store.add_row(row.number, row.id, row.claim, row.label, row.group)
            try:
                yield from jobs_of(row, name, self.options, self.store.batch)
            except UserError as error:
                self.bad += 1
                self.store.add_bad_row(row.number, row.id, row.claim, f"line {row.line}: {error.detail}")

    def _add_debate(self, job: Job, spent: tuple[float, float, float] | None) -> None:
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
        self.done += found is not None and self._is_done(job, found)
        known = _spend_of(found or {})
        # The larger values, because the outcome may have USD even if the store has none.
        self.spent = self.spent.plus(Spend(*map(max, known, spent or NOTHING)))

    def _is_done(self, job: Job, outcome: Outcome) -> bool:
        return outcome["status"] == "done" and (self.folder / f"{job.name}.json").exists()

    def remaining(self) -> Iterator[Job]:
        """Yields the debates that are not done. Blocking.

        Raises:
            UserError: the file of claims has changed, or can no longer be read.
        """
        for row in self.claims:
            if isinstance(row, BadRow) or (name := self.store.name_of(row.number)).startswith("!"):
                continue
            for job in jobs_of(row, name, self.options, self.store.batch):
                found = self.store.outcome(job.key)
                if found is None or not self._is_done(job, found):
                    yield job


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
    counts_spending = limits.is_bounded and not limits.queue and batch.mode in ("record", "reuse")
    batch.read_rows((lambda keys: open_store().spending_of(keys)) if counts_spending else lambda keys: {})
    if batch.claims.ignored:
        console.print(f"These columns are not read: {', '.join(batch.claims.ignored)}", markup=False)
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
    runner = asyncio.Runner()
    threads = Threads(runner)
    stop_reason = ""
    with contextlib.suppress(asyncio.CancelledError, KeyboardInterrupt):
        stop_reason = stop.run(runner, _run_remaining(batch, limits, console))
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


async def _run_remaining(batch: Batch, limits: Limits, console: Console) -> str:
    """Runs the debates that are not done. Returns why the batch stopped; empty if nothing stopped it."""
    spent = (round(batch.spent.tokens), batch.spent.usd)
    progress = BatchProgress(console, batch.total - batch.done, limits.budget, limits.max_cost, spent)

    async def on_end(job: Job, outcome: Outcome) -> None:
        await asyncio.to_thread(batch.store.set_outcome, job.key, outcome)
        progress.note(outcome)

    with _runner(batch, limits, console) as runner, progress:
        rows = Rows(batch.remaining())
        try:
            await runner.run_rows(rows, on_end)
        except* MootError as errors:
            raise _first_error(errors) from None
    return rows.stopped


@contextlib.contextmanager
def _runner(batch: Batch, limits: Limits, console: Console) -> Iterator[RowRunner]:
    """Context manager that yields the runner: a queue, this process or several processes.

    The ceilings of local runners count the cost of earlier runs.
    """
    if limits.queue:
        from moot.cli.queue.runner import open_queue

        def print_line(text: str) -> None:
            console.print(text, highlight=False, markup=False, soft_wrap=True)

        name = batch.claims.path.name
        with open_queue(limits.queue, batch.store, batch.folder, name, batch.mode, limits, print_line) as runner:
            yield runner
        return
    if limits.workers == 1:
        with debates_within(
            Ceilings(limits.most, limits.seconds, spent=batch.spent, adds_earlier_runs=False)
        ) as ceilings:
            yield LocalRunner(RowProcessor(Folder(batch.folder), batch.mode, batch.prices), limits.at_once, ceilings)
        return
    config = WorkerConfig(str(batch.folder.resolve()), batch.mode, "", 0, limits.most, limits.seconds)
    if not limits.is_bounded:
        yield ProcessRunner(limits.workers, limits.at_once, config, None)
        return
    with TemporaryDirectory(prefix="moot-batch-") as folder:
        path = Path(folder) / "ceilings"
        ceilings_file = JointFile(path, limits.workers + 1)
        try:
            ceilings_file.write(0, SPENT, batch.spent)
            shared = WorkerConfig(config.folder, config.mode, str(path), 0, limits.most, limits.seconds)
            yield ProcessRunner(limits.workers, limits.at_once, shared, ceilings_file)
        finally:
            ceilings_file.close()


def check_workers(workers: int) -> None:
    """Checks that this operating system can run ``workers`` processes.

    Raises:
        UserError: ``workers`` is more than 1, and this operating system cannot run several processes.
    """
    if workers > 1 and not HAS_PROCESS_LOCKS:
        raise UserError("--workers needs a system with file locks, such as Linux or macOS.", kind="invalid_setting")


def _first_error(errors: BaseExceptionGroup[MootError]) -> MootError:
    first = errors.exceptions[0]
    return _first_error(first) if isinstance(first, BaseExceptionGroup) else first


def _spend_of(outcome: Mapping[str, Any]) -> Spend:
    spent = outcome.get("spent") or {}
    return Spend(spent.get("tokens") or 0, spent.get("usd") or 0, spent.get("calls") or 0)
