"""Wikipedia in place of sources that lack a corpus or a key: the check that it can be searched, and the warnings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moot.core.errors import SOURCE_OUTAGE, BudgetExhausted, MootError, UserError, WorldError
from moot.nodes._runtime.ceilings import in_time
from moot.nodes._runtime.node import NodeContext
from moot.nodes._runtime.settings import Settings
from moot.nodes._texts.outage import reasons_to_replace
from moot.retrievers._normalise import WEB_SEARCHES
from moot.retrievers._search import NO_WEB_SEARCH, SET_UP_WEB_SEARCH, STAND_IN, resolve


async def check_stand_in(sources: Sequence[str], claim: str, run: NodeContext) -> None:
    """Refuses a debate if Wikipedia is its only source, as a replacement, and cannot be searched."""
    corpus = run.settings.corpus
    replaced = [name for name in sources if name != STAND_IN]
    if not replaced or any(resolve(name, corpus)[0] != STAND_IN for name in sources):
        return
    try:
        await in_time((await run.retriever(STAND_IN, claim=claim)).search(claim, 1), "search")
    except MootError as error:
        is_outage = not isinstance(error, UserError | BudgetExhausted)
        raise WorldError(
            f"{error.detail} Then run the debate again. To see moot without a network: moot demo. (Wikipedia would be "
            f"read. {reasons_to_replace(replaced, corpus)})",
            kind=SOURCE_OUTAGE if is_outage else error.kind,
            retryable=is_outage,
        ) from error


def fallback_warnings(requested: str, tried: str, used: str, settings: Settings) -> list[str]:
    """Warnings that the source ``used`` was read for ``tried``, which is the ``requested`` source or its fallback."""
    warnings = []
    if tried != requested:
        warnings.append(f"`{requested}` could not be searched; its fallback `{tried}` was read in its place ({used}).")
    if tried == "web" and used not in WEB_SEARCHES:
        warnings.append(f"`web` was asked for; {used} was read in its place, as {NO_WEB_SEARCH}. {SET_UP_WEB_SEARCH}")
    elif resolve(tried, settings.corpus)[0] == STAND_IN != tried:
        warnings.append(
            f"`{tried}` was asked for without a corpus; {used} was read in its place. Name a corpus (`corpus`), or "
            "another source."
        )
    return warnings


def same_source_warnings(settings: Settings) -> list[str]:
    """Warnings that several speakers read the same source, because it replaces the sources that the settings name."""
    corpus = "" if settings.corpus else " a corpus (`corpus`), or"
    groups: dict[frozenset[str], dict[str, list[str]]] = {}
    for speaker in _own_readers(settings):
        names = _names_in(speaker.retriever)
        read = frozenset(content or kind for kind, content in (resolve(name, settings.corpus) for name in names))
        groups.setdefault(read, {})[speaker.name] = names
    return [
        f"{' and '.join(by_speaker)} read the same source: {' and '.join(sorted(read))}. {why} Name{corpus} "
        "other sources (`retriever`)."
        for read, by_speaker in groups.items()
        if len({*map(tuple, by_speaker.values())}) > 1
        and (why := reasons_to_replace([name for names in by_speaker.values() for name in names], settings.corpus))
    ]


def _own_readers(settings: Settings) -> list[Any]:
    """The speakers that search sources of their own; empty if the settings say that nobody searches."""
    declared = [getattr(settings, name, ()) for name in ("debaters", "agents")]
    speakers = [one for several in declared if isinstance(several, tuple | list) for one in several]
    searching = getattr(settings, "retrieval", "") != "none"
    return [one for one in speakers if searching and getattr(one, "retriever", None)]


def _names_in(sources: Any) -> list[str]:
    return [sources] if isinstance(sources, str) else list(sources or ())
