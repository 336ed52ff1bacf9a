"""Tables that the command line prints. They import no graph: `moot.cli.listings` was written to a file."""

from __future__ import annotations

import json
from importlib.resources import files

from moot.graphs import DESCRIPTIONS, load_graph
from rich.console import Console
from rich.table import Table
from rich.text import Text


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


def graphs_table() -> Table:
    """Every graph with one line."""
    table = Table("graph", "what it is", box=None, padding=(0, 2, 0, 0))
    for name, description in DESCRIPTIONS.items():
        table.add_row(Text(name, style="bold"), Text(description))
    return table


def tasks_table() -> Table:
    """Every task: its labels, and what it is."""
    table = Table("task", "answers", "what it is", box=None, padding=(0, 2, 0, 0))
    for name, answers, about in listed("tasks"):
        table.add_row(Text(name, style="bold"), Text(answers), Text(about))
    return table


def benchmarks_table() -> Table:
    """Every benchmark: what it is measured by, its licence, and where its files are."""
    table = Table(
        "benchmark", "measures", "licence", "from", "files, the first that is there", box=None, padding=(0, 2, 0, 0)
    )
    for name, *said in listed("eval tasks"):
        table.add_row(Text(name, style="bold"), *(Text(part, overflow="fold") for part in said))
    return table


def presets_table() -> Table:
    """Every preset: its graph, task and settings, and what it is for."""
    table = Table("preset", "graph", "task", "what it is", box=None, padding=(0, 2, 0, 0))
    for name, graph, task, about in listed("presets"):
        table.add_row(Text(name, style="bold"), graph, task, Text(about))
    return table


def settings_table(graph: str) -> Table:
    """Every setting of a debate system with default, range and meaning.

    Raises:
        UserError: there is no graph of that name.
    """
    table = Table("setting", "default", "range", "meaning", box=None, padding=(0, 2, 1, 0))
    for name, default, bounds, about in listed(f"settings {graph}") or unlisted(graph):
        cells = Text(default, overflow="fold"), Text(bounds), Text(about, overflow="fold")
        table.add_row(Text(name, style="bold"), *cells)
    return table


def unlisted(graph: str) -> list[tuple[str, ...]]:
    """The settings of a graph that is being written, and not in the file yet.

    Raises:
        UserError: there is no graph of that name.
    """
    system = load_graph(graph, others=True)
    from moot.cli.listings import setting_rows

    return list(setting_rows(system.settings))
