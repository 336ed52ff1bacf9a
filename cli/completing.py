"""Shell completion: names of graphs, presets, tasks, settings and providers."""

from __future__ import annotations

from collections.abc import Callable


def completion_for(what: str) -> Callable[[str], list[str]]:
    """A completion function for typer.

    Args:
        what: graphs, all graphs (debate systems and others), presets, tasks, models, settings (those of
            Tool-MAD) or settings of a graph (``settings find_claims``).
    """

    def complete(incomplete: str) -> list[str]:
        return [name for name in names(what) if name.startswith(incomplete)]

    return complete


def names(what: str) -> list[str]:
    """All names of a kind; for models, an example of each available provider."""
    if what == "models":
        from moot.nodes._vendors.catalogue import providers_here

        return [name for one in providers_here() if not one["why_not"] for name in (one["example"],)]
    if what.endswith("graphs"):
        from moot.graphs._registry import graph_names

        return graph_names(others=what == "all graphs")
    from moot.cli.tables import listing_rows

    rows = listing_rows("settings tool_mad" if what == "settings" else what)
    return [row[0] + "=" * what.startswith("settings") for row in rows]
