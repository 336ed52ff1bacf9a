"""The debate systems, one graph per module: ``moot.graphs.<name>.graph``."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from moot.core.garbage import collected_seldom
from moot.graphs.registry import DESCRIPTIONS, OTHER_GRAPHS, DebateSystem, load_graph, suggest

if TYPE_CHECKING:
    from moot.graphs.proclaim.court import discovery_graph as discovery_graph
    from moot.graphs.proclaim.court import expert_graph as expert_graph
    from moot.graphs.proclaim.negotiation import negotiation_graph as negotiation_graph
    from moot.graphs.proclaim.panel import panel_graph as panel_graph
    from moot.nodes.models.ceilings import shared_ceilings as shared_ceilings

PARTS = {
    "discovery_graph": "moot.graphs.proclaim.court",
    "expert_graph": "moot.graphs.proclaim.court",
    "negotiation_graph": "moot.graphs.proclaim.negotiation",
    "panel_graph": "moot.graphs.proclaim.panel",
    "shared_ceilings": "moot.nodes.models.ceilings",
}
"""Parts of a system for use in other graphs, and limits shared by many debates, each with its module; imported on first
use, like the systems.
"""


def __getattr__(name: str) -> Any:
    if name not in PARTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(PARTS[name]), name)


__all__ = [
    "DESCRIPTIONS",
    "OTHER_GRAPHS",
    "DebateSystem",
    "collected_seldom",
    "discovery_graph",
    "expert_graph",
    "load_graph",
    "negotiation_graph",
    "panel_graph",
    "shared_ceilings",
    "suggest",
]
