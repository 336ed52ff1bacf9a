"""Hard ceilings: what a debate, a batch of debates or an evaluation may spend, reserved before each call.

Before a call its prompt (`weight_of` by `bytes_per_token`: 3 until the endpoint has counted some, and rather more
carefully for calls that are made until then) and its longest reply are reserved; afterwards what it really took is
written down. A call that does not fit waits for those in flight, which may take less than was reserved for them; one
that never fits is not made (`BudgetExhausted`). For whoever decides a debate the least that a decision takes is kept
back from the start. A debate within a debate has ceilings of its own within those of the other.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, NamedTuple

from moot.core.errors import BudgetExhausted
from moot.nodes.models.contexts import BYTES_PER_TOKEN, MARGIN, bytes_per_token
from moot.nodes.models.ledger import tokens_of
from moot.nodes.models.prices import Price, cost_of, costs_of, is_counted, price_of
from moot.nodes.records.entries import Call

REPLY = 512
"""Most tokens of a reply under a ceiling, if `max_tokens` is not set."""
UNSURE = 0.8
"""By this share tokens may have fewer bytes than `BYTES_PER_TOKEN`, as long as the endpoint has not counted any."""
SETTINGS = {"tokens": "budget", "usd": "max_cost", "calls": "max_calls", "seconds": "max_seconds"}
"""By what is bounded, the setting that bounds it."""


class Spend(NamedTuple):
    """Tokens of prompts and replies, USD, and calls; infinite if there is no bound."""

    tokens: float = 0
    usd: float = 0
    calls: float = 0

    def plus(self, other: Spend, times: int = 1) -> Spend:
        """The sum."""
        return Spend(*(one + times * more for one, more in zip(self, other, strict=True)))

    def minus(self, other: Spend) -> Spend:
        """The difference."""
        return self.plus(other, -1)

    def fits(self, room: Spend) -> bool:
        """Whether there is room for it."""
        return all(one <= most + 1e-9 for one, most in zip(self, room, strict=True))


ALONE = nullcontext()
NOTHING, FREE = Spend(), Spend(math.inf, math.inf, math.inf)


def reservation(
    prompt_bytes: int, reply_tokens: int, bytes_per_token: float = BYTES_PER_TOKEN, price: Price | None = None
) -> Spend:
    """What is reserved for one call: its prompt as estimated, and its longest reply.

    Args:
        prompt_bytes: UTF-8 bytes of what is sent (`weight_of`), with the schema of the reply.
        reply_tokens: the most tokens of the reply.
        bytes_per_token: of the model.
        price: of the model, if cost is bounded.
    """
    tokens = math.ceil(prompt_bytes / bytes_per_token)
    return Spend(tokens + reply_tokens, sum(costs_of(tokens, reply_tokens, price)) if price else 0, 1)


@dataclass(frozen=True)
class Asked:
    """A call that is to be made.

    Args:
        role: who is asked.
        prompt: the prompt's name; empty for a conversation.
        model: as settings name it.
        bytes: of the prompt (`weight_of`), with the schema.
        reply: most tokens of the reply.
    """

    role: str
    prompt: str
    model: str
    bytes: int
    reply: int = REPLY

    def spend(self, prices: Mapping[str, Price], sure: float = 1.0, kept: int = 0) -> Spend:
        """What is reserved for it.

        Args:
            prices: by model, if cost is bounded.
            sure: the share of the bytes that a token is taken to have, as long as the endpoint has not counted any.
            kept: bytes of which that is not so, as something was kept back for them.
        """
        price = price_of(self.model, prices) if prices else None
        per, size = bytes_per_token(self.model), self.bytes
        if per == BYTES_PER_TOKEN and size > kept:
            size = kept + math.ceil((size - kept) / sure)
        return reservation(size, self.reply, per, price)


class Held(NamedTuple):
    """What is reserved for a call in flight, and the moment (of the event loop) until which it may take, if any."""

    spend: Spend
    until: float | None


@dataclass(eq=False)
class Ceilings:
    """The bounds of a debate, or of several; those of a debate that is one of several hold beside theirs.

    Args:
        most: the bounds.
        seconds: most seconds, from now.
        parent: the ceilings of the batch or the evaluation that the debate belongs to.
    """

    most: Spend = FREE
    seconds: float = math.inf
    parent: Ceilings | None = None
    prices: Mapping[str, Price] = field(default_factory=dict)
    spent: Spend = NOTHING
    held: Spend = NOTHING
    left_out: Counter[str] = field(default_factory=Counter)
    """Who was not asked, and how often."""

    again: ClassVar[float] = math.inf
    """Seconds after which somebody who waits for room looks again, if nobody has said that there is some."""

    def __post_init__(self) -> None:
        self._started = time.monotonic()
        self._kept: dict[tuple[str, str], Asked] = {}
        self._parts: set[Ceilings] = set()
        self._waiting: list[asyncio.Future[None]] = []
        self._longest = 0.0
        self._last: Asked | None = None
        self._least: Asked | None = None
        self._outermost: Ceilings = self.parent._outermost if self.parent else self
        self.refused = False
        """Whether a call was not made for want of room under these bounds."""
        self._look()

    def _look(self) -> None:
        levels = self._levels()
        self.bounded = any(level.most != FREE or level.seconds < math.inf for level in levels)
        self.metered = any(min(level.most.tokens, level.most.usd) < math.inf for level in levels)
        """Whether tokens or cost are bounded, so that calls are bounded in length and have to be counted."""
        self.costs_money = any(level.most.usd < math.inf for level in levels)

    def alone(self) -> AbstractContextManager[None]:
        """Within it nobody else takes room; in one event loop, what does not wait is alone anyway."""
        return ALONE

    def _alone(self) -> AbstractContextManager[None]:
        return self._outermost.alone()

    async def more(self, need: Spend, short: Spend) -> bool:
        """Whether there is more room now, if somebody gives it out.

        Args:
            need: what a call may take.
            short: what room is missing for it; below 0 if none is.
        """
        return False

    def in_flight(self) -> Spend:
        """What is reserved for calls in flight."""
        return self.held

    def _levels(self) -> list[Ceilings]:
        return [self, *(self.parent._levels() if self.parent else [])]

    # --- a debate begins and ends ---------------------------------------------------------------------------------

    async def begin(self, budget: Mapping[str, Any], calls: Sequence[Call] = ()) -> None:
        """A debate begins: what a decision takes at least is kept back.

        Args:
            budget: as `moot.nodes.runtime.budget.open_budget` makes it.
            calls: that an earlier run of the debate paid.

        Raises:
            BudgetExhausted: the ceilings, or those of the batch, cannot pay even for that.
        """
        self.take_up(budget, calls)
        kept, self._kept = self._kept, {}
        need = Spend()
        for asked in kept.values():
            need = need.plus(asked.spend(self.prices))

        def keep(_: Spend) -> None:
            self._kept = kept

        await self._room_for(lambda: need, NOTHING, math.inf, keep)

    def take_up(self, budget: Mapping[str, Any], calls: Sequence[Call] = ()) -> None:
        """As `begin`, for a debate that goes on: nothing is checked, and those who have decided are not kept for."""
        bounds = (budget.get(name) for name in ("tokens", "usd", "calls"))
        self.most = Spend(*(math.inf if most is None else most for most in bounds))
        self.seconds = budget.get("seconds") or math.inf
        self.prices = budget.get("prices") or {}
        self.spent = spent_by(calls, self.prices)
        asked = (Asked(**one) for one in budget.get("kept") or ())
        spoken = {call["role"] for call in calls}
        self._kept = {(one.role, one.prompt): one for one in asked if one.role not in spoken}
        if self.parent:
            self.parent._parts.add(self)
        self._look()

    def opened(self) -> None:
        """What the debate needs is loaded: its seconds count from here, those of the batch from its own beginning."""
        self._started = time.monotonic()

    def hand_on(self) -> None:
        """A debate within this one decides it: that one keeps back what its decision takes."""
        self._kept = {}

    def end(self) -> None:
        """The debate is over, or waits: nothing is kept back for it."""
        self._kept = {}
        for level in self._levels():
            level._parts.discard(self)
            level._wake()

    # --- calls ------------------------------------------------------------------------------------------------------

    def decides(self, role: str, prompt: str) -> bool:
        """Whether a call is one that something is kept back for."""
        return (role, prompt) in self._kept

    async def reserve(self, asked: Asked) -> Held:
        """Room for a call; waits as long as those in flight may leave some.

        Raises:
            BudgetExhausted: there is not enough left for it.
        """
        key = (asked.role, asked.prompt)
        own = self._kept.get(key)
        until = min(level._deadline(own is not None) for level in self._levels())
        careful = own.bytes if own else 0

        def hold(need: Spend) -> None:
            self._kept.pop(key, None)
            self._was_made(asked)
            for level in self._levels():
                level.held = level.held.plus(need)

        try:
            need = await self._room_for(
                lambda: asked.spend(self.prices, UNSURE, careful),
                own.spend(self.prices) if own else NOTHING,
                until,
                hold,
            )
        except BudgetExhausted:
            self.left_out[asked.role] += 1
            raise
        end = asyncio.get_running_loop().time() + until - time.monotonic()
        return Held(need, None if until == math.inf else end)

    def _was_made(self, asked: Asked) -> None:
        self._last = asked
        if self._least is None or asked.spend(self.prices).tokens < self._least.spend(self.prices).tokens:
            self._least = asked

    def settle(self, held: Held, spent: Spend, seconds: float) -> None:
        """A call has ended.

        Args:
            held: what was reserved for it.
            spent: what it took.
            seconds: how long it took.
        """
        with self._alone():
            for level in self._levels():
                level.held = level.held.minus(held.spend)
                level.spent = level.spent.plus(spent)
                level._longest = max(level._longest, seconds)
        for level in self._levels():
            level._wake()

    def paid(self, asked: Asked, calls: Sequence[Call], *, left_out: bool) -> None:
        """Calls that an earlier run of the debate paid, and the ledger had: they count, and are not made.

        Args:
            asked: the first of them.
            calls: as the ledger has them.
            left_out: whether a call was not made then either.
        """
        if not self.bounded:
            return
        self.left_out += Counter([asked.role] * left_out)
        if calls:
            self._kept = {key: one for key, one in self._kept.items() if one.role != asked.role}
            self._was_made(asked)
        with self._alone():
            for level in self._levels():
                level.spent = level.spent.plus(spent_by(calls, self.prices))

    def came_to(self, held: Held, call: Call) -> Spend:
        """What a call took; if the endpoint does not count, what was reserved."""
        return spent_by([call], self.prices) if is_counted(call) else held.spend

    async def _room_for(
        self, wanted: Callable[[], Spend], own: Spend, until: float, take: Callable[[Spend], None]
    ) -> Spend:
        """What is wanted, taken once there is room for it; calls in flight may tell how many bytes a token has."""
        while True:
            with self._alone():
                need = wanted()
                short = next((level for level in self._levels() if not need.fits(level._room().plus(own))), None)
                late = time.monotonic() >= until
                if short is None and not late:
                    take(need)
                    return need
            if short is None or late:
                for level in self._levels():
                    level.refused = level.refused or time.monotonic() >= level._deadline(False)
                raise BudgetExhausted("Not asked: the time of `max_seconds` is used up.")
            if await short.more(need, need.minus(short._room().plus(own))):
                continue
            in_flight = short.in_flight()._replace(calls=0)
            if not need.fits(short._room().plus(own).plus(in_flight)):
                raise self._nothing_left(need, short, own)
            turn = asyncio.get_running_loop().create_future()
            short._waiting.append(turn)
            left = min(until - time.monotonic(), short.again)
            with suppress(TimeoutError):
                async with asyncio.timeout(None if left == math.inf else max(0, left)):
                    await turn

    def _nothing_left(self, need: Spend, level: Ceilings, own: Spend) -> BudgetExhausted:
        level.refused = True
        room = level._room().plus(own)
        name = next(n for n in Spend._fields if getattr(need, n) > getattr(room, n) + 1e-9)
        left, wanted = max(0, getattr(room, name)), getattr(need, name)
        whose = f"`{SETTINGS[name]}`" if level is self else f"the ceiling that several debates share ({SETTINGS[name]})"
        return BudgetExhausted(f"Not asked: it may take {said(name, wanted)}, and {whose} leaves {said(name, left)}.")

    async def changed(self) -> None:
        """Waits until a call or a debate within these ceilings has ended."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await turn

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for turn in waiting:
            if not turn.done():
                turn.set_result(None)

    # --- what is left -------------------------------------------------------------------------------------------------

    def kept(self) -> Spend:
        """What is kept back for those who decide."""
        total = NOTHING
        for asked in self._kept.values():
            total = total.plus(asked.spend(self.prices))
        for part in self._parts:
            total = total.plus(part.kept())
        return total

    def _room(self) -> Spend:
        return self.most.minus(self.spent).minus(self.held).minus(self.kept())

    def _outlook(self) -> Spend:
        """The room that there is, or that may still be given out."""
        return self._room()

    def elapsed(self) -> float:
        """Seconds since the debate began, or went on after a wait."""
        return time.monotonic() - self._started

    def _deadline(self, deciding: bool) -> float:
        """The moment until which a call may take."""
        if self.seconds == math.inf:
            return math.inf
        kept = min(self.seconds / 2, max(1.5 * self._longest, self.seconds / 10))
        return self._started + self.seconds - (0 if deciding else kept)

    def is_spent(self) -> bool:
        """Whether nobody but those who decide can be asked: somebody was not, or the least call so far would not be."""
        if not self.bounded or not (self.spent.calls or self.left_out):
            return False  # a debate begins in any case
        least = self._least.spend(self.prices) if self._least else Spend(1, 0, 1)
        late = time.monotonic() >= min(level._deadline(False) for level in self._levels())
        return late or bool(self.left_out) or not all(least.fits(level._outlook()) for level in self._levels())

    def affords(self) -> int:
        """How many calls like the last one there is room for, without those who decide."""
        need = self._last.spend(self.prices) if self._last else Spend(1, 0, 1)
        shares = (
            room / one
            for level in self._levels()
            for room, one in zip(level._outlook(), need, strict=True)
            if one and room < math.inf
        )
        return max(0, math.floor(min(shares, default=0)))

    def prompt_bytes(self, asked: Asked) -> int | None:
        """The most bytes (`weight_of`) of a deciding prompt: what is kept for it, and its share of what is left.

        None if nothing bounds it.
        """
        kept, price = self._kept.get((asked.role, asked.prompt)), price_of(asked.model, self.prices)
        among, tokens = max(1, len(self._kept)), math.inf
        for room in (level._outlook() for level in self._levels()):
            tokens = min(tokens, max(0, room.tokens) / among)
            if price and price["input"]:
                tokens = min(tokens, max(0, room.usd) / among / costs_of(1, 0, price)[0])
        if tokens == math.inf:
            return None
        ratio = bytes_per_token(asked.model)
        sure = UNSURE if ratio == BYTES_PER_TOKEN else MARGIN
        return (kept.bytes if kept else 0) + math.floor(tokens * ratio * sure)


def spent_by(calls: Sequence[Call], prices: Mapping[str, Price]) -> Spend:
    """What calls took, but for those that were sent as another's; USD are 0 if there are no prices."""
    sent = [call for call in calls if not call.get("shared")]
    return Spend(tokens_of(sent), (cost_of(sent, prices) or 0) if prices else 0, len(sent))


def said(name: str, amount: float) -> str:
    """An amount in words.

    Args:
        name: tokens, usd, calls or seconds.
        amount: how much.
    """
    return f"${amount:.6f}" if name == "usd" else f"{amount:,.0f} {name}"


_shared: ContextVar[Ceilings | None] = ContextVar("shared_ceilings", default=None)


@contextmanager
def shared_ceilings(
    *,
    budget: int | None = None,
    max_cost: float | None = None,
    max_calls: int | None = None,
    max_seconds: float | None = None,
) -> Iterator[Ceilings]:
    """Ceilings that all debates which begin within it share, beside those of their own settings.

        with shared_ceilings(max_cost=2.0):
            documents = await asyncio.gather(*(graph.ainvoke({"claim": claim}) for claim in claims))

    A debate that they cannot pay even a decision for fails before its first call (``budget_exhausted``). They hold in
    one event loop.

    Args:
        budget: most tokens of prompts and replies.
        max_cost: most USD; a model without a price is refused.
        max_calls: most calls to models.
        max_seconds: most seconds from here on.
    """
    bounds = (math.inf if most is None else most for most in (budget, max_cost, max_calls))
    with within(Ceilings(Spend(*bounds), max_seconds or math.inf, parent=_shared.get())) as ceilings:
        yield ceilings


@contextmanager
def within(ceilings: Ceilings) -> Iterator[Ceilings]:
    """Debates that begin within share these ceilings."""
    token = _shared.set(ceilings)
    try:
        yield ceilings
    finally:
        _shared.reset(token)


def open_ceilings() -> Ceilings:
    """The ceilings of a debate that begins: none of its own yet, within those that are shared."""
    return Ceilings(parent=_shared.get())


def recorded(asked: Asked) -> dict[str, Any]:
    """A call that is kept back for, as plain JSON."""
    return asdict(asked)
