"""The ledger of a server with several processes, in one Postgres. It stores the person and the process of each debate.

A process sends a heartbeat every `INTERVAL` seconds. After `SILENCE` seconds without a heartbeat, the debates of the
process count as interrupted, and other processes may resume them.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any, cast

from moot.core.errors import MootError, UserError
from moot.core.ledger.records import (
    FAILED,
    Debate,
    DebateStart,
    PruningResult,
    Request,
    Status,
    as_json,
    moot_version,
    new_id,
)
from moot.core.postgres.connection import Postgres
from moot.core.postgres.ledger import PostgresLedger

log = logging.getLogger(__name__)

INTERVAL = 2.0
"""Seconds between two heartbeats."""
SILENCE = 8
"""Seconds without a heartbeat after which a process counts as dead. The service's lease of a run must be longer."""
LOOKUP_PATIENCE = 10.0
"""Seconds for which most lookups are retried. The ledger's other operations are retried for `Postgres.patience`."""
ENDED = ("done", "failed", "waiting")
"""Statuses of a debate that has ended or waits for a person. ``interrupted`` is not one of them."""
IS_ALIVE = f"EXISTS (SELECT 1 FROM moot.servers AS s WHERE s.id = d.owner AND s.seen > now() - interval '{SILENCE} s')"
"""SQL: whether the process that owns the debate is alive."""
IN_QUEUE = "EXISTS (SELECT 1 FROM moot.rows AS r WHERE r.key = d.id AND r.status = 'running')"
"""SQL: whether a worker of the queue runs the debate."""
STATUS = f"CASE WHEN d.status = 'running' AND NOT {IS_ALIVE} AND NOT {IN_QUEUE} THEN 'interrupted' ELSE d.status END"
"""SQL: the status of a debate; ``interrupted`` if its row says ``running``, but no living process runs it."""
USABLE = f"e.kind = 'chat' AND e.about::json ->> '{FAILED}' IS NULL"
"""SQL: whether an entry is a usable reply of a model."""


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


class ServedLedger(PostgresLedger):
    """The ledger of one process of the service."""

    def __init__(self, postgres: Postgres, owner: str) -> None:
        super().__init__(postgres)
        self._owner = owner

    def begin(self, request: Request) -> DebateStart:
        """Takes over or inserts a debate by id or idempotency key; without ``owned``, the debate is unchanged."""
        return self._postgres.do(lambda cursor: self._begin(cursor, request))

    def _begin(self, cursor: Any, request: Request) -> DebateStart:
        """The transaction of `begin`."""
        cursor.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (request.idempotency_key or request.id,)
        )
        cursor.execute(
            f"SELECT d.id, d.person, d.run, d.fingerprint, {STATUS} FROM moot.debates AS d "
            "WHERE d.id = %s OR d.idempotency_key = %s ORDER BY d.id = %s DESC LIMIT 1 FOR UPDATE OF d",
            (request.id, request.idempotency_key, request.id),
        )
        if (found := cursor.fetchone()) is None:
            id, now = request.id or new_id(), time.time()
            values = (request.fingerprint, moot_version(), request.graph, request.input, request.settings)
            cursor.execute(
                "INSERT INTO moot.debates (id, fingerprint, version, graph, input, settings, status, started, updated, "
                "person, owner, pid, idempotency_key, run) VALUES (%s, %s, %s, %s, %s, %s, 'running', %s, %s, %s, %s, "
                "%s, %s, %s)",
                (id, *values, now, now, request.person, self._owner, os.getpid(), request.idempotency_key, request.run),
            )
            return DebateStart(id, resumed=False)
        id, person, run, fingerprint, status = found
        same_run = run is not None and run == request.run
        if person != request.person:
            raise UserError("There is no such debate.", kind="missing_file")
        if id != request.id and fingerprint != request.fingerprint:
            raise UserError(
                "This idempotency key was used for another request. Use a new one for each debate.", kind="bad_request"
            )
        if id != request.id and not same_run and status in ("running", "waiting", "done"):
            return DebateStart(id, resumed=False, owned=False)
        if status == "running" and not same_run:
            raise UserError(f"The debate {id} is running. Wait until it has ended.", kind="debate_running")
        if same_run and status in ENDED:  # the worker was lost before the server knew this status
            return DebateStart(id, resumed=True)
        cursor.execute(
            "UPDATE moot.debates SET status = 'running', owner = %s, pid = %s, updated = %s, run = %s, settings = %s "
            "WHERE id = %s",
            (self._owner, os.getpid(), time.time(), request.run, request.settings, id),
        )
        return DebateStart(id, resumed=same_run or status != "done")

    def end(self, id: str, status: Status, document: str | None, note: str | None) -> None:
        """The same as `LedgerFile.end`, for a debate that two workers may run."""
        columns = "status = %s, updated = %s, document = coalesce(%s, document), note = coalesce(%s, note)"
        # The status ``done`` is final; a process that does not own the debate can only end it.
        may_end = "(owner = %s OR (status <> 'done' AND %s))"
        query = f"UPDATE moot.debates SET {columns}, owner = NULL WHERE id = %s AND {may_end}"
        values = (status, time.time(), document, note, id, self._owner, status in ENDED)
        self._postgres.do(lambda cursor: cursor.execute(query, values))

    def debates(
        self,
        status: Status | None = None,
        graph: str | None = None,
        text: str | None = None,
        limit: int | None = None,
        id: str | None = None,
    ) -> list[Debate]:
        """The same as `LedgerFile.debates`, but the database's locale determines which letters differ only in case."""
        as_stored = None if text is None else as_json(text)[1:-1]
        values: dict[str, Any] = {"status": status, "graph": graph, "text": as_stored, "limit": limit or None, "id": id}
        conditions = {
            "status": f"{STATUS} = %(status)s",
            "graph": "d.graph = %(graph)s",
            "text": "strpos(lower(d.input), lower(%(text)s)) > 0",
            "id": "starts_with(d.id, %(id)s)",
        }
        where = " AND ".join(["true", *(conditions[name] for name in conditions if values[name] is not None)])
        query = (
            f"SELECT d.id, d.fingerprint, d.version, d.graph, d.input, d.settings, {STATUS}, d.pid, d.started, "
            "d.updated, d.document, d.idempotency_key, d.note, e.entries, e.calls, e.size, d.person "
            f"FROM (SELECT * FROM moot.debates AS d WHERE {where} ORDER BY d.started DESC, d.id LIMIT %(limit)s) AS d "
            f"CROSS JOIN LATERAL (SELECT count(*) AS entries, count(*) FILTER (WHERE {USABLE}) AS calls, "
            "coalesce(sum(e.size), 0) AS size FROM moot.entries AS e WHERE e.debate = d.number) AS e "
            "ORDER BY d.started DESC, d.id"
        )
        rows = self._postgres.do(lambda cursor: cursor.execute(query, values).fetchall(), LOOKUP_PATIENCE)
        return [_debate(*row) for row in rows]

    def outline(self, person: str | None = None) -> list[tuple[str, Status, float]]:
        """Id, status and start time of the debates (of this person) that ran on the server, newest first."""
        query = (
            f"SELECT d.id, {STATUS}, d.started FROM moot.debates AS d WHERE d.thread IS NOT NULL "
            "AND (%s::text IS NULL OR d.person = %s) ORDER BY d.started DESC, d.id"
        )
        return self._postgres.do(lambda cursor: cursor.execute(query, (person, person)).fetchall(), LOOKUP_PATIENCE)

    def owners_of(self, documents: Sequence[str]) -> dict[str, str]:
        """The person who owns each document, by the document's id; documents without an owner are left out."""
        query = "SELECT id, person FROM moot.documents WHERE id = ANY(%s) AND person IS NOT NULL"
        return dict(self._postgres.do(lambda cursor: cursor.execute(query, ([*documents],)).fetchall()))

    def delete(self, id: str) -> None:
        """Deletes a debate with its entries and its idempotency key."""
        query = (
            "WITH gone AS (DELETE FROM moot.debates WHERE id = %s RETURNING idempotency_key) "
            "DELETE FROM moot.keys WHERE key IN (SELECT idempotency_key FROM gone)"
        )
        self._postgres.do(lambda cursor: cursor.execute(query, (id,)))

    def find_by_idempotency_key(self, idempotency_key: str) -> Debate | None:
        query = "SELECT id FROM moot.debates WHERE idempotency_key = %s"
        found = self._postgres.do(lambda cursor: cursor.execute(query, (idempotency_key,)).fetchone(), LOOKUP_PATIENCE)
        return next(iter(self.debates(id=found[0])), None) if found else None

    def record_run(self, id: str, thread: str, run: str) -> None:
        """Records the thread and the run in which the server runs a debate."""
        query = "UPDATE moot.debates SET thread = %s, run = %s WHERE id = %s"
        self._postgres.do(lambda cursor: cursor.execute(query, (thread, run, id)))

    def find_run(self, id: str) -> tuple[str, str] | None:
        """The thread and the run of a debate; None if it has not run on the server."""
        query = "SELECT thread, run FROM moot.debates WHERE id = %s AND thread IS NOT NULL"
        found: Any = self._postgres.do(lambda cursor: cursor.execute(query, (id,)).fetchone(), LOOKUP_PATIENCE)
        return cast(tuple[str, str] | None, found)

    def runs(self, thread: str | None = None) -> dict[str, tuple[str, str]]:
        """The same as `LedgerFile.runs`."""
        if "\0" in (thread or ""):  # Postgres would refuse this character with an error
            return {}
        query = (
            "SELECT id, thread, run FROM moot.debates WHERE thread = %s OR (%s::text IS NULL AND thread IS NOT NULL) "
            "ORDER BY started DESC"
        )
        rows = self._postgres.do(lambda cursor: cursor.execute(query, (thread, thread)).fetchall(), LOOKUP_PATIENCE)
        return {id: (run_thread, run) for id, run_thread, run in rows}

    def prune(self, *_: Any) -> PruningResult:
        """Raises UserError: the operator of the database prunes this ledger."""
        raise UserError(
            "This ledger is in Postgres: see docs/howto/service.md for how to prune it.", kind="bad_request"
        )


def _debate(*row: Any) -> Debate:
    id, fingerprint, version, graph, input, settings, *rest, entries, calls, size, person = row
    counts = (int(entries), int(calls), int(size))
    fields: Any = (id, fingerprint, version, graph, json.loads(input), json.loads(settings), *rest, *counts, person)
    return Debate(*fields)
