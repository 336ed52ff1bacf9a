"""The cost of a debate, and settings that give a control system this cost as its budget, in tokens, USD or calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from moot.core.errors import UserError
from moot.nodes._models.ledger import tokens_of
from moot.nodes._models.prices import Price, cost_of, is_counted
from moot.nodes._records.entries import Call
from moot.nodes._runtime.settings import Settings
from moot.nodes._runtime.state import Equal

BUDGET_NAMES: Mapping[Equal, str] = {"tokens": "tokens", "usd": "USD", "calls": "calls"}
"""The quantities in which a control can cost as much as its debate, with their names in texts."""
SHARED_SETTINGS = frozenset(Settings.model_fields) - {"models", "temperature"} | {"max_evidence_tokens"}
"""The names of settings that controls take from their debate."""


class FullCost(NamedTuple):
    """The cost of a debate, as if replies from the ledger were paid for.

    A value is None if it is unknown. ``tokens`` are also None if they are zero.
    """

    tokens: int | None
    usd: float | None
    calls: int
    seconds: float | None


def full_cost(calls: Iterable[Call], seconds: float | None, prices: Mapping[str, Price]) -> FullCost:
    """The cost of calls, as if replies from the ledger were paid for. Equal calls that shared a request count once.

    Args:
        calls: the debate's calls.
        seconds: the debate's duration; None if it is unknown. If a reply is from the ledger, ``seconds`` of the result
            is None, because such a reply shortens the debate.
        prices: from `read_prices`.
    """
    calls = list(calls)
    seconds = None if any(call.get("from_ledger") for call in calls) else seconds
    sent = [call for call in calls if not call.get("shared")]
    tokens = tokens_of(sent) if all(map(is_counted, sent)) else None
    return FullCost(tokens or None, cost_of(sent, prices), len(sent), seconds)


def ceiling_settings(debate: FullCost, equal: Equal) -> dict[str, Any]:
    """The settings of self-consistency that limit its cost to the cost of a debate.

        ceiling_settings(FullCost(1200, 0.0034, 7, 2.5), "usd") == {"max_cost": 0.0034}
        ceiling_settings(FullCost(1200, 0.0034, 7, 2.5), "calls") == {"samples": 7, "max_calls": 7}

    Args:
        debate: the debate's cost.
        equal: the quantity that is limited.

    Raises:
        UserError: the debate's value of this quantity is unknown or zero.
    """
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
    """Each quantity of a control's cost, divided by the same quantity of the debate's cost.

    A ratio is None if one of its two values is unknown, or if the debate's value is zero.

        ratios(FullCost(900, 0.0051, 6, 1.0), FullCost(1200, 0.0034, 8, 2.5)) ==
            {"tokens": 0.75, "usd": 1.5, "calls": 0.75, "seconds": 0.4}
    """
    both = zip(FullCost._fields, control, debate, strict=True)
    return {name: cost / base if cost is not None and base else None for name, cost, base in both}


def shared_settings(kind: type[Settings], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a control takes from a debate, if the control's graph has them.

    Args:
        kind: the class of the settings of the control's graph.
        settings: the debate's settings.
    """
    return {key: value for key, value in settings.items() if key in SHARED_SETTINGS and key in kind.model_fields}
