"""Runs batches in the server, several claims at once.

After a restart, a server without users continues its unfinished batches, except stopped ones. A server with users runs
a batch with the rights of the batch's user. After a restart, such a batch continues only if this user resumes it.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import APIError, NotFoundError
from moot.core.batch_runner import Progress, Rows, run_here
from moot.core.errors import MootError, UserError
from moot.core.redaction import hide_secrets
from moot.core.store import open_store
from moot.nodes._models.budget import Budget
from moot.nodes._models.spend import Spend
from moot.transcript.outcome import Outcome
from moot.web.batches import storage
from moot.web.batches.outcomes import results_of
from moot.web.batches.storage import Batch, Job
from moot.web.caller import has_users
from moot.web.table import TABLE, RunRequest
from starlette.concurrency import run_in_threadpool

log = logging.getLogger(__name__)

REMEDY = "To check the rest, read the list again with a higher limit: claims that were checked are not ticked."
UNKNOWN_COST = (
    "the cost of a debate is not known, because a model has no price, or its endpoint counts no tokens. Add a missing "
    "price to the file that MOOT_PRICES names, restart the server and resume the batch. Or start a new batch without "
    "the limit."
)
STOPPED = "It was stopped."
"""The reason in `Batch.stopped` if a person stopped the batch."""


class RunningBatch:
    """A batch that this server is running.

    Args:
        batch: the batch.
        jobs: the debates of all its claims.
        client: sends requests as the user who started or resumed the batch.
    """

    def __init__(self, batch: Batch, jobs: Iterable[Job], client: LangGraphClient) -> None:
        self.batch = batch
        self.jobs = list(jobs)
        self.client = client
        self.left = deque[Job]() if batch.ended else deque(job for job in self.jobs if job.same_as is None)
        """The debates that no worker has taken yet; debates that are done are skipped later."""
        self.active: dict[int, str] = {}
        """Maps the number of each row in progress to the id of its run. The id is empty until the run has started."""
        self.retries: set[int] = set()
        """The numbers of rows to retry if they failed."""
        self.rows = Rows(iter(self), "Resume the batch when they answer")
        self.budget = Budget()
        self.progress = Progress(len(self.jobs))
        self.writing = asyncio.Lock()

    def __iter__(self) -> RunningBatch:
        """The debates in `left`, to which more may be added at any time."""
        return self

    def __next__(self) -> Job:
        """The next debate in `left`, which becomes active."""
        try:
            job = self.left.popleft()
        except IndexError:
            raise StopIteration from None
        self.active[job.row.number] = ""
        return job

    async def work(self) -> None:
        """Runs the debates in `left`, several at once, and releases the batch.

        If the batch cannot be stored, its work ends early, and the error is logged.
        """
        try:
            await self._open_budget()
            await run_here(self.rows, self.batch.at_once, self._run_row, self._note_end, lambda: self.budget.refused)
            if not self.batch.stopped:
                await self.change(ended=True)
        except* MootError as errors:
            log.error("The batch %s ended early: %s", self.batch.id, errors.exceptions[0])
        finally:
            for job in self.jobs:
                TABLE.budgets.pop(job.debate, None)
            await run_in_threadpool(storage.release, self.batch.id)

    async def _open_budget(self) -> None:
        """Lets all debates of the batch share a ceiling, as those of ``moot batch`` do, if the batch has one."""
        if (most := self.batch.max_cost) is None:
            return
        found = [one for one in await results_of(self.jobs) if one.graph]  # damaged documents have no graph
        await self._check_costs(one.usd for one in found)
        spent = Spend(0, sum(one.usd or 0 for one in found), 0)
        if spent.usd >= most:
            await self._stop(self._limit(f"is reached. {REMEDY}"))
        self.budget = Budget(Spend(math.inf, most, math.inf), spent=spent, counts_earlier=False)
        TABLE.budgets |= {job.debate: self.budget for job in self.jobs}

    async def _check_costs(self, costs: Iterable[float | None]) -> None:
        """Stops a batch with a ceiling if the cost of a debate is not known."""
        if self.batch.max_cost and None in costs:
            await self._stop(self._limit(f"cannot be kept: {UNKNOWN_COST}"))

    def _limit(self, words: str) -> str:
        most = self.batch.max_cost or 0.0
        amount = f"{most:,.2f}" if most == round(most, 2) else f"{most:g}"
        return f"The limit of ${amount} for all claims {words}"

    async def _stop(self, why: str) -> None:
        """Starts no further debate."""
        self.rows.stopped = self.rows.stopped or why
        if not self.batch.stopped:
            await self.change(stopped=why)

    async def change(self, **changed: Any) -> None:
        """Changes fields of the batch, and stores it."""
        self.batch = replace(self.batch, **changed)
        async with self.writing:
            await run_in_threadpool(storage.store_batch, self.batch)

    async def _run_row(self, job: Job) -> Outcome | None:
        """Runs a claim's debate if it has not started, was interrupted, or failed and is to be retried."""
        number = job.row.number
        try:
            [before] = await results_of([job])
            startable = ("none", "interrupted", "failed") if number in self.retries else ("none", "interrupted")
            if before.status not in startable:
                return None
            if number in self.batch.faults:
                others = {other: fault for other, fault in self.batch.faults.items() if other != number}
                await self.change(faults=others)
            await self._start_and_join(job)
            [result] = await results_of([job])
            if result.graph:
                await self._check_costs([result.usd])
            return {**result.outcome, "status": result.status, "error": result.error}
        except Exception as error:
            if not isinstance(error, APIError | MootError):
                log.exception("Claim %s of the batch %s failed", number, self.batch.id)
            fault = getattr(error, "detail", None) or getattr(error, "message", None) or repr(error)
            await self.change(faults={**self.batch.faults, number: hide_secrets(str(fault)[:500])})
            return None
        finally:
            self.active.pop(number, None)
            self.retries.discard(number)

    async def _note_end(self, job: Job, outcome: Outcome) -> None:
        """Stops the batch if this outcome says that no further debate may start."""
        self.progress.note(outcome)
        if (why := self.rows.stopped) and not self.batch.stopped:
            if outcome["kind"] == "budget_exhausted":
                return await self._stop(self._limit(f"is reached. {REMEDY}"))
            words = f"{why[:1].upper()}{why[1:].replace('row', 'claim')}"
            await self._stop(words if outcome["error"] in words else f"{words}: {outcome['error']}")
        return None

    async def _start_and_join(self, job: Job) -> None:
        """Starts the run of a debate, and waits for its end."""
        await self.client.threads.create(thread_id=job.thread, if_exists="do_nothing", graph_id=job.graph)
        run = await self.client.runs.create(
            job.thread,
            job.graph,
            input=dict(job.input),
            context=dict(job.context),
            **TABLE.run_arguments(RunRequest(debate=job.debate)),
            stream_mode=["updates", "custom"],
            stream_subgraphs=True,
            stream_resumable=True,
            multitask_strategy="reject",
        )
        self.active[job.row.number] = run["run_id"]
        if self.batch.stopped:  # the batch was stopped while the run was starting
            await self._cancel(job, run["run_id"])
        last: Any = await self.client.runs.join(job.thread, run["run_id"])
        failed = last.get("__error__") if isinstance(last, dict) else None
        # If the store has a row for the debate, the row says why the debate failed.
        store = open_store()
        if failed and await store.soon(store.run, job.debate) is None:
            raise UserError(str(failed.get("message") or failed.get("error") or failed), kind="bad_request")

    async def stop(self) -> None:
        """Stops the batch: no further debate is started, and running debates are interrupted."""
        await self._stop(STOPPED)
        by_number = {job.row.number: job for job in self.jobs}
        for number, run in list(self.active.items()):
            if run:
                await self._cancel(by_number[number], run)

    async def _cancel(self, job: Job, run: str) -> None:
        with suppress(NotFoundError):  # the run has just ended
            await self.client.runs.cancel(job.thread, run, action="interrupt")


class Batches:
    """The batches that this server is running."""

    def __init__(self) -> None:
        self.running: dict[str, tuple[RunningBatch, asyncio.Task[None]]] = {}
        """Maps a batch's id to the batch and the task that runs it; the task may be over."""
        self._starting = asyncio.Lock()

    def running_batch(self, id: str) -> RunningBatch | None:
        """The batch with this id, if this server is running it; otherwise None."""
        found = self.running.get(id)
        return found[0] if found and not found[1].done() else None

    async def start(self, batch: Batch, client: LangGraphClient, retries: Iterable[int] = ()) -> None:
        """Starts or resumes a batch. If this server is running the batch already, this only adds rows to retry."""
        async with self._starting:
            running = self.running_batch(batch.id)
            if running is None:
                jobs = await run_in_threadpool(storage.jobs, batch)
                if not await run_in_threadpool(storage.take, batch.id):
                    raise UserError("Another server is running this batch.", kind="debate_running")
                running = RunningBatch(batch, jobs, client)
                firsts = {job.row.number: job.same_as or job.row.number for job in jobs}
                wanted = {firsts[number] for number in {*retries} if number in firsts}
                running.left.extend(job for job in jobs if job.row.number in wanted and job not in running.left)
                running.retries |= wanted
                await running.change(stopped="", ended=False)
                self.running[batch.id] = (running, asyncio.create_task(running.work()))
                return
        firsts = {job.row.number: job.same_as or job.row.number for job in running.jobs}
        wanted = {firsts[number] for number in {*retries} if number in firsts}
        for job in running.jobs:
            if job.row.number in wanted and job.row.number not in running.active and job not in running.left:
                running.retries.add(job.row.number)
                running.left.append(job)

    async def stop(self, id: str) -> None:
        """Stops a batch, and waits until its running debates are interrupted. The batch can be resumed without loss."""
        found = self.running.get(id)
        if found is None or found[1].done():
            raise UserError("This batch is not running on this server.", kind="bad_request")
        await found[0].stop()
        await found[1]

    async def resume(self) -> None:
        """Resumes unfinished batches, except stopped ones; does nothing if the server has users.

        If a batch cannot be resumed, the error is logged.
        """
        if has_users():
            return
        for id in await run_in_threadpool(storage.ids):
            try:
                batch = await run_in_threadpool(storage.load, id)
                if not (batch.ended or batch.stopped):
                    await self.start(batch, get_client(url=None, api_key=None))
            except MootError as error:
                log.error("The batch %s cannot continue: %s", id, error.detail)

    async def close(self) -> None:
        """Interrupts running batches when the server stops. They are not marked as stopped, so `resume` finds them."""
        tasks = [task for _, task in self.running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


BATCHES = Batches()
