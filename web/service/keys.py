"""Idempotency keys of a service. The first request with a key starts a debate; later requests join the debate's run.

Everything here blocks.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from moot.core.postgres.connection import Postgres
from moot.web.caller import DATABASE

ABANDONED = "at < now() - interval '60 seconds'"
"""Selects keys that were taken more than a minute ago. Such a key is free if no run is stored for it."""
TAKE = (
    "INSERT INTO moot.keys AS k (key, fingerprint, thread) VALUES (%(key)s, %(fingerprint)s, %(thread)s) "
    "ON CONFLICT (key) DO UPDATE SET thread = excluded.thread, run = NULL, at = now() "
    f"WHERE k.fingerprint = excluded.fingerprint AND (k.run = %(stopped_run)s OR (k.run IS NULL AND k.{ABANDONED}))"
)


def database() -> Postgres:
    """This process's connection for idempotency keys and quotas."""
    return _connection(os.environ[DATABASE])


@lru_cache(maxsize=1)
def _connection(url: str) -> Postgres:
    return Postgres(url)


@dataclass(frozen=True)
class KeyState:
    """The state of a key.

    Args:
        fingerprint: the fingerprint of its first request.
        thread: the thread of its debate.
        run: the run of its debate; None if the run has not started yet.
        is_ours: whether this request starts the debate.
    """

    fingerprint: str
    thread: str
    run: str | None
    is_ours: bool


def reserve_key(key: str, fingerprint: str, thread: str, stopped_run: str | None) -> KeyState:
    """Takes a key, unless another request has taken it. Returns the key's state.

    A key that another request with the same fingerprint has taken is free again in two cases: the key's run
    stopped early, or no run was stored for the key within a minute.

    Args:
        key: the key, as in the table of debates.
        fingerprint: the request's fingerprint.
        thread: the thread for the request's debate.
        stopped_run: the key's run, if it stopped early and the server will not restart it; otherwise None.

    Raises:
        UserError, WorldError: the database cannot be used.
    """
    parameters = {"key": key, "fingerprint": fingerprint, "thread": thread, "stopped_run": stopped_run}

    def transaction(cursor: Any) -> KeyState:
        is_ours = bool(cursor.execute(TAKE, parameters).rowcount)
        cursor.execute("SELECT fingerprint, thread, run FROM moot.keys WHERE key = %s", (key,))
        first, debate_thread, run = cursor.fetchone()
        return KeyState(first, debate_thread, run, is_ours)

    return database().do(transaction, 10)


def store_run(key: str, thread: str, run: str) -> None:
    """Stores the run that was started for a key on a thread. Does nothing if the key is gone or has another thread."""
    query = "UPDATE moot.keys SET run = %s WHERE key = %s AND thread = %s"
    database().do(lambda cursor: cursor.execute(query, (run, key, thread)), 10)


def release_key(key: str, thread: str) -> None:
    """Releases a key whose run was refused, so that another request can take it. A key with a run is not released."""
    query = "DELETE FROM moot.keys WHERE key = %s AND thread = %s AND run IS NULL"
    database().do(lambda cursor: cursor.execute(query, (key, thread)), 10)
