"""Prints tables on the command line.

moot's own tasks, presets, benchmarks and settings are listed from a file, so that no graph is imported.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Any

from moot.core.errors import UserError
from moot.core.installed import Plugins
from moot.graphs import load_graph
from moot.graphs._registry import DESCRIPTIONS, INSTALLED, graph_names, installed_systems
from rich.console import Console
from rich.table import Table
from rich.text import Text

COLUMNS = {
    "graphs": ("graph", "what it is"),
    "tasks": ("task", "answers", "what it is"),
    "presets": ("preset", "graph", "task", "what it is"),
    "settings": ("setting", "default", "range", "meaning"),
    "eval tasks": ("benchmark", "measures", "licence", "from", "files (the first that exists)"),
}
"""Column titles of each listing."""
KEYS = {
    "graphs": ("name", "about"),
    "tasks": ("name", "answers", "about"),
    "presets": ("name", "graph", "task", "about"),
    "settings": ("name", "default", "range", "about"),
    "eval tasks": ("name", "measures", "licence", "source", "files"),
}
"""Field names of each listing in JSON."""


def show(table: Table) -> None:
    """Prints a table as wide as the terminal; without a terminal, 160 characters wide."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    console.print(table)


def listing_rows(command: str) -> list[list[str]]:
    """The rows of a listing in ``listings.jsonl``; empty if the file does not have this listing."""
    lines = (files("moot.cli") / "listings.jsonl").read_text(encoding="utf-8").rstrip("\n").split("\n")
    return [cells for named, *cells in map(json.loads, lines) if named == command]


def print_listing(command: str, *, as_json: bool) -> None:
    """Prints a listing as a table, or as a JSON list with an object for each row.

    Args:
        command: a key of `COLUMNS`; after ``settings``, a space and the name of a graph.
        as_json: whether to print JSON.

    Raises:
        UserError: ``settings`` is not followed by the name of a graph that can be used.
    """
    if not as_json:
        show(listing_table(command))
        return
    objects = [dict(zip(KEYS[_kind_of(command)], row, strict=True)) for row in rows_of(command)]
    print(json.dumps([_parse_default(row) for row in objects], ensure_ascii=False, indent=2))  # noqa: T201


def listing_table(command: str) -> Table:
    """A listing as a table.

    Raises:
        UserError: the same as for `print_listing`.
    """
    kind = _kind_of(command)
    table = Table(*COLUMNS[kind], box=None, padding=(0, 2, 1 if kind == "settings" else 0, 0))
    for name, *cells in rows_of(command):
        table.add_row(Text(name, style="bold"), *(Text(cell, overflow="fold") for cell in cells))
    return table


def _kind_of(command: str) -> str:
    """The key of `COLUMNS` for a command."""
    return "settings" if command.startswith("settings") else command


def rows_of(command: str) -> Iterable[Sequence[str]]:
    """The rows of a listing, with those of installed packages; prints a message for each entry that cannot be listed.

    Raises:
        UserError: the same as for `print_listing`.
    """
    if command == "graphs":
        systems, errors = installed_systems()
        print_unlisted(errors)
        return [*DESCRIPTIONS.items(), *((system.name, system.description) for system in systems)]
    if command == "eval tasks":
        return [*(rows := listing_rows(command)), *installed_benchmarks({name for name, *_ in rows})]
    kind, _, graph = command.partition(" ")
    if kind != "settings":
        return listing_rows(command)
    if not graph:
        names = ", ".join(graph_names(others=True))
        raise UserError(f"Name a system, for example: moot settings tool_mad. Known: {names}.", kind="unknown_graph")
    INSTALLED.check(graph)
    return listing_rows(command) or unlisted_settings(graph)


def installed_benchmarks(own: set[str]) -> list[tuple[str, ...]]:
    """The rows of benchmarks that installed packages declare; prints a message for each benchmark that cannot be used.

    Args:
        own: the names of moot's own benchmarks.
    """
    if not Plugins("benchmark", own, "invalid_setting").has_any():
        return []
    from moot.cli.listings import benchmark_rows
    from moot.evals._benchmarks.catalogue import installed_benchmarks as found

    benchmarks, errors = found()
    print_unlisted(errors)
    return list(benchmark_rows(benchmarks))


def print_unlisted(errors: Iterable[UserError]) -> None:
    """Prints the errors of entries that cannot be listed."""
    for error in errors:
        print(f"moot: not listed: {error.detail}", file=sys.stderr)  # noqa: T201


def _parse_default(row: dict[str, str]) -> dict[str, Any]:
    """A row with its default parsed from JSON; the default of a prompt stays its file name."""
    if "default" not in row or row["default"].startswith("prompts/"):
        return row
    return row | {"default": json.loads(row["default"])}


def unlisted_settings(graph: str) -> list[tuple[str, ...]]:
    """The rows of a graph's settings, read from the graph itself, not from ``listings.jsonl``.

    Raises:
        UserError: there is no graph with this name, or it cannot be loaded.
    """
    system = load_graph(graph, others=True)
    from moot.cli.listings import setting_rows

    return list(setting_rows(system.settings))
