"""Reservations: the part of a user's quotas that a running debate may spend.

A debate reserves its part before its first call, and cannot spend more. So debates that run at once stay within the
quotas. The part is given back when the run ends, because its real cost is recorded then. The part of a killed process
is free again after `ABANDONED_SECONDS`; before that, another worker has resumed the debate, and has reserved again.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from moot.core.errors import MootError, UserError
from moot.nodes._models.budget import Budget
from moot.nodes._models.spend import Spend
from moot.web.caller import USERS
from moot.web.service.keys import database
from moot.web.service.usage import check_spent, lock_usage, usage_of
from moot.web.service.users import User, read_users

log = logging.getLogger(__name__)

SHARE, LEAST_TOKENS, LEAST_USD = 10, 100_000, 1.0
"""A debate without a ceiling of its own reserves this part of a quota (a tenth), but at least these amounts."""

process: str = ""
"""The id under which this process sends heartbeats (`moot.core.postgres.heartbeat.Heartbeat`)."""
_releasing: set[asyncio.Task[None]] = set()
"""Tasks that give back a reservation, kept here so that they are not garbage-collected."""


@asynccontextmanager
async def reserved_ceilings(key: str, person: str | None, settings: Mapping[str, Any]) -> AsyncIterator[Budget | None]:
    """Context manager: inside it, a part of a user's quotas of tokens and USD is reserved.

    Args:
        key: the name of the reservation. A reservation with the same name is replaced.
        person: the user; None on a server without users.
        settings: the settings of the debate, whose ``budget`` and ``max_cost`` are reserved, if they are set.

    Yields:
        A budget of the reserved amounts; None if the user has no such quotas.

    Raises:
        UserError: the quotas are used up or reserved, or there is no such user.
        WorldError: the database cannot be used.
    """
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

    Raises:
        UserError, WorldError: as `reserved_ceilings`.
    """

    def transaction(cursor: Any) -> Spend:
        lock_usage(cursor, person)
        cursor.execute("DELETE FROM moot.reserved WHERE key = %s", (key,))
        used = usage_of(cursor, person)
        check_spent(used, user)
        tokens = part_of(user.tokens_a_day, used.tokens + used.reserved_tokens, settings.get("budget"), LEAST_TOKENS)
        usd = part_of(user.usd_a_day, used.usd + used.reserved_usd, settings.get("max_cost"), LEAST_USD)
        stored = (0 if amount == math.inf else amount for amount in (tokens, usd))
        cursor.execute(
            "INSERT INTO moot.reserved (key, person, process, tokens, usd) VALUES (%s, %s, %s, %s, %s)",
            (key, person, process, *stored),
        )
        return Spend(tokens, usd, math.inf)

    return database().do(transaction, 10)


def part_of(quota: float | None, used: float, wanted: Any, least: float) -> float:
    """The part of a quota that a debate reserves, at most what is left; without a bound if there is no quota.

    Args:
        quota: the user's quota for 24 hours.
        used: the amount that is used or reserved.
        wanted: the debate's own ceiling; without a positive number, the part is a tenth, but at least ``least``.
        least: see ``wanted``.
    """
    if quota is None:
        return math.inf
    is_named = isinstance(wanted, int | float) and wanted > 0
    return min(quota - used, wanted if is_named else max(quota / SHARE, least))


async def _release(key: str) -> None:
    try:
        await asyncio.to_thread(
            database().do, lambda cursor: cursor.execute("DELETE FROM moot.reserved WHERE key = %s", (key,))
        )
    except MootError as error:  # the debate must not fail; the reservation ends with this process
        log.error("%s", error.detail)
