"""The ledger of calls in a Postgres that several machines share; the counterpart of `moot.core.ledger.file`.

This ledger does not check whether another process runs a debate. The check is not needed, because the queue gives each
row of a batch, and with it the row's debate, to only one worker at a time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from moot.core.errors import UserError
from moot.core.ledger.records import FAILED, DebateStart, Entry, Key, Request, Status, moot_version, new_id
from moot.core.postgres.connection import Postgres

COLUMNS = "seq, id, key, kind, parts, about, created, size, value"
STORE = (
    "INSERT INTO moot.entries (debate, key, kind, parts, about, created, size, value) "
    "SELECT number, %s, %s, %s, %s, %s, %s, %s FROM moot.debates WHERE id = %s "
    "ON CONFLICT (debate, key) DO UPDATE SET about = excluded.about, created = excluded.created, "
    "size = excluded.size, value = excluded.value"
)


class PostgresLedger:
    """The ledger; each method that uses the database runs one transaction, as `Postgres.do` does."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres

    def is_current(self) -> bool:
        """Returns true: the database is not replaced while it is open."""
        return True

    def needs_pruning(self) -> bool:
        """Returns false: the operator of the database prunes the ledger."""
        return False

    def close(self) -> None:
        self._postgres.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Context manager without effect: each method runs its own transaction."""
        yield

    # --- debates ------------------------------------------------------------------------------------------------------

    def begin(self, request: Request) -> DebateStart:
        """Takes over the debate with the request's id, or inserts it; idempotency key and ``adopt`` have no effect."""
        id, now = request.id or new_id(), time.time()
        values = (id, request.fingerprint, moot_version(), request.graph, request.input, request.settings, now, now)

        def job(cursor: Any) -> DebateStart:
            cursor.execute("SELECT status FROM moot.debates WHERE id = %s", (id,))
            found = cursor.fetchone()
            cursor.execute(
                "INSERT INTO moot.debates (id, fingerprint, version, graph, input, settings, status, started, updated) "
                "VALUES (%s, %s, %s, %s, %s, %s, 'running', %s, %s) "
                "ON CONFLICT (id) DO UPDATE SET status = 'running', updated = excluded.updated, "
                "settings = excluded.settings",
                values,
            )
            return DebateStart(id, resumed=found is not None and found[0] != "done")

        return self._postgres.do(job)

    def end(self, id: str, status: Status, document: str | None, note: str | None) -> None:
        """The same as `LedgerFile.end`."""
        columns = "status = %s, updated = %s, document = coalesce(%s, document), note = coalesce(%s, note)"
        values = (status, time.time(), document, note, id)
        self._postgres.do(lambda cursor: cursor.execute(f"UPDATE moot.debates SET {columns} WHERE id = %s", values))

    # --- entries ------------------------------------------------------------------------------------------------------

    def store_entries(self, entries: Sequence[Entry]) -> None:
        """Stores the results of calls, all or none; see `LedgerFile.store_entries`."""
        rows = []
        for entry in entries:
            debate, key, *rest = entry.row()
            rows.append((key, *rest, debate))

        def job(cursor: Any) -> None:
            cursor.executemany(STORE, rows)
            if cursor.rowcount < len(rows):
                raise UserError(
                    "The shared ledger no longer has a row for this debate: it was removed while the debate ran.",
                    kind="unknown_debate",
                )

        self._postgres.do(job)

    def entries(self, debate: str, after: int = 0, limit: int = -1) -> list[tuple[int, Entry]]:
        """The same as `LedgerFile.entries`, but an entry that was replaced keeps its first position."""
        most = None if limit < 0 else limit
        return self._entries("id = %s AND seq > %s ORDER BY seq LIMIT %s", debate, after, most)

    def find(self, hash: str, prefer: str | None, *, failed: bool = True) -> Entry | None:
        """The same as `LedgerFile.find`, but replacing an entry does not make the entry newer."""
        usable = "" if failed else f" AND about::json ->> '{FAILED}' IS NULL"
        query = f"key = %s{usable} ORDER BY id = %s DESC NULLS LAST, seq DESC LIMIT 1"
        found = self._entries(query, bytes.fromhex(hash), prefer)
        return found[0][1] if found else None

    def most_similar(self, key: Key, debate: str | None, limit: int = 2000) -> Entry | None:
        """The same as `LedgerFile.most_similar`."""
        query = "kind = %s AND (%s::text IS NULL OR id = %s) ORDER BY seq DESC LIMIT %s"
        found = [entry for _, entry in self._entries(query, key.kind, debate, debate, limit)]
        return max(found, key=lambda entry: len(key.parts.items() & entry.key.parts.items()), default=None)

    def _entries(self, where: str, *values: Any) -> list[tuple[int, Entry]]:
        """The entries that a SQL condition selects, each with its position."""

        def job(cursor: Any) -> list[tuple[int, Entry]]:
            query = f"SELECT {COLUMNS} FROM moot.entries JOIN moot.debates ON number = debate WHERE {where}"
            return [
                (seq, Entry(id, Key(kind, key.hex(), json.loads(parts)), json.loads(about), created, size, value))
                for seq, id, key, kind, parts, about, created, size, value in cursor.execute(query, values)
            ]

        return self._postgres.do(job)
