"""The ledger's file: one SQLite database for debates and the results of their calls. All functions here block.

Debates use `moot.core.ledger.calls`, which runs this code in a thread.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock
from moot.core.errors import UserError
from moot.core.home import make_private, private_folder
from moot.core.ledger.faults import ledger_errors
from moot.core.ledger.owners import Owner
from moot.core.ledger.records import (
    FAILED,
    PAID,
    SENT,
    Debate,
    DebateStart,
    Entry,
    Key,
    PruningResult,
    Request,
    Status,
    as_json,
    moot_version,
    new_id,
)

SCHEMA_VERSION = 2
APPLICATION = 0x6D6F6F74
"""The application id in SQLite's header: "moot"."""
BUSY = 30.0
"""Maximum number of seconds to wait for the end of another process's transaction."""
DAYS = 30.0
"""A debate is pruned if its row has not changed for this number of days."""
MOST_BYTES = 10**9
"""Number of bytes above which the file is pruned; the server's file of threads has the same limit."""

ROWS = (1, 4, 16, 64)
"""Possible numbers of rows in a statement of `STORE`. They are few, so that compiled statements can be used again.
SQLite takes longer to compile a statement than to run it.
"""
MOST_ROWS = ROWS[-1]

SCHEMA = """
CREATE TABLE debates (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, fingerprint TEXT NOT NULL, version TEXT NOT NULL,
    graph TEXT NOT NULL, input TEXT NOT NULL, settings TEXT NOT NULL, status TEXT NOT NULL, owner TEXT, pid INTEGER,
    started REAL NOT NULL, updated REAL NOT NULL, document TEXT, idempotency_key TEXT UNIQUE, note TEXT
) STRICT;
CREATE INDEX debates_fingerprint ON debates (fingerprint, started);
CREATE INDEX debates_started ON debates (started);
CREATE INDEX debates_updated ON debates (updated);
CREATE TABLE entries (
    seq INTEGER PRIMARY KEY, debate INTEGER NOT NULL REFERENCES debates ON DELETE CASCADE, key BLOB NOT NULL,
    kind TEXT NOT NULL, parts TEXT NOT NULL, about TEXT NOT NULL, created REAL NOT NULL, size INTEGER NOT NULL,
    value BLOB NOT NULL, UNIQUE (debate, key)
) STRICT;
CREATE TABLE runs (
    debate TEXT PRIMARY KEY REFERENCES debates (id) ON DELETE CASCADE, thread TEXT NOT NULL, run TEXT NOT NULL
) STRICT;
CREATE INDEX runs_thread ON runs (thread);
"""
NO_ROW = (None,) * 8
"""This row fills up a statement that has more rows than there are entries."""
STORE = {
    count: "INSERT OR REPLACE INTO entries (debate, key, kind, parts, about, created, size, value) "
    "SELECT (SELECT number FROM debates WHERE id = column1), column2, column3, column4, column5, column6, column7, "
    f"column8 FROM (VALUES {', '.join(['(?, ?, ?, ?, ?, ?, ?, ?)'] * count)}) WHERE column1 IS NOT NULL"
    for count in ROWS
}
BY_KEY = "CREATE INDEX IF NOT EXISTS entries_key ON entries (key)"
"""Creates an index of keys, which `LedgerFile.find` uses to search all debates. The index is created only before the
first such search, because with the index each stored call changes one more page of the file.
"""
OF_DEBATE = "debate = (SELECT number FROM debates WHERE id = ?)"
USABLE = f"json_extract(about, '$.{FAILED}') IS NULL"
COLUMNS = "seq, id, key, kind, parts, about, created, size, value"
OLD_DEBATES = (
    "SELECT id FROM debates WHERE updated <= ? "
    "AND (document IS NULL OR EXISTS (SELECT 1 FROM entries WHERE debate = number))"
)
"""The query for the debates that are old enough to be removed or to lose their entries."""


class LedgerFile:
    """An open ledger, whose file and folder are created if they are missing; only one thread at a time may use it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._owner = Owner(path)
        with ledger_errors(path):
            _create(path)
            self._inode = path.stat().st_ino
            self._connection = sqlite3.connect(path, timeout=BUSY, isolation_level=None, check_same_thread=False)
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise

    def _prepare(self) -> None:
        """Configures the connection, creates the tables if they are missing, and checks their version."""
        run = self._connection.execute
        run("PRAGMA foreign_keys = ON")
        run("PRAGMA synchronous = NORMAL")
        run("PRAGMA wal_autocheckpoint = 4000")  # in pages; rare checkpoints write fewer index pages
        if not _scalar(run("PRAGMA user_version")):
            with FileLock(self.path.with_name(f"{self.path.name}.lock"), mode=0o600):  # one process at a time
                if not _scalar(run("PRAGMA user_version")) and not _scalar(run("SELECT count(*) FROM sqlite_schema")):
                    run("PRAGMA auto_vacuum = INCREMENTAL")
                    run("PRAGMA journal_mode = WAL")
                    run(f"PRAGMA application_id = {APPLICATION}")
                    about = f"PRAGMA user_version = {SCHEMA_VERSION};"
                    self._connection.executescript(f"BEGIN IMMEDIATE; {SCHEMA} {about} COMMIT;")
        if _scalar(run("PRAGMA application_id")) != APPLICATION:
            raise sqlite3.DatabaseError("it is not a ledger of moot")
        found = _scalar(run("PRAGMA user_version"))
        if found != SCHEMA_VERSION:
            which = "a later" if found > SCHEMA_VERSION else "an earlier"
            raise UserError(
                f"The ledger {self.path} was written by {which} version of moot (its schema is {found}, this moot uses "
                f"{SCHEMA_VERSION}). Use that version, set MOOT_HOME to another folder, or use `--ledger off`.",
                kind="damaged_ledger",
            )
        with self.transaction():  # fails if the folder cannot be written
            run("UPDATE debates SET id = id WHERE 0")

    def is_current(self) -> bool:
        """Whether the path still leads to the opened file; false if the file was removed or replaced."""
        try:
            return os.stat(self.path).st_ino == self._inode
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Closes the file; from then on, the running debates that this object began or resumed count as interrupted."""
        self._connection.close()
        self._owner.release()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Context manager that commits all writes in its body or none; it translates errors as `ledger_errors` does."""
        with ledger_errors(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    # --- debates ------------------------------------------------------------------------------------------------------

    def begin(self, request: Request) -> DebateStart:
        """Takes over or inserts a debate, as in `moot.core.ledger.CallLedger.begin`; only in a `transaction`."""
        self._owner.acquire()
        row = self._find_existing(request)
        if row is not None:
            status = self._owner.status(row["status"], row["owner"])
            if row["id"] != request.id and status in ("running", "waiting", "done"):
                return DebateStart(row["id"], resumed=False, owned=False)
            if status == "running":
                raise UserError(
                    f"The debate {row['id']} is running in process {row['pid']}. Wait until it has ended.",
                    kind="debate_running",
                )
            return self._take_over(row["id"], request, resumed=status != "done")
        if request.adopt and request.id is None and request.idempotency_key is None:
            unfinished = self._rows(
                "SELECT id, status, owner FROM debates WHERE fingerprint = ? "
                "AND status IN ('interrupted', 'failed', 'running') ORDER BY started DESC",
                request.fingerprint,
            )
            for row in unfinished:
                if self._owner.status(row["status"], row["owner"]) != "running":
                    return self._take_over(row["id"], request, resumed=True)
        now, id = time.time(), request.id or new_id()
        texts = (request.fingerprint, moot_version(), request.graph, request.input, request.settings)
        self._connection.execute(
            "INSERT INTO debates VALUES (NULL, ?, ?, ?, ?, ?, ?, 'running', ?, ?, ?, ?, NULL, ?, NULL)",
            (id, *texts, self._owner.id, os.getpid(), now, now, request.idempotency_key),
        )
        return DebateStart(id, resumed=False)

    def _find_existing(self, request: Request) -> Mapping[str, Any] | None:
        """The row of a request's debate, found by id or else by idempotency key; None if neither finds a row."""
        for row in self._rows("SELECT * FROM debates WHERE id = ?", request.id):
            return row
        for row in self._rows("SELECT * FROM debates WHERE idempotency_key = ?", request.idempotency_key):
            if row["fingerprint"] != request.fingerprint:
                raise UserError(
                    "This idempotency key was used for another debate: its system, input, settings or moot version "
                    "differ. Use a new key for each debate.",
                    kind="bad_request",
                )
            return row
        return None

    def _take_over(self, id: str, request: Request, *, resumed: bool) -> DebateStart:
        """Records that this process now runs a debate of the ledger, with the settings of the request."""
        self._connection.execute(
            "UPDATE debates SET status = 'running', owner = ?, pid = ?, updated = ?, settings = ? WHERE id = ?",
            (self._owner.id, os.getpid(), time.time(), request.settings, id),
        )
        return DebateStart(id, resumed)

    def end(self, id: str, status: Status, document: str | None, note: str | None) -> None:
        """Records the new status of a debate whose run ended; a document or a note of None keeps the earlier value."""
        self._connection.execute(
            "UPDATE debates SET status = ?, owner = NULL, updated = ?, document = coalesce(?, document), "
            "note = coalesce(?, note) WHERE id = ?",
            (status, time.time(), document, note, id),
        )

    def debates(
        self,
        status: Status | None = None,
        graph: str | None = None,
        text: str | None = None,
        limit: int | None = None,
        id: str | None = None,
    ) -> list[Debate]:
        """Debates, newest first, by the beginning of the ``id`` and a ``text`` in the input (any ASCII case)."""
        where: list[str] = ["1"]
        values: list[Any] = []
        if status is not None:
            where.append("status IN (?, 'running')" if status == "interrupted" else "status = ?")
            values.append(status)
        if graph is not None:
            where.append("graph = ?")
            values.append(graph)
        if id is not None:
            where.append("id >= ? AND id < ? || 'g'")  # "g" sorts after all hexadecimal digits
            values += [id, id]
        if text:
            where.append("instr(lower(input), lower(?))")
            values.append(as_json(text)[1:-1])
        counted = (
            "(SELECT count(*) FROM entries WHERE debate = number), "
            f"(SELECT total(kind = 'chat' AND {USABLE}) FROM entries WHERE debate = number), "
            "(SELECT total(size) FROM entries WHERE debate = number)"
        )
        rows = self._connection.execute(
            f"SELECT *, {counted} FROM debates WHERE {' AND '.join(where)} ORDER BY started DESC, id", values
        )
        found: list[Debate] = []
        alive: dict[str, bool] = {}
        for row in rows:
            debate = self._debate_of(row, alive)
            if status in (None, debate.status):
                found.append(debate)
                if len(found) == limit:
                    break
        rows.close()
        return found

    def outline(self, person: str | None = None) -> list[tuple[str, Status, float]]:
        """The id, status and start time of all debates (``person`` is ignored), newest first; faster than `debates`."""
        alive: dict[str, bool] = {}
        return [
            (row["id"], self._owner.status(row["status"], row["owner"], alive), row["started"])
            for row in self._rows("SELECT id, status, owner, started FROM debates ORDER BY started DESC, id")
        ]

    def _debate_of(self, row: Any, alive: dict[str, bool]) -> Debate:
        """The debate in a row of `debates`, with its real status; ``alive`` is a cache (see `Owner.status`)."""
        _, id, fingerprint, version, graph, input, settings, status, owner, *others, calls, size = row
        with ledger_errors(self.path):
            status = self._owner.status(status, owner, alive)
            input, settings = json.loads(input), json.loads(settings)
        others += [int(calls), int(size)]  # after pid, started, updated, document, idempotency key, note, entries
        return Debate(id, fingerprint, version, graph, input, settings, status, *others)

    def spending_of(self, ids: Sequence[str]) -> dict[str, tuple[float, float, float]]:
        """What each debate with entries has spent, by id: tokens, USD and number of calls."""
        parts = (f"total(json_extract(about, '$.{name}[{n}]'))" for n in range(3) for name in (SENT, PAID))
        query = (
            f"SELECT id, {', '.join(map(' + '.join, zip(parts, parts, strict=True)))} FROM debates "
            "JOIN entries ON debate = number WHERE id IN (SELECT value FROM json_each(?)) GROUP BY id"
        )
        found = self._connection.execute(query, (json.dumps([*ids]),))
        return {id: (tokens, usd, calls) for id, tokens, usd, calls in found}

    def add(self, row: tuple[Any, ...]) -> None:
        """Adds a debate's row: id, fingerprint, version, graph, input, settings, status, started, updated, note."""
        self._connection.execute(
            "INSERT INTO debates VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, NULL, NULL, ?, ?, NULL, NULL, ?)", row
        )

    def delete(self, id: str) -> None:
        """Deletes a debate with its entries, if the ledger has the debate."""
        self._connection.execute("DELETE FROM debates WHERE id = ?", (id,))

    def find_by_idempotency_key(self, idempotency_key: str) -> Debate | None:
        rows = self._rows("SELECT id FROM debates WHERE idempotency_key = ?", idempotency_key)
        return next((debate for row in rows for debate in self.debates(id=row["id"])), None)

    def record_run(self, id: str, thread: str, run: str) -> None:
        """Records the thread and the run in which the server runs a debate."""
        self._connection.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?)", (id, thread, run))

    def find_run(self, id: str) -> tuple[str, str] | None:
        """The thread and the run of a debate on a server; None if it has not run on a server."""
        rows = self._rows("SELECT * FROM runs WHERE debate = ?", id)
        return next(((row["thread"], row["run"]) for row in rows), None)

    def runs(self, thread: str | None = None) -> dict[str, tuple[str, str]]:
        """The thread and the run of each debate that ran on a server, by the debate's id; newest debate first."""
        rows = self._rows(
            "SELECT runs.* FROM runs JOIN debates ON id = debate WHERE ? IN (thread, '') ORDER BY started DESC",
            thread or "",
        )
        return {row["debate"]: (row["thread"], row["run"]) for row in rows}

    # --- entries ------------------------------------------------------------------------------------------------------

    def store_entries(self, entries: Sequence[Entry]) -> None:
        """Stores results of calls, `MOST_ROWS` at once or none; a result replaces an earlier one for its key."""
        with ledger_errors(self.path):
            for start in range(0, len(entries), MOST_ROWS):
                rows = [entry.row() for entry in entries[start : start + MOST_ROWS]]
                count = next(count for count in ROWS if count >= len(rows))
                rows += [NO_ROW] * (count - len(rows))
                # One statement for all rows, because after each statement this thread waits for the GIL.
                self._connection.execute(STORE[count], [part for row in rows for part in row])

    def entries(self, debate: str, after: int = 0, limit: int = -1) -> list[tuple[int, Entry]]:
        """A debate's entries in the order of their numbers in the ledger, above ``after``; all if ``limit`` is -1."""
        return self._select_entries(f"{OF_DEBATE} AND seq > ? ORDER BY seq LIMIT ?", debate, after, limit)

    def find(self, hash: str, prefer: str | None, *, failed: bool = True) -> Entry | None:
        """The newest entry for a key: of the debate ``prefer`` if it has one, else of any; None if there is none."""
        key, usable = bytes.fromhex(hash), "" if failed else f" AND {USABLE}"
        found = self._select_entries(f"key = ? AND {OF_DEBATE}{usable}", key, prefer)
        if not found:
            self._connection.execute(BY_KEY)
            found = self._select_entries(f"key = ?{usable} ORDER BY seq DESC LIMIT 1", key)
        return found[0][1] if found else None

    def most_similar(self, key: Key, debate: str | None, limit: int = 2000) -> Entry | None:
        """The entry that shares the most parts with a key, among the last ``limit`` of its kind; the newest of
        equals.
        """
        where = f"kind = ? AND {OF_DEBATE}" if debate else "kind = ?"
        values = (key.kind, debate) if debate else (key.kind,)
        best, most_shared = None, -1
        for seq, parts in self._connection.execute(
            f"SELECT seq, parts FROM entries WHERE {where} ORDER BY seq DESC LIMIT {limit}", values
        ):
            shared = len(key.parts.items() & json.loads(parts).items())
            if shared > most_shared:
                best, most_shared = seq, shared
        return None if best is None else self._select_entries("seq = ?", best)[0][1]

    def _select_entries(self, where: str, *values: Any) -> list[tuple[int, Entry]]:
        """The entries that a SQL condition selects, each with its number in the ledger."""
        return [
            (seq, Entry(debate, Key(kind, key.hex(), json.loads(parts)), json.loads(about), created, size, value))
            for seq, debate, key, kind, parts, about, created, size, value in self._connection.execute(
                f"SELECT {COLUMNS} FROM entries JOIN debates ON number = debate WHERE {where}", values
            )
        ]

    def _rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        """The rows of a query; each is a dictionary from the columns' names to their values."""
        cursor = self._connection.execute(query, values)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]

    # --- pruning ------------------------------------------------------------------------------------------------------

    def prune(self, days: float = DAYS, most: int = MOST_BYTES) -> PruningResult:
        """Removes old debates and, if the file is then larger than ``most`` bytes, entries of younger debates."""
        before, pruned = self._size_of("page_count"), 0
        cutoff = time.time() - days * 86400
        # Each debate has its own transaction, so that other processes never wait long.
        for row in self._rows(OLD_DEBATES, cutoff):
            pruned += self._prune_debate(row["id"], cutoff)
        while self._used_bytes() > most:
            earliest = self._rows(
                "SELECT number FROM debates WHERE status IN ('done', 'failed') "
                "AND EXISTS (SELECT 1 FROM entries WHERE debate = number) ORDER BY status, updated LIMIT 1"
            )
            if not earliest:
                break
            with self.transaction():
                self._connection.execute("DELETE FROM entries WHERE debate = ?", (earliest[0]["number"],))
            pruned += 1
        if pruned:
            with ledger_errors(self.path):
                # `execute` would run only one step of the vacuum, which frees one page.
                self._connection.executescript("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE);")
        return PruningResult(pruned, before - self._size_of("page_count"))

    def needs_pruning(self, days: float = DAYS, most: int = MOST_BYTES) -> bool:
        """Whether `OLD_DEBATES` finds a debate unchanged for ``days`` days, or more than ``most`` bytes are in use."""
        old = _scalar(self._connection.execute(f"SELECT EXISTS ({OLD_DEBATES})", (time.time() - days * 86400,)))
        return bool(old) or self._used_bytes() > most

    def _used_bytes(self) -> int:
        return self._size_of("page_count") - self._size_of("freelist_count")

    def _prune_debate(self, id: str, cutoff: float) -> bool:
        """Removes a debate or, if it has a document, its entries, unless it runs or has changed since ``cutoff``."""
        with self.transaction():
            for row in self._rows("SELECT * FROM debates WHERE id = ? AND updated <= ?", id, cutoff):
                if self._owner.status(row["status"], row["owner"]) != "running":
                    table, column = ("debates", "number") if row["document"] is None else ("entries", "debate")
                    self._connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (row["number"],))
                    return True
        return False

    def _size_of(self, which: str) -> int:
        """The number of bytes of all pages (``page_count``) or of the free pages (``freelist_count``)."""
        count: int = _scalar(self._connection.execute(f"PRAGMA {which}"))
        size: int = _scalar(self._connection.execute("PRAGMA page_size"))
        return count * size


def _scalar(rows: sqlite3.Cursor) -> Any:
    """The first column of the first row."""
    return rows.fetchone()[0]


def _create(path: Path) -> None:
    """Creates the file if it is missing, for this user only; SQLite gives its journals the same mode."""
    private_folder(path.parent)
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:  # not opened, because closing a file releases the locks of this process's connections
        make_private(path.resolve())
