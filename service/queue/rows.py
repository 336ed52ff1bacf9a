"""The rows of batches in a Postgres that several machines share. Each row is given to one worker at a time.

A row is waiting, running, done, failed, or dropped (no longer requested). It ends when its outcome is stored. The state
of its procrastinate job does not matter: these jobs only notify workers of waiting rows. A worker without a heartbeat
for the time in the table `moot.about` loses its rows. They are queued again, or fail after `MOST_LOSSES` lost workers.
Every method here blocks.
"""

from __future__ import annotations

import json
import os
import socket
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moot.core.errors import UserError
from moot.core.postgres.connection import PATIENCE, Postgres, queue_module

TASK = "moot.row"
"""The name of procrastinate's task."""
QUEUE = "moot"
OVERDUE = "now() - (SELECT silence FROM moot.about)"
"""SQL: now minus the heartbeat timeout. Workers not seen since are dead; rows not touched since are overdue."""
ALONE_AFTER = 2
"""Number of lost workers after which a row is run alone."""
MOST_LOSSES = 4
"""Number of lost workers after which a row fails."""
CHECKED_ROWS = 200
"""Maximum number of rows that one check for lost jobs reads, because a check of a million rows would take seconds."""


@dataclass(frozen=True)
class QueuedBatch:
    """A batch in the queue."""

    id: str  # 16 hexadecimal digits
    file: str  # the name of its file of claims, or of the corpus that it indexes
    mode: str  # how its debates use the store
    until: float  # the latest end, in seconds since 1970; infinite without a limit
    stopped: str = ""  # the reason why no further row is started; empty if the batch is not stopped


@dataclass(frozen=True)
class AssignedRow:
    """A row that was given to a worker; if ``alone``, the worker must run no other row at the same time."""

    key: str
    job: dict[str, Any]
    batch: QueuedBatch
    alone: bool


@dataclass(frozen=True)
class EndedRow:
    """A row that has ended, with its outcome and its result document (None if it has no document)."""

    key: str
    job: dict[str, Any]
    outcome: dict[str, Any]
    document: dict[str, Any] | None


class QueuedRows:
    """The rows of all batches; methods retry for ``patience`` seconds. `Postgres.prepare` makes the tables."""

    def __init__(self, postgres: Postgres, patience: float = PATIENCE) -> None:
        self._postgres = postgres
        self._patience = patience
        self._procrastinate: Any = None

    def _do(self, job: Any) -> Any:
        return self._postgres.do(job, self._patience)

    # --- batches --------------------------------------------------------------------------------------------------

    def open_batch(self, batch: QueuedBatch) -> None:
        """Adds a batch, or continues the one with this id, and drops its waiting rows."""
        values = (batch.id, batch.file, batch.mode, batch.until)

        def job(cursor: Any) -> None:
            cursor.execute(
                "INSERT INTO moot.batches (id, file, mode, until) VALUES (%s, %s, %s, %s) "
                "ON CONFLICT (id) DO UPDATE SET file = excluded.file, mode = excluded.mode, until = excluded.until, "
                "stopped = ''",
                values,
            )
            drop = "UPDATE moot.rows SET status = 'dropped' WHERE batch = %s AND status = 'waiting'"
            cursor.execute(drop, (batch.id,))

        self._do(job)

    def queue_rows(self, batch: str, jobs: Sequence[Mapping[str, Any]]) -> None:
        """Queues new, failed and dropped rows; others keep their status, but done rows no longer count as collected."""
        lines = [(job["key"], batch, job["number"], json.dumps(job)) for job in jobs]

        def job(cursor: Any) -> None:
            cursor.executemany(
                "INSERT INTO moot.rows (key, batch, number, job) VALUES (%s, %s, %s, %s) "
                "ON CONFLICT (key) DO UPDATE SET job = excluded.job, number = excluded.number, collected = false",
                lines,
            )
            keys = [line[0] for line in lines]
            self._requeue(cursor, "key = ANY(%s) AND status IN ('failed', 'dropped')", (keys,))
            self._notify(cursor, "key = ANY(%s) AND status = 'waiting'", (keys,))

        self._do(job)

    def _requeue(self, cursor: Any, where: str, values: tuple[Any, ...]) -> None:
        """Sets the status ``waiting`` for all rows that a SQL condition selects, and deletes these rows' outcomes."""
        cursor.execute(
            "UPDATE moot.rows SET status = 'waiting', outcome = NULL, document = NULL, worker = NULL, losses = 0, "
            f"queued = NULL, collected = false, touched = now() WHERE {where}",
            values,
        )

    def _notify(self, cursor: Any, where: str, values: tuple[Any, ...]) -> None:
        """Adds a procrastinate job for each row that a SQL condition selects, unless the row has a waiting job."""
        cursor.execute(
            f"SELECT key FROM moot.rows WHERE {where} AND NOT EXISTS "
            "(SELECT 1 FROM procrastinate_jobs WHERE id = queued AND status = 'todo') ORDER BY number FOR UPDATE",
            values,
        )
        keys = [key for (key,) in cursor.fetchall()]
        if keys:
            task = self._app().configure_task(TASK, queue=QUEUE, connection=cursor.connection)
            numbers = task.batch_defer(*({"key": key} for key in keys))
            cursor.executemany(
                "UPDATE moot.rows SET queued = %s, touched = now() WHERE key = %s", [*zip(numbers, keys, strict=True)]
            )

    def _app(self) -> Any:
        """Procrastinate's app, which adds jobs to its queue."""
        if self._procrastinate is None:
            package = queue_module("procrastinate")
            connector = package.SyncPsycopgConnector(conninfo=self._postgres.url)
            self._procrastinate = package.App(connector=connector)
        return self._procrastinate

    def ended_rows(self, batch: str, limit: int, turn: int = 0) -> list[EndedRow]:
        """At most ``limit`` rows of a batch's turn that have ended and are not yet marked as collected."""

        def job(cursor: Any) -> list[EndedRow]:
            cursor.execute(
                "SELECT key, job, outcome, document FROM moot.rows WHERE batch = %s AND status IN ('done', 'failed') "
                "AND turn = %s AND NOT collected LIMIT %s",
                (batch, turn, limit),
            )
            return [
                EndedRow(key, json.loads(job), json.loads(outcome), document and json.loads(zlib.decompress(document)))
                for key, job, outcome, document in cursor.fetchall()
            ]

        found: list[EndedRow] = self._do(job)
        return found

    def last_outages(self, batch: str, count: int) -> list[bool]:
        """The ``outage`` of the last outcomes of a batch that have one; the newest is the last."""
        query = (
            "SELECT (outcome::json->>'outage')::boolean FROM moot.rows WHERE batch = %s AND outcome IS NOT NULL "
            "AND outcome::json->>'outage' IS NOT NULL ORDER BY touched DESC LIMIT %s"
        )
        found = self._do(lambda cursor: cursor.execute(query, (batch, count)).fetchall())
        return [outage for (outage,) in reversed(found)]

    def mark_collected(self, keys: Sequence[str]) -> None:
        """Marks rows as collected: the batch's command has their outcomes."""
        query = "UPDATE moot.rows SET collected = true WHERE key = ANY(%s)"
        self._do(lambda cursor: cursor.execute(query, ([*keys],)))

    def state(self, batch: str) -> tuple[dict[str, int], str]:
        """The number of rows of a batch by status, and the reason of its stop ("" if the batch is not stopped)."""

        def job(cursor: Any) -> tuple[dict[str, int], str]:
            cursor.execute("SELECT status, count(*) FROM moot.rows WHERE batch = %s GROUP BY 1", (batch,))
            counts = dict(cursor.fetchall())
            cursor.execute("SELECT stopped FROM moot.batches WHERE id = %s", (batch,))
            return counts, (cursor.fetchone() or [""])[0]

        found: tuple[dict[str, int], str] = self._do(job)
        return found

    def activity(self, batch: str) -> tuple[bool, bool, str]:
        """Whether rows of a batch wait, whether rows of it run, and the reason of its stop; faster than `state`."""

        def job(cursor: Any) -> tuple[bool, bool, str]:
            cursor.execute(
                "SELECT EXISTS (SELECT 1 FROM moot.rows WHERE batch = %s AND status = 'waiting'), "
                "EXISTS (SELECT 1 FROM moot.rows WHERE batch = %s AND status = 'running'), "
                "coalesce((SELECT stopped FROM moot.batches WHERE id = %s), '')",
                (batch, batch, batch),
            )
            waiting, running, stopped = cursor.fetchone()
            return waiting, running, stopped

        found: tuple[bool, bool, str] = self._do(job)
        return found

    def batches(self) -> list[dict[str, Any]]:
        """All batches, newest first, each with the number of rows by status, and tokens, USD and calls ``spent``."""

        def job(cursor: Any) -> list[dict[str, Any]]:
            cursor.execute(
                "SELECT id, file, extract(epoch FROM made)::float8 AS made, stopped FROM moot.batches "
                "ORDER BY moot.batches.made DESC"
            )
            names = ("id", "file", "made", "stopped")
            found = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
            for batch in found:
                cursor.execute(
                    "SELECT status, count(*), sum(tokens), sum(usd), sum(calls), "
                    "count(*) FILTER (WHERE calls > 0 AND usd = 0) FROM moot.rows WHERE batch = %s GROUP BY 1",
                    (batch["id"],),
                )
                counted = cursor.fetchall()
                batch["rows"] = {status: count for status, count, *_ in counted}
                batch["spent"] = tuple(sum(row[column] for row in counted) for column in (2, 3, 4))
                # Rows with calls, but without USD: their price is unknown or 0.
                batch["unpriced"] = sum(row[5] for row in counted)
            return found

        found: list[dict[str, Any]] = self._do(job)
        return found

    def queue_lengths(self) -> dict[str, int]:
        """The number of waiting rows (in batches that are not stopped), and of running rows."""
        query = (
            "SELECT (SELECT count(*) FROM moot.rows AS r JOIN moot.batches AS b ON b.id = r.batch "
            "WHERE r.status = 'waiting' AND b.stopped = ''), (SELECT count(*) FROM moot.rows WHERE status = 'running')"
        )
        waiting, running = self._do(lambda cursor: cursor.execute(query).fetchone())
        return {"waiting": waiting, "running": running}

    def workers(self) -> list[tuple[str, int, int]]:
        """Host, process id and number of running rows of each living worker."""
        query = (
            "SELECT host, pid, (SELECT count(*) FROM moot.rows WHERE worker = workers.id AND status = 'running') "
            "FROM moot.workers WHERE seen > now() - (SELECT silence FROM moot.about) ORDER BY id"
        )
        found: list[tuple[str, int, int]] = self._do(lambda cursor: cursor.execute(query).fetchall())
        return found

    def stop(self, batch: str, why: str) -> None:
        """Stops a batch: no further row starts, and running ones go on; an earlier ``why`` is kept."""
        query = "UPDATE moot.batches SET stopped = %s WHERE id = %s AND stopped = ''"
        self._do(lambda cursor: cursor.execute(query, (why, batch)))

    def retry(self, batch: str) -> int:
        """Queues a batch's failed rows again, continues a stopped batch, and returns the number of waiting rows."""

        def job(cursor: Any) -> int:
            cursor.execute("UPDATE moot.batches SET stopped = '' WHERE id = %s", (batch,))
            self._requeue(cursor, "batch = %s AND status = 'failed'", (batch,))
            self._notify(cursor, "batch = %s AND status = 'waiting'", (batch,))
            cursor.execute("SELECT count(*) FROM moot.rows WHERE batch = %s AND status = 'waiting'", (batch,))
            return int(cursor.fetchone()[0])

        found: int = self._do(job)
        return found

    def forget(self, batch: str) -> None:
        """Removes a batch with its rows."""
        self._do(lambda cursor: cursor.execute("DELETE FROM moot.batches WHERE id = %s", (batch,)))

    def find(self, beginning: str) -> str:
        """The id of the only batch whose id begins with this text."""
        query = "SELECT id FROM moot.batches WHERE starts_with(id, %s)"
        found = [id for (id,) in self._do(lambda cursor: cursor.execute(query, (beginning,)).fetchall())]
        if len(found) != 1:
            many = "No batch of the queue has" if not found else "Several batches of the queue have"
            text = f"{many} an id that begins with {beginning!r}: see `moot batch status`."
            raise UserError(text, kind="invalid_setting")
        return str(found[0])

    # --- workers --------------------------------------------------------------------------------------------------

    def heartbeat_timeout(self) -> float:
        """Seconds without a heartbeat after which a worker loses its rows."""
        query = "SELECT extract(epoch FROM silence)::float8 FROM moot.about"
        return float(self._do(lambda cursor: cursor.execute(query).fetchone())[0])

    def join(self) -> int:
        """Adds this process as a worker, and returns the worker's number."""
        query = "INSERT INTO moot.workers (host, pid) VALUES (%s, %s) RETURNING id"
        values = (socket.gethostname()[:100], os.getpid())
        return int(self._do(lambda cursor: cursor.execute(query, values).fetchone())[0])

    def heartbeat(self, worker: int, keys: Sequence[str]) -> bool:
        """Records the heartbeat of a worker that runs the rows ``keys``; false if the worker was removed as dead."""

        def job(cursor: Any) -> bool:
            cursor.execute("UPDATE moot.workers SET seen = now() WHERE id = %s", (worker,))
            is_known = bool(cursor.rowcount)
            cursor.execute(  # the assignment of these rows never reached the worker
                "UPDATE moot.rows SET status = 'waiting', worker = NULL, queued = NULL WHERE worker = %s "
                f"AND status = 'running' AND key != ALL(%s) AND touched < {OVERDUE}",
                (worker, [*keys]),
            )
            return is_known

        found: bool = self._do(job)
        return found

    def leave(self, worker: int) -> None:
        """Removes a worker, without counting it as lost, and queues its unfinished rows again."""
        self._do(lambda cursor: self._leave(cursor, worker))

    def _leave(self, cursor: Any, worker: int) -> None:
        cursor.execute(
            "UPDATE moot.rows SET status = 'waiting', worker = NULL, queued = NULL WHERE worker = %s "
            "AND status = 'running' RETURNING key",
            (worker,),
        )
        keys = [key for (key,) in cursor.fetchall()]
        cursor.execute("DELETE FROM moot.workers WHERE id = %s", (worker,))
        self._notify(cursor, "key = ANY(%s)", (keys,))

    def resign(self, worker: int) -> bool:
        """Removes a worker that cannot run its rows; returns false without a change if no other worker is alive."""

        def job(cursor: Any) -> bool:
            cursor.execute("SELECT pg_advisory_xact_lock(1836019575)")  # so that two workers do not both resign
            cursor.execute("SELECT id = %s, seen >= " + OVERDUE + " FROM moot.workers", (worker,))
            found = cursor.fetchall()
            if not any(mine for mine, _ in found):
                return True  # the worker was already removed
            if not any(is_alive and not mine for mine, is_alive in found):
                return False
            self._leave(cursor, worker)
            return True

        found: bool = self._do(job)
        return found

    def assign(self, key: str, worker: int) -> AssignedRow | None:
        """Gives a row to a worker; None if the row neither waits nor is this worker's, or if its batch is stopped."""

        def job(cursor: Any) -> AssignedRow | None:
            cursor.execute(
                "UPDATE moot.rows AS r SET status = 'running', worker = %s, touched = now() FROM moot.batches AS b "
                "WHERE r.key = %s AND (r.status = 'waiting' OR r.status = 'running' AND r.worker = %s) "
                "AND b.id = r.batch AND b.stopped = '' "
                "RETURNING r.job, r.losses, b.id, b.file, b.mode, b.until",
                (worker, key, worker),
            )
            if (found := cursor.fetchone()) is None:
                return None
            job, losses, id, file, mode, until = found
            batch = QueuedBatch(id, file, mode, until)
            return AssignedRow(key, json.loads(job), batch, alone=losses >= ALONE_AFTER)

        found: AssignedRow | None = self._do(job)
        return found

    def end(self, key: str, outcome: Mapping[str, Any], document: bytes | None) -> bool:
        """Stores a row's outcome, for any worker, with the status of its debate's run and the document, if it has one.

        Returns false if the row has ended already.
        """
        spent = outcome.get("spent") or {}
        values = (
            "done" if outcome["status"] == "done" else "failed",
            json.dumps(outcome),
            document,
            *((spent.get(name) or 0) for name in ("tokens", "usd", "calls")),
            key,
        )
        query = (
            "UPDATE moot.rows SET status = %s, outcome = %s, document = %s, tokens = %s, usd = %s, calls = %s, "
            "worker = NULL, touched = now() WHERE key = %s AND status NOT IN ('done', 'failed')"
        )
        run = "UPDATE moot.stored_runs SET status = %s, owner = NULL, updated = %s WHERE id = %s AND status != 'done'"

        def job(cursor: Any) -> bool:
            has_ended = bool(cursor.execute(query, values).rowcount)
            if has_ended and document is not None:
                cursor.execute(run, (values[0], time.time(), key))
            return has_ended

        return bool(self._do(job))

    def requeue_lost(self, lost: Mapping[str, Any]) -> int:
        """Queues the rows of dead workers again; those that have lost `MOST_LOSSES` fail with the outcome ``lost``."""

        def job(cursor: Any) -> int:
            if not cursor.execute("SELECT pg_try_advisory_xact_lock(1836019573)").fetchone()[0]:
                return 0  # another worker does the same now
            cursor.execute(
                "WITH gone AS (DELETE FROM moot.workers WHERE seen < "
                f"{OVERDUE}) UPDATE moot.rows SET losses = losses + 1, worker = NULL, queued = NULL, "
                "status = CASE WHEN losses + 1 < %s THEN 'waiting' ELSE 'failed' END, "
                "outcome = CASE WHEN losses + 1 < %s THEN NULL ELSE %s END WHERE status = 'running' AND NOT EXISTS "
                "(SELECT 1 FROM moot.workers WHERE id = worker AND seen >= now() - (SELECT silence FROM moot.about)) "
                "RETURNING key, status",
                (MOST_LOSSES, MOST_LOSSES, json.dumps(lost)),
            )
            keys = [key for key, status in cursor.fetchall() if status == "waiting"]
            not_stopped = "batch IN (SELECT id FROM moot.batches WHERE stopped = '')"
            cursor.execute(
                f"SELECT key FROM moot.rows WHERE status = 'waiting' AND touched < {OVERDUE} AND {not_stopped} "
                "ORDER BY touched LIMIT %s",
                (CHECKED_ROWS,),
            )
            # Their procrastinate jobs were lost, so they get new ones.
            overdue = [key for (key,) in cursor.fetchall()]
            self._notify(cursor, f"status = 'waiting' AND key = ANY(%s) AND {not_stopped}", ([*keys, *overdue],))
            return len(keys)

        return int(self._do(job))
