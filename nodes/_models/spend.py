"""Amounts of tokens, USD and calls. Ceilings bound these amounts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from moot.nodes._models.contexts import BYTES_PER_TOKEN, bytes_per_token
from moot.nodes._models.ledger import tokens_of
from moot.nodes._models.prices import Price, calls_with_reserved_tokens, cost_of, costs_of, price_of
from moot.nodes._records.entries import Call


class Spend(NamedTuple):
    """Tokens of prompts and replies, USD, and calls; infinite if unbounded."""

    tokens: float = 0
    usd: float = 0
    calls: float = 0

    def plus(self, other: Spend, times: int = 1) -> Spend:
        """This amount plus ``times`` times another amount."""
        return Spend(*(own + times * added for own, added in zip(self, other, strict=True)))

    def minus(self, other: Spend) -> Spend:
        """This amount minus another amount."""
        return self.plus(other, -1)

    def fits(self, room: Spend) -> bool:
        """Whether the tokens, USD and calls are at most those of ``room``, apart from rounding errors."""
        return all(own <= most + 1e-9 for own, most in zip(self, room, strict=True))


REPLY_TOKENS = 512
"""Maximum number of tokens in a reply under a ceiling in tokens or USD, if `max_tokens` is not set."""

NOTHING, UNBOUNDED = Spend(), Spend(math.inf, math.inf, math.inf)


def reservation(
    prompt_bytes: int, reply_tokens: int, bytes_per_token: float = BYTES_PER_TOKEN, price: Price | None = None
) -> Spend:
    """The amount to reserve for a call: estimated tokens of its prompt, tokens of its longest reply, and their cost.

    Args:
        prompt_bytes: weighted bytes of the prompt (`weight_of`), with the schema of the reply.
        reply_tokens: maximum number of tokens in the reply.
        bytes_per_token: the model's bytes per token.
        price: the model's price; None if cost is not bounded, and then USD are 0.
    """
    tokens = math.ceil(prompt_bytes / bytes_per_token)
    return Spend(tokens + reply_tokens, sum(costs_of(tokens, reply_tokens, price)) if price else 0, 1)


def spent_by(calls: Sequence[Call], prices: Mapping[str, Price]) -> Spend:
    """The tokens and USD of calls, and how many calls there are. Shared calls are left out.

    USD are 0 if there are no prices, or if the cost of any call is unknown. Tokens that were reserved for replies
    that were lost or came too late are included.
    """
    sent = calls_with_reserved_tokens(calls)
    return Spend(tokens_of(sent), (cost_of(sent, prices) or 0) if prices else 0, len(sent))


def in_words(name: str, amount: float) -> str:
    """An amount with its unit as text, such as ``1,024 tokens``.

    Args:
        name: tokens, usd, calls or seconds.
        amount: the number.
    """
    if name == "usd":
        return f"${amount:.6f}"
    number = f"{amount:,.0f}"
    return f"{number} {name.removesuffix('s') if number == '1' else name}"


def resume_hint(name: str, lost: float, ceiling: str, least: float) -> str:
    """The text that tells how to continue a stopped debate if its lost calls left too little of a ceiling.

    Args:
        name: tokens, usd or calls.
        lost: the amount that calls without a stored reply may have taken.
        ceiling: the ceiling in words.
        least: the lowest ceiling that suffices to continue. The text rounds it up.
    """
    enough = f"{math.ceil(least * 1e6) / 1e6:f}" if name == "usd" else math.ceil(least)
    return (
        f"Calls whose replies were lost when the debate was stopped may have taken {in_words(name, lost)}. "
        f"To continue this debate, run it again with {ceiling} of {enough} or more."
    )


@dataclass(frozen=True)
class PlannedCall:
    """A call before it is made.

    Args:
        role: the role that makes the call.
        prompt: the prompt's name; empty for a conversation.
        model: the model's name in the settings.
        bytes: the bytes of the prompt (`weight_of`), with the schema of the reply.
        reply: maximum number of tokens in the reply.
    """

    role: str
    prompt: str
    model: str
    bytes: int
    reply: int = REPLY_TOKENS

    def spend(self, prices: Mapping[str, Price], share: float = 1.0, reserved: int = 0) -> Spend:
        """The amount to reserve for the call. USD are 0 if the model has no price in ``prices``.

        Args:
            prices: prices by model; empty if cost is not bounded.
            share: until the endpoint has counted a prompt, the bytes above ``reserved`` are divided by this share, as a
                margin.
            reserved: the bytes of the prompt that a reservation already covers; they need no margin.
        """
        price = price_of(self.model, prices) if prices else None
        ratio, size = bytes_per_token(self.model), self.bytes
        if ratio == BYTES_PER_TOKEN and size > reserved:
            size = reserved + math.ceil((size - reserved) / share)
        return reservation(size, self.reply, ratio, price)
