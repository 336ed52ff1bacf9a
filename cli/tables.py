"""Tables that the command line prints. They import no graph: `moot.cli.listings` was written to a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Any

from moot.core.errors import UserError
from moot.graphs import DESCRIPTIONS, OTHER_GRAPHS, load_graph
from rich.console import Console
from rich.table import Table
from rich.text import Text

COLUMNS = {
    "graphs": ("graph", "what it is"),
    "tasks": ("task", "answers", "what it is"),
    "presets": ("preset", "graph", "task", "what it is"),
    "settings": ("setting", "default", "range", "meaning"),
    "eval tasks": ("benchmark", "measures", "licence", "from", "files, the first that is there"),
}
"""What the columns of each listing are called."""
KEYS = {
    "graphs": ("name", "about"),
    "tasks": ("name", "answers", "about"),
    "presets": ("name", "graph", "task", "about"),
    "settings": ("name", "default", "range", "about"),
    "eval tasks": ("name", "measures", "licence", "source", "files"),
}
"""What they are called in JSON."""


def show(table: Table) -> None:
    """Prints a table, as wide as the terminal or, where there is none, as wide as it needs."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    console.print(table)


def listed(command: str) -> list[list[str]]:
    """The rows that a command lists, of `moot.cli.listings`; none for a command that it does not know."""
    lines = (files("moot.cli") / "listings.jsonl").read_text(encoding="utf-8").rstrip("\n").split("\n")
    return [cells for named, *cells in map(json.loads, lines) if named == command]


def print_listing(command: str, *, as_json: bool) -> None:
    """Prints what a command lists: a table, or a JSON list of objects with the table's cells by name.

    Args:
        command: a key of `COLUMNS`; of settings also the name of the graph.
        as_json: whether it is JSON.

    Raises:
        UserError: there is no graph of that name.
    """
    if not as_json:
        show(listing_table(command))
        return
    named = [dict(zip(KEYS[_kind(command)], row, strict=True)) for row in rows_of(command)]
    print(json.dumps([_parsed(one) for one in named], ensure_ascii=False, indent=2))  # noqa: T201


def listing_table(command: str) -> Table:
    """What a command lists, as a table.

    Raises:
        UserError: as `print_listing`.
    """
    kind = _kind(command)
    table = Table(*COLUMNS[kind], box=None, padding=(0, 2, 1 if kind == "settings" else 0, 0))
    for name, *cells in rows_of(command):
        table.add_row(Text(name, style="bold"), *(Text(cell, overflow="fold") for cell in cells))
    return table


def _kind(command: str) -> str:
    return "settings" if command.startswith("settings") else command


def rows_of(command: str) -> Iterable[Sequence[str]]:
    """The rows of a listing.

    Raises:
        UserError: there is no graph of that name, or none is named.
    """
    if command == "graphs":
        return DESCRIPTIONS.items()
    kind, _, graph = command.partition(" ")
    if kind != "settings":
        return listed(command)
    if not graph:
        names = ", ".join((*DESCRIPTIONS, *OTHER_GRAPHS))
        raise UserError(f"Name a system, for example: moot settings tool_mad. Known: {names}.", kind="unknown_graph")
    return listed(command) or unlisted(graph)


def _parsed(row: dict[str, str]) -> dict[str, Any]:
    """A row whose default is a value; that of a prompt is the file that holds it."""
    if "default" not in row or row["default"].startswith("prompts/"):
        return row
    return row | {"default": json.loads(row["default"])}


def unlisted(graph: str) -> list[tuple[str, ...]]:
    """The settings of a graph that is being written, and not in the file yet.

    Raises:
        UserError: there is no graph of that name.
    """
    system = load_graph(graph, others=True)
    from moot.cli.listings import setting_rows

    return list(setting_rows(system.settings))
