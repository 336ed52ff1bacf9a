"""Batches and their rows in the store: those of ``moot batch``, here or on a queue.

A row is one debate of a row of the file of claims; a row that cannot be used has an outcome from the start. All methods
block.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
from moot.core.store import Store
from moot.core.tables import batches, rows

AT_ONCE = 100
"""Number of rows that are read in one query."""
SAME_AS = "same_as"
"""In the job of a row that repeats an earlier one: the key of that row's debate, whose outcome and files it has."""
SAME_ROW = "same_row"
"""The number of that row, in the job of a row that was read with its results."""


@dataclass(frozen=True)
class Row:
    """A row as a run of the batch finds it: one debate, or a row of the file that cannot be used."""

    key: str  # the debate's id
    number: int  # of the row of the file
    id: str
    claim: str
    label: str | None
    group: str | None
    name: str  # of the row's files; begins with "!" if it has none
    file: str  # the name of the debate's files; it also has the system if there are several
    system: str
    job: Mapping[str, Any]  # of a debate; else only the row's cells, and for a repeated one the first (`SAME_AS`)
    outcome: Mapping[str, Any] | None  # None if it has none yet
    is_done: bool

    def values(self) -> dict[str, Any]:
        """The columns of the row."""
        found = {name: getattr(self, name) for name in ("number", "id", "claim", "label", "name", "file", "system")}
        outcome = None if self.outcome is None else json.dumps(self.outcome)
        is_bad, is_repeated = self.name.startswith("!"), SAME_AS in self.job
        status = "bad" if is_bad else "same" if is_repeated else "done" if self.is_done else "waiting"
        return found | {
            "claims_group": self.group,
            "job": json.dumps(self.job),
            "outcome": outcome,
            "status": status,
        }


class BatchRows:
    """The rows of one run of a batch; ``turn`` counts its runs, and rows of earlier turns are not in its table."""

    def __init__(self, store: Store, batch: str, file: str, mode: str) -> None:
        self.store, self.batch = store, batch

        def begin(connection: sa.Connection) -> int:
            changed = sa.update(batches).where(batches.c.id == batch).values(file=file, mode=mode, made=sa.func.now())
            if not connection.execute(changed).rowcount:
                connection.execute(sa.insert(batches).values(id=batch, file=file, mode=mode, until=math.inf))
            last = sa.select(sa.func.coalesce(sa.func.max(rows.c.turn), 0)).where(rows.c.batch == batch)
            return int(connection.scalar(last) or 0) + 1

        self.turn = store.do(begin)
        self._this = (rows.c.batch == batch) & (rows.c.turn == self.turn)

    # --- within a transaction, while the file is read -----------------------------------------------------------------

    def has_free_name(self, connection: sa.Connection, id: str, name: str) -> bool:
        """Whether no other id of this turn has the name, ignoring case."""
        taken = sa.select(rows.c.id).where(self._this, sa.func.lower(rows.c.name) == name.lower(), rows.c.id != id)
        return connection.execute(taken.limit(1)).first() is None

    def outcome(self, connection: sa.Connection, key: str) -> dict[str, Any] | None:
        """The outcome of the debate with this key, from any turn; None if there is none."""
        found = connection.scalar(sa.select(rows.c.outcome).where(rows.c.key == key))
        return None if found is None else json.loads(found)

    def has_other_result(self, connection: sa.Connection, file: str, key: str) -> bool:
        """Whether the files with this name are those of another debate that is done."""
        other = sa.select(rows.c.key).where(rows.c.batch == self.batch, rows.c.file == file, rows.c.status == "done")
        return connection.execute(other.where(rows.c.key != key).limit(1)).first() is not None

    def add(self, connection: sa.Connection, row: Row) -> None:
        """Stores a row. If a worker of a queue runs it, it stays with the worker.

        Other debates with these files lose their outcomes, because this debate may replace the files.
        """
        values = row.values() | {"turn": self.turn}
        status = values.pop("status")
        mine = sa.update(rows).where(rows.c.key == row.key)
        if connection.execute(mine.values(**values)).rowcount:
            if row.is_done:
                connection.execute(mine.values(status="done"))
            else:  # it was done, but its document was removed, and the queue does not have it
                lost = mine.where(rows.c.status == "done", rows.c.document.is_(None))
                connection.execute(lost.values(status="waiting"))
        else:
            connection.execute(sa.insert(rows).values(key=row.key, batch=self.batch, status=status, **values))
        if row.file:
            others = (rows.c.batch == self.batch) & (rows.c.file == row.file) & (rows.c.key != row.key)
            replaced = sa.update(rows).where(others, rows.c.status != "running")
            connection.execute(replaced.values(status="dropped", outcome=None, document=None))

    # --- afterwards ---------------------------------------------------------------------------------------------------

    def set_outcome(self, key: str, outcome: Mapping[str, Any]) -> None:
        """Stores the outcome of a debate."""
        status = "done" if outcome["status"] == "done" else "failed"
        changed = sa.update(rows).where(rows.c.key == key).values(outcome=json.dumps(outcome), status=status)
        self.store.do(lambda connection: connection.execute(changed))

    def count_rows_of_earlier_turns(self) -> int:
        """The number of usable rows of earlier turns whose names are not in this one."""
        here = rows.alias()
        again = sa.select(here.c.key).where(
            here.c.batch == self.batch, here.c.turn == self.turn, here.c.name == rows.c.name
        )
        old = (rows.c.batch == self.batch) & (rows.c.turn < self.turn) & ~rows.c.name.startswith("!") & ~again.exists()
        return self.store.do(
            lambda connection: connection.scalar(sa.select(sa.func.count(rows.c.name.distinct())).where(old)) or 0
        )

    def all(self, *, only_remaining: bool = False) -> Iterator[Row]:
        """Yields the rows of this turn, in the order of the file; with ``only_remaining``, those that are not done."""
        ordered = sa.select(rows).where(self._this).order_by(rows.c.number, rows.c.system).limit(AT_ONCE)
        if only_remaining:
            ordered = ordered.where(rows.c.status.not_in(("done", "bad", "same")))
        number, system = -1, ""
        while found := self._read(ordered.where(_after(number, system))):
            yield from self._with_results_of_first([_row(one) for one in found])
            number, system = found[-1].number, found[-1].system

    def _with_results_of_first(self, found: Sequence[Row]) -> Iterator[Row]:
        """Gives rows that repeat earlier ones the outcomes and files of those."""
        first = {row.job[SAME_AS] for row in found if SAME_AS in row.job}
        known = (
            {row.key: _row(row) for row in self._read(sa.select(rows).where(rows.c.key.in_(first)))} if first else {}
        )
        for row in found:
            of = known.get(row.job.get(SAME_AS, ""))
            if of:
                job = {**of.job, **row.job, SAME_ROW: of.number}
                row = replace(row, outcome=of.outcome, file=of.file, is_done=of.is_done, job=job)
            yield row

    def _read(self, query: sa.Select[Any]) -> Sequence[Any]:
        return self.store.do(lambda connection: connection.execute(query).all())


def _after(number: int, system: str) -> sa.ColumnElement[bool]:
    """The rows after the one with this number and this system."""
    return (rows.c.number > number) | ((rows.c.number == number) & (rows.c.system > system))


def _row(row: Any) -> Row:
    outcome = None if row.outcome is None else json.loads(row.outcome)
    named = {name: getattr(row, name) for name in ("key", "number", "id", "claim", "label", "name", "file", "system")}
    return Row(**named, group=row.claims_group, job=json.loads(row.job), outcome=outcome, is_done=row.status == "done")
