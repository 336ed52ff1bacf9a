"""What all processes of a server with ``MOOT_DATABASE`` share: the store."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

from moot.core.errors import WorldError
from moot.core.postgres.connection import Postgres, queue_module
from moot.core.postgres.store import PostgresStore
from moot.core.redaction import redact
from moot.core.store import use_store
from moot.service.heartbeat import Heartbeat
from moot.service.usage import reserved_ceilings
from moot.web.caller import DATABASE
from moot.web.table import TABLE

START_LOCK_NUMBER = 1836019574
"""The number of the advisory lock that a process holds while it starts."""


class StartLock:
    """Makes the processes of a service start one after the other.

    Without this lock, two processes might set up Aegra at the same time, which is not safe.
    """

    def __init__(self) -> None:
        self._connection: Any = None

    def begin(self, url: str) -> None:
        """Waits until no other process is starting, and takes the lock. Blocking."""
        psycopg = queue_module("psycopg")
        try:
            self._connection = psycopg.connect(url, connect_timeout=10, autocommit=True, application_name="moot start")
            # This polls, because a transaction that waits for the lock would keep Aegra from building indexes.
            while not self._connection.execute("SELECT pg_try_advisory_lock(%s)", (START_LOCK_NUMBER,)).fetchone()[0]:
                time.sleep(0.2)
        except psycopg.Error as error:
            text = redact(" ".join(str(error).split()))[:300]
            raise WorldError(
                f"The database that {DATABASE} names cannot be reached ({text}).", kind="unreachable", retryable=True
            ) from error

    def end(self) -> None:
        """Releases the lock after this process has started; does nothing if this process does not hold the lock."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


START_LOCK = StartLock()


@asynccontextmanager
async def shared_stores() -> AsyncIterator[None]:
    """Context manager: inside it, this process stores its debates in the database that ``MOOT_DATABASE`` names."""
    url = os.environ[DATABASE]
    with closing(Postgres(url)) as postgres:
        await asyncio.to_thread(postgres.prepare, 30.0)
    presence = Heartbeat(url)
    await asyncio.to_thread(presence.begin)
    store = use_store(PostgresStore(Postgres(url), presence.id))
    TABLE.is_shared, TABLE.reserve = True, reserved_ceilings
    try:
        yield
    finally:
        TABLE.is_shared = False
        await asyncio.to_thread(store.close)
        await asyncio.to_thread(presence.end)
