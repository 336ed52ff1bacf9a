"""What came of each row of a batch so far, in a file of its folder; a command that goes on finds it there. Blocking."""

from __future__ import annotations

import json
import re
import secrets
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from moot.cli.batch.jobs import file_name
from moot.cli.batch.outcomes import NOTHING, Outcome
from moot.core.errors import UserError
from moot.core.files import write_whole

FILE = ".batch.sqlite"
ID = ".batch.id"
"""The batch's id once more: without the other file, what was done is known by the ids of its documents."""
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


@dataclass(frozen=True)
class Shown:
    """A row as the table shows it; the outcomes by system, in order, None of debates that were not held."""

    number: int
    id: str
    name: str
    claim: str
    label: str | None
    group: str | None
    outcomes: dict[str, Outcome | None]


def _known_id(folder: Path) -> str:
    """The id of the batch whose record is lost; empty if there is none."""
    try:
        found = (folder / ID).read_text(encoding="ascii").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        return ""
    return found if re.fullmatch("[0-9a-f]{16}", found) else ""


class Store:
    """The rows of a batch.

    Args:
        folder: the batch's.

    Raises:
        UserError: the file is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self._file = sqlite3.connect(folder / FILE, check_same_thread=False, isolation_level=None)
        try:
            self._file.execute("PRAGMA journal_mode=WAL")
            self._file.execute("PRAGMA synchronous=NORMAL")
            self._file.executescript(TABLES)
            self._file.execute(
                "INSERT INTO batch SELECT ? WHERE NOT EXISTS (SELECT 1 FROM batch)",
                (_known_id(folder) or secrets.token_hex(8),),
            )
            [self.batch], *_ = self._file.execute("SELECT id FROM batch")
            [before], *_ = self._file.execute("SELECT coalesce(max(turn), 0) FROM rows")
        except sqlite3.DatabaseError as error:
            raise UserError(
                f"{folder / FILE} is no record of a batch ({error}). Name another folder, or remove the file: "
                "the documents in its folder tell what is done.",
                kind="invalid_file",
            ) from error
        if _known_id(folder) != self.batch:
            write_whole(folder / ID, self.batch)
        self._turn = before + 1
        """Which reading of the file of claims this is: rows of earlier ones that are no longer in it are not shown."""

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    # --- the rows -----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """What follows is kept as a whole, by `commit`."""
        self._file.execute("BEGIN")

    def commit(self) -> None:
        """See `begin`."""
        self._file.execute("COMMIT")

    def enter(self, number: int, id: str, claim: str, label: str | None, group: str | None) -> str:
        """Enters a row of the file; the name of its files."""
        name = file_name(id)
        if self._is_taken(name, id):
            name = file_name(id, taken=True)
        self._enter(name, number, id, claim, label, group)
        return name

    def enter_bad(self, number: int, id: str, claim: str, problem: str) -> None:
        """Enters a row that cannot be used, and has no files."""
        name = f"!{number}"
        self._file.execute("DELETE FROM rows WHERE turn = ? AND number = ?", (self._turn, number))
        self._enter(name, number, id, claim, None, None)
        self.expect(name, "", name, {**NOTHING, "status": "bad", "error": problem})

    def _enter(self, name: str, number: int, id: str, claim: str, label: str | None, group: str | None) -> None:
        row = (name, number, id, claim, label, group, self._turn)
        self._file.execute("INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def name_of(self, number: int) -> str:
        """The name that `enter` gave.

        Raises:
            UserError: there is no such row.
        """
        query = "SELECT name FROM rows WHERE turn = ? AND number = ?"
        for (name,) in self._file.execute(query, (self._turn, number)):
            return str(name)
        raise UserError("The file of claims has changed. Run the same command again.", kind="invalid_file")

    def _is_taken(self, name: str, id: str) -> bool:
        query = "SELECT id FROM rows WHERE name = ? AND turn = ? AND id != ? LIMIT 1"
        return bool(self._file.execute(query, (name, self._turn, id)).fetchall())

    # --- their debates ------------------------------------------------------------------------------------------------

    def expect(self, name: str, system: str, key: str, outcome: Outcome | None = None) -> None:
        """Enters a debate of a row; what is known of it stays, if it asks the same as before."""
        self._file.execute(
            "INSERT INTO debates VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (name, system) DO UPDATE SET turn = ?5, "
            "outcome = coalesce(?4, CASE WHEN key = ?3 THEN outcome END), key = ?3",
            (name, system, key, None if outcome is None else json.dumps(outcome), self._turn),
        )

    def ended(self, key: str, outcome: Outcome) -> None:
        """Keeps what came of a debate."""
        self._file.execute("UPDATE debates SET outcome = ? WHERE key = ?", (json.dumps(outcome), key))

    def expects(self, key: str) -> bool:
        """Whether this reading has a debate of that key."""
        query = "SELECT 1 FROM debates WHERE key = ? AND turn = ?"
        return bool(self._file.execute(query, (key, self._turn)).fetchall())

    def outcome(self, key: str) -> Outcome | None:
        """What came of a debate; None if nothing yet."""
        for (text,) in self._file.execute("SELECT outcome FROM debates WHERE key = ?", (key,)):
            return None if text is None else json.loads(text)
        return None

    def outcomes(self) -> Iterator[Outcome]:
        """What came of all debates of this reading."""
        query = "SELECT outcome FROM debates WHERE turn = ? AND outcome IS NOT NULL"
        for (text,) in self._file.execute(query, (self._turn,)):
            yield json.loads(text)

    def shown(self) -> Iterator[Shown]:
        """All rows, in the order of the file."""
        rows = "SELECT number, id, name, claim, label, groups FROM rows WHERE turn = ? ORDER BY number"
        debates = "SELECT system, outcome FROM debates WHERE name = ? AND turn = ?"
        for number, id, name, claim, label, group in self._file.execute(rows, (self._turn,)):
            found = self._file.execute(debates, (name, self._turn)).fetchall()
            outcomes = {system: None if text is None else json.loads(text) for system, text in found}
            yield Shown(number, id, name, claim, label, group, outcomes)
