"""Searches several sources at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from moot.core.errors import MootError, UserError
from moot.retrievers._evidence import Evidence, Retriever, merge_evidence
from moot.retrievers._normalise import Rules, normalise
from moot.retrievers._search import ONLINE
from moot.retrievers._tampering import current_tampering

MOST_REQUESTED = 500
"""Maximum number of pieces requested from a source that is not in `ONLINE`."""


RANK_CONSTANT = 60
"""The constant of reciprocal rank fusion, as in its paper (Cormack, Clarke and Büttcher, SIGIR 2009)."""


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
        found = await source.search(query, pieces_to_request(source.name, rules))
    except MootError as error:
        if isinstance(error, UserError) and error.kind != "quota":
            raise
        return error
    attack = current_tampering()
    return attack.change(found) if not attack.sources or source.name in attack.sources else found


def pieces_to_request(source: str, rules: Rules) -> int:
    """The number of pieces to request from a source, so that enough of them remain after filtering."""
    if source in ONLINE:
        return most_online(rules.k, are_sifted=rules.are_sifted)
    return min(MOST_REQUESTED, rules.k * (10 if rules.published_before or rules.are_sifted else 2))


def most_online(k: int, *, are_sifted: bool = False) -> int:
    """The number of pieces to request from a service, and of pages to read, for ``k`` pieces."""
    # Services may charge for more than ten.
    return max(k, 10 if are_sifted else min(2 * k, 10))


def fuse_by_rank(lists: Sequence[Sequence[Evidence]], rules: Rules, retrieved: datetime) -> list[Evidence]:
    """The results of one source for several queries as one list, best first; the results for one query as they are.

    Of each list, only the best ``rules.k`` usable pieces count (`normalise`); longer lists find less. A piece's score
    is the sum of 1 / (60 + rank) over the lists that have it; of equal scores, the one in the earlier list is better.
    With k = 2 and the lists a b c and c a d, the scores are a 1/61 + 1/62, c 1/61 and b 1/62: a, c, b. Blocking.
    """
    if len(lists) == 1:
        return list(lists[0])
    scores: dict[str, float] = {}
    pieces: list[Evidence] = []
    for found in lists:
        usable = {piece["id"] for piece in normalise([found], rules, retrieved)}
        best = list({piece["id"]: piece for piece in found if piece["id"] in usable}.values())
        for rank, piece in enumerate(best, 1):
            scores[piece["id"]] = scores.get(piece["id"], 0) + 1 / (RANK_CONSTANT + rank)
        pieces = merge_evidence(pieces, best)
    return sorted(pieces, key=lambda piece: -scores[piece["id"]])
