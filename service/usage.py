"""What the users of the service have used of their quotas in 24 hours, and what their running debates reserve.

A debate reserves its part of the quotas before its first call, and cannot spend more. So debates that run at once stay
within the quotas. The part is given back when the run ends, because its real cost is recorded then. The part of a
killed process is free again after `ABANDONED_SECONDS`; before that, another worker has resumed the debate, and has
reserved again.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from moot.core.errors import MootError, UserError
from moot.core.store import open_store
from moot.core.words import count_with_noun
from moot.nodes._models.budget import Budget
from moot.nodes._models.spend import Spend
from moot.service.users import User, read_users
from moot.web.caller import USERS
from sqlalchemy import Connection, text

log = logging.getLogger(__name__)

DAY = "now() - interval '1 day'"
ABANDONED_SECONDS = 60
"""Seconds after the last heartbeat of a process after which its reservations no longer count."""
SHARE, LEAST_TOKENS, LEAST_USD = 10, 100_000, 1.0
"""A debate without a ceiling of its own reserves this part of a quota (a tenth), but at least these amounts."""
USED = text(
    f"SELECT (SELECT count(*) FROM moot.asked WHERE person = :person AND at > {DAY}) AS debates, "
    "CAST(coalesce(sum(tokens), 0) AS bigint) AS tokens, coalesce(sum(usd), 0) AS usd, "
    "count(*) FILTER (WHERE usd IS NULL) AS unpriced "
    f"FROM moot.spent WHERE person = :person AND at > {DAY}"
)
RESERVED = text(
    "SELECT CAST(coalesce(sum(r.tokens), 0) AS bigint) AS reserved_tokens, coalesce(sum(r.usd), 0) AS reserved_usd "
    "FROM moot.reserved AS r JOIN moot.servers AS s ON s.id = r.process "
    f"WHERE r.person = :person AND s.seen > now() - interval '{ABANDONED_SECONDS} s'"
)
LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended(:person, 1))")
"""Lets one transaction at a time, of all processes, read and change a user's usage."""
COUNT = text("INSERT INTO moot.asked (person) VALUES (:person) RETURNING id")
UNCOUNT = text("DELETE FROM moot.asked WHERE id = :id")
RESERVE = text("INSERT INTO moot.reserved VALUES (:key, :person, :process, :tokens, :usd)")
RELEASE = text("DELETE FROM moot.reserved WHERE key = :key")

_releasing: set[asyncio.Task[None]] = set()
"""Tasks that give back a reservation, kept here so that they are not garbage-collected."""


@dataclass(frozen=True)
class Usage:
    """A user's usage in the last 24 hours."""

    debates: int  # those that were started
    tokens: int
    usd: float  # the sum of the known costs
    unpriced: int  # debates and searches for claims whose cost is not known
    reserved_tokens: int  # what running debates may use
    reserved_usd: float  # what running debates may spend

    def check(self, user: User) -> None:
        """Checks that the user may spend more."""
        if user.usd_a_day is not None and self.unpriced:
            raise UserError(
                f"You may spend ${user.usd_a_day:,.2f} in 24 hours, and the cost of {self.unpriced} of your debates is "
                "not known: the endpoint did not report their tokens, or their model had no price. Wait for 24 hours, "
                "or ask the administrator of this server to limit your debates in place of USD (debates_a_day).",
                kind="quota",
            )
        if user.usd_a_day is not None and self.usd + self.reserved_usd >= user.usd_a_day:
            running = f" (your running debates may spend ${self.reserved_usd:,.2f} more)" * bool(self.reserved_usd)
            raise quota_error(f"spent ${self.usd:,.2f} in 24 hours{running}, and may spend ${user.usd_a_day:,.2f}")
        if user.tokens_a_day is not None and self.tokens + self.reserved_tokens >= user.tokens_a_day:
            running = f" (your running debates may use {self.reserved_tokens:,} more)" * bool(self.reserved_tokens)
            may = f"may use {user.tokens_a_day:,}"
            raise quota_error(f"used {count_with_noun(self.tokens, 'token')} in 24 hours{running}, and {may}")


def quota_error(used: str) -> UserError:
    """The error for a user who has used up a quota."""
    return UserError(f"You {used}. Ask the administrator of this server for more.", kind="quota")


def usage(person: str) -> Usage:
    """A user's usage. Blocking."""
    return open_store().do(lambda connection: usage_of(connection, person), is_lookup=True)


def usage_of(connection: Connection, person: str) -> Usage:
    """As `usage`, in a transaction."""
    used, reserved = (connection.execute(query, {"person": person}).one() for query in (USED, RESERVED))
    return Usage(**used._mapping, **reserved._mapping)


def describe_usage(person: str) -> str:
    """A sentence with a user's usage. Blocking. Raises errors as `usage`."""
    used = usage(person)
    more = f", without {count_with_noun(used.unpriced, 'unknown cost')}" * bool(used.unpriced)
    counts = f"{count_with_noun(used.debates, 'debate')}, {count_with_noun(used.tokens, 'token')}"
    reserved = f"{count_with_noun(used.reserved_tokens, 'token')} and ${used.reserved_usd:,.2f}"
    running = f" Running debates may use {reserved} more." * bool(used.reserved_tokens or used.reserved_usd)
    return f"In the last 24 hours: {counts}, ${used.usd:,.2f}{more}.{running}"


def count_debate(person: str, user: User) -> int:
    """Adds a debate to the user's count, before the debate starts; returns the id for `uncount_debate`. Blocking."""

    def count(connection: Connection) -> int:
        connection.execute(LOCK, {"person": person})
        used = usage_of(connection, person)
        if user.debates_a_day is not None and used.debates >= user.debates_a_day:
            started = f"started {count_with_noun(used.debates, 'debate')} in 24 hours"
            raise quota_error(f"{started}, and may start {user.debates_a_day:,}")
        used.check(user)
        return int(connection.execute(COUNT, {"person": person}).scalar_one())

    return open_store().do(count, is_lookup=True)


def uncount_debate(id: int) -> None:
    """Undoes `count_debate` for a debate that was not started. Blocking."""
    open_store().do(lambda connection: connection.execute(UNCOUNT, {"id": id}), is_lookup=True)


@asynccontextmanager
async def reserved_ceilings(key: str, person: str | None, settings: Mapping[str, Any]) -> AsyncIterator[Budget | None]:
    """Context manager: inside it, a part of a user's quotas of tokens and USD is reserved."""
    user = await asyncio.to_thread(_user, person) if person else None
    if person is None or user is None or (user.tokens_a_day is None and user.usd_a_day is None):
        yield None
        return
    most = await asyncio.to_thread(reserve, key, person, user, settings)
    try:
        yield Budget(most, counts_earlier=False)
    finally:
        releasing = asyncio.create_task(_release(key))
        _releasing.add(releasing)
        releasing.add_done_callback(_releasing.discard)
        await asyncio.shield(releasing)  # so that a cancellation of the run does not cancel the task


def _user(person: str) -> User:
    users = read_users()
    if users is None or person not in users.by_name:
        raise UserError(f"{USERS} no longer names the user {person}.", kind="quota")
    return users.by_name[person]


def reserve(key: str, person: str, user: User, settings: Mapping[str, Any]) -> Spend:
    """Reserves tokens and USD of a user's quotas in one transaction; returns them, without a bound if unlimited.

    Blocking. The arguments are those of `reserved_ceilings`, and the user's quotas.

    """

    def take(connection: Connection) -> Spend:
        connection.execute(LOCK, {"person": person})
        connection.execute(RELEASE, {"key": key})
        used = usage_of(connection, person)
        used.check(user)
        tokens = part_of(user.tokens_a_day, used.tokens + used.reserved_tokens, settings.get("budget"), LEAST_TOKENS)
        usd = part_of(user.usd_a_day, used.usd + used.reserved_usd, settings.get("max_cost"), LEAST_USD)
        stored = {"tokens": 0 if tokens == math.inf else tokens, "usd": 0 if usd == math.inf else usd}
        connection.execute(RESERVE, {"key": key, "person": person, "process": store.owner, **stored})
        return Spend(tokens, usd, math.inf)

    store = open_store()
    return store.do(take, is_lookup=True)


def part_of(quota: float | None, used: float, wanted: Any, least: float) -> float:
    """The part of a quota that a debate reserves, at most what is left; without a bound if there is no quota."""
    if quota is None:
        return math.inf
    is_named = isinstance(wanted, int | float) and wanted > 0
    return min(quota - used, wanted if is_named else max(quota / SHARE, least))


async def _release(key: str) -> None:
    try:
        await asyncio.to_thread(open_store().do, lambda connection: connection.execute(RELEASE, {"key": key}))
    except MootError as error:  # the debate must not fail; the reservation ends with this process
        log.error("%s", error.detail)
