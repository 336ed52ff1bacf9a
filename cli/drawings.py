"""The page with the drawings of moot's own graphs: ``docs/graphs.md``."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

from moot.graphs import DebateSystem, load_graph
from moot.graphs._registry import DESCRIPTIONS, OTHER_GRAPHS

HEAD = """# The graphs

`make docs` draws this page from the code. A box is a node, a dotted arrow is a conditional edge, and a frame is a
subgraph, for example the steps of one debater in a round. If a frame would contain another frame, each subgraph is
drawn separately below. Agents that speak at the same time share one arrow.
[The table of systems](systems.md) says who speaks, who sees what and who decides.
"""


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
