"""Writes the files and tables that are generated from the code. Run ``python docs/registered.py``.

- ``graphs/systems.jsonl`` determines ``langgraph.json``, the tables in the README and in docs/systems.md, and the
  systems in docs/api/graphs.md.
- The public names of the packages determine the pages in docs/api.
- The code of the nodes determines the table of state keys in docs/api/nodes.md.
"""

from __future__ import annotations

import inspect
import json
import runpy
from importlib import import_module
from pathlib import Path
from typing import Any, get_origin, is_typeddict

from moot.graphs._registry import DESCRIPTIONS, OTHER_GRAPHS, SYSTEMS, graph_path
from pydantic import BaseModel

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
"""The columns of the two tables of systems, each with its key in ``systems.jsonl``."""
API = ("nodes", "graphs", "retrievers", "prompts", "evals")
"""The packages with a page in docs/api."""
KINDS = (
    "Classes",
    "Settings",
    "State and results",
    "Nodes",
    "Steps as functions",
    "Edges",
    "Functions",
    "Types and values",
)
"""The sections of a package's page."""
KEYS = runpy.run_path(str(ROOT / "docs/state_keys.py"))
"""The globals of docs/state_keys.py, which finds the state keys of nodes."""
RANKED_LAST = "---\nsearch:\n  boost: 0.02\n---"
"""The front matter of the pages in docs/api, which come last in the results of the site's search."""


def systems_table(columns: dict[str, str]) -> str:
    """A Markdown table of all systems; the controls come last."""
    ordered = sorted(SYSTEMS.values(), key=lambda system: system["description"].startswith("Control:"))
    rows = [[f"`{system[key]}`" if key == "graph" else system[key] for key in columns.values()] for system in ordered]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, *rows)).replace(
        "\n", f"\n{'|---' * len(columns)}|\n", 1
    )


def graphs_reference() -> str:
    """A section of the reference for each graph, with the class of settings that its own module defines, if any."""
    names = DESCRIPTIONS | OTHER_GRAPHS
    return "\n\n".join(f"::: moot.graphs.{n}\n    options:\n      members: [{own_settings(n)}]" for n in names)


def own_settings(name: str) -> str:
    """The name of the class of settings that a graph's module defines; empty if another module defines it."""
    kind = import_module(f"moot.graphs.{name}").graph.builder._kind
    return kind.__name__ if kind.__module__.startswith(f"moot.graphs.{name}") else ""


def section_of(value: Any) -> str:
    """The section of a package's page for a public object."""
    if get_origin(value) is not None:
        return "Types and values"
    if inspect.isclass(value):
        return "Settings" if issubclass(value, BaseModel) else "State and results" if is_typeddict(value) else "Classes"
    if not callable(value):
        return "Types and values"
    returned = str(inspect.signature(value).return_annotation)
    if returned == "Node":
        return "Nodes"
    if "Send" in returned:
        return "Edges"
    return "Steps as functions" if inspect.iscoroutinefunction(value) else "Functions"


def package_page(name: str) -> str:
    """The page of a package: its docstring, then its public names by kind. The page of graphs also has the systems."""
    package = import_module(f"moot.{name}")
    kinds: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for public in package.__all__:
        kinds[section_of(getattr(package, public))].append(f"::: {package.__name__}.{public}")
    parts = [RANKED_LAST, f"# {package.__name__}", inspect.getdoc(package) or ""]
    for kind, names in kinds.items():
        before = [KEYS["section"]()] if kind == "Nodes" else []
        parts += [f"## {kind}", *before, *names] if names else []
    return "\n\n".join([*parts, *(["## Systems", graphs_reference()] if name == "graphs" else [])]) + "\n"


def langgraph_config(current: str) -> str:
    """The new text of ``langgraph.json``, with all graphs; ``current`` is the file's present text."""
    config: dict[str, Any] = json.loads(current)
    all_graphs = DESCRIPTIONS | OTHER_GRAPHS
    config["graphs"] = {name: {"path": graph_path(name), "description": about} for name, about in all_graphs.items()}
    return json.dumps(config, indent=2, ensure_ascii=False) + "\n"


def replace_part(page: str, part: str) -> str:
    """A page with ``part`` between the marks `START` and `END`, which the page must contain."""
    before, _, rest = page.partition(START)
    return f"{before}{START}\n\n{part}\n\n{END}{rest.partition(END)[2]}"


def generated_files() -> dict[Path, str]:
    """Every generated file, with its new text."""
    parts = {"README.md": systems_table(README), "docs/systems.md": systems_table(SIDE_BY_SIDE)}
    files = {ROOT / name: replace_part((ROOT / name).read_text(encoding="utf-8"), part) for name, part in parts.items()}
    files |= {ROOT / f"docs/api/{name}.md": package_page(name) for name in API}
    file = ROOT / "langgraph.json"
    return files | {file: langgraph_config(file.read_text(encoding="utf-8"))}


if __name__ == "__main__":
    for file, text in generated_files().items():
        file.write_text(text, encoding="utf-8")
