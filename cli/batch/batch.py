"""``moot batch``: runs a debate on each claim of a file, and reports the outcomes."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from moot.cli.batch.jobs import BatchOptions, Job, file_name, jobs_of
from moot.cli.batch.outcomes import NOTHING as NO_OUTCOME
from moot.cli.batch.outcomes import Outcome
from moot.cli.batch.progress import BatchProgress
from moot.cli.batch.runner import Limits, LocalRunner, RowRunner, Rows
from moot.cli.batch.table import Summary, show_table, table_rows, write_table
from moot.cli.batch.work import RECORDED, Folder, RowProcessor, existing_document, outcome_of
from moot.cli.batch.worker import WorkerConfig
from moot.cli.batch.workers import ProcessRunner
from moot.cli.signals import Stop, Threads, end_now
from moot.core.batches import BatchRows, Row
from moot.core.errors import MootError, UserError
from moot.core.files import write_atomically, write_error
from moot.core.store import Store, open_store
from moot.core.words import count_with_noun
from moot.evals._benchmarks.claim_files import BadRow, ClaimRow, ClaimsFile
from moot.nodes._models.budget import SETTINGS, Budget, debates_within
from moot.nodes._models.prices import read_prices
from moot.nodes._models.replies import Mode
from moot.nodes._models.spend import NOTHING, UNBOUNDED, Spend, in_words
from moot.web.debates import for_history
from rich.console import Console
from sqlalchemy import Connection

LOCK = ".batch.lock"
"""The file that locks the folder for one run."""
ID = ".batch.id"
"""The file with the batch's id, by which the store has its rows."""
REMEDY = "Name another folder, or remove the file: then all rows are debated again."
AT_ONCE = 100
"""Number of rows that are stored in one transaction."""
FAILED = 3
"""The exit code if a row is not done. A row whose debates found no answer is done."""


class Batch:
    """A file of claims and the folder for its results.

    Args:
        claims: the file of claims.
        folder: the folder for documents, reports and the table.
        options: the options for all rows.
        mode: how stored replies are used.
        store: the store for the rows: that of this machine, or that of the queue.

    Raises:
        UserError: the folder or the file of prices cannot be used.
        UserError, WorldError: the store cannot be used.
    """

    def __init__(self, claims: ClaimsFile, folder: Path, options: BatchOptions, mode: Mode, store: Store) -> None:
        self.claims = claims
        self.folder = folder
        self.options = options
        self.mode = mode
        self.store = store
        self.prices = read_prices()
        self.id = batch_id(folder)
        self.rows = BatchRows(store, self.id, claims.path.name, mode)
        self.total = self.done = self.bad = self.replaced = 0
        self.spent = NOTHING
        """The cost of this file's debates in earlier runs. It is summed once, when the rows are read."""
        self._begun: dict[str, Spend] = {}
        """What the store counts for debates that have begun and are not done, by key."""

    def read_rows(self, *, counts_spending: bool) -> None:
        """Reads the file once, stores its rows, and counts debates and bad rows. Blocking.

        Args:
            counts_spending: whether the store is asked what debates that have begun have spent. Calls whose replies
                were lost are included.

        Raises:
            UserError: the file cannot be read.
            UserError, WorldError: the store cannot be used.
        """
        claims = iter(self.claims)
        while some := list(islice(claims, AT_ONCE)):
            added, found_again = self.store.do(partial(self._add, some))
            for document in found_again:
                self._end_run(document)
            for row, is_replaced in added:
                self.bad += row.name.startswith("!")
                self.total += not row.name.startswith("!")
                self.done += row.is_done
                self.replaced += is_replaced
                self._count_spending(row, counts_spending)

    def _add(
        self, some: Sequence[ClaimRow | BadRow], connection: Connection
    ) -> tuple[list[tuple[Row, bool]], list[dict[str, Any]]]:
        """Stores the debates of rows of the file.

        Returns:
            Two lists: the debates, each with whether it replaces another debate's result; and the documents of debates
            whose outcomes the store did not have.
        """
        added: list[tuple[Row, bool]] = []
        found_again: list[dict[str, Any]] = []
        for row in some:
            try:
                if isinstance(row, BadRow):
                    raise UserError(row.problem, kind="invalid_file")
                name = file_name(row.id)
                if not self.rows.has_free_name(connection, row.id, name):
                    name = file_name(row.id, taken=True)
                jobs = jobs_of(row, name, self.options, self.id)
            except UserError as error:
                outcome = {**NO_OUTCOME, "status": "bad", "error": f"line {row.line}: {error.detail}"}
                claim = row.cells.get("claim", "") if isinstance(row, BadRow) else row.claim
                key = f"{self.id}!{row.number}"
                bad = Row(key, row.number, row.id, claim, None, None, f"!{row.number}", "", "", {}, outcome, False)
                self.rows.add(connection, bad)
                added.append((bad, False))
                continue
            for job in jobs:
                found = self.rows.outcome(connection, job.key)
                has_file = (self.folder / f"{job.name}.json").exists()
                is_done = found is not None and found["status"] == "done" and has_file
                if not is_done and (document := existing_document(self.folder, job)):
                    is_done, found = True, outcome_of(document, self.prices)
                    found_again.append(document)
                about = (row.number, row.id, row.claim, row.label, row.group, name, job.name, job.system)
                debate = Row(job.key, *about, asdict(job), found, is_done)
                is_replaced = found is None and has_file and self.rows.has_other_result(connection, job.name, job.key)
                self.rows.add(connection, debate)
                added.append((debate, is_replaced))
        return added, found_again

    def _end_run(self, document: dict[str, Any]) -> None:
        """Marks a debate as done, as its document is in the folder: the process was killed before it could do that."""
        run = self.store.run(document["id"])
        if run and run.status == "interrupted":
            self.store.end(run.id, "done", for_history(document), claim=run.claim)

    def _count_spending(self, row: Row, counts_spending: bool) -> None:
        spent = self.store.spending_of([row.key]).get(row.key) if counts_spending else None
        if spent and not row.is_done:
            self._begun[row.key] = Spend(*spent)
        # The larger values, because the outcome may have USD even if the store has none.
        self.spent = self.spent.plus(Spend(*map(max, _spend_of(row.outcome or {}), spent or NOTHING)))

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
        """Yields the debates that are not done, each with its ``share`` of the ceilings, if there is one. Blocking."""
        for row in self.rows.all(only_remaining=True):
            job = Job(**row.job)
            yield replace(job, most=self._begun.get(job.key, NOTHING).plus(share)) if share else job


def batch_id(folder: Path) -> str:
    """The id of the batch with this folder: 16 hexadecimal digits, in the file `ID`, which is written if it is missing.

    Raises:
        UserError: the file has something else.
        UserError, WorldError: the file cannot be read or written.
    """
    path = folder / ID
    try:
        found = path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        found = secrets.token_hex(8)
        try:
            write_atomically(path, found)
        except OSError as error:
            raise write_error(path, error) from error
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read ({error}). {REMEDY}", kind="invalid_file") from error
    if not re.fullmatch("[0-9a-f]{16}", found):
        raise UserError(f"{path} has no id of a batch. {REMEDY}", kind="invalid_file")
    return found


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
    batch.read_rows(counts_spending=limits.most != UNBOUNDED and batch.mode in RECORDED)
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
    summary = write_table(table_rows(batch.rows.all()), batch.folder, batch.options.systems)
    show_table(summary, batch.folder, Console(), stop_reason)
    if stop.signal:
        console.print("Interrupted. The same command continues where it stopped.")
        if limits.queue:
            words = f"Workers still run the queued rows. `moot batch cancel {batch.id}` cancels the batch."
            console.print(words, highlight=False)
        end_now(stop.exit_code)
    code = 0 if all_done(summary) else FAILED
    if threads.busy:  # a search that has exceeded its time limit still runs
        end_now(code)
    runner.close()
    return code


@contextlib.contextmanager
def store_of_rows(queue: str | None) -> Iterator[Store]:
    """Context manager: the store for the rows of a batch: this machine's or, with its address, that of a queue.

    Raises:
        UserError, WorldError: the queue cannot be used.
    """
    if queue is None:
        yield open_store()
        return
    from moot.core.postgres.connection import Postgres
    from moot.core.postgres.store import PostgresStore

    with contextlib.closing(PostgresStore(postgres := Postgres(queue), assigns=False)) as store:
        postgres.prepare()
        yield store


def _other_results(batch: Batch) -> list[str]:
    """Sentences about results of earlier runs that do not belong to this run."""
    lines = []
    if batch.replaced:
        lines.append(
            f"{count_with_noun(batch.replaced, 'result')} in {batch.folder} had another system, other settings or "
            "other texts than this run. New results replace the old ones. To keep the old ones, interrupt the command, "
            "and name another folder with --out."
        )
    if left := batch.rows.count_rows_of_earlier_turns():
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
        await asyncio.to_thread(batch.rows.set_outcome, job.key, outcome)
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
        with open_queue(limits.queue, batch.rows, batch.folder, name, batch.mode, limits, print_line) as runner:
            yield runner
        return
    folder, mode = batch.folder, batch.mode
    if limits.workers > 1:
        config = WorkerConfig(str(folder.resolve()), mode, time.time() + limits.seconds)
        yield ProcessRunner(limits.workers, limits.at_once, config)
        return
    with debates_within(Budget(limits.most, limits.seconds, spent=batch.spent, counts_earlier=False)) as budget:
        yield LocalRunner(
            RowProcessor(Folder(folder, has_runs=mode in RECORDED), mode, batch.prices), limits.at_once, budget
        )


def _first_error(errors: BaseExceptionGroup[MootError]) -> MootError:
    first = errors.exceptions[0]
    return _first_error(first) if isinstance(first, BaseExceptionGroup) else first


def _spend_of(outcome: Mapping[str, Any]) -> Spend:
    spent = outcome.get("spent") or {}
    return Spend(spent.get("tokens") or 0, spent.get("usd") or 0, spent.get("calls") or 0)
