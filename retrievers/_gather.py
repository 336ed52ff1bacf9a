"""Searches several sources at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from moot.core.errors import MootError, UserError
from moot.retrievers._evidence import Evidence, Retriever
from moot.retrievers._normalise import Rules, normalise
from moot.retrievers._search import ONLINE
from moot.retrievers._tampering import current_tampering

MOST_REQUESTED = 500
"""Maximum number of pieces requested from a source that is not in `ONLINE`."""


@dataclass(frozen=True)
class SearchResults:
    """The merged results of several sources, and the errors of failed sources by the sources' names."""

    evidence: list[Evidence]
    failures: dict[str, MootError] = field(default_factory=dict)


async def search_all(queries: Sequence[tuple[Retriever, str]], rules: Rules) -> SearchResults:
    """Searches several sources, each with its query, and merges the results; a failed source is in the failures."""
    retrieved = datetime.now(UTC)
    answers = await ask_all(queries, rules)
    found = [answer for answer in answers if not isinstance(answer, MootError)]
    failures = {s.name: a for (s, _), a in zip(queries, answers, strict=True) if isinstance(a, MootError)}
    return SearchResults(await asyncio.to_thread(normalise, found, rules, retrieved), failures)


async def ask_all(queries: Sequence[tuple[Retriever, str]], rules: Rules) -> list[list[Evidence] | MootError]:
    """For each source, its results (not yet normalised) or its error; UserErrors, except a used-up quota, are
    raised.
    """
    return await asyncio.gather(*(_ask(source, query, rules) for source, query in queries))


async def _ask(source: Retriever, query: str, rules: Rules) -> list[Evidence] | MootError:
    """The results of a source, changed if an attack is simulated (`current_tampering`), or its error."""
    try:
        return current_tampering().change(await source.search(query, pieces_to_request(source.name, rules)))
    except MootError as error:
        if isinstance(error, UserError) and error.kind != "quota":
            raise
        return error


def pieces_to_request(source: str, rules: Rules) -> int:
    """The number of pieces to request from a source, so that enough of them remain after filtering."""
    # Services may charge for more than ten.
    if source in ONLINE:
        return max(rules.k, min(2 * rules.k, 10))
    return min(MOST_REQUESTED, rules.k * (10 if rules.published_before else 2))
