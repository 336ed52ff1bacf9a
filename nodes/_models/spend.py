"""Amounts of tokens, USD and calls that ceilings bound."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from moot.nodes._models.contexts import BYTES_PER_TOKEN
from moot.nodes._models.ledger import tokens_of
from moot.nodes._models.prices import Price, calls_at_most, cost_of, costs_of
from moot.nodes._records.entries import Call


class Spend(NamedTuple):
    """Tokens of prompts and replies, USD, and calls; infinite if unbounded."""

    tokens: float = 0
    usd: float = 0
    calls: float = 0

    def plus(self, other: Spend, times: int = 1) -> Spend:
        """This amount plus another amount, ``times`` times."""
        return Spend(*(one + times * more for one, more in zip(self, other, strict=True)))

    def minus(self, other: Spend) -> Spend:
        """This amount minus another amount."""
        return self.plus(other, -1)

    def fits(self, room: Spend) -> bool:
        """Whether this amount is within another amount."""
        return all(one <= most + 1e-9 for one, most in zip(self, room, strict=True))


NOTHING, FREE = Spend(), Spend(math.inf, math.inf, math.inf)


def reservation(
    prompt_bytes: int, reply_tokens: int, bytes_per_token: float = BYTES_PER_TOKEN, price: Price | None = None
) -> Spend:
    """The reservation for one call: its prompt as estimated, and its longest reply.

    Args:
        prompt_bytes: UTF-8 bytes of the prompt (`weight_of`), with the schema of the reply.
        reply_tokens: maximum number of tokens in the reply.
        bytes_per_token: the model's bytes per token.
        price: the model's price, if cost is bounded.
    """
    tokens = math.ceil(prompt_bytes / bytes_per_token)
    return Spend(tokens + reply_tokens, sum(costs_of(tokens, reply_tokens, price)) if price else 0, 1)


def spent_by(calls: Sequence[Call], prices: Mapping[str, Price]) -> Spend:
    """The cost of calls except shared calls; USD are 0 if there are no prices.

    A call whose reply was not awaited costs what was reserved for it.
    """
    sent = calls_at_most(calls)
    return Spend(tokens_of(sent), (cost_of(sent, prices) or 0) if prices else 0, len(sent))


def in_words(name: str, amount: float) -> str:
    """An amount with its unit, in words.

    Args:
        name: tokens, usd, calls or seconds.
        amount: the number.
    """
    return f"${amount:.6f}" if name == "usd" else f"{amount:,.0f} {name}"
