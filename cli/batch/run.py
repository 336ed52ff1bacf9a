"""``moot batch``: a file of claims as it is worked through, and what came of it."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from filelock import FileLock, Timeout
from moot.cli.batch.hands import Hands, Here, Rows
from moot.cli.batch.jobs import ForAll, Job, jobs_of
from moot.cli.batch.outcomes import Outcome
from moot.cli.batch.progress import Progressing
from moot.cli.batch.store import Store
from moot.cli.batch.table import FILE, Summary, show_table, write_table
from moot.cli.batch.work import Folder, Work, done_before
from moot.cli.batch.worker import Orders
from moot.cli.batch.workers import Processes
from moot.cli.signals import Stop, end_now
from moot.core.errors import MootError, UserError
from moot.core.files import check_writable
from moot.evals.benchmarks.claim_files import BadRow, ClaimsFile
from moot.nodes.models.ceilings import NOTHING, Ceilings, Spend, within
from moot.nodes.models.joint_ceilings import IS_POSSIBLE, JointCeilings, JointFile
from moot.nodes.models.keeping import Mode
from moot.nodes.models.prices import read_prices
from rich.console import Console

LOCK = ".batch.lock"
FAILED = 3
"""The exit code if a row has no verdict."""


@dataclass(frozen=True)
class Limits:
    """How a batch is run.

    Args:
        at_once: debates in flight in each process.
        workers: processes; 1 for this one alone.
        budget: most tokens of all rows, those of earlier runs of the batch among them.
        max_cost: most USD of them.
        max_calls: most calls of them.
        max_seconds: most seconds of this run.
        queue: the address of the queue whose workers do the rows, if there is one.
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
        """The bounds of what is spent."""
        bounds = (self.budget, self.max_cost, self.max_calls)
        return Spend(*(math.inf if most is None else most for most in bounds))

    @property
    def seconds(self) -> float:
        """The bound of the time."""
        return math.inf if self.max_seconds is None else self.max_seconds

    @property
    def is_bounded(self) -> bool:
        """Whether there is any bound."""
        return self.most != Spend(math.inf, math.inf, math.inf) or self.seconds < math.inf


class Batch:
    """A file of claims and the folder of what comes of it.

    Args:
        claims: the file of claims.
        folder: documents, reports, the table.
        for_all: what is asked for every row.
        mode: how the ledger is used.
    """

    def __init__(self, claims: ClaimsFile, folder: Path, for_all: ForAll, mode: Mode) -> None:
        self.claims = claims
        self.folder = folder
        self.for_all = for_all
        self.mode = mode
        self.prices = read_prices()
        self.store = Store(folder)
        self.total = self.done = self.bad = 0
        self.spent = NOTHING
        """What the rows took that have ended, in all runs of the batch."""

    def enter(self) -> None:
        """Goes through the file once: what is there, what is done, what cannot be used. Blocking."""
        self.store.begin()
        for row in self.claims:
            if isinstance(row, BadRow):
                self.bad += 1
                self.store.enter_bad(row.number, row.id, "", f"line {row.line}: {row.problem}")
                continue
            name = self.store.enter(row.number, row.id, row.claim, row.label, row.group)
            try:
                jobs = jobs_of(row, name, self.for_all, self.store.batch)
            except UserError as error:
                self.bad += 1
                self.store.enter_bad(row.number, row.id, row.claim, f"line {row.line}: {error.detail}")
                continue
            for job in jobs:
                self._expect(job)
        self.store.commit()

    def _expect(self, job: Job) -> None:
        self.total += 1
        found = self.store.outcome(job.key)
        if found is None or not self._is_done(job, found):
            found = done_before(self.folder, job, self.prices) or (found if found and "spent" in found else None)
        self.store.expect(job.name.removesuffix(f".{job.system}"), job.system, job.key, found)
        if found is not None:
            self.done += self._is_done(job, found)
            self.spent = self.spent.plus(_spend(found))

    def _is_done(self, job: Job, outcome: Outcome) -> bool:
        return outcome["status"] == "done" and (self.folder / f"{job.name}.json").exists()

    def left(self, ceilings: Ceilings | None) -> Iterator[Job]:
        """The debates that are to be held. Blocking.

        Args:
            ceilings: of all rows. What a row took that goes on is counted anew as the ledger gives it.
        """
        for row in self.claims:
            if isinstance(row, BadRow) or (name := self.store.name_of(row.number)).startswith("!"):
                continue
            for job in jobs_of(row, name, self.for_all, self.store.batch):
                found = self.store.outcome(job.key)
                if found is not None and self._is_done(job, found):
                    continue
                if found is not None and ceilings is not None and self.mode in ("record", "reuse"):
                    with ceilings.alone():
                        ceilings.spent = ceilings.spent.minus(_spend(found))
                yield job


def run_batch(batch: Batch, limits: Limits, stop: Stop) -> int:
    """Works a file through, says what came of it, and returns the exit code.

    Raises:
        UserError, WorldError: the file or the folder cannot be used, or the table cannot be written.
    """
    console = Console(stderr=True)
    batch.enter()
    if batch.claims.ignored:
        console.print(f"Columns that mean nothing here: {', '.join(batch.claims.ignored)}", markup=False)
    if batch.done:
        held = "1 debate is" if batch.done == 1 else f"{batch.done:,} debates are"
        console.print(f"{held} in {batch.folder}: going on with the others.", highlight=False, markup=False)
    if not batch.total and not batch.bad:
        raise UserError(f"{batch.claims.path.name} has no claims.", kind="invalid_file")
    runner = asyncio.Runner()
    why = ""
    with contextlib.suppress(asyncio.CancelledError, KeyboardInterrupt):
        why = stop.run(runner, _worked_through(batch, limits, console))
    summary = write_table(batch.store.shown(), batch.folder, batch.for_all.systems)
    show_table(summary, batch.folder, Console(), why)
    if stop.signal:
        console.print("Interrupted. The same command goes on where it was.")
        if limits.queue:
            words = f"The workers go on with what is queued; `moot batch cancel {batch.store.batch}` stops them."
            console.print(words, highlight=False)
        end_now(stop.exit_code)
    runner.close()
    return 0 if is_whole(summary) else FAILED


def is_whole(summary: Summary) -> bool:
    """Whether every row has a verdict."""
    return summary.whole == summary.rows


async def _worked_through(batch: Batch, limits: Limits, console: Console) -> str:
    """Has the rows done that are left; why no further one was begun, if so."""
    spent = (round(batch.spent.tokens), batch.spent.usd)
    progress = Progressing(console, batch.total - batch.done, limits.budget, limits.max_cost, spent)

    async def ended(job: Job, outcome: Outcome) -> None:
        await asyncio.to_thread(batch.store.ended, job.key, outcome)
        progress.note(outcome)

    with _hands(batch, limits) as (hands, ceilings), progress:
        rows = Rows(batch.left(ceilings))
        try:
            await hands.hand_out(rows, ended)
        except* MootError as errors:
            raise _first(errors) from None
    return rows.stopped


@contextlib.contextmanager
def _hands(batch: Batch, limits: Limits) -> Iterator[tuple[Hands, Ceilings | None]]:
    """Who hands out the rows, and the ceilings of all, which have what earlier runs spent."""
    if limits.queue:
        from moot.cli.queue.hands import queued

        with queued(limits.queue, batch.store, batch.folder, batch.claims.path.name, batch.mode, limits) as hands:
            yield hands, None
        return
    if limits.workers == 1:
        ceilings = Ceilings(limits.most, limits.seconds)
        ceilings.spent = batch.spent
        with within(ceilings):
            yield Here(Work(Folder(batch.folder), batch.mode, batch.prices), limits.at_once, ceilings), ceilings
        return
    orders = Orders(str(batch.folder.resolve()), batch.mode, "", 0, limits.most, limits.seconds)
    if not limits.is_bounded:
        yield Processes(limits.workers, limits.at_once, orders, None), None
        return
    with TemporaryDirectory(prefix="moot-batch-") as folder:
        path = Path(folder) / "ceilings"
        joint = JointFile(path, limits.workers + 1)
        try:
            ceilings = JointCeilings(joint, 0, limits.most, limits.seconds)
            ceilings.spent = batch.spent
            told = Orders(orders.folder, orders.mode, str(path), 0, limits.most, limits.seconds)
            yield Processes(limits.workers, limits.at_once, told, joint), ceilings
        finally:
            joint.close()


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Keeps other batches out of a folder, which is made if it is not there.

    Raises:
        UserError: another batch has it, or it cannot be made or written to.
    """
    lock = FileLock(folder / LOCK)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        check_writable(folder / FILE)
        lock.acquire(timeout=0)
    except Timeout as error:
        raise UserError(
            f"Another batch writes to {folder}: wait for it, or name another folder.", kind="invalid_setting"
        ) from error
    except OSError as error:
        raise UserError(
            f"Nothing can be written to {folder} ({error.strerror}): name another folder.", kind="invalid_file"
        ) from error
    try:
        yield
    finally:
        lock.release()


def check_workers(workers: int) -> None:
    """Sees that there can be several processes.

    Raises:
        UserError: not on this system.
    """
    if workers > 1 and not IS_POSSIBLE:
        raise UserError("--workers needs a system with file locks, such as Linux or macOS.", kind="invalid_setting")


def _first(errors: BaseExceptionGroup[MootError]) -> MootError:
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


def _spend(outcome: Outcome) -> Spend:
    spent = outcome.get("spent") or {}
    return Spend(spent.get("tokens") or 0, spent.get("usd") or 0, spent.get("calls") or 0)
