"""What a user has used of the quotas in the last 24 hours, and what the user's running debates have reserved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from moot.core.errors import UserError
from moot.core.words import count_with_noun
from moot.web.service.keys import database
from moot.web.service.users import User

DAY = "now() - interval '1 day'"
ABANDONED_SECONDS = 60
"""Seconds after the last heartbeat of a process after which its reservations no longer count."""


@dataclass(frozen=True)
class Usage:
    """A user's usage in the last 24 hours.

    Args:
        debates: the number of started debates.
        tokens: the number of tokens.
        usd: the sum of the known costs in USD.
        unpriced: the number of debates and searches for claims whose cost is not known.
        reserved_tokens: the number of tokens that running debates may use.
        reserved_usd: the USD that running debates may spend.
    """

    debates: int
    tokens: int
    usd: float
    unpriced: int
    reserved_tokens: int = 0
    reserved_usd: float = 0.0


def usage(person: str) -> Usage:
    """A user's usage in the last 24 hours. Blocking.

    Raises:
        UserError, WorldError: the database cannot be used.
    """
    return database().do(lambda cursor: usage_of(cursor, person), 10)


def usage_of(cursor: Any, person: str) -> Usage:
    """As `usage`, in a transaction."""
    cursor.execute(f"SELECT count(*) FROM moot.asked WHERE person = %s AND at > {DAY}", (person,))
    debates = int(cursor.fetchone()[0])
    cursor.execute(
        "SELECT coalesce(sum(tokens), 0), coalesce(sum(usd), 0), count(*) FILTER (WHERE usd IS NULL) "
        f"FROM moot.spent WHERE person = %s AND at > {DAY}",
        (person,),
    )
    tokens, usd, unpriced = cursor.fetchone()
    cursor.execute(
        "SELECT coalesce(sum(r.tokens), 0), coalesce(sum(r.usd), 0) FROM moot.reserved AS r "
        "JOIN moot.servers AS s ON s.id = r.process "
        f"WHERE r.person = %s AND s.seen > now() - interval '{ABANDONED_SECONDS} s'",
        (person,),
    )
    reserved_tokens, reserved_usd = cursor.fetchone()
    return Usage(debates, int(tokens), float(usd), int(unpriced), int(reserved_tokens), float(reserved_usd))


def lock_usage(cursor: Any, person: str) -> None:
    """Lets one transaction at a time, of all processes, read and change a user's usage."""
    cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 1))", (person,))


def check_spent(used: Usage, user: User) -> None:
    """Checks that a user may spend more.

    Raises:
        UserError: the quota of tokens or USD is used up or reserved, or the user has a quota in USD and a cost is not
            known.
    """
    if user.usd_a_day is not None and used.unpriced:
        raise UserError(
            f"You may spend ${user.usd_a_day:,.2f} in 24 hours, and the cost of {used.unpriced} of your debates is not "
            "known: the endpoint did not report their tokens, or their model had no price. Wait for 24 hours, or ask "
            "the administrator of this server to limit your debates in place of USD (debates_a_day).",
            kind="quota",
        )
    if user.usd_a_day is not None and used.usd + used.reserved_usd >= user.usd_a_day:
        running = f" (your running debates may spend ${used.reserved_usd:,.2f} more)" * bool(used.reserved_usd)
        raise quota_error(f"spent ${used.usd:,.2f} in 24 hours{running}, and may spend ${user.usd_a_day:,.2f}")
    if user.tokens_a_day is not None and used.tokens + used.reserved_tokens >= user.tokens_a_day:
        running = f" (your running debates may use {used.reserved_tokens:,} more)" * bool(used.reserved_tokens)
        may = f"may use {user.tokens_a_day:,}"
        raise quota_error(f"used {count_with_noun(used.tokens, 'token')} in 24 hours{running}, and {may}")


def quota_error(used: str) -> UserError:
    """The error for a user who has used up a quota.

    Args:
        used: what the user has used and may use, as the end of a sentence that begins with "You".
    """
    return UserError(f"You {used}. Ask the administrator of this server for more.", kind="quota")
