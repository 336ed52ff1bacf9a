"""The rows of a batch and their outcomes, in an SQLite file in the batch's folder, so that the batch can be resumed.

All methods block.
"""

from __future__ import annotations

import json
import re
import secrets
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from moot.cli.batch.jobs import file_name
from moot.cli.batch.outcomes import NOTHING, Outcome
from moot.core.errors import UserError
from moot.core.files import write_atomically
from moot.core.home import private_files

FILE = ".batch.sqlite"
ID = ".batch.id"
"""The file with a copy of the batch's id. If the database is lost, this id identifies the documents of done debates."""
TABLES = """
CREATE TABLE IF NOT EXISTS batch (id TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS rows (
    name TEXT PRIMARY KEY COLLATE NOCASE, number INTEGER, id TEXT, claim TEXT, label TEXT, groups TEXT, turn INTEGER
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS in_order ON rows (turn, number);
CREATE TABLE IF NOT EXISTS debates (
    name TEXT, system TEXT, key TEXT, outcome TEXT, turn INTEGER, PRIMARY KEY (name, system)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_key ON debates (key);
"""
ROWS_AT_ONCE = 100
"""Number of rows of the table that are read in one query."""


@dataclass(frozen=True)
class TableRow:
    """A row of the table.

    ``outcomes`` maps the name of each system to the outcome of its debate, or to None if there is no outcome yet. For a
    bad row, ``outcomes`` maps an empty name to the failed outcome.
    """

    number: int
    id: str
    name: str
    claim: str
    label: str | None
    group: str | None
    outcomes: dict[str, Outcome | None]


def _stored_id(folder: Path) -> str:
    """The batch's id from the file `ID`; empty if the file is missing or damaged."""
    try:
        found = (folder / ID).read_text(encoding="ascii").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        return ""
    return found if re.fullmatch("[0-9a-f]{16}", found) else ""


class Store:
    """The rows of a batch.

    Args:
        folder: the batch's folder.

    Raises:
        UserError: the file is not a database, or the database is damaged.
        sqlite3.Error, OSError: the database cannot be opened, or the file `ID` cannot be read or written.
    """

    def __init__(self, folder: Path) -> None:
        self._lock = Lock()
        self._file = sqlite3.connect(folder / FILE, check_same_thread=False, isolation_level=None)
        try:
            with private_files():
                self._file.execute("PRAGMA journal_mode=WAL")
            self._file.execute("PRAGMA synchronous=NORMAL")
            self._file.executescript(TABLES)
            self._file.execute(
                "INSERT INTO batch SELECT ? WHERE NOT EXISTS (SELECT 1 FROM batch)",
                (_stored_id(folder) or secrets.token_hex(8),),
            )
            [self.batch], *_ = self._file.execute("SELECT id FROM batch")
            [before], *_ = self._file.execute("SELECT coalesce(max(turn), 0) FROM rows")
        except sqlite3.DatabaseError as error:
            raise UserError(
                f"{folder / FILE} is not the database of a batch ({error}). Name another folder, or remove the file. "
                "Without the file, finished rows are found by their documents.",
                kind="invalid_file",
            ) from error
        if _stored_id(folder) != self.batch:
            write_atomically(folder / ID, self.batch)
        self._run = before + 1
        """The number of this run, in the column ``turn``. Rows with a lower number are not in the table of this run."""

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _execute(self, query: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[Any]:
        """Runs a query and returns its rows. Threads take turns, because they share one connection."""
        with self._lock:
            return self._file.execute(query, values).fetchall()

    # --- the rows -----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begins a transaction, which `commit` ends."""
        self._execute("BEGIN")

    def commit(self) -> None:
        """Commits the transaction; see `begin`."""
        self._execute("COMMIT")

    def add_row(self, number: int, id: str, claim: str, label: str | None, group: str | None) -> str:
        """Stores a row of the file, and returns the name for the row's files."""
        name = file_name(id)
        if self._is_taken(name, id):
            name = file_name(id, taken=True)
        self._insert(name, number, id, claim, label, group)
        return name

    def add_bad_row(self, number: int, id: str, claim: str, problem: str) -> None:
        """Stores a row that cannot be used. It replaces this run's row with the same number, and has no files."""
        name = f"!{number}"
        self._execute("DELETE FROM rows WHERE turn = ? AND number = ?", (self._run, number))
        self._insert(name, number, id, claim, None, None)
        self.add_debate(name, "", name, {**NOTHING, "status": "bad", "error": problem})

    def _insert(self, name: str, number: int, id: str, claim: str, label: str | None, group: str | None) -> None:
        row = (name, number, id, claim, label, group, self._run)
        self._execute("INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def name_of(self, number: int) -> str:
        """The name of a row of this run: from `add_row`, or a name that begins with ``!`` for a bad row.

        Raises:
            UserError: this run has no row with that number.
        """
        query = "SELECT name FROM rows WHERE turn = ? AND number = ?"
        for (name,) in self._execute(query, (self._run, number)):
            return str(name)
        raise UserError("The file of claims has changed. Run the same command again.", kind="invalid_file")

    def _is_taken(self, name: str, id: str) -> bool:
        query = "SELECT id FROM rows WHERE name = ? AND turn = ? AND id != ? LIMIT 1"
        return bool(self._execute(query, (name, self._run, id)))

    # --- their debates ------------------------------------------------------------------------------------------------

    def add_debate(self, name: str, system: str, key: str, outcome: Outcome | None = None) -> None:
        """Stores a debate of a row. Without ``outcome``, its stored outcome is kept if its key has not changed."""
        stored = None if outcome is None else json.dumps(outcome)
        self._execute(
            "INSERT INTO debates VALUES (:name, :system, :key, :outcome, :run) ON CONFLICT (name, system) DO UPDATE "
            "SET turn = :run, outcome = coalesce(:outcome, CASE WHEN key = :key THEN outcome END), key = :key",
            {"name": name, "system": system, "key": key, "outcome": stored, "run": self._run},
        )

    def has_other_result(self, name: str, system: str, key: str, *, any_system: bool) -> bool:
        """Whether a row has a done debate other than the given one: with other settings, or another text or system.

        Args:
            name: the name of the row.
            system: the system of the given debate.
            key: the key of the given debate.
            any_system: whether debates of other systems count. Otherwise only debates of ``system`` count.
        """
        query = "SELECT system, outcome FROM debates WHERE name = ? AND key != ? AND outcome IS NOT NULL"
        found = self._execute(query, (name, key))
        return any(json.loads(text)["status"] == "done" for other, text in found if any_system or other == system)

    def forget_other_systems(self, name: str, system: str) -> None:
        """Removes a row's outcomes of other systems, because this system's document may replace their document."""
        self._execute("UPDATE debates SET outcome = NULL WHERE name = ? AND system != ?", (name, system))

    def count_rows_of_earlier_runs(self) -> int:
        """The number of usable rows of earlier runs that are not in the file of this run."""
        [count], *_ = self._execute("SELECT count(*) FROM rows WHERE turn < ? AND name NOT LIKE '!%'", (self._run,))
        return int(count)

    def set_outcome(self, key: str, outcome: Outcome) -> None:
        """Stores the outcome of a debate."""
        self._execute("UPDATE debates SET outcome = ? WHERE key = ?", (json.dumps(outcome), key))

    def has_debate(self, key: str) -> bool:
        """Whether this run has a debate with this key."""
        query = "SELECT 1 FROM debates WHERE key = ? AND turn = ?"
        return bool(self._execute(query, (key, self._run)))

    def outcome(self, key: str) -> Outcome | None:
        """The outcome of the debate with this key, from any run; None if there is none."""
        for (text,) in self._execute("SELECT outcome FROM debates WHERE key = ?", (key,)):
            return None if text is None else json.loads(text)
        return None

    def table_rows(self) -> Iterator[TableRow]:
        """Yields all rows of this run, in the order of the file."""
        rows = (
            "SELECT number, id, name, claim, label, groups FROM rows WHERE turn = ? AND number > ? "
            f"ORDER BY number LIMIT {ROWS_AT_ONCE}"
        )
        debates = "SELECT system, outcome FROM debates WHERE name = ? AND turn = ?"
        last = -1
        while found := self._execute(rows, (self._run, last)):
            for last, id, name, claim, label, group in found:
                texts = dict(self._execute(debates, (name, self._run)))
                outcomes = {system: None if text is None else json.loads(text) for system, text in texts.items()}
                yield TableRow(last, id, name, claim, label, group, outcomes)
