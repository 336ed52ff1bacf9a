"""Budgets: the ceilings of a debate as its settings name them, and whether another round of it may begin.

The ceilings themselves are kept by `moot.nodes.models.ceilings`. A debate that has reached one holds no further round:
whoever decides it otherwise when its rounds are used up does so now, on what there is, and it stops by
``budget_exhausted``. The state's ``budget`` (what `open_budget` gives) holds the bounds, the prices and what was kept
back for the decision, as they were when the debate was opened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moot.core.errors import BUDGET_EXHAUSTED, UserError
from moot.nodes.models.ceilings import SETTINGS, Asked, Ceilings, recorded, said, spent_by
from moot.nodes.models.prices import Price, is_counted, price_of, read_prices
from moot.nodes.models.session import current_ceilings
from moot.nodes.records.entries import Call, StopReason, Task
from moot.nodes.texts.replies import Reply


@dataclass(frozen=True)
class Decision:
    """What somebody who decides a debate is asked at least.

    Args:
        prompt: the prompt's name.
        reply: the reply, by the task.
        values: what fills further placeholders, from a state in which nothing was said, and the settings.
        around: bytes of headings, scores and notes that may remain of a prompt whose history is left out.
    """

    prompt: str
    reply: Callable[[Task], type[Reply]]
    values: Callable[[Any, Any], Mapping[str, str]] | None = None
    around: int = 400


async def open_budget(
    settings: Any, models: Iterable[str], kept: Sequence[Asked], ceilings: Ceilings
) -> dict[str, Any] | None:
    """Opens a debate's ceilings; what they are, in plain JSON; None where nothing bounds it.

    Its keys are ``tokens``, ``usd``, ``calls`` and ``seconds``, null where there is no such bound, ``prices``, by
    model, and ``kept``, what is kept back for those who decide.

    Args:
        settings: the debate's.
        models: all that will be called.
        kept: what the least decision takes.
        ceilings: the debate's.

    Raises:
        UserError: they cannot pay even for the least decision; a bound in USD, and a model without a price, or a file
            of prices that cannot be read.
        BudgetExhausted: ceilings that several debates share cannot pay for it.
    """
    bounds = {name: getattr(settings, setting, None) for name, setting in SETTINGS.items()}
    if not (ceilings.bounded or any(most is not None for most in bounds.values())):
        return None
    costs = bounds["usd"] is not None or ceilings.costs_money
    prices = await asyncio.to_thread(_prices_of, models) if costs else {}
    budget = {**bounds, "prices": prices, "kept": [recorded(asked) for asked in kept]}
    need = [asked.spend(prices) for asked in kept]
    for name in ("tokens", "usd", "calls"):
        if (most := bounds[name]) is not None and (least := sum(getattr(one, name) for one in need)) > most:
            who = " and ".join(asked.role for asked in kept)
            raise UserError(
                f"`{SETTINGS[name]}` allows {said(name, most)}, and the least decision ({who} with the claim alone) "
                f"may take {said(name, least)}. Raise `{SETTINGS[name]}`.",
                kind="invalid_setting",
            )
    await ceilings.begin(budget)
    return budget


def is_bounded(settings: Any) -> bool:
    """Whether the settings name a ceiling."""
    return any(getattr(settings, setting, None) is not None for setting in SETTINGS.values())


def _prices_of(models: Iterable[str]) -> dict[str, Price]:
    table = read_prices()
    found = {model: price_of(model, table) for model in models}
    if unknown := sorted(model for model, price in found.items() if price is None):
        raise UserError(
            f"No price is known of {', '.join(unknown)}, so `max_cost` cannot be kept. Put prices into a file that "
            "MOOT_PRICES names, one line each: "
            '{"model": "provider:name", "input": 0.5, "output": 1.5} (USD for a million tokens). Or unset `max_cost`; '
            "`budget` bounds tokens.",
            kind="invalid_setting",
        )
    return {model: price for model, price in found.items() if price is not None}


def uncounted(calls: Sequence[Call], ceilings: Ceilings) -> UserError | None:
    """Why a bound in tokens or USD cannot be kept after these calls; None where it can, or none is set."""
    if not ceilings.metered or all(map(is_counted, calls)):
        return None
    return UserError(
        "The endpoint does not say how many tokens a call took, so a budget cannot be kept. Unset `budget` and "
        "`max_cost`; `max_calls` and `max_seconds` need no tokens.",
        kind="invalid_setting",
    )


def is_spent(state: Mapping[str, Any]) -> bool:
    """Whether nothing is left of the running debate's ceilings but what is kept back for the decision."""
    return current_ceilings().is_spent()


def calls_left() -> int:
    """How many calls like the last one there is room for in the running debate's ceilings."""
    return current_ceilings().affords()


def no_round_left(state: Mapping[str, Any], settings: Any) -> bool:
    """Whether no further round begins: the rounds are used up, or the budget is. Reads: rounds.

    Args:
        state: the debate.
        settings: with ``max_rounds``.
    """
    return state["rounds"] >= settings.max_rounds or is_spent(state)


def rounds_or_budget(state: Mapping[str, Any], settings: Any) -> StopReason:
    """Which of the two ended a debate that nothing else ended. Reads: rounds, as far as they are there.

    Args:
        state: the debate.
        settings: with ``max_rounds``; without them the rounds are used up.
    """
    cut_short = state.get("rounds", 0) < getattr(settings, "max_rounds", 0) and is_spent(state)
    return "budget_exhausted" if cut_short else "max_rounds"


def was_cut(turn: Mapping[str, Any]) -> bool:
    """Whether a turn's speaker was not asked, as a ceiling left too little."""
    return bool(turn.get("outcome") == BUDGET_EXHAUSTED)


def spent_against(budget: Mapping[str, Any] | None, calls: Sequence[Call], seconds: float) -> dict[str, Any]:
    """By the setting, each ceiling of a debate and what was spent against it; empty where there is none.

    Args:
        budget: the state's.
        calls: of the debate.
        seconds: that it took.
    """
    if not budget:
        return {}
    spent = {**spent_by(calls, budget.get("prices") or {})._asdict(), "seconds": seconds}
    bounds = {name: budget.get(name) for name in SETTINGS}
    return {
        SETTINGS[name]: {"ceiling": most, "spent": spent[name]} for name, most in bounds.items() if most is not None
    }


def exhausted(left_out: Mapping[str, int]) -> str:
    """Whose calls were left out, in words.

    Args:
        left_out: how often, by role.
    """
    who = (f"{role} ({count})" if count > 1 else role for role, count in sorted(left_out.items()))
    return f"The budget did not allow for every call. Not asked: {', '.join(who)}."
