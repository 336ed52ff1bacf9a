"""Prints tables on the command line: those of commands, and listings such as that of ``moot settings``.

A listing imports only what it lists: ``moot settings NAME`` one graph, ``moot graphs`` none of moot's own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from moot.core.errors import UserError
from moot.graphs import load_graph
from moot.graphs._registry import DESCRIPTIONS, graph_names, installed_systems
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from moot.evals._benchmarks.catalogue import Benchmark
    from moot.nodes._runtime.settings import Settings

Row = tuple[str, ...]
COLUMNS = {
    "graphs": ("graph", "what it is"),
    "tasks": ("task", "answers", "what it is"),
    "settings": ("setting", "default", "range", "meaning"),
    "eval tasks": ("benchmark", "measures", "licence", "from", "files (the first that exists)"),
}
"""Column titles of each listing."""
KEYS = {
    "graphs": ("name", "about"),
    "tasks": ("name", "answers", "about"),
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


def rows_of(command: str) -> Iterable[Row]:
    """The rows of a listing, with those of installed packages; prints a message for each entry that cannot be listed.

    Raises:
        UserError: the same as for `print_listing`.
    """
    kind, _, graph = command.partition(" ")
    if kind == "graphs":
        systems, errors = installed_systems()
        print_unlisted(errors)
        return [*DESCRIPTIONS.items(), *((system.name, system.description) for system in systems)]
    if kind == "tasks":
        return task_rows()
    if kind == "settings":
        if not graph:
            names = ", ".join(graph_names(others=True))
            problem = f"Name a system, for example: moot settings tool_mad. Known: {names}."
            raise UserError(problem, kind="unknown_graph")
        return setting_rows(load_graph(graph, others=True).settings)
    from moot.evals._benchmarks.catalogue import BENCHMARKS, installed_benchmarks

    benchmarks, errors = installed_benchmarks()
    print_unlisted(errors)
    return benchmark_rows([*BENCHMARKS.values(), *benchmarks])


def print_unlisted(errors: Iterable[UserError]) -> None:
    """Prints the errors of entries that cannot be listed."""
    for error in errors:
        print(f"moot: not listed: {error.detail}", file=sys.stderr)  # noqa: T201


def _parse_default(row: dict[str, str]) -> dict[str, Any]:
    """A row with its default parsed from JSON; the default of a prompt stays its file name."""
    if "default" not in row or row["default"].startswith("prompts/"):
        return row
    return row | {"default": json.loads(row["default"])}


def task_rows() -> Iterator[Row]:
    """The row of every task: its name, its labels (or its kind of answer, if it has none), and its description."""
    from moot.nodes._texts.task import TASKS

    for name, known in TASKS.items():
        yield name, ", ".join(label for label, _, _ in known.labels) or known.kind.replace("_", " "), known.about


def benchmark_rows(benchmarks: Iterable[Benchmark]) -> Iterator[Row]:
    """The row of each benchmark: name, metrics (also those that moot does not compute), licence, source and files."""
    for known in benchmarks:
        hub = f" (or the Hub: {known.hub})" if known.hub else ""
        without = "".join(f"\nnot computable: {measure}: {why}" for measure, why in known.uncomputed.items())
        yield known.name, ", ".join(known.metrics) + without, known.licence, known.source + hub, ", ".join(known.files)


def setting_rows(settings: type[Settings]) -> Iterator[Row]:
    """The row of every setting: its name, its default (for a prompt, the name of a file), its range and its meaning.

    The default of a setting that depends on the preset is an object with that of each preset.
    """
    from moot.nodes._runtime.settings import PRESETS

    schema = settings.model_json_schema()
    defaults = settings().model_dump(mode="json")
    for name, field in schema["properties"].items():
        shipped = f"prompts/{settings.prompts[name]}.md" if name in settings.prompts else None
        about = field.get("description", "") + element_fields(field, schema.get("$defs", {}))
        yield name, shipped or json.dumps(field.get(PRESETS, defaults[name])), range_in_words(field), about


def element_fields(field: dict[str, Any], definitions: dict[str, Any]) -> str:
    """A line for each field of the elements of a list; empty for a setting that is not a list of objects.

    Args:
        field: the JSON schema of the setting.
        definitions: the definitions (``$defs``) of the JSON schema that has the setting.
    """
    element = definitions.get(field.get("items", {}).get("$ref", "").rsplit("/", 1)[-1])
    if element is None:
        return ""
    return "".join(f"\n- {name}: {about.get('description', '')}" for name, about in element["properties"].items())


def range_in_words(field: dict[str, Any]) -> str:
    """The values that a setting takes, in words: options, a range or a type.

    Args:
        field: the JSON schema of the setting.
    """
    alternatives = [one for one in field.get("anyOf", [field]) if one.get("type") != "null"]
    return " or ".join(dict.fromkeys(map(_range_of_alternative, alternatives))) + (
        " or null" if "anyOf" in field and len(alternatives) < len(field["anyOf"]) else ""
    )


def _range_of_alternative(field: dict[str, Any]) -> str:
    """The same as `range_in_words`, for a schema without ``anyOf``.

    A number without a lower or an upper bound is described by its type only.
    """
    if "enum" in field:
        return ", ".join(map(str, field["enum"]))
    if "$ref" in field:
        return "object"
    low, high = field.get("minimum", field.get("exclusiveMinimum")), field.get("maximum")
    if low is not None and high is not None:
        return f"{'above ' if 'exclusiveMinimum' in field else ''}{low} to {high}"
    if field.get("type") == "array":
        return f"list of {field.get('minItems', 0)} to {field['maxItems']}" if "maxItems" in field else "list"
    kind = str(field.get("type", ""))
    return {"string": "text", "boolean": "true, false", "object": "mapping"}.get(kind, kind)
