"""Shell completion: names of graphs, presets, tasks, settings and providers."""

from __future__ import annotations

from collections.abc import Callable


def completion_for(kind: str) -> Callable[[str], list[str]]:
    """A completion function for typer.

    Args:
        kind: graphs, all graphs (debate systems and others), presets, tasks, models, settings (of Tool-MAD), or
            settings and the name of a graph (``settings find_claims``).
    """

    def complete(incomplete: str) -> list[str]:
        return [name for name in names(kind) if name.startswith(incomplete)]

    return complete


def names(kind: str) -> list[str]:
    """All names of a kind (see `completion_for`); for models, an example of each available provider."""
    if kind == "models":
        from moot.nodes._vendors.catalogue import providers_here

        return [name for one in providers_here() if not one["why_not"] for name in (one["example"],)]
    if kind.endswith("graphs"):
        from moot.graphs._registry import graph_names

        return graph_names(others=kind == "all graphs")
    from moot.cli.tables import listing_rows

    rows = listing_rows("settings tool_mad" if kind == "settings" else kind)
    return [row[0] + "=" * kind.startswith("settings") for row in rows]
