"""Amounts of tokens, USD and calls: what calls have taken, and the most that a planned call can take."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

from moot.nodes._models.contexts import BYTES_PER_TOKEN, bytes_per_token
from moot.nodes._models.prices import Price, calls_with_reserved_tokens, cost_of, costs_of, price_of
from moot.nodes._models.reply_limits import REPLY_TOKENS, limit_of
from moot.nodes._models.step_record import tokens_of
from moot.nodes._records.entries import Call


class Spend(NamedTuple):
    """Tokens of prompts and replies, USD, and calls; infinite if unbounded."""

    tokens: float = 0
    usd: float = 0
    calls: float = 0

    def plus(self, other: Spend) -> Spend:
        return Spend(*(own + added for own, added in zip(self, other, strict=True)))

    def minus(self, other: Spend) -> Spend:
        return Spend(*(own - less for own, less in zip(self, other, strict=True)))

    def fits(self, room: Spend) -> bool:
        """Whether the tokens, USD and calls are at most those of ``room``, apart from rounding errors."""
        return all(own <= most + 1e-9 for own, most in zip(self, room, strict=True))


def sum_of(amounts: Iterable[Spend]) -> Spend:
    """The sum of amounts."""
    return reduce(Spend.plus, amounts, NOTHING)


UNCOUNTED_SHARE = 0.8
"""Until the endpoint has counted a prompt, `BYTES_PER_TOKEN` is multiplied by this factor, as a margin."""
NOTHING, ONE_CALL, UNBOUNDED = Spend(), Spend(calls=1), Spend(math.inf, math.inf, math.inf)


def most_of(
    prompt_bytes: int, reply_tokens: int, bytes_per_token: float = BYTES_PER_TOKEN, price: Price | None = None
) -> Spend:
    """The most that a call takes, by its prompt (bytes as of `weight_of`) and its longest reply; 0 USD if unpriced."""
    tokens = math.ceil(prompt_bytes / bytes_per_token)
    return Spend(tokens + reply_tokens, sum(costs_of(tokens, reply_tokens, price)) if price else 0, 1)


@dataclass(frozen=True)
class PlannedCall:
    """A call before it is made."""

    role: str
    prompt: str  # empty for a conversation
    model: str
    bytes: int  # of the prompt (`weight_of`), with the schema of the reply
    reply: int | None = None  # tokens; None: those of `limit_of`, which follows the model
    visible: int = REPLY_TOKENS  # tokens of the reply without thoughts, for `limit_of`

    @property
    def reply_tokens(self) -> int:
        """The most tokens of the reply."""
        return self.reply or limit_of(self.model, self.visible)

    def most(self, prices: Mapping[str, Price], sure: float = math.inf) -> Spend:
        """The most that the call takes; until a prompt was counted, the bytes beyond the ``sure`` ones get a margin."""
        per, size = bytes_per_token(self.model), self.bytes
        if per == BYTES_PER_TOKEN and size > sure:
            size = int(sure) + math.ceil((size - sure) / UNCOUNTED_SHARE)
        return most_of(size, self.reply_tokens, per, price_of(self.model, prices) if prices else None)


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
