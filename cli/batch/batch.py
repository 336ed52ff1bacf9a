"""``moot batch``: runs a debate on each claim of a file, and reports the outcomes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import re
import secrets
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from moot.cli.batch.asking import Chosen
from moot.cli.batch.jobs import BatchOptions, Job, content_of, debate_key, doubt_of_row, file_name, jobs_of
from moot.cli.batch.process import Workers
from moot.cli.batch.progress import BatchProgress
from moot.cli.batch.table import LEFT_OUT, SHEET, Summary, show_table, table_rows, write_table
from moot.cli.batch.work import RECORDED, Folder, existing_document, run_debate
from moot.cli.signals import Stop, Threads, end_now
from moot.core.batch_runner import Rows, run_here
from moot.core.batches import SAME_AS, BatchRows, Row
from moot.core.endpoint import close_clients
from moot.core.errors import MootError, UserError
from moot.core.files import write_atomically, write_error
from moot.core.lazy import install_step
from moot.core.sheets import MOST_ROWS, can_write_sheets
from moot.core.store import FileStore, Store, open_store
from moot.core.words import count_with_noun
from moot.evals._benchmarks.claim_files import BadRow, ClaimRow, ClaimsFile
from moot.graphs import load_graph
from moot.nodes._models.budget import SETTINGS, Budget, debates_within
from moot.nodes._models.call.reusing import stored_usd
from moot.nodes._models.prices import read_prices
from moot.nodes._models.replies import Mode
from moot.nodes._models.spend import NOTHING, UNBOUNDED, Spend, in_words
from moot.nodes._runtime.settings import checked_settings
from moot.retrievers._languages import DEFAULT
from moot.transcript.language import language_of_claim
from moot.transcript.outcome import NOTHING as NO_OUTCOME
from moot.transcript.outcome import Outcome, outcome_of
from moot.web.debates import for_history
from moot.web.expected import Expected, expected, given_bytes, together
from rich.console import Console
from sqlalchemy import Connection

LOCK = ".batch.lock"
"""The file that locks the folder for one run."""
ID = ".batch.id"
"""The file with the batch's id, by which the store has its rows; see `batch_ids`."""
ROWS = ".batch.sqlite"
"""The file with the batch's rows if nothing is to be stored outside the folder (`--replies off`)."""
REMEDY = "Name another folder, or remove the file: then all rows are debated again."
AT_ONCE = 100
"""Number of rows that are stored in one transaction."""
MOST_SETTINGS = 50
"""The expected cost rests on so many different settings of rows, the most frequent ones."""
AS_IS = "Correct it, or add --as-is to check such rows as they are."
FAILED = 3
"""The exit code if a row is not done. A row whose debates found no answer is done."""


OnEnd = Callable[[Job, Outcome], Awaitable[None]]
"""Called with a row that has ended, and its outcome."""
RunOnQueue = Callable[["Batch", "Limits", "Rows[Job]", OnEnd], Awaitable[None]]
"""Lets the workers of the queue at `Limits.queue` run the rows of a batch; see `moot.service.queue.runner`."""


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

    @property
    def in_flight(self) -> int:
        """The number of debates in flight; 0 if the workers of a queue run them, because it is not known."""
        return 0 if self.queue else self.at_once * self.workers


class Batch:
    """A file of claims and the folder for its results.

    Args:
        claims: the file of claims.
        folder: the folder for documents, reports and the table.
        options: the options for all rows.
        mode: how stored replies are used.
        store: the store for the rows: that of this machine, or that of the queue.
        chosen: whether texts that are probably no claims (`doubt_of`) are checked, too, and which rows are left out.

    Raises:
        UserError: the folder or the file of prices cannot be used.
        UserError, WorldError: the store cannot be used.
    """

    def __init__(
        self, claims: ClaimsFile, folder: Path, options: BatchOptions, mode: Mode, store: Store, chosen: Chosen
    ) -> None:
        self.claims = claims
        self.folder = folder
        self.options = options
        self.mode = mode
        self.store = store
        self.as_is, left_out = chosen
        self.left_out = left_out or set()
        self.language = DEFAULT
        """The language of the reports on claims whose own one is not certain: that of the first claims together."""
        self.prices = read_prices()
        self.id, *self.copied_from = batch_ids(folder)
        self.rows = BatchRows(store, self.id, claims.path.name, mode)
        self.total = self.done = self.bad = self.replaced = self.repeated = 0
        self.spent = NOTHING
        """The cost of this file's debates in earlier runs. It is summed once, when the rows are read."""
        self.waiting = Counter[tuple[str, str]]()
        """The number of debates that are not done, by system and settings (JSON)."""
        self.given = 0
        """The bytes of their given texts."""
        self._begun: dict[str, Spend] = {}
        """What the store counts for debates that have begun and are not done, by key."""
        self._first: dict[bytes, str] = {}
        """The key of the first debate with each content (`content_of`)."""

    def read_rows(self, *, counts_spending: bool) -> None:
        """Reads the file once, stores its rows, and counts debates and bad rows and, if wanted, what they spent."""
        claims, not_found = iter(self.claims), set(self.left_out)
        while some := list(islice(claims, AT_ONCE)):
            if some[0].number == 1:
                self.language = language_of_claim(" ".join(row.claim for row in some if isinstance(row, ClaimRow)))
            not_found -= {row.number for row in some}
            added, found_again = self.store.do(partial(self._add, some))
            for document in found_again:
                self._end_run(document)
            for row, is_replaced in added:
                if SAME_AS in row.job:
                    self.repeated += 1
                    continue
                self.bad += row.name.startswith("!")
                self.total += not row.name.startswith("!")
                self.done += row.is_done
                self.replaced += is_replaced
                self._count_spending(row, counts_spending)
                if row.system and not row.is_done:
                    self.waiting[row.system, json.dumps(row.job["settings"], sort_keys=True)] += 1
                    self.given += given_bytes(row.job["asked"]["given"])
        if not_found:
            raise UserError(f"The list has no row {min(not_found)}: correct --leave-out.", kind="bad_request")

    def _add(
        self, some: Sequence[ClaimRow | BadRow], connection: Connection
    ) -> tuple[list[tuple[Row, bool]], list[dict[str, Any]]]:
        """Stores the debates of rows of the file. Returns them, each with whether it replaces another debate's result,
        and the documents of debates whose outcomes the store did not have.
        """
        added: list[tuple[Row, bool]] = []
        found_again: list[dict[str, Any]] = []
        for row in some:
            try:
                if row.number in self.left_out:
                    added.append((self._add_without_debate(connection, row, LEFT_OUT, None), False))
                    continue
                if isinstance(row, BadRow):
                    raise UserError(row.problem, kind="invalid_file")
                if doubt := "" if self.as_is else doubt_of_row(row, self.options.asked):
                    raise UserError(f"{doubt}. {AS_IS}", kind="invalid_claim")
                name = file_name(row.id)
                if not self.rows.has_free_name(connection, row.id, name):
                    name = file_name(row.id, taken=True)
                jobs = jobs_of(row, name, self.options, self.id, self.language)
            except UserError as error:
                why = f"line {row.line}: {error.detail}"
                added.append((self._add_without_debate(connection, row, "bad", why), False))
                continue
            for job in jobs:
                about = (row.number, row.id, row.claim, row.label, row.group, name)
                if (first := self._first.setdefault(content_of(job), job.key)) != job.key:
                    repeats = {SAME_AS: first, "written": row.written}
                    again = Row(job.key, *about, "", job.system, repeats, None, False)
                    self.rows.add(connection, again)
                    added.append((again, False))
                    continue
                found = self.rows.outcome(connection, job.key)
                has_file = (self.folder / f"{job.name}.json").exists()
                is_done = found is not None and found["status"] == "done" and has_file
                keys = [job.key, *(debate_key(batch, row.id, job) for batch in self.copied_from)]
                if not is_done and (document := existing_document(self.folder, job.name, keys)):
                    is_done, found = True, outcome_of(document, self.prices)
                    found_again.append(document)
                debate = Row(job.key, *about, job.name, job.system, asdict(job), found, is_done)
                is_replaced = found is None and has_file and self.rows.has_other_result(connection, job.name, job.key)
                self.rows.add(connection, debate)
                added.append((debate, is_replaced))
        return added, found_again

    def _add_without_debate(
        self, connection: Connection, row: ClaimRow | BadRow, status: str, error: str | None
    ) -> Row:
        """Stores a row that is not checked."""
        claim = row.cells.get("claim", "") if isinstance(row, BadRow) else row.claim
        outcome, name = {**NO_OUTCOME, "status": status, "error": error}, f"!{row.number}"
        cells = {"written": row.written}
        stored = Row(f"{self.id}{name}", row.number, row.id, claim, None, None, name, "", "", cells, outcome, False)
        self.rows.add(connection, stored)
        return stored

    def _end_run(self, document: dict[str, Any]) -> None:
        """Marks a debate as done, as its document is in the folder: the process was killed before it could do that."""
        run = self.store.run(document["id"])
        if run and run.status == "interrupted":
            self.store.end(run.id, "done", for_history(document), claim=run.claim)

    def _count_spending(self, row: Row, counts_spending: bool) -> None:
        spent = self.store.spending_of([row.key]).get(row.key) if counts_spending else None
        lost_usd = 0.0
        if spent and not row.is_done:
            # The store counts USD only for debates with a ceiling in USD.
            paid_usd, lost_usd = stored_usd(self.store.replies(row.key).values(), self.prices)
            spent = spent[0], max(spent[1], paid_usd), spent[2]
            self._begun[row.key] = Spend(*spent)
        # The larger values, because the outcome may have USD even if the store has none.
        most = Spend(*map(max, _spend_of(row.outcome or {}), spent or NOTHING))
        self.spent = self.spent.plus(most).plus(Spend(usd=lost_usd))

    def share(self, most: Spend) -> Spend:
        """What each debate that is not done may spend from now on: an equal part of what ceilings leave."""
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

    def expected(self) -> Expected:
        """What the debates that are not done are expected to take. Blocking."""
        count, parts = sum(self.waiting.values()), []
        given = self.given // max(1, count)
        some = self.waiting.most_common(MOST_SETTINGS)
        for (name, text), number in some:
            settings = checked_settings(load_graph(name).settings, json.loads(text), name)
            parts.append(expected(name, settings, given, reads_store=self.mode != "off").times(number))
        return together(parts).times(count / max(1, sum(number for _, number in some)))

    def remaining(self, share: Spend | None = None) -> Iterator[Job]:
        """Yields the debates that are not done, each with its ``share`` of the ceilings, if there is one. Blocking."""
        for row in self.rows.all(only_remaining=True):
            job = Job(**row.job)
            yield replace(job, most=self._begun.get(job.key, NOTHING).plus(share)) if share else job


def batch_ids(folder: Path) -> list[str]:
    """The ids of a folder's batch: its own, then those of the batches whose folders it was copied from.

    They are in the file `ID`, which is written if it is missing. A folder that was moved keeps its id, by its inode or,
    where inodes change, by its path. A copy gets an id of its own: otherwise two batches would share their rows.
    """
    path, ids = folder / ID, list[str]()
    try:
        here = {"folder": f"{socket.gethostname()}:{folder.resolve()}", "inode": folder.stat().st_ino}
        about = json.loads(path.read_bytes())
        ids = about["ids"]
        if not ids or not all(re.fullmatch("[0-9a-f]{16}", id) for id in ids):
            raise ValueError(ids)
        is_same = any(about[name] == value for name, value in here.items())
    except FileNotFoundError:
        is_same, about = False, {}
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error}). {REMEDY}", kind="invalid_file") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} has no id of a batch. {REMEDY}", kind="invalid_file") from error
    ids = ids if is_same else [secrets.token_hex(8), *ids]
    if about != (now := {"ids": ids, **here}):
        try:
            write_atomically(path, json.dumps(now))
        except OSError as error:
            raise write_error(path, error) from error
    return ids


NO_OWN_MODEL = (
    "The model is moot's built-in model or a fake one. It shows that everything runs, but do not trust its verdicts. "
    "Name another model with --model."
)


def run_batch(batch: Batch, limits: Limits, stop: Stop, run_on_queue: RunOnQueue | None) -> int:
    """Runs a batch, prints its outcomes, and returns the exit code: 0 if all rows are done, else `FAILED`.

    After a signal, or if a search still runs, the function ends the process (`end_now`) instead of returning.
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
    if batch.repeated:
        repeat = "1 debate repeats" if batch.repeated == 1 else f"{batch.repeated:,} debates repeat"
        console.print(
            f"{repeat} the claim and the options of an earlier row: each such claim is checked once.",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
    for line in _other_results(batch):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    if not batch.total and not batch.bad:
        raise UserError(f"{batch.claims.path.name} has no claims.", kind="invalid_file")
    if batch.waiting and batch.mode != "replay":
        left = limits.most.minus(batch.spent)
        whole = batch.expected().within(*(max(0, one) for one in left))
        if words := whole.in_words(batch.waiting.total()):
            console.print(words, highlight=False, markup=False, soft_wrap=True)
    share = batch.share(limits.most) if limits.are_split and limits.most != UNBOUNDED else None
    runner = asyncio.Runner()
    threads = Threads(runner)
    stop_reason = ""
    with contextlib.suppress(asyncio.CancelledError, KeyboardInterrupt):
        stop_reason = stop.run(runner, _run_remaining(batch, limits, share, console, run_on_queue))
    with_sheet = can_write_sheets() and batch.total + batch.bad + batch.repeated < MOST_ROWS
    about = (batch.folder, batch.options.systems, batch.claims.columns, stop_reason)
    summary = write_table(table_rows(batch.rows.all()), *about, with_sheet=with_sheet)
    show_table(summary, batch.folder, Console(), stop_reason)
    if not can_write_sheets():
        console.print(
            f"There is no {SHEET}: {install_step('documents')}.", highlight=False, markup=False, soft_wrap=True
        )
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
def store_of_rows(queue: str | None, mode: Mode, folder: Path) -> Iterator[Store]:
    """Context manager: the store for the rows of a batch.

    It is that of the queue with this address; else this machine's or, if the mode keeps nothing, a file in the folder.
    """
    if queue is None:
        if mode in RECORDED:
            yield open_store()
            return
        with contextlib.closing(FileStore(folder / ROWS)) as own:
            yield own
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
    """Whether all debates of all rows that were not left out are done. A debate that found no answer is done, too."""
    return summary.complete + summary.statuses[LEFT_OUT] == summary.rows


async def _run_remaining(
    batch: Batch, limits: Limits, share: Spend | None, console: Console, run_on_queue: RunOnQueue | None
) -> str:
    """Runs the debates that are not done, each with its ``share`` if the ceilings are split.

    Returns why the batch stopped; empty if nothing stopped it.
    """
    spent = (round(batch.spent.tokens), batch.spent.usd)
    left = batch.total - batch.done
    progress = BatchProgress(console, left, limits.in_flight, limits.budget, limits.max_cost, spent)

    async def on_end(job: Job, outcome: Outcome) -> None:
        await asyncio.to_thread(batch.rows.set_outcome, job.key, outcome)
        progress.note(outcome)

    with progress:
        rows = Rows(batch.remaining(share))
        try:
            if run_on_queue:
                await run_on_queue(batch, limits, rows, on_end)
            elif limits.workers > 1:
                await _run_in_processes(batch, limits, rows, on_end)
            else:
                await _run_in_this_process(batch, limits, rows, on_end)
        except* MootError as errors:
            raise _first_error(errors) from None
    return rows.stopped


async def _run_in_this_process(batch: Batch, limits: Limits, rows: Rows[Job], on_end: OnEnd) -> None:
    folder = Folder(batch.folder, has_runs=batch.mode in RECORDED)

    async def run(job: Job) -> Outcome:
        outcome, _ = await run_debate(job, batch.mode, batch.prices, folder)
        return outcome

    with debates_within(Budget(limits.most, limits.seconds, spent=batch.spent, counts_earlier=False)) as budget:
        try:
            await run_here(rows, limits.in_flight, run, on_end, lambda: budget.refused)
        finally:
            await close_clients()


async def _run_in_processes(batch: Batch, limits: Limits, rows: Rows[Job], on_end: OnEnd) -> None:
    until = time.time() + limits.seconds

    async def run(job: Job) -> Outcome | None:
        answer = await workers.run({"key": job.key, "job": asdict(job), "mode": batch.mode, "until": until})
        return answer and answer["outcome"]

    async with Workers(limits.workers, {"folder": str(batch.folder.resolve())}) as workers:
        await run_here(rows, limits.in_flight, run, on_end, lambda: time.time() >= until)


def _first_error(errors: BaseExceptionGroup[MootError]) -> MootError:
    first = errors.exceptions[0]
    return _first_error(first) if isinstance(first, BaseExceptionGroup) else first


def _spend_of(outcome: Mapping[str, Any]) -> Spend:
    spent = outcome.get("spent") or {}
    return Spend(spent.get("tokens") or 0, spent.get("usd") or 0, spent.get("calls") or 0)
