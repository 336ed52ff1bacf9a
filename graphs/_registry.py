"""The debate systems by name: moot's own, a line each in ``systems.jsonl``, and those of installed packages."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from inspect import getdoc
from typing import Any

from moot.core.errors import UserError, nearest
from moot.core.installed import Installed

_LINES = (files("moot.graphs") / "systems.jsonl").read_text(encoding="utf-8").splitlines()
SYSTEMS: dict[str, dict[str, str]] = {line["graph"]: line for line in map(json.loads, _LINES)}
"""Every debate system of moot's, with what is told of it: its title for readers, its description, and a table's row."""
DESCRIPTIONS = {name: line["description"] for name, line in SYSTEMS.items()}
"""Every debate system of moot's, with the line that says what it is. ``langgraph.json`` says the same."""
OTHER_GRAPHS = {
    "find_claims": "Finds the claims in a text that are worth checking, and rewrites each so that it stands alone, "
    "with its position in the text. It holds no debate; its claims can be debated.",
}
"""Served graphs that are not debate systems."""
INSTALLED = Installed("graph", DESCRIPTIONS | OTHER_GRAPHS, "unknown_graph")
"""Debate systems that installed packages declare as entry points of the group ``moot.graphs``."""

UNNAMED = "LangGraph"
"""What LangGraph calls a graph that is compiled without a name."""


@dataclass(frozen=True)
class DebateSystem:
    """A graph with its settings' class."""

    name: str
    description: str
    graph: Any
    settings: Any


def suggest(name: str, known: Iterable[str]) -> str:
    """A suggestion for an unknown name: the nearest name, and all names.

    Args:
        name: the name that was given.
        known: the valid names.
    """
    names = list(known)
    return f"{nearest(name, names)}Known: {', '.join(names)}."


def graph_names(*, others: bool = False) -> list[str]:
    """The names of moot's debate systems, then of those of installed packages; imports none.

    Args:
        others: whether `OTHER_GRAPHS` are among them, before those of packages.
    """
    return [*DESCRIPTIONS, *(OTHER_GRAPHS if others else ()), *INSTALLED.names()]


def load_graph(name: str, *, others: bool = False) -> DebateSystem:
    """A debate system by name, moot's own or one of an installed package.

    Args:
        name: a key of `DESCRIPTIONS`, or an entry point's of the group ``moot.graphs``.
        others: whether it may be one of `OTHER_GRAPHS`, too.

    Raises:
        UserError: there is no graph of that name, or the package that declares it has a fault.
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
    if called := _unfit(name, graph):
        raise INSTALLED.wrong(name, called)
    about = (getdoc(import_module(INSTALLED.point(name).module)) or graph.name).partition("\n\n")[0]
    return DebateSystem(name, " ".join(about.split()), graph, graph.context_schema)


def _unfit(name: str, graph: Any) -> str:
    """Why an object is no debate system of that name; an empty text if it is one."""
    builder: Any = getattr(graph, "builder", None)
    if not hasattr(builder, "needs"):
        return "that is no graph which moot.nodes.Debate has compiled"
    if builder.opened != name:
        return f"its debate calls itself {builder.opened!r}. Give both one name"
    return ""


def installed_systems() -> tuple[list[DebateSystem], list[UserError]]:
    """The debate systems of installed packages, and the errors of those that cannot be used. Imports them: blocking."""
    systems, errors = [], []
    for name in (*INSTALLED.taken(), *INSTALLED.names()):
        try:
            systems.append(load_graph(name, others=True))
        except UserError as error:
            errors.append(error)
    return systems, errors


def descriptions(*, others: bool = False) -> dict[str, str]:
    """Every debate system that can be used with its description, those of installed packages last.

    Args:
        others: whether `OTHER_GRAPHS` are among them.
    """
    systems, _ = installed_systems()
    return DESCRIPTIONS | (OTHER_GRAPHS if others else {}) | {one.name: one.description for one in systems}


def graph_place(name: str) -> str:
    """Where a graph stands, as ``module:attribute``."""
    return INSTALLED.point(name).value if name in INSTALLED.names() else f"moot.graphs.{name}:graph"


def graph_title(name: str) -> str:
    """What readers call a debate system; of one that is not installed here its name in words."""
    if name in SYSTEMS:
        return SYSTEMS[name]["title"]
    called = load_graph(name).graph.name if name in INSTALLED.names() else UNNAMED
    return str(called) if called != UNNAMED else name.replace("_", " ")
