"""``moot replies``: lists runs with their stored replies, and moves and removes the replies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from moot.cli.database import Database, using_database
from moot.cli.parameters import AsJson, MostDebates, OfStatus

if TYPE_CHECKING:
    from moot.core.store import Run, Store

reply_commands = typer.Typer(help="List, move and remove the stored replies of debates.")

Id = Annotated[str, typer.Argument(help="The debate's id, or the beginning of it.")]
SHOWN = 8
"""Number of characters of an id that the table shows."""
LONGEST = 80
"""Maximum number of characters of a claim that the table shows."""


@reply_commands.callback(invoke_without_command=True)
def list_command(
    context: typer.Context,
    status: OfStatus = None,
    limit: MostDebates = 50,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """List all debates that the store has, newest first, with the number of their stored replies."""
    if context.invoked_subcommand is not None:
        return
    from moot.core.store import existing_store

    known: Any = status
    with using_database(database):
        store = existing_store()
        found = store.runs(status=known, limit=limit) if store else []
    if as_json:
        import json
        from dataclasses import asdict

        print(json.dumps([asdict(run) for run in found], ensure_ascii=False, indent=2))  # noqa: T201
        return
    from moot.cli.tables import show
    from rich.table import Table
    from rich.text import Text

    if not found:
        print("No such debate is stored." if status else "No replies are stored.")  # noqa: T201
        return
    table = Table("id", "started", "system", "status", "replies", "input", box=None, padding=(0, 2, 0, 0))
    for run in found:
        facts = (run.id[:SHOWN], _format_time(run.started), run.graph, run.status, str(run.replies), _claim_line(run))
        table.add_row(*map(Text, facts))
    show(table)


@reply_commands.command("export")
def export_command(
    id: Id,
    file: Annotated[Path, typer.Argument(help="The JSON Lines file to write.")],
    only_models: Annotated[
        bool,
        typer.Option(
            "--only-models",
            help="Leave out search results and pages, whose texts may not be yours to pass on. Whoever repeats the "
            "debate then needs the same corpora (MOOT_REPLIES=reuse).",
        ),
    ] = False,
    database: Database = None,
) -> None:
    """Write a debate's stored replies to a file."""
    from moot.core.transfer import export_run

    with using_database(database):
        store, run = _find(id)
        count = export_run(store, run, file, only_models=only_models)
    print(f"Wrote the debate {run.id} to {file}; replies: {count}.")  # noqa: T201


@reply_commands.command("import")
def import_command(files: Annotated[list[Path], typer.Argument(help="Files of `moot replies export`.")]) -> None:
    """Add the replies of debates, each in a file, to this machine's store.

    Later debates may use the imported replies, so import only files that you trust.
    """
    from moot.core.store import open_store
    from moot.core.transfer import import_run

    store = open_store()
    for file in files:
        id, count = import_run(store, file)
        print(f"Added the debate {id}; replies: {count}.")  # noqa: T201


@reply_commands.command("delete")
def delete_command(
    id: Annotated[str | None, typer.Argument(help="The debate's id, or the beginning of it.")] = None,
    older: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="DAYS",
            help="The replies of all debates that do not run and have not changed for this many days.",
        ),
    ] = None,
    database: Database = None,
) -> None:
    """Remove a debate's stored replies, or those of old debates. Their result documents stay."""
    from moot.core.errors import UserError
    from moot.core.store import existing_store

    if (id is None) == (older is None):
        raise UserError("Name either a debate, by its id, or --older DAYS.", kind="invalid_setting")
    with using_database(database):
        if id is None:
            store = existing_store()
            count = store.prune(older or 0) if store else 0
            print(f"Removed the replies of old debates; debates: {count}.")  # noqa: T201
            return
        store, run = _find(id)
        if run.status == "running":
            raise UserError(f"The debate {run.id} is running. Stop it first.", kind="debate_running")
        store.delete(run.id)
    print(f"Removed the replies of the debate {run.id}: {run.replies}.")  # noqa: T201


def _find(id: str) -> tuple[Store, Run]:
    """The store, and the debate whose id begins with ``id``.

    Raises:
        UserError: no debate or more than one has such an id, or ``id`` is empty.
    """
    from moot.core.errors import UserError
    from moot.core.store import existing_store

    store = existing_store()
    found = store.runs(id=id, limit=2) if store and id else []
    if not store or not found:
        raise UserError(f"No stored debate has the id {id!r}; see `moot replies`.", kind="unknown_debate")
    if len(found) > 1:
        raise UserError(f"The ids of several debates begin with {id!r}: give more of the id.", kind="unknown_debate")
    return store, found[0]


def _claim_line(run: Run) -> str:
    """The claim of a run (see `claim_in`) on one line, shortened."""
    from moot.retrievers._evidence import clean
    from moot.web.table import claim_in

    text = " ".join(clean(claim_in(run.input) if isinstance(run.input, dict) else str(run.input)).split())
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _format_time(seconds: float) -> str:
    from datetime import datetime

    return f"{datetime.fromtimestamp(seconds).astimezone():%Y-%m-%d %H:%M}"
