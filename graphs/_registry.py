"""The debate systems by name: moot's own, described in ``systems.jsonl``, and those of installed packages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from inspect import getdoc
from typing import Any

from moot.core.errors import UserError, did_you_mean
from moot.core.installed import Plugins

_LINES = (files("moot.graphs") / "systems.jsonl").read_text(encoding="utf-8").splitlines()
SYSTEMS: dict[str, dict[str, Any]] = {line["graph"]: line for line in map(json.loads, _LINES)}
"""The entries of ``systems.jsonl`` by the names of their systems: the title, the description, cells for the
documentation's tables of systems, and the ``calls`` of a debate without repeated calls: the ``least`` and the ``most``,
each as a sum of how often there is a call ``once``, for each ``agent``, ``round``, ``agent_round`` and ``pair_round``
(each agent with each other one). ``with`` has what differs with a setting, by its name and its value (`entry_of`)."""
DEFAULT_GRAPH = "tool_mad"
"""The system of `moot verify` and `moot batch` if none is named."""
DESCRIPTIONS = {name: line["description"] for name, line in SYSTEMS.items()}
"""The descriptions of moot's own debate systems by name; ``langgraph.json`` has the same descriptions."""
OTHER_GRAPHS = {
    "find_claims": "Finds the claims in a text that are worth checking, rewrites each so that it can be understood "
    "alone, and gives its position in the text. It does not debate the claims.",
}
"""Descriptions of the served graphs that are not debate systems, by name."""
INSTALLED = Plugins("graph", DESCRIPTIONS | OTHER_GRAPHS, "unknown_graph")
"""Debate systems that installed packages declare as entry points of the group ``moot.graphs``."""

UNNAMED = "LangGraph"
"""The name that LangGraph gives to a graph that is compiled without a name."""


@dataclass(frozen=True)
class DebateSystem:
    """A debate system: its name, its description, its graph, and the class of its settings."""

    name: str
    description: str
    graph: Any
    settings: Any


def suggest(name: str, known: Iterable[str]) -> str:
    """Advice for an unknown name: the most similar name, if there is one, and all ``known`` names."""
    names = list(known)
    return f"{did_you_mean(name, names)}Known: {', '.join(names)}."


def graph_names(*, others: bool = False) -> list[str]:
    """The names of moot's debate systems, of `OTHER_GRAPHS` if ``others``, and of packages' systems; imports none."""
    return [*DESCRIPTIONS, *(OTHER_GRAPHS if others else ()), *INSTALLED.names()]


def load_graph(name: str, *, others: bool = False) -> DebateSystem:
    """A debate system by name: moot's own, or one of an installed package.

    Args:
        name: a key of `DESCRIPTIONS`, or the name of an entry point in the group ``moot.graphs``.
        others: whether the name may also be a key of `OTHER_GRAPHS`.

    Raises:
        UserError: there is no graph with this name. Or a package declares the name, but the name (see `Plugins.check`)
            or the graph cannot be used.
    """
    INSTALLED.check(name)
    known = DESCRIPTIONS | OTHER_GRAPHS if others else DESCRIPTIONS
    if name in known:
        graph = import_module(f"moot.graphs.{name}").graph
        return DebateSystem(name, known[name], graph, graph.context_schema)
    if name not in INSTALLED.names():
        raise UserError(
            f"There is no graph {name!r}. {suggest(name, graph_names(others=others))}", kind="unknown_graph"
        )
    graph = INSTALLED.load(name)
    if problem := _why_unusable(name, graph):
        raise INSTALLED.error(name, problem)
    about = (getdoc(import_module(INSTALLED.entry_point(name).module)) or graph.name).partition("\n\n")[0]
    return DebateSystem(name, " ".join(about.split()), graph, graph.context_schema)


def _why_unusable(name: str, graph: Any) -> str:
    """Why an object cannot be used as the debate system with this name; an empty text if it can."""
    builder: Any = getattr(graph, "builder", None)
    if not hasattr(builder, "needs"):
        return "it is not a graph that moot.nodes.Debate compiled"
    if builder.opened != name:
        return f"its debate is named {builder.opened!r}. Give the entry point and the debate the same name"
    return ""


def installed_systems() -> tuple[list[DebateSystem], list[UserError]]:
    """The usable debate systems of installed packages, and an error for each unusable one; importing them blocks."""
    systems, errors = [], []
    for name in (*INSTALLED.conflicts(), *INSTALLED.names()):
        try:
            systems.append(load_graph(name, others=True))
        except UserError as error:
            errors.append(error)
    return systems, errors


def descriptions(*, others: bool = False) -> dict[str, str]:
    """The descriptions of all usable debate systems, and of `OTHER_GRAPHS` if ``others``; importing them blocks."""
    systems, _ = installed_systems()
    return DESCRIPTIONS | (OTHER_GRAPHS if others else {}) | {system.name: system.description for system in systems}


def graph_path(name: str) -> str:
    """The import path of a graph, as ``module:attribute``; whether there is such a graph is not checked."""
    return INSTALLED.entry_point(name).value if name in INSTALLED.names() else f"moot.graphs.{name}:graph"


def entry_of(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The entry of `SYSTEMS` for a debate with these settings; empty for a package's system."""
    entry = SYSTEMS.get(name, {})
    for setting, by_value in entry.get("with", {}).items():
        value = settings.get(setting)
        entry = {**entry, **by_value.get(value if isinstance(value, str) else json.dumps(value), {})}
    return entry


def graph_title(name: str) -> str:
    """The title of a debate system, else its name with spaces; UserError if a package's system cannot be used."""
    if name in SYSTEMS:
        return str(SYSTEMS[name]["title"])
    title = load_graph(name).graph.name if name in INSTALLED.names() else UNNAMED
    return str(title) if title != UNNAMED else name.replace("_", " ")
