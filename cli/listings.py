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
    """The content of ``listings.jsonl``: for each row of each listing, a line with the command and the row's cells."""
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
    """The row of every task: its name, its labels (or its kind of answer, if it has none), and its description."""
    for name, known in TASKS.items():
        yield name, ", ".join(label for label, _, _ in known.labels) or known.kind.replace("_", " "), known.about


def preset_rows() -> Iterator[Row]:
    """The row of every preset: its name, graph, task (empty if it has none) and purpose."""
    for name, preset in PRESETS.items():
        yield name, preset.graph, preset.task or "", preset.about


def benchmark_rows(benchmarks: Iterable[Benchmark]) -> Iterator[Row]:
    """The row of each benchmark: name, metrics (also those that moot does not compute), licence, source and files."""
    for known in benchmarks:
        hub = f" (or the Hub: {known.hub})" if known.hub else ""
        without = "".join(f"\nnot computable: {measure}: {why}" for measure, why in known.uncomputed.items())
        yield known.name, ", ".join(known.metrics) + without, known.licence, known.source + hub, ", ".join(known.files)


def setting_rows(settings: type[Settings]) -> Iterator[Row]:
    """The row of every setting: its name, its default (for a prompt, the name of a file), its range and its meaning."""
    schema = settings.model_json_schema()
    defaults = settings().model_dump(mode="json")
    for name, field in schema["properties"].items():
        shipped = f"prompts/{settings.prompts[name]}.md" if name in settings.prompts else None
        about = field.get("description", "") + element_fields(field, schema.get("$defs", {}))
        yield name, shipped or json.dumps(defaults[name]), range_in_words(field), about


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


if __name__ == "__main__":
    sys.stdout.write(listings())
