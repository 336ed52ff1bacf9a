"""Writes what ``graphs/systems.jsonl`` says of every system where it is read: ``python docs/registered.py``.

These are ``langgraph.json``, the tables of the README and of docs/systems.md, and the list in docs/api/graphs.md.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from moot.graphs import DESCRIPTIONS, OTHER_GRAPHS, load_graph
from moot.graphs.registry import SYSTEMS, graph_place

ROOT = Path(__file__).parents[1]
START, END = "<!-- SYSTEMS -->", "<!-- END: SYSTEMS -->"
README = {"graph": "graph", "in short": "short", "paper": "paper"}
SIDE_BY_SIDE = {
    "graph": "graph",
    "what it is": "short",
    "who speaks": "speaks",
    "who sees what": "sees",
    "when it stops": "stops",
    "who decides": "decides",
    "paper": "paper",
}
"""The columns of the tables, each with what stands in it."""


def table(columns: dict[str, str]) -> str:
    """All systems, the controls last."""
    ordered = sorted(SYSTEMS.values(), key=lambda system: system["description"].startswith("Control:"))
    rows = [[f"`{one[key]}`" if key == "graph" else one[key] for key in columns.values()] for one in ordered]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, *rows)).replace(
        "\n", f"\n{'|---' * len(columns)}|\n", 1
    )


def reference() -> str:
    """A section of the reference for each system, with the class of its settings if it has one of its own."""
    return "\n\n".join(
        f"::: moot.graphs.{name}\n    options:\n      members: [{own_settings(name)}]" for name in DESCRIPTIONS
    )


def own_settings(name: str) -> str:
    """The name of a graph's own class of settings; empty if it has that of others."""
    kind = type(load_graph(name).graph.builder._defaults)
    return kind.__name__ if kind.__module__.startswith(f"moot.graphs.{name}") else ""


def configuration(before: str) -> str:
    """``langgraph.json`` with all graphs."""
    said: dict[str, Any] = json.loads(before)
    all_graphs = DESCRIPTIONS | OTHER_GRAPHS
    said["graphs"] = {name: {"path": graph_place(name), "description": about} for name, about in all_graphs.items()}
    return json.dumps(said, indent=2, ensure_ascii=False) + "\n"


def filled(page: str, part: str) -> str:
    """A page with a part between its marks."""
    before, _, rest = page.partition(START)
    return f"{before}{START}\n\n{part}\n\n{END}{rest.partition(END)[2]}"


def pages() -> dict[Path, str]:
    """Every file that is written, with its text."""
    parts = {"README.md": table(README), "docs/systems.md": table(SIDE_BY_SIDE), "docs/api/graphs.md": reference()}
    made = {ROOT / name: filled((ROOT / name).read_text(encoding="utf-8"), part) for name, part in parts.items()}
    file = ROOT / "langgraph.json"
    return made | {file: configuration(file.read_text(encoding="utf-8"))}


if __name__ == "__main__":
    for file, text in pages().items():
        file.write_text(text, encoding="utf-8")
