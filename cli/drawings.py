"""The page with every graph's drawing: ``docs/graphs.md``."""

from __future__ import annotations

import re

from moot.graphs import DESCRIPTIONS, DebateSystem, load_graph

HEAD = """# The graphs

Drawn from the code; `make docs` writes this page. A box is a node, a dotted arrow a choice, and a frame a graph within
the graph: what one debater does in a round, for instance. Whoever speaks at the same time as others takes the same
arrow. [The table of systems](../README.md#systems) says who speaks, who sees what and who decides.
"""


def drawings_page() -> str:
    """Every graph with its description and its drawing, as Markdown."""
    return "\n".join([HEAD, *(section(load_graph(name)) for name in DESCRIPTIONS)])


def section(system: DebateSystem) -> str:
    """One graph of the page."""
    return f"""## {system.name}

{system.description}

The procedure: [graphs/{system.name}.py](../graphs/{system.name}.py). The settings: `moot settings {system.name}`.

```mermaid
{drawing(system)}
```
"""


def drawing(system: DebateSystem) -> str:
    """A graph in Mermaid's language, with the graphs inside it."""
    drawn = system.graph.get_graph(xray=True).draw_mermaid()
    return re.sub(r"^---\n.*?\n---\n", "", drawn, flags=re.S).strip()  # the front matter sets a style alone
