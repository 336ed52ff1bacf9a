"""Looks whether a claim was checked before: in the user's own debates, and in published fact checks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypedDict

import sqlalchemy as sa
from moot.core.endpoint import Limits
from moot.core.errors import MootError
from moot.core.store import existing_store
from moot.core.tables import documents
from moot.retrievers._fact_checks import FactChecksRetriever
from moot.transcript.report.sources import web_address
from moot.web.debates import lists_of, mine, read
from moot.web.repeats import same_claim, share, words_of
from moot.web.reviews import in_lists

ALIKE = 0.4
"""The smallest share of common words at which two claims are similar (`similarity`).

Of 20 pairs of one claim in other words, 18 have at least this share, of 12 pairs of different claims on one subject 2.
Claims that differ only in a number, a name or a negation also have it: so the earlier claim is always shown in full.
"""
MOST = 3
"""Maximum number of earlier checks, and of published ones, that are shown for a claim."""
MOST_PUBLISHED = 200
"""Maximum number of claims of one list for which published fact checks are asked for."""
AT_ONCE = 4
"""Maximum number of requests for published fact checks at a time."""
QUICK = Limits(attempts=2, timeout=10, max_wait=5)


class Earlier(TypedDict):
    """A check of a similar claim: by whom, its verdict, its day, its title and where it is."""

    claim: str
    by: str  # the publisher; empty for the user's own debates
    verdict: str
    kind: str  # of the machine's answer, as in `ANSWERS`; ``text`` for others' and editors' ratings
    date: str
    title: str
    id: str  # of the user's own debate; else empty
    url: str  # of a published fact check; else empty
    same: bool  # whether it is the user's own debate on the same claim (`same_claim`)
    list: str  # the id of the page's list of claims that this debate was part of; else empty


class CheckedBefore(TypedDict):
    """What is known of a claim: the checks, and why published ones could not be asked for; empty if they could."""

    checks: list[Earlier]
    problem: str


def own_checks(claims: Sequence[str], threads: Collection[str] | None = None) -> list[list[Earlier]]:
    """For each claim, the user's own finished debates on similar claims, the most similar first; blocking.

    Debates of the demonstration model or a fake one are no checks. Only debates on ``threads`` count, if given.
    """
    if existing_store() is None:
        return [[] for _ in claims]
    query = sa.select(*documents.c["id", "entry", "thread", "debate"]).where(mine(), documents.c.status == "done")
    rows = read(lambda connection: connection.execute(query.order_by(documents.c.id.desc())).all())
    mine_ = [(row, json.loads(row.entry)) for row in rows if threads is None or row.thread in threads]
    entries = [(row, entry) for row, entry in mine_ if not entry.get("demonstration")]
    lists = lists_of([row.debate for row, _ in entries])
    words = [words_of(entry["claim"] or "") for _, entry in entries]
    plain = [same_claim(entry["claim"] or "") for _, entry in entries]
    found: list[list[tuple[bool, sa.Row[Any], dict[str, Any]]]] = []
    for claim in claims:
        own, same = words_of(claim), same_claim(claim)
        scored = [(plain[n] == same, share(own, other), -n) for n, other in enumerate(words)]
        best = sorted((one for one in scored if one[0] or one[1] >= ALIKE), reverse=True)[:MOST]
        found.append([(is_same, *entries[-n]) for is_same, _, n in best])
    reviewed = in_lists([row.id for alike in found for _, row, _ in alike])
    return [[_own(row, entry, is_same, lists, reviewed[row.id]) for is_same, row, entry in alike] for alike in found]


def _own(
    row: sa.Row[Any], entry: dict[str, Any], same: bool, lists: Mapping[str, str], review: Mapping[str, Any]
) -> Earlier:
    """One of the user's own checks, with the editor's rating and title once it is approved."""
    chip = entry["chip"]
    answer = chip["word"] if chip["kind"] == "text" else entry.get("answer")
    machine = "withdrawn" if review["stage"] == "withdrawn" else answer or "no verdict"
    day = review["at"] if "rating" in review else str(entry.get("started_at") or "")
    return {
        "claim": entry["claim"],
        "by": "",
        "verdict": review.get("rating") or machine,
        "kind": "text" if "rating" in review or review["stage"] == "withdrawn" else chip["kind"],
        "date": day[:10],
        "title": review.get("title", ""),
        "id": row.id,
        "url": "",
        "same": same,
        "list": lists.get(row.debate, ""),
    }


async def checked_before(claims: Sequence[str], threads: Collection[str] | None = None) -> list[CheckedBefore]:
    """For each claim, earlier checks by the user and, with a key for Google's Fact Check Tools, published ones.

    Published ones are asked for only for the first `MOST_PUBLISHED` claims. A service that fails is named in
    ``problem``: whoever checks a claim can do so without it. ``threads`` is as in `own_checks`.
    """
    own = await asyncio.to_thread(own_checks, claims, threads)
    turn = asyncio.Semaphore(AT_ONCE)

    async def published(claim: str) -> tuple[list[Earlier], str]:
        async with turn:
            return await _published(claim)

    others = await asyncio.gather(*(published(claim) for claim in claims[:MOST_PUBLISHED]))
    if len(claims) > MOST_PUBLISHED and FactChecksRetriever.source.key():
        others[-1] = (others[-1][0], others[-1][1] or f"only the first {MOST_PUBLISHED} claims are looked up.")
    others += [([], "")] * (len(claims) - len(others))
    return [
        {"checks": [*mine_, *theirs], "problem": problem} for mine_, (theirs, problem) in zip(own, others, strict=True)
    ]


async def _published(claim: str) -> tuple[list[Earlier], str]:
    if not FactChecksRetriever.source.key():
        return [], ""
    try:
        found = await FactChecksRetriever(QUICK).find_checks(claim, MOST)
    except MootError as error:
        return [], error.detail
    return [
        {
            "claim": one.claim,
            "by": one.publisher,
            "verdict": one.rating,
            "kind": "text",
            "date": one.date or "",
            "title": one.title,
            "id": "",
            "url": web_address(one.url),
            "same": False,
            "list": "",
        }
        for one in found[:MOST]
    ], ""


def in_words(earlier: Earlier) -> str:
    """An earlier check in one line."""
    who = f"{earlier['by']}, " if earlier["by"] else "your check of "
    where = earlier["url"] or (f"moot show {earlier['id'][-32:][:8]}" if earlier["id"] else "without an address")
    title = f"{earlier['title']}, " if earlier["title"] else ""
    return f"{who}{earlier['date'] or 'no date'}: {earlier['verdict']} - “{earlier['claim']}” ({title}{where})"
