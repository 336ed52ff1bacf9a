"""Shell completion: names of graphs, tasks, settings and models."""

from __future__ import annotations

from collections.abc import Callable


def completion_for(kind: str) -> Callable[[str], list[str]]:
    """A function for typer that returns the names that begin with the typed text.

    Args:
        kind: the kind of the names, as for `names`.
    """

    def complete(incomplete: str) -> list[str]:
        return [name for name in names(kind) if name.startswith(incomplete)]

    return complete


def names(kind: str) -> list[str]:
    """All names of a kind.

    Args:
        kind: ``graphs`` (debate systems), ``all graphs`` (these and moot's other graphs), ``tasks``, ``models`` (an
            example model of each available provider), ``settings GRAPH`` (of one of moot's own graphs), or
            ``settings`` (of Tool-MAD). The names of settings end with ``=``.
    """
    if kind == "models":
        from moot.nodes._vendors.catalogue import providers_here

        return [name for one in providers_here() if not one["why_not"] for name in (one["example"],)]
    if kind.endswith("graphs"):
        from moot.graphs._registry import graph_names

        return graph_names(others=kind == "all graphs")
    from moot.cli.tables import rows_of

    rows = rows_of("settings tool_mad" if kind == "settings" else kind)
    return [row[0] + "=" * kind.startswith("settings") for row in rows]
