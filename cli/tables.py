"""Tables that the command line prints."""

from __future__ import annotations

import json
from typing import Any

from moot.graphs import DESCRIPTIONS
from moot.graphs.presets import PRESETS
from moot.nodes.runtime.settings import Settings
from moot.nodes.texts.task import TASKS
from rich.console import Console
from rich.table import Table
from rich.text import Text


def show(table: Table) -> None:
    """Prints a table, as wide as the terminal or, where there is none, as wide as it needs."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    console.print(table)


def graphs_table() -> Table:
    """Every graph with one line."""
    table = Table("graph", "what it is", box=None, padding=(0, 2, 0, 0))
    for name, description in DESCRIPTIONS.items():
        table.add_row(Text(name, style="bold"), Text(description))
    return table


def tasks_table() -> Table:
    """Every task: its labels, and what it is."""
    table = Table("task", "answers", "what it is", box=None, padding=(0, 2, 0, 0))
    for name, known in TASKS.items():
        answers = ", ".join(label for label, _, _ in known.labels) or known.kind.replace("_", " ")
        table.add_row(Text(name, style="bold"), Text(answers), Text(known.about))
    return table


def benchmarks_table() -> Table:
    """Every benchmark: what it is measured by, its licence, and where its files are."""
    from moot.evals.benchmarks.catalogue import BENCHMARKS

    table = Table(
        "benchmark", "measures", "licence", "from", "files, the first that is there", box=None, padding=(0, 2, 0, 0)
    )
    for name, known in BENCHMARKS.items():
        hub = f" (or the Hub: {known.hub})" if known.hub else ""
        said = (", ".join(known.metrics), known.licence, known.source + hub, ", ".join(known.files))
        table.add_row(Text(name, style="bold"), *(Text(part, overflow="fold") for part in said))
    return table


def presets_table() -> Table:
    """Every preset: its graph, task and settings, and what it is for."""
    table = Table("preset", "graph", "task", "what it is", box=None, padding=(0, 2, 0, 0))
    for name, preset in PRESETS.items():
        table.add_row(Text(name, style="bold"), preset.graph, preset.task or "", Text(preset.about))
    return table


def settings_table(settings: type[Settings]) -> Table:
    """Every setting with default, range and meaning."""
    table = Table("setting", "default", "range", "meaning", box=None, padding=(0, 2, 1, 0))
    schema = settings.model_json_schema()
    defaults = settings().model_dump(mode="json")
    for name, field in schema["properties"].items():
        shipped = f"prompts/{settings.prompts[name]}.md" if name in settings.prompts else None
        default = Text(shipped or json.dumps(defaults[name]), overflow="fold")
        about = field.get("description", "") + fields_of(field, schema.get("$defs", {}))
        table.add_row(Text(name, style="bold"), default, Text(bounds(field)), Text(about, overflow="fold"))
    return table


def fields_of(field: dict[str, Any], parts: dict[str, Any]) -> str:
    """The fields that elements of a list have, with what they mean; nothing for other settings."""
    part = parts.get(field.get("items", {}).get("$ref", "").rsplit("/", 1)[-1])
    if part is None:
        return ""
    return "".join(f"\n- {name}: {of.get('description', '')}" for name, of in part["properties"].items())


def bounds(field: dict[str, Any]) -> str:
    """What values a field takes, from its JSON schema."""
    options = [o for o in field.get("anyOf", [field]) if o.get("type") != "null"]
    return " or ".join(dict.fromkeys(_bounds(o) for o in options)) + (
        " or null" if "anyOf" in field and len(options) < len(field["anyOf"]) else ""
    )


def _bounds(field: dict[str, Any]) -> str:
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
