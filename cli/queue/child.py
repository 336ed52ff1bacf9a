"""A process that runs rows of a queue, and stores documents, outcomes and replies in the queue's Postgres.

``python -m moot.cli.queue.child`` reads JSON lines: the first has the queue's address, each further one has a row.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from moot.cli.batch.jobs import Job
from moot.cli.batch.outcomes import Outcome, failed_outcome
from moot.cli.batch.work import RowProcessor, share_of
from moot.cli.batch.worker import open_streams, process_rows
from moot.cli.queue.indexing import store_piece
from moot.core.batch_runner import ADVICE, batch_stop_reason, outage_in_words
from moot.core.callers import serving_callers
from moot.core.config import usual_settings
from moot.core.errors import MOST_OUTAGES, MootError, OutageCount, WorldError
from moot.core.postgres.connection import Postgres
from moot.core.postgres.queued import QueuedBatch
from moot.core.postgres.rows import QueuedRows
from moot.core.postgres.store import PostgresStore
from moot.core.store import use_store
from moot.core.telemetry import begin_telemetry
from moot.nodes._models.prices import read_prices

log = logging.getLogger(__name__)

UNREACHABLE = "queue"
"""The error kind for an unreachable Postgres. A row with this error has not failed; it is queued again."""
MACHINE_FAULTS = frozenset({"missing_key", "authentication", "missing_package", "invalid_environment", "not_written"})
"""Kinds of errors that this machine may have caused. A row with such an error may succeed on another machine."""
RESIGNED = "resigned"
"""The error kind of a row that this worker left to another worker."""


class QueueDocuments:
    """Stores documents in the queue's Postgres, each together with the outcome of its row.

    Args:
        rows: the queue's rows.
        leave_to_others: takes the outcome of a row. If this machine may have caused the outcome, leaves the row to
            another worker and returns True; otherwise returns False. Blocking.
    """

    def __init__(self, rows: QueuedRows, leave_to_others: Callable[[Outcome], bool]) -> None:
        self._rows = rows
        self._leave_to_others = leave_to_others

    def put(self, job: Job, document: dict[str, Any], outcome: Outcome) -> None:
        """As `DocumentStore.put`.

        Raises:
            WorldError: Postgres was unreachable, or the row is left to another worker. The row then runs again.
            UserError: Postgres refuses access.
        """
        if outcome["kind"] == UNREACHABLE:
            raise WorldError(outcome["error"], kind=UNREACHABLE)
        if self._leave_to_others(outcome):
            raise WorldError(outcome["error"], kind=RESIGNED)
        self._rows.end(job.key, outcome, document)  # not also in the history, which a million rows would fill


class QueueRowProcessor:
    """Runs the rows of a queue.

    Args:
        rows: the queue's rows.
    """

    def __init__(self, rows: QueuedRows) -> None:
        self._rows = rows
        self._prices = read_prices()
        self._proven: set[str] = set()
        """Batches with a row that succeeded here. If a row of such a batch fails, this machine is not the cause."""

    async def run_row(self, row: dict[str, Any]) -> dict[str, Any]:
        """Runs a row: a debate, or the indexing of a piece of a corpus.

        In the answer, ``stored`` says whether the row's outcome is stored. If the row was left to another worker,
        ``resigned`` is the reason, and this worker gets no more rows.

        Raises:
            UserError, WorldError: the outcome of an unexpected error cannot be stored.
        """
        try:
            return await self._run_row(row)
        except MootError as error:
            log.warning("%s", error.detail)
            return {"stored": False}
        except Exception as error:
            key = row["job"]["key"]
            log.exception("The row %s failed", key)
            outcome = failed_outcome(f"{type(error).__name__}: {error}"[:1000], "fault_of_ours")
            await asyncio.to_thread(self._rows.end, key, outcome, None)
            return {"stored": True}

    async def _run_row(self, row: dict[str, Any]) -> dict[str, Any]:
        """The same as `run_row`, but errors are raised, not handled."""
        batch, worker = QueuedBatch(**row["batch"]), row["worker"]
        if "passages" in row["job"]:
            return await self._answer_for(batch, worker, row["job"]["key"], await store_piece(row["job"]))
        job = Job(**row["job"])
        store = QueueDocuments(self._rows, lambda outcome: self._leave_to_others(batch.id, worker, outcome))
        processor = RowProcessor(store, batch.mode, self._prices)  # type: ignore[arg-type]
        with share_of(job, batch.until):
            outcome = await processor.run_row(job)
        answer = await self._answer_for(batch, worker, job.key, outcome)
        why = batch_stop_reason(outcome, ceiling_reached=time.time() >= batch.until)
        if not why and outcome.get("outage"):
            outages, reason = OutageCount(), ""
            for outage in await asyncio.to_thread(self._rows.last_outages, batch.id, MOST_OUTAGES):
                reason = outages.stop_reason(outage)
            why = outage_in_words(reason, outcome, ADVICE)
        if answer["stored"] and why:
            await asyncio.to_thread(self._rows.stop, batch.id, why)
        return answer

    async def _answer_for(self, batch: QueuedBatch, worker: int, key: str, outcome: Outcome) -> dict[str, Any]:
        """Builds the answer for a row. The row's outcome is stored first, unless the row is to run again.

        An outcome with ``spent`` is not stored here: it was stored together with the debate's document.
        """
        if outcome["status"] == "done":
            self._proven.add(batch.id)
        if "spent" not in outcome:
            if (kind := outcome.get("kind")) == UNREACHABLE:
                return {"stored": False}
            if kind == RESIGNED or await asyncio.to_thread(self._leave_to_others, batch.id, worker, outcome):
                return {"stored": False, "resigned": outcome["error"]}
            await asyncio.to_thread(self._rows.end, key, outcome, None)
        return {"stored": True}

    def _leave_to_others(self, batch: str, worker: int, outcome: Outcome) -> bool:
        """Leaves all rows of this worker to other workers if this machine may have caused the outcome. Blocking.

        Returns whether the rows were left. If no other worker is alive, the rows stay with this worker.
        """
        machine_may_be_at_fault = (
            outcome["status"] != "done" and outcome["kind"] in MACHINE_FAULTS and batch not in self._proven
        )
        return machine_may_be_at_fault and self._rows.resign(worker)


def main() -> None:
    """Runs the rows from standard input, and ends when standard input ends."""
    first, out = open_streams()
    begin_telemetry(port=False)
    url = first["queue"]
    use_store(PostgresStore(Postgres(url), assigns=False))
    with serving_callers(usual_settings(), any_model=True):
        asyncio.run(process_rows(QueueRowProcessor(QueuedRows(Postgres(url))).run_row, out))


if __name__ == "__main__":
    main()
