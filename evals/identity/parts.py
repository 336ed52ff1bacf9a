"""What a run depends on beside its settings: items, corpora, sources, prompts, endpoints, the system's own version.

A debate with the same settings is another one if any of them differs, so that its samples are never counted with
those of an earlier run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from moot.core.endpoint import PROVIDERS, find_endpoint
from moot.evals.identity.behaviour import behaviours
from moot.graphs import load_graph
from moot.nodes.runtime.node import choose_model
from moot.nodes.runtime.opening import Needs
from moot.nodes.runtime.settings import Settings, checked_settings
from moot.nodes.texts.calibrated import digest, prompt_digests
from moot.nodes.vendors.catalogue import VENDORS, vendor_endpoint
from moot.retrievers.search import contents

__all__ = ["Parts", "differences", "digest", "endpoints", "parts_of", "version_of"]

Parts = Mapping[str, Any]
"""What a run depends on, as plain JSON; values of objects are digests and names."""
CALLED = {
    "behaviour": "the system's version",
    "corpora": "the content of the corpus {}",
    "endpoints": "the endpoint of {}",
    "items": "the benchmark's items",
    "judge": "the model that judges answers",
    "of": "the debate that it is held beside",
    "prompts": "the prompt {}",
    "sources": "what is read as {}",
}
"""How parts are called."""


def parts_of(graph: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """What a system with these settings depends on. Blocking.

    Args:
        graph: the system.
        chosen: what of its settings differs from the defaults.

    Raises:
        UserError: an unknown setting, a corpus or an endpoint that cannot be.
    """
    system = load_graph(graph)
    settings = checked_settings(system.settings, chosen)
    needs: Needs = system.graph.builder.needs(settings)
    corpora, sources = contents(needs.sources, settings.corpus, settings.keyless_web)
    return {
        "behaviour": version_of(graph, settings),
        "corpora": corpora,
        "sources": sources,
        "prompts": prompt_digests(settings),
        "endpoints": endpoints_of(needs, settings),
    }


def version_of(graph: str, settings: Settings) -> str:
    """The version of a system, with that of the debate that it may hold."""
    held = getattr(settings, "debate", None) if settings.beneath() else None
    return behaviours()[graph] + (f"+{behaviours()[held]}" if held else "")


def endpoints_of(needs: Needs, settings: Settings) -> dict[str, str]:
    """The address of each provider whose models are called, without a user's name; not of those within this process."""
    roles = {**needs.roles, "equivalence": None}
    names = {choose_model(settings, role, own).model for role, own in roles.items()}
    names |= {settings.embedder} if needs.encoder or needs.sources else set()
    return endpoints(*names)


def endpoints(*models: str) -> dict[str, str]:
    """The address of each of these models' providers."""
    providers = sorted({name.partition(":")[0] for name in models if ":" in name})
    own = {provider: find_endpoint(provider).shown for provider in providers if provider in PROVIDERS}
    return own | {provider: vendor_endpoint(provider).shown for provider in providers if provider in VENDORS}


def differences(before: Parts, now: Parts) -> list[str]:
    """What differs between the parts of two runs, in words."""
    return list(_differences(before, now))


def _differences(before: Parts, now: Parts) -> Iterator[str]:
    for part, called in CALLED.items():
        old, new = before.get(part), now.get(part)
        if isinstance(new, dict) and isinstance(old, dict):
            changed = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
            yield from (called.format(name) for name in changed)
        elif old != new:
            yield called.format("some")
