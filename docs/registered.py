"""Writes what is read where nothing can be computed. Run ``python docs/registered.py``.

The tables in README.md and docs/systems.md and the drawings in docs/graphs.md are read in the repository, and
``langgraph dev`` reads ``langgraph.json``. Type checkers read the TypedDicts of settings in
graphs/contexts.py (see docs/contexts.py). docs/hooks.py makes all other tables and references of the site.
"""

from __future__ import annotations

import json
import re
import runpy
from importlib.resources import files
from pathlib import Path
from typing import Any

from moot.graphs import DebateSystem, load_graph
from moot.graphs._registry import DESCRIPTIONS, OTHER_GRAPHS, SYSTEMS, graph_path

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
CONTEXTS = runpy.run_path(str(ROOT / "docs/contexts.py"))["contexts"]
HEAD = """# The graphs

`make docs` draws this page from the code. A box is a node, a dotted arrow is a conditional edge, and a frame is a
subgraph, for example the steps of one debater in a round. If a frame would contain another frame, each subgraph is
drawn separately below. Agents that speak at the same time share one arrow.
[The table of systems](systems.md) says who speaks, who sees what and who decides.
"""


def systems_table(columns: dict[str, str]) -> str:
    """A Markdown table of all systems; the controls come last."""
    ordered = sorted(SYSTEMS.values(), key=lambda system: system["description"].startswith("Control:"))
    rows = [[f"`{system[key]}`" if key == "graph" else system[key] for key in columns.values()] for system in ordered]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, *rows)).replace(
        "\n", f"\n{'|---' * len(columns)}|\n", 1
    )


def drawings_page() -> str:
    """The page in Markdown: each of moot's own graphs with its description and its drawing."""
    return "\n".join([HEAD, *(section(load_graph(name, others=True)) for name in (*DESCRIPTIONS, *OTHER_GRAPHS))])


def section(system: DebateSystem) -> str:
    """The page's section for one graph."""
    folder = (files("moot.graphs") / system.name).is_dir()
    page = f"{system.name}/__init__.py" if folder else f"{system.name}.py"
    return f"""## {system.name}

{system.description}

The procedure: [graphs/{page}](../graphs/{page}). The settings: `moot settings {system.name}`.

{drawings(system.graph)}
"""


def drawings(graph: Any) -> str:
    """The drawing of a graph with its subgraphs, in Markdown.

    If a subgraph contains subgraphs, every subgraph is drawn separately; equal drawings appear once.
    """
    inner = list(graph.get_subgraphs(recurse=True))
    if not any("|" in path for path, _ in inner):
        return drawing(graph, xray=True)
    names: dict[str, list[str]] = {}
    for path, part in inner:
        name = f"`{path.rpartition('|')[2]}`"
        same = names.setdefault(drawing(part), [])
        same += [] if name in same else [name]
    parts = [f"{' and '.join(same)}:\n\n{drawn}" for drawn, same in names.items()]
    return "\n\n".join([drawing(graph), *parts])


def drawing(graph: Any, *, xray: bool = False) -> str:
    """The drawing of a graph as a Mermaid code block in Markdown.

    Args:
        graph: a compiled graph.
        xray: whether to draw its subgraphs as frames inside it.
    """
    drawn = graph.get_graph(xray=xray).draw_mermaid()
    plain = re.sub(r"^---\n.*?\n---\n", "", drawn, flags=re.S).strip()  # the front matter only sets a style
    return f"```mermaid\n{plain}\n```"


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
    made = {ROOT / name: replace_part((ROOT / name).read_text(encoding="utf-8"), part) for name, part in parts.items()}
    made[ROOT / "docs/graphs.md"] = drawings_page()
    made[ROOT / "graphs/contexts.py"] = CONTEXTS([*DESCRIPTIONS, *OTHER_GRAPHS, "summarise_for_readers"])
    file = ROOT / "langgraph.json"
    return made | {file: langgraph_config(file.read_text(encoding="utf-8"))}


if __name__ == "__main__":
    for file, text in generated_files().items():
        file.write_text(text, encoding="utf-8")
