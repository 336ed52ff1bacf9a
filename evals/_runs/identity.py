"""The parts that a run depends on besides its settings, such as items, corpora, prompts and the system's version.

Two runs that differ in any part never share a log, even if their settings are the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from moot import graphs, nodes
from moot.core.endpoint import PROVIDERS, find_endpoint
from moot.core.fingerprints import moot_version
from moot.graphs import load_graph
from moot.graphs._registry import INSTALLED
from moot.nodes._runtime.node import choose_model
from moot.nodes._runtime.opening import Needs
from moot.nodes._runtime.settings import Settings, checked_settings
from moot.nodes._texts.calibrated import digest, prompt_digests
from moot.nodes._vendors.catalogue import VENDORS, vendor_endpoint
from moot.retrievers._search import contents

__all__ = ["Parts", "differences", "digest", "endpoints", "parts_of", "version_of"]

Parts = Mapping[str, Any]
"""The parts that a run depends on: digests and names, as plain JSON."""
PART_NAMES = {
    "behaviour": "the system's version",
    "corpora": "the content of the corpus {}",
    "endpoints": "the endpoint of {}",
    "items": "the benchmark's items",
    "judge": "the model that judges answers",
    "of": "the debate that the control or attack belongs to",
    "prompts": "the prompt {}",
    "sources": "the kind of the source {}",
    "time_limit": "the time limit of a sample",
}
"""The name of each part in messages; ``{}`` is the place for the name of a corpus, provider, prompt or source."""


def parts_of(graph: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The parts that a system with these settings depends on. Blocking."""
    system = load_graph(graph)
    settings = checked_settings(system.settings, chosen, graph)
    needs: Needs = system.graph.builder.needs(settings)
    corpora, sources = contents(needs.sources, settings.corpus)
    return {
        "behaviour": version_of(graph, settings),
        "corpora": corpora,
        "sources": sources,
        "prompts": prompt_digests(settings),
        "endpoints": endpoints_of(needs, settings),
    }


def version_of(graph: str, settings: Settings) -> str:
    """The version of a system; if the settings choose an inner debate system, also a "+" and the inner version."""
    debate = getattr(settings, "debate", None) if settings.inner_settings() else None
    return single_version(graph) + (f"+{single_version(debate)}" if debate else "")


def single_version(graph: str) -> str:
    """The version of one system without its inner debate."""
    return INSTALLED.version(graph) if graph in INSTALLED.names() else f"{graph} {code_version()}"


@cache
def code_version() -> str:
    """Moot's version and a digest of its graphs and nodes, which may change in a checkout without a new version."""
    return f"{moot_version()} {code_digest([*graphs.__path__, *nodes.__path__])}"


def code_digest(folders: Iterable[str]) -> str:
    """A digest of the names and texts of all Python files in folders."""
    digest_of_code = hashlib.sha256()
    for folder in folders:
        for file in sorted(Path(folder).rglob("*.py")):
            digest_of_code.update(file.relative_to(folder).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return digest_of_code.hexdigest()[:16]


def endpoints_of(needs: Needs, settings: Settings) -> dict[str, str]:
    """The addresses of the providers of all models that a system may call, by provider."""
    roles = {**needs.roles, "equivalence": None}
    names = {choose_model(settings, role, own_model).model for role, own_model in roles.items()}
    names |= {settings.embedder} if needs.encoder or needs.sources else set()
    return endpoints(*names)


def endpoints(*models: str) -> dict[str, str]:
    """The addresses of models' providers, by provider, without user names and passwords."""
    providers = sorted({name.partition(":")[0] for name in models if ":" in name})
    known = {provider: find_endpoint(provider).display_url for provider in providers if provider in PROVIDERS}
    return known | {provider: vendor_endpoint(provider).display_url for provider in providers if provider in VENDORS}


def differences(before: Parts, now: Parts) -> list[str]:
    """The names of the parts in which two runs differ, for messages (`PART_NAMES`)."""
    return list(_differences(before, now))


def _differences(before: Parts, now: Parts) -> Iterator[str]:
    for part, called in PART_NAMES.items():
        old, new = before.get(part), now.get(part)
        if isinstance(new, dict) and isinstance(old, dict):
            changed = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
            yield from (called.format(name) for name in changed)
        elif old != new:
            yield called.format("(unknown)")
