"""The store in a Postgres, which the processes of a service and the workers of a queue share."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar

from moot.core.postgres.connection import Postgres
from moot.core.store import Store, upsert
from moot.core.tables import runs
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError

T = TypeVar("T")

SILENCE = 8
"""Seconds without a heartbeat after which a process counts as dead: its debates count as interrupted, and others may
resume them. The service's lease of a run must be longer.
"""
LOOKUP_PATIENCE = 10.0
"""Seconds for which lookups are retried. Other methods are retried for `Postgres.patience`."""
CLOSING = 10.0
"""Seconds for which methods are still retried while the store is closed."""
ALIVE = text(f"SELECT id FROM moot.servers WHERE seen > now() - interval '{SILENCE} s'")
QUEUED = text("SELECT key FROM moot.rows WHERE status = 'running'")


class PostgresStore(Store):
    """The store in a database, which has the tables already."""

    listed = runs.c.thread.is_not(None)  # not the rows of batches, which may be a million
    store_reply = upsert(postgresql.insert)

    # ``owner`` is the id of this process's `Heartbeat`; None if it sends none.
    def __init__(self, postgres: Postgres, owner: str | None = None, *, assigns: bool = True) -> None:
        super().__init__()
        self.owner, self.assigns, self._postgres = owner, assigns, postgres
        engine = create_engine("postgresql+psycopg://", creator=postgres.connect)
        self._engine = engine.execution_options(schema_translate_map={None: "moot"})

    def do(self, job: Callable[[Connection], T], *, is_lookup: bool = False) -> T:
        """Runs a job in a transaction, and again after temporary errors."""

        def attempt() -> T:
            try:
                with self._engine.begin() as connection:
                    return job(connection)
            except DBAPIError as error:
                raise error.orig or error from error

        patience = self._postgres.patience
        return self._postgres.retried(attempt, min(patience, LOOKUP_PATIENCE) if is_lookup else patience)

    def living(self, connection: Connection) -> Callable[[Any], bool]:
        """Returns a function that tells whether a process that sends heartbeats, or a worker of a queue, runs it."""
        owners = cache(lambda: {*connection.scalars(ALIVE)})
        queued = cache(lambda: {*connection.scalars(QUEUED)})
        return lambda row: row.owner in owners() or row.id in queued()

    def lock(self, connection: Connection, name: str) -> None:
        """Lets other transactions with this name wait."""
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))"), {"name": name})

    def close(self) -> None:
        """Waits at most about `CLOSING` seconds for the methods that run or wait, and closes the connections."""
        if not self.is_closed:
            self._postgres.until = time.monotonic() + CLOSING
            with suppress(TimeoutError):
                self._thread.submit(int).result(CLOSING)  # after all others
            self._thread.shutdown(wait=False, cancel_futures=True)
        super().close()
        self._engine.dispose()
        self._postgres.close()
