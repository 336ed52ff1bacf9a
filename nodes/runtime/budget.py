"""Budgets: what a debate may spend, in tokens or in USD, and whether another round of it may begin.

A debate that has spent its budget holds no further round: whoever decides it otherwise when its rounds are used up does
so now, on what there is, and it stops by ``budget_exhausted``. The state's ``budget`` (what `open_budget` gives) holds
the bounds and the prices as they were when the debate was opened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from moot.core.errors import UserError
from moot.nodes.models.ledger import tokens_of
from moot.nodes.models.prices import Price, cost_of, is_counted, price_of, read_prices
from moot.nodes.runtime.state import Call, StopReason
from pydantic import BaseModel, Field


class BudgetSettings(BaseModel):
    """Settings of systems that can end early: a base class before another, so that its fields come after."""

    budget: int | None = Field(
        None,
        ge=1,
        le=10_000_000,
        description="Tokens of prompts and replies. Once the calls so far have used as many, no further round begins "
        "(`react`: no further search), and the debate is decided on what there is: budget_exhausted. The last round, "
        "and what decides, may go beyond. Null: no bound.",
    )
    max_cost: float | None = Field(
        None,
        gt=0,
        le=10_000,
        description="As `budget`, in USD, by moot's table of list prices and the file that MOOT_PRICES names; a model "
        "without a price is refused. Encoders and searches are not counted.",
    )


async def open_budget(settings: Any, models: Iterable[str]) -> dict[str, Any] | None:
    """What a debate with these settings may spend, in plain JSON; None where nothing bounds it.

    Its keys are ``tokens`` and ``usd``, null where there is no such bound, and ``prices``, by model.

    Args:
        settings: the debate's.
        models: all that will be called.

    Raises:
        UserError: a bound in USD, and a model without a price, or a file of prices that cannot be read.
    """
    if not is_bounded(settings):
        return None
    usd = getattr(settings, "max_cost", None)
    prices = {} if usd is None else await asyncio.to_thread(_prices_of, models)
    return {"tokens": settings.budget, "usd": usd, "prices": prices}


def is_bounded(settings: Any) -> bool:
    """Whether a budget is set; not all systems have one."""
    return any(getattr(settings, name, None) is not None for name in BudgetSettings.model_fields)


def _prices_of(models: Iterable[str]) -> dict[str, Price]:
    table = read_prices()
    found = {model: price_of(model, table) for model in models}
    if unknown := sorted(model for model, price in found.items() if price is None):
        raise _unpriced(unknown)
    return {model: price for model, price in found.items() if price is not None}


def _unpriced(models: Iterable[str]) -> UserError:
    return UserError(
        f"No price is known of {', '.join(models)}, so `max_cost` cannot be kept. Put prices into a file that "
        "MOOT_PRICES names, one line each: "
        '{"model": "provider:name", "input": 0.5, "output": 1.5} (USD for a million tokens). Or unset `max_cost`; '
        "`budget` bounds tokens.",
        kind="invalid_setting",
    )


def uncounted(calls: Sequence[Call], settings: Any) -> UserError | None:
    """Why a budget cannot be kept after these calls; None where it can, or none is set."""
    if not is_bounded(settings) or all(map(is_counted, calls)):
        return None
    return _not_counted()


def _not_counted() -> UserError:
    return UserError(
        "The endpoint does not say how many tokens a call took, so a budget cannot be kept. Unset `budget` and "
        "`max_cost`.",
        kind="invalid_setting",
    )


def is_spent(state: Mapping[str, Any]) -> bool:
    """Whether the calls of a debate so far have reached its budget. Reads: budget, calls.

    Raises:
        UserError: what calls cost is not known: of a model that the debate was not opened with, or uncounted.
    """
    return any(left is not None and left <= 0 for left in _left(state))


def share(state: Mapping[str, Any], among: int) -> dict[str, Any] | None:
    """What is left of a budget, split evenly: that of each of several debates held at once. Reads: budget, calls."""
    tokens, usd = (None if left is None else max(left, 0) / among for left in _left(state))
    return {**state["budget"], "tokens": tokens, "usd": usd} if state.get("budget") else None


def _left(state: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Tokens and USD that are left, negative where more was spent; None where they are not bounded."""
    budget, calls = state.get("budget") or {}, state.get("calls") or []
    tokens, usd = budget.get("tokens"), budget.get("usd")
    if usd is not None:
        cost = cost_of(calls, budget["prices"])
        if cost is None:
            unknown = sorted({call["model"] for call in calls} - set(budget["prices"]))
            raise _unpriced(unknown) if unknown else _not_counted()
        usd -= cost
    return None if tokens is None else tokens - tokens_of(calls), usd


def no_round_left(state: Mapping[str, Any], settings: Any) -> bool:
    """Whether no further round begins: the rounds are used up, or the budget is. Reads: rounds, budget, calls.

    Args:
        state: the debate.
        settings: with ``max_rounds``.
    """
    return state["rounds"] >= settings.max_rounds or is_spent(state)


def rounds_or_budget(state: Mapping[str, Any], settings: Any) -> StopReason:
    """Which of the two ended a debate that nothing else ended. Reads: rounds, budget, calls, as far as they are there.

    Args:
        state: the debate.
        settings: with ``max_rounds``; without them the rounds are used up.
    """
    cut_short = state.get("rounds", 0) < getattr(settings, "max_rounds", 0) and is_spent(state)
    return "budget_exhausted" if cut_short else "max_rounds"
