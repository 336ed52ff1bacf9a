"""The full cost of a debate, and the ceilings that limit a control system to this cost."""

from __future__ import annotations

from typing import Any

import pytest
from moot.core.errors import UserError
from moot.nodes._models.equal_cost import FullCost, ceiling_settings, full_cost, ratios
from moot.nodes._models.spend import spent_by

PRICES: Any = {"openai:m": {"input": 1.0, "output": 10.0}}


def call(prompt: int | None = 100, reply: int | None = 20, **more: Any) -> Any:
    return {"model": "openai:m", "prompt_tokens": prompt, "completion_tokens": reply, "outcome": "ok", **more}


DEBATE = FullCost(1200, 0.0034, 7, 2.5)


def test_each_ceiling_equals_the_cost_of_the_debate() -> None:
    assert ceiling_settings(DEBATE, "tokens") == {"budget": 1200}
    assert ceiling_settings(DEBATE, "usd") == {"max_cost": 0.0034}
    assert ceiling_settings(DEBATE, "calls") == {"samples": 7, "max_calls": 7}


def test_ratios_divide_the_cost_of_the_control_by_that_of_the_debate() -> None:
    """A ratio is None if the debate's value is unknown or zero."""
    found = ratios(FullCost(900, 0.0051, 6, 1.0), FullCost(1200, 0.0034, 8, 2.5))
    assert found == {"tokens": 0.75, "usd": pytest.approx(1.5), "calls": 0.75, "seconds": 0.4}
    assert ratios(DEBATE, FullCost(None, None, 0, 0.0)) == dict.fromkeys(FullCost._fields)


def test_stored_replies_are_counted_as_if_paid_for() -> None:
    """A call that shared the request of an equal call is not counted."""
    calls = [call(), call(from_store=True), call(0, 0, shared=True)]
    cost = full_cost(calls, 3.0, PRICES)
    assert cost == FullCost(240, cost.usd, 2, None)  # the duration is unknown, because a reply was stored
    assert cost.usd == pytest.approx(0.0006)


def test_the_cost_is_none_if_token_counts_or_prices_are_unknown() -> None:
    """Without a price, only the cost in USD is None."""
    assert full_cost([call(), call(None, None)], 3.0, PRICES) == FullCost(None, None, 2, 3.0)
    assert full_cost([call()], 3.0, {}) == FullCost(120, None, 1, 3.0)


@pytest.mark.parametrize(
    ("equal", "message"), [("tokens", "did not count"), ("usd", "MOOT_PRICES"), ("calls", "made no call")]
)
def test_a_ceiling_from_an_unknown_or_zero_cost_is_refused(equal: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        ceiling_settings(FullCost(None, None, 0, 1.0), equal)


def test_prompts_in_the_cache_have_their_price_in_the_debate_and_in_its_controls() -> None:
    """Of 100 prompt tokens at 1 USD a million, 80 are in the cache at 0.1; 20 of the reply cost 10: 20 + 8 + 200."""
    prices: Any = {"openai:m": {"input": 1.0, "cached": 0.1, "output": 10.0}}
    debate = full_cost([call(cached_tokens=80)], 1.0, prices)
    assert debate.usd == pytest.approx(228e-6)
    assert ceiling_settings(debate, "usd")["max_cost"] == debate.usd
    assert spent_by([call(cached_tokens=80)], prices).usd == debate.usd  # what the control's budget counts of its own
