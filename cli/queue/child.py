"""A process that does rows of a queue: their documents, their outcomes and the ledger go into the queue's Postgres.

``python -m moot.cli.queue.child``: the first line says where the queue is, each further one is a row.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from contextlib import nullcontext
from typing import Any, TextIO

from moot.cli.batch.hands import why_all_end
from moot.cli.batch.jobs import Job
from moot.cli.batch.outcomes import Outcome
from moot.cli.batch.work import Work
from moot.cli.batch.worker import listen, opened
from moot.cli.queue.indexing import store_piece
from moot.core.garbage import collected_seldom
from moot.core.ledger import use_ledger
from moot.core.limiter import share_endpoints
from moot.core.postgres.connection import Postgres
from moot.core.postgres.endpoints import SharedEndpoints
from moot.core.postgres.ledger import PostgresLedger
from moot.core.postgres.rows import BatchOf, QueuedRows
from moot.nodes.models.ceilings import Spend, within
from moot.nodes.models.leased_ceilings import LeasedCeilings
from moot.nodes.models.prices import read_prices
from moot.nodes.telemetry.start import begin_telemetry

AWAY = "queue"
"""The kind of errors of a Postgres that is away: such a row is no failure, but is queued again."""


class InQueue:
    """Keeps documents in the queue's Postgres, each together with what came of its row.

    Args:
        rows: the queue's.
    """

    def __init__(self, rows: QueuedRows) -> None:
        self._rows = rows

    def put(self, job: Job, document: dict[str, Any], outcome: Outcome) -> None:
        """As `Shelf.put`."""
        self._rows.end(job.key, outcome, document)


class Child:
    """Does rows.

    Args:
        rows: the queue's.
    """

    def __init__(self, rows: QueuedRows) -> None:
        self._rows = rows
        self._shelf = InQueue(rows)
        self._prices = read_prices()
        self._ceilings: dict[str, LeasedCeilings] = {}
        self._running: Counter[str] = Counter()

    async def hold(self, told: dict[str, Any]) -> dict[str, Any]:
        """Does a row: a debate, or a piece of a corpus. The answer says whether what came of it is stored."""
        if "passages" in (piece := told["job"]):
            await asyncio.to_thread(self._rows.end, piece["key"], await store_piece(piece), None)
            return {"stored": True}
        job, batch = Job(**told["job"]), BatchOf(**told["batch"])
        ceilings = self._of(batch)
        work = Work(self._shelf, batch.mode, self._prices)  # type: ignore[arg-type]
        self._running[batch.id] += 1
        try:
            with within(ceilings) if ceilings else nullcontext():
                outcome = await work.hold(job)
        finally:
            self._running[batch.id] -= 1
        if outcome["kind"] == AWAY and "spent" not in outcome:
            return {"stored": False}
        if "spent" not in outcome:  # it has no document
            await asyncio.to_thread(self._rows.end, job.key, outcome, None)
        if why := why_all_end(outcome, full=bool(ceilings and ceilings.refused)):
            await asyncio.to_thread(self._rows.stop, batch.id, why)
        if ceilings and not self._running[batch.id]:
            await asyncio.to_thread(self._rows.give_back, batch.id, ceilings.unused())
        return {"stored": True}

    def _of(self, batch: BatchOf) -> LeasedCeilings | None:
        """The ceilings of a batch; new ones if its bounds have changed."""
        most = Spend(*batch.most)
        if min(*most, batch.until) == math.inf:
            return None
        found = self._ceilings.get(batch.id)
        if found is None or not self._running[batch.id]:

            async def lease(short: Spend, need: Spend) -> Any:
                return await asyncio.to_thread(self._rows.lease, batch.id, short, need)

            found = self._ceilings[batch.id] = LeasedCeilings(lease, most, batch.until - time.time())
        return found


def main() -> None:
    """Works until the standard input ends."""
    told, out = opened()
    begin_telemetry(port=False)
    url = told["queue"]
    use_ledger(lambda: PostgresLedger(Postgres(url)))
    with collected_seldom():
        asyncio.run(_work(url, out))


async def _work(url: str, out: TextIO) -> None:
    endpoints = SharedEndpoints(Postgres(url))
    share_endpoints(endpoints.join)
    async with asyncio.TaskGroup() as group:
        group.create_task(endpoints.work())
        group.create_task(listen(Child(QueuedRows(Postgres(url))).hold, out))


if __name__ == "__main__":
    main()
