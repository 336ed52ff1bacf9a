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
    """The amount to reserve for a prompt (bytes as of `weight_of`) and its reply; USD are 0 without a price."""
    tokens = math.ceil(prompt_bytes / bytes_per_token)
    return Spend(tokens + reply_tokens, sum(costs_of(tokens, reply_tokens, price)) if price else 0, 1)


def spent_by(calls: Sequence[Call], prices: Mapping[str, Price]) -> Spend:
    """The tokens and USD (0 if unknown, or without prices) of calls, and their number, without shared ones."""
    # Tokens that were reserved for replies that were lost or came too late are included.
    sent = calls_with_reserved_tokens(calls)
    return Spend(tokens_of(sent), (cost_of(sent, prices) or 0) if prices else 0, len(sent))


def in_words(name: str, amount: float) -> str:
    """An amount with its unit (``name``: tokens, usd, calls or seconds) as text, such as ``1,024 tokens``."""
    if name == "usd":
        return f"${amount:.6f}"
    number = f"{amount:,.0f}"
    return f"{number} {name.removesuffix('s') if number == '1' else name}"


def resume_hint(name: str, lost: float, ceiling: str, least: float) -> str:
    """How to continue a debate whose ``lost`` calls left too little of a ceiling, of which ``least`` suffices."""
    enough = f"{math.ceil(least * 1e6) / 1e6:f}" if name == "usd" else math.ceil(least)
    return (
        f"Calls whose replies were lost when the debate was stopped may have taken {in_words(name, lost)}. "
        f"To continue this debate, run it again with {ceiling} of {enough} or more."
    )


@dataclass(frozen=True)
class PlannedCall:
    """A call before it is made."""

    role: str
    prompt: str  # empty for a conversation
    model: str
    bytes: int  # of the prompt (`weight_of`), with the schema of the reply
    reply: int = REPLY_TOKENS  # tokens

    def spend(self, prices: Mapping[str, Price], share: float = 1.0, reserved: int = 0) -> Spend:
        """The amount to reserve for the call; USD are 0 if the model has no price in ``prices``."""
        price = price_of(self.model, prices) if prices else None
        ratio, size = bytes_per_token(self.model), self.bytes
        # Until the endpoint has counted a prompt, the bytes that no reservation covers need a margin.
        if ratio == BYTES_PER_TOKEN and size > reserved:
            size = reserved + math.ceil((size - reserved) / share)
        return reservation(size, self.reply, ratio, price)
