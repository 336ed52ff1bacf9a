"""The cost of a debate, and settings that give a control system this cost as its budget, in tokens, USD or calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from moot.core.errors import UserError
from moot.nodes._models.prices import Price, cost_of, is_counted
from moot.nodes._models.step_record import tokens_of
from moot.nodes._records.entries import Call
from moot.nodes._runtime.settings import Settings
from moot.nodes._runtime.state import Equal

BUDGET_NAMES: Mapping[Equal, str] = {"tokens": "tokens", "usd": "USD", "calls": "calls"}
"""The quantities in which a control can cost as much as its debate, with their names in texts."""
SHARED_SETTINGS = frozenset(Settings.model_fields) - {"models", "temperature"} | {"max_evidence_tokens"}
"""The names of settings that controls take from their debate."""


class FullCost(NamedTuple):
    """The cost of a debate, as if stored replies were paid for; None for a value that is unknown."""

    tokens: int | None  # None also if zero
    usd: float | None
    calls: int
    seconds: float | None


def full_cost(calls: Iterable[Call], seconds: float | None, prices: Mapping[str, Price]) -> FullCost:
    """The cost of calls, as if stored replies were paid for; equal calls that shared a request count once."""
    calls = list(calls)
    # A stored reply shortens the debate.
    seconds = None if any(call.get("from_store") for call in calls) else seconds
    sent = [call for call in calls if not call.get("shared")]
    tokens = tokens_of(sent) if all(map(is_counted, sent)) else None
    return FullCost(tokens or None, cost_of(sent, prices), len(sent), seconds)


def ceiling_settings(debate: FullCost, equal: Equal) -> dict[str, Any]:
    """The settings of self-consistency that limit its cost to a debate's: ``{"max_cost": 0.0034}`` for ``usd``."""
    amount = getattr(debate, equal)
    if not amount:
        why = {
            "tokens": "the endpoint did not count the tokens, or the debate made no call",
            "usd": "the debate cost nothing, or its cost is unknown, because a model has no price (MOOT_PRICES names a "
            "file of prices) or the endpoint did not count the tokens",
            "calls": "the debate made no call",
        }[equal]
        raise UserError(f"No control can be matched to the debate: {why}.", kind="invalid_setting")
    if equal == "calls":
        return {"samples": amount, "max_calls": amount}
    return {"budget" if equal == "tokens" else "max_cost": amount}


def ratios(control: FullCost, debate: FullCost) -> dict[str, float | None]:
    """Each quantity of a control's cost, divided by the debate's; None if one is unknown or the debate's is zero."""
    both = zip(FullCost._fields, control, debate, strict=True)
    return {name: cost / base if cost is not None and base else None for name, cost, base in both}


def shared_settings(kind: type[Settings], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a control takes from a debate, if they are fields of ``kind``, the control's settings."""
    return {key: value for key, value in settings.items() if key in SHARED_SETTINGS and key in kind.model_fields}
