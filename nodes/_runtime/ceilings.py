"""Budgets: the ceilings of a debate from its settings, and whether another round may start.

`moot.nodes._models.budget` enforces the ceilings. A debate that has reached a ceiling starts no further round. The
roles that decide then decide the debate at once, from the turns so far. The stop reason is ``budget_exhausted``. The
state's ``budget`` (from `open_budget`) contains the bounds, the prices and the planned calls of the roles that decide.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from moot.core.errors import BUDGET_EXHAUSTED, BudgetExhausted, UserError
from moot.nodes._models.budget import SETTINGS, Budget
from moot.nodes._models.prices import Price, is_counted, price_of, read_prices
from moot.nodes._models.session import current_budget
from moot.nodes._models.spend import NOTHING, PlannedCall, Spend, in_words, spent_by
from moot.nodes._records.entries import Call, StopReason, Task
from moot.nodes._texts.replies import Reply

T = TypeVar("T")


@dataclass(frozen=True)
class Decision:
    """The smallest call of a role that decides a debate."""

    prompt: str  # its name
    reply: Callable[[Task], type[Reply]]
    # From a state without answers and evidence, and the settings: what the claim and the task do not fill.
    values: Callable[[Any, Any], Mapping[str, str]] | None = None
    # Bytes for headings, scores and notes, which a prompt may contain even without answers and evidence.
    around: int = 400


async def open_budget(
    settings: Any, models: Iterable[str], deciding: Sequence[PlannedCall], budget: Budget, lost: Spend = NOTHING
) -> dict[str, Any] | None:
    """Opens a debate's ceilings, and returns its budget as plain JSON; None if nothing is bounded."""
    bounds = {name: getattr(settings, setting, None) for name, setting in SETTINGS.items()}
    if not (budget.is_bounded or any(most is not None for most in bounds.values())):
        return None
    costs = bounds["usd"] is not None or budget.tightest.usd < math.inf
    prices = await asyncio.to_thread(_prices_of, models) if costs else {}
    # Bounds are null if unbounded, prices are empty if cost is not bounded. The cost of the ``kept`` calls is reserved.
    opened = {**bounds, "prices": prices, "kept": [asdict(call) for call in deciding]}
    need = [call.most(prices) for call in deciding]
    for name in ("tokens", "usd", "calls"):
        if (most := bounds[name]) is not None and (least := sum(getattr(one, name) for one in need)) > most:
            who = " and ".join(call.role for call in deciding)
            raise UserError(
                f"`{SETTINGS[name]}` allows {in_words(name, most)}, but the smallest decision ({who} with the claim "
                f"alone) may take {in_words(name, least)}. Raise `{SETTINGS[name]}`.",
                kind="invalid_setting",
            )
    await budget.begin(opened, lost)
    return opened


def is_bounded(settings: Any) -> bool:
    """Whether a ceiling is set in the settings."""
    return any(getattr(settings, setting, None) is not None for setting in SETTINGS.values())


def _prices_of(models: Iterable[str]) -> dict[str, Price]:
    table = read_prices()
    found = {model: price_of(model, table) for model in models}
    if unknown := sorted(model for model, price in found.items() if price is None):
        raise UserError(
            f"No price is known for {', '.join(unknown)}, so `max_cost` cannot be enforced. Put prices into a file "
            'with one line for each model, {"model": "provider:name", "input": 0.5, "output": 1.5} (USD for a million '
            "tokens), and set MOOT_PRICES to its path. Or unset `max_cost`, and bound tokens with `budget`.",
            kind="invalid_setting",
        )
    return {model: price for model, price in found.items() if price is not None}


def uncounted_error(calls: Sequence[Call], budget: Budget) -> UserError | None:
    """The error if tokens or USD are bounded, but those of a call that did not fail are unknown; else None."""
    if not budget.counts_tokens or all(is_counted(call) or call["outcome"] == "failed" for call in calls):
        return None
    return UserError(
        "The endpoint does not say how many tokens a call took, so a budget cannot be enforced. Unset `budget` and "
        "`max_cost`; `max_calls` and `max_seconds` need no tokens.",
        kind="invalid_setting",
    )


async def in_time(awaitable: Awaitable[T], name: str) -> T:
    """Awaits a search or a local model; BudgetExhausted once `max_seconds` leaves only the time for the decision."""
    budget = current_budget()
    if (until := budget.deadline()) == math.inf:
        return await awaitable
    try:
        async with asyncio.timeout(max(0.0, until - time.monotonic())) as limit:
            return await awaitable
    except TimeoutError as error:
        if not limit.expired():
            raise
        budget.cut[name] += 1
        raise BudgetExhausted(f"The {name} took longer than `max_seconds` allows.") from error


def is_spent(state: Mapping[str, Any]) -> bool:
    """Whether only the roles that decide can still be called in the running debate; false before its first call."""
    return current_budget().is_spent()


def calls_left() -> int:
    """How many further calls, as large as the last one, leave the running debate enough budget to decide.

    The number is 0 if nothing or only time is bounded.
    """
    return current_budget().affordable_calls()


def no_round_left(state: Mapping[str, Any], settings: Any) -> bool:
    """Whether no further round may start, because the rounds or the budget are used up. Reads: rounds.

    Args:
        state: the debate's state.
        settings: settings with ``max_rounds``.
    """
    return state["rounds"] >= settings.max_rounds or is_spent(state)


def rounds_or_budget(state: Mapping[str, Any], settings: Any) -> StopReason:
    """The stop reason if no other applies. Reads: rounds, if present.

    It is ``budget_exhausted`` if the budget was used up before the last round, else ``max_rounds``.

    Args:
        state: the debate's state.
        settings: the settings. If they have no ``max_rounds``, the stop reason is ``max_rounds``.
    """
    cut_short = state.get("rounds", 0) < getattr(settings, "max_rounds", 0) and is_spent(state)
    return "budget_exhausted" if cut_short else "max_rounds"


def stopped_by_ceiling(turn: Mapping[str, Any]) -> bool:
    """Whether a ceiling prevented the call of a turn's speaker, or ended the wait for the speaker's reply."""
    return bool(turn.get("outcome") == BUDGET_EXHAUSTED)


def ceilings_and_spending(
    budget: Mapping[str, Any] | None, calls: Sequence[Call], seconds: float, lost: Spend = NOTHING
) -> dict[str, Any]:
    """The ceilings of a budget (the state's), by setting, each with the amount spent; empty if no ceiling is set."""
    if not budget:
        return {}
    paid = spent_by(calls, budget.get("prices") or {}).plus(lost)
    spent = {**paid._asdict(), "seconds": seconds}
    bounds = {name: budget.get(name) for name in SETTINGS}
    return {
        SETTINGS[name]: {"ceiling": most, "spent": spent[name]} for name, most in bounds.items() if most is not None
    }


def refused_calls_warning(skipped: Counter[str], cut: Counter[str]) -> str:
    """The text of the warning about calls (their number by role) that ceilings prevented or ended early."""
    parts = {"Not called": skipped, "Sent, but not answered before a ceiling was reached": cut}
    said = "".join(f" {what}: {_roles_in_words(roles)}." for what, roles in parts.items() if roles)
    return f"The budget did not allow for every call.{said}"


def _roles_in_words(count_by_role: Mapping[str, int]) -> str:
    return ", ".join(f"{role} ({count})" if count > 1 else role for role, count in sorted(count_by_role.items()))
