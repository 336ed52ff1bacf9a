"""Says, before a check begins, whether its claim was checked before."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from moot.core.endpoint import close_clients
from moot.retrievers._evidence import clean
from moot.web.earlier import CheckedBefore, checked_before, in_words
from moot.web.repeats import same_claim

MOST_LINES = 20
"""Maximum number of earlier checks that are told of a list; `moot verify` tells all of its claim."""


def tell_earlier_checks(claims: Sequence[str]) -> int:
    """Says on standard error which of these claims, or similar ones, were checked before, here or by others.

    Returns the number of claims that the user checked before in the same words.
    """

    async def look() -> list[CheckedBefore]:
        try:
            return await checked_before(claims)
        finally:
            await close_clients()

    found = asyncio.run(look())
    once = {same_claim(claim): (claim, one) for claim, one in reversed([*zip(claims, found, strict=True)])}
    lines = [
        (f"{claim[:60]}: " if len(claims) > 1 else "") + in_words(earlier)
        for claim, one in reversed(once.values())
        for earlier in one["checks"]
    ]
    more = [f"and {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else []
    if lines:
        print("Checked before:", file=sys.stderr)  # noqa: T201
    for line in (*lines[:MOST_LINES], *more):
        print(f"  {' '.join(clean(line).split())}", file=sys.stderr, flush=True)  # noqa: T201
    if problem := next((one["problem"] for one in found if one["problem"]), ""):
        print(f"Published fact checks could not be looked up: {problem}", file=sys.stderr, flush=True)  # noqa: T201
    return sum(any(check["same"] for check in one["checks"]) for one in found)
