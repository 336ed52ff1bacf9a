"""The heartbeats of the processes of a service, by which other processes know that they are alive."""

from __future__ import annotations

import logging
import os
import socket
import threading
from typing import Any

from moot.core.errors import MootError
from moot.core.fingerprints import new_id
from moot.core.postgres.connection import Postgres

log = logging.getLogger(__name__)

INTERVAL = 2.0
"""Seconds between two heartbeats."""


class Heartbeat:
    """Sends this process's heartbeats from a separate thread."""

    def __init__(self, url: str) -> None:
        self.id = new_id()
        self._postgres = Postgres(url)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._send_regularly, name="moot-presence", daemon=True)

    def begin(self) -> None:
        """Sends the first heartbeat, and starts the thread that sends the others."""
        self._send(10)
        self._thread.start()

    def end(self) -> None:
        """Stops the heartbeats and removes this process from the database, after a successful `begin`; blocking."""
        self._stopped.set()
        self._thread.join(10)
        try:
            self._postgres.do(lambda cursor: cursor.execute("DELETE FROM moot.servers WHERE id = %s", (self.id,)), 0)
        except MootError as error:
            log.warning("%s", error.detail)  # without heartbeats, this process soon counts as dead anyway
        self._postgres.close()

    def _send_regularly(self) -> None:
        while not self._stopped.wait(INTERVAL):
            try:
                self._send(0)
            except MootError as error:
                log.warning("%s", error.detail)

    def _send(self, patience: float) -> None:
        """Sends a heartbeat, and removes processes that have sent none for an hour."""
        values = (self.id, socket.gethostname()[:100], os.getpid())

        def job(cursor: Any) -> None:
            cursor.execute(
                "INSERT INTO moot.servers (id, host, pid) VALUES (%s, %s, %s) "
                "ON CONFLICT (id) DO UPDATE SET seen = now()",
                values,
            )
            cursor.execute("DELETE FROM moot.servers WHERE seen < now() - interval '1 hour'")

        self._postgres.do(job, patience)
