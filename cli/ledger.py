"""``moot ledger``: shows, moves and removes the stored calls of debates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from moot.cli.database import Database, database_ledger, using_database
from moot.cli.guesses import GuessingGroup
from moot.cli.parameters import AsJson, MostDebates, OfGraph, OfStatus

if TYPE_CHECKING:
    from moot.core.ledger.file import LedgerFile
    from moot.core.ledger.records import Debate, Entry, Status
    from moot.core.postgres.served import ServedLedger

ledger = typer.Typer(cls=GuessingGroup, help="Show, move and remove the stored calls of debates.")

Id = Annotated[str, typer.Argument(help="The debate's id, or the beginning of it.")]
SHOWN = 8
"""Number of characters of an id that tables show."""


@ledger.callback(invoke_without_command=True)
def list_command(
    context: typer.Context,
    status: OfStatus = None,
    graph: OfGraph = None,
    text: Annotated[str | None, typer.Option(help="Only debates whose input contains this text.")] = None,
    limit: MostDebates = 50,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """List the debates of the ledger, newest first, with the number and size of their entries."""
    if context.invoked_subcommand is not None:
        return
    with existing_ledger(database) as file:
        debates = file.debates(cast("Status | None", status), graph, text, limit) if file else []
    if as_json:
        _print_json([_debate_facts(debate) for debate in debates])
        return
    from moot.cli.tables import show
    from rich.table import Table
    from rich.text import Text

    if not debates:
        print("No such debate is in the ledger." if status or graph or text else "The ledger is empty.")  # noqa: T201
        return
    table = Table("id", "started", "system", "status", "entries", "size", "input", box=None, padding=(0, 2, 0, 0))
    for debate in debates:
        facts = (debate.graph, debate.status, str(debate.entries), _format_size(debate.size), _claim_line(debate))
        table.add_row(debate.id[:SHOWN], _format_time(debate.started), *map(Text, facts))
    show(table)


@ledger.command("show")
def show_command(id: Id, database: Database = None, as_json: AsJson = False) -> None:
    """Show a debate: its properties, its input, and its calls in the order in which they were stored."""
    with existing_ledger(database) as file:
        debate = _find(file, id)
        entries = [entry for _, entry in file.entries(debate.id)] if file else []
    if as_json:
        _print_json({**_debate_facts(debate), "entries": [_entry_facts(entry) for entry in entries]})
        return
    from moot.cli.tables import show
    from rich.table import Table
    from rich.text import Text

    about = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    facts = {name: value for name, value in _debate_facts(debate).items() if name not in ("settings", "input", "size")}
    facts |= {
        "started": _format_time(debate.started),
        "updated": _format_time(debate.updated),
        "input": _claim_line(debate, 1000),
    }
    for name, value in facts.items():
        if value is not None:
            about.add_row(name.replace("_", " "), Text(_one_line(str(value))))
    show(about)
    if debate.entries:
        table = Table("", "kind", "stored", "size", "call", "key", box=None, padding=(0, 2, 0, 0))
        for number, entry in enumerate(entries, 1):
            call = ", ".join(f"{name} {value}" for name, value in entry.about.items() if isinstance(value, str))
            row = (
                entry.key.kind,
                _format_time(entry.created),
                _format_size(entry.size),
                _one_line(call),
                entry.key.hash[:SHOWN],
            )
            table.add_row(str(number), *map(Text, row))
        show(table)


@ledger.command("export")
def export_command(
    id: Id,
    file: Annotated[Path, typer.Argument(help="The JSON Lines file to write.")],
    database: Database = None,
) -> None:
    """Write a debate and its stored calls to a file."""
    from moot.core.ledger.transfer import export_debate

    with existing_ledger(database) as ledger_file:
        debate = _find(ledger_file, id)
        count = export_debate(ledger_file, debate.id, file) if ledger_file else 0
    print(f"Wrote the debate {debate.id} to {file}; entries: {count}.")  # noqa: T201


@ledger.command("import")
def import_command(file: Annotated[Path, typer.Argument(help="A file of `moot ledger export`.")]) -> None:
    """Add a debate from a file to this machine's ledger.

    Later debates may reuse the imported results, so import only files that you trust.
    """
    from moot.core.ledger import ledger_path
    from moot.core.ledger.file import LedgerFile
    from moot.core.ledger.transfer import import_debate

    with closing(LedgerFile(ledger_path())) as ledger_file:
        id, count = import_debate(ledger_file, file)
    print(f"Added the debate {id}; entries: {count}.")  # noqa: T201


@ledger.command("delete")
def delete_command(id: Id, database: Database = None) -> None:
    """Remove a debate and its stored calls from the ledger. Its result document stays."""
    from moot.core.errors import UserError

    with existing_ledger(database) as file:
        debate = _find(file, id)
        if debate.status == "running":
            raise UserError(f"The debate {debate.id} is running. Stop it first.", kind="debate_running")
        if file:
            with file.transaction():
                file.delete(debate.id)
    print(f"Removed the debate {debate.id}; entries: {debate.entries}.")  # noqa: T201


@ledger.command("prune")
def prune_command(
    everything: Annotated[
        bool,
        typer.Option("--all", help="Remove all debates that are not running, whatever their age; overrides --older."),
    ] = False,
    older: Annotated[
        float | None,
        typer.Option(min=0, metavar="DAYS", help="Remove debates that have not changed for this many days."),
    ] = None,
) -> None:
    """Remove the debates that have not changed for some time, by default for 30 days, from this machine's ledger.

    If a debate has a document, only its stored calls are removed. If the ledger is then larger than 1 GB, the stored
    calls of younger debates are also removed: first those of done debates, then those of failed debates, the oldest
    first. moot also prunes the ledger by itself.
    """
    from moot.core.ledger.file import DAYS
    from moot.core.words import count_with_noun

    days = 0.0 if everything else DAYS if older is None else older
    with existing_ledger() as file:
        pruned = file.prune(days) if file else None
    debates, size = (pruned.debates, pruned.size) if pruned else (0, 0)
    count = count_with_noun(debates, "debate")
    print(f"The stored calls of {count} were removed; the file is {_format_size(size)} smaller.")  # noqa: T201


@contextmanager
def existing_ledger(database: str | None = None) -> Iterator[LedgerFile | ServedLedger | None]:
    """Context with an open ledger: of the named database, else of the database in use, else of this machine.

    It yields None if no database is named or in use and this machine has no ledger.

    Args:
        database: the address of a database; None or empty if none is named.

    Raises:
        UserError, WorldError: as `using_database` and `LedgerFile`.
    """
    import sqlite3

    from moot.core.ledger import ledger_path
    from moot.core.ledger.faults import ledger_errors
    from moot.core.ledger.file import LedgerFile

    with using_database(database):
        if found := database_ledger():
            yield found
        elif not ledger_path().exists():
            yield None
        else:
            with closing(LedgerFile(ledger_path())) as file:
                try:
                    yield file
                except sqlite3.Error as error:
                    with ledger_errors(ledger_path()):
                        raise error


def _find(file: LedgerFile | ServedLedger | None, id: str) -> Debate:
    """The debate whose id begins with ``id``.

    Raises:
        UserError: no debate or more than one has such an id, ``id`` is empty, or there is no ledger.
    """
    from moot.core.errors import UserError

    found = file.debates(id=id, limit=2) if file and id else []
    if not found:
        raise UserError(f"There is no debate {id!r} in the ledger; see `moot ledger`.", kind="unknown_debate")
    if len(found) > 1:
        raise UserError(f"The ids of several debates begin with {id!r}: give more of the id.", kind="unknown_debate")
    return found[0]


def _debate_facts(debate: Debate) -> dict[str, Any]:
    """A debate's row as a JSON object, without the fingerprint."""
    from dataclasses import asdict

    return {name: value for name, value in asdict(debate).items() if name != "fingerprint"}


def _entry_facts(entry: Entry) -> dict[str, Any]:
    """A stored call as a JSON object, without its result."""
    key = {"kind": entry.key.kind, "key": entry.key.hash, "parts": dict(entry.key.parts)}
    return {**key, "about": dict(entry.about), "created": entry.created, "size": entry.size}


def _print_json(document: Any) -> None:
    import json

    print(json.dumps(document, ensure_ascii=False, indent=2))  # noqa: T201


def _claim_line(debate: Debate, most: int = 80) -> str:
    """The claim of a debate (see `claim_in`) on one line, shortened to at most ``most`` characters."""
    from moot.web.table import claim_in

    text = _one_line(claim_in(debate.input) if isinstance(debate.input, dict) else str(debate.input))
    return text if len(text) <= most else text[: most - 1] + "…"


def _one_line(text: str) -> str:
    from moot.retrievers._evidence import clean

    return " ".join(clean(text).split())


def _format_time(seconds: float) -> str:
    from datetime import datetime

    return f"{datetime.fromtimestamp(seconds).astimezone():%Y-%m-%d %H:%M}"


def _format_size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"
