"""The listings of ``moot tasks``, ``presets``, ``settings`` and ``eval tasks``, as lines of JSON.

``make docs`` writes them to ``cli/listings.jsonl``, so that those commands do not import the graphs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from moot.evals._benchmarks.catalogue import BENCHMARKS, Benchmark
from moot.graphs import load_graph
from moot.graphs._registry import DESCRIPTIONS, OTHER_GRAPHS
from moot.graphs.presets import PRESETS
from moot.nodes._runtime.settings import Settings
from moot.nodes._texts.task import TASKS

Row = tuple[str, ...]


def listings() -> str:
    """One line per row of each table: the command, then the row's cells."""
    tables: dict[str, Iterable[Row]] = {
        "tasks": task_rows(),
        "presets": preset_rows(),
        "eval tasks": benchmark_rows(BENCHMARKS.values()),
    }
    names = (*DESCRIPTIONS, *OTHER_GRAPHS)
    tables |= {f"settings {name}": setting_rows(load_graph(name, others=True).settings) for name in names}
    rows = ((command, *row) for command, table in tables.items() for row in table)
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)


def task_rows() -> Iterator[Row]:
    """Every task: its name, labels and description."""
    for name, known in TASKS.items():
        yield name, ", ".join(label for label, _, _ in known.labels) or known.kind.replace("_", " "), known.about


def preset_rows() -> Iterator[Row]:
    """Every preset: its name, graph, task and purpose."""
    for name, preset in PRESETS.items():
        yield name, preset.graph, preset.task or "", preset.about


def benchmark_rows(benchmarks: Iterable[Benchmark]) -> Iterator[Row]:
    """Benchmarks: name, metrics, licence, source and files of each."""
    for known in benchmarks:
        hub = f" (or the Hub: {known.hub})" if known.hub else ""
        without = "".join(f"\nnot computable: {measure}: {why}" for measure, why in known.uncomputed.items())
        yield known.name, ", ".join(known.metrics) + without, known.licence, known.source + hub, ", ".join(known.files)


def setting_rows(settings: type[Settings]) -> Iterator[Row]:
    """Every setting with default, range and meaning."""
    schema = settings.model_json_schema()
    defaults = settings().model_dump(mode="json")
    for name, field in schema["properties"].items():
        shipped = f"prompts/{settings.prompts[name]}.md" if name in settings.prompts else None
        about = field.get("description", "") + fields_of(field, schema.get("$defs", {}))
        yield name, shipped or json.dumps(defaults[name]), bounds(field), about


def fields_of(field: dict[str, Any], parts: dict[str, Any]) -> str:
    """The fields of a list's elements with their descriptions; empty for other settings."""
    part = parts.get(field.get("items", {}).get("$ref", "").rsplit("/", 1)[-1])
    if part is None:
        return ""
    return "".join(f"\n- {name}: {about.get('description', '')}" for name, about in part["properties"].items())


def bounds(field: dict[str, Any]) -> str:
    """The range of a field in words, from its JSON schema."""
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


if __name__ == "__main__":
    sys.stdout.write(listings())
