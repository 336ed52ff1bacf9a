"""Ceilings: bounds on the tokens, USD, calls and seconds of a debate, a batch of debates or an evaluation.

Before a call, the cost of its prompt and of its longest reply is reserved; afterwards its real cost is recorded. The
prompt's tokens are estimated: its bytes (`weight_of`) divided by `bytes_per_token`, with a margin until the endpoint
has counted a prompt. A call that does not fit waits for the calls in flight, which may cost less than was reserved. A
call that can never fit is not made (`BudgetExhausted`). For the calls that decide a debate, such as a judge's, the
smallest cost is reserved from the start: that of a prompt without evidence and without the debaters' answers. A debate
within a debate has ceilings of its own within those of the outer debate.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from moot.core.errors import BudgetExhausted
from moot.nodes._models.contexts import BYTES_PER_TOKEN, CONTEXT_SHARE, bytes_per_token
from moot.nodes._models.prices import Price, costs_of, is_counted, price_of
from moot.nodes._models.spend import NOTHING, UNBOUNDED, PlannedCall, Spend, in_words, resume_hint, spent_by
from moot.nodes._records.entries import Call

UNCOUNTED_SHARE = 0.8
"""Until the endpoint has counted a prompt, `BYTES_PER_TOKEN` is multiplied by this factor, as a margin."""
SETTINGS = {"tokens": "budget", "usd": "max_cost", "calls": "max_calls", "seconds": "max_seconds"}
"""The setting that bounds each quantity."""
TOO_LATE = "The call was not made: the time of `max_seconds` is used up."
NO_LOCK = nullcontext()


class Reservation(NamedTuple):
    """The cost reserved for a call in flight, and the call's deadline on the event loop's clock (None if unbounded)."""

    spend: Spend
    until: float | None


@dataclass(eq=False)
class Ceilings:
    """Bounds and spending of one or more debates; a debate in a batch is bound by its own ceilings and the batch's."""

    most: Spend = UNBOUNDED
    seconds: float = math.inf  # from the start of the clock
    parent: Ceilings | None = None  # of the batch, the evaluation or the outer debate
    prices: Mapping[str, Price] = field(default_factory=dict)
    spent: Spend = NOTHING
    reserved: Spend = NOTHING
    skipped: Counter[str] = field(default_factory=Counter)
    """The number of calls that were refused or cut off, by role; `not_awaited` counts only those that had been sent.
    Searches and the work of encoders that `max_seconds` ended are in both, by name."""
    not_awaited: Counter[str] = field(default_factory=Counter)
    adds_earlier_runs: bool = True
    """Whether a resumed debate adds the cost of its earlier runs to `spent`; false if `spent` already includes it."""

    recheck_seconds: ClassVar[float] = math.inf
    """Seconds after which a waiting call checks for budget again although nothing has woken it."""

    def __post_init__(self) -> None:
        self._started = time.monotonic()
        self._deciding_calls: dict[tuple[str, str], PlannedCall] = {}
        self._parts: set[Ceilings] = set()
        self._waiting: list[asyncio.Future[None]] = []
        self._longest = 0.0
        self._last: PlannedCall | None = None
        self._least: PlannedCall | None = None
        self._lost = NOTHING
        self._outermost: Ceilings = self.parent._outermost if self.parent else self
        self.refused = False
        """Whether a call was refused because these bounds left too little."""
        self._update_bounds()

    def _update_bounds(self) -> None:
        levels = self._levels()
        self.bounded = any(level.most != UNBOUNDED or level.seconds < math.inf for level in levels)
        self.metered = any(min(level.most.tokens, level.most.usd) < math.inf for level in levels)
        """Whether tokens or cost are bounded, so that replies must have a limit and tokens must be counted."""
        self.counted = any(level.most != UNBOUNDED for level in levels)
        """Whether tokens, USD or calls are bounded."""
        self.costs_money = any(level.most.usd < math.inf for level in levels)

    def lock(self) -> AbstractContextManager[None]:
        """A lock on the budget; here it does nothing: an event loop does not interrupt code without ``await``."""
        return NO_LOCK

    def _lock(self) -> AbstractContextManager[None]:
        return self._outermost.lock()

    async def request_more(self, need: Spend, short: Spend) -> bool:
        """Whether a shared pool (here there is none) gave more budget for ``need``, of which ``short`` is missing."""
        return False

    def in_flight(self) -> Spend:
        return self.reserved

    def _levels(self) -> list[Ceilings]:
        return [self, *(self.parent._levels() if self.parent else [])]

    # --- a debate begins and ends ---------------------------------------------------------------------------------

    async def begin(self, budget: Mapping[str, Any], lost: Spend = NOTHING) -> None:
        """Starts a debate: sets its bounds (`resume`), and waits until its deciding calls can be reserved."""
        self.resume(budget)
        self.count_lost_calls(lost)
        deciding, self._deciding_calls = self._deciding_calls, {}
        need = Spend()
        for call in deciding.values():
            need = need.plus(call.spend(self.prices))

        def take(_: Spend) -> None:
            self._deciding_calls = deciding

        await self._take_when_available(lambda: need, lambda _: NOTHING, math.inf, take)

    def resume(self, budget: Mapping[str, Any], calls: Sequence[Call] = ()) -> None:
        """Sets a debate's bounds, prices and reservations from the dict of `open_budget`; counts ``calls`` as spent."""
        bounds = (budget.get(name) for name in ("tokens", "usd", "calls"))
        self.most = Spend(*(math.inf if most is None else most for most in bounds))
        self.seconds = budget.get("seconds") or math.inf
        self.prices = budget.get("prices") or {}
        self.spent = spent_by(calls, self.prices)
        planned = (PlannedCall(**call) for call in budget.get("kept") or ())
        # Budget is reserved only for roles that made none of the earlier calls.
        decided = {call["role"] for call in calls}
        self._deciding_calls = {(call.role, call.prompt): call for call in planned if call.role not in decided}
        if self.parent:
            self.parent._parts.add(self)
        self._update_bounds()

    def count_lost_calls(self, lost: Spend) -> None:
        """Counts the cost of earlier runs' calls whose replies were lost, because a run was killed or a call failed."""
        self._lost = self._lost.plus(lost)
        self._add_earlier_cost(lost)

    def start_clock(self) -> None:
        """Starts the debate's clock, after its resources are loaded; a batch's clock starts with the batch."""
        self._started = time.monotonic()

    def pass_on_reservation(self) -> None:
        """Releases the reservation for the decision, because an inner debate decides and makes its own reservation."""
        self._deciding_calls = {}

    def end(self) -> None:
        """Releases the reservation for the decision of a debate that has ended or waits for a person."""
        self._deciding_calls = {}
        for level in self._levels():
            level._parts.discard(self)
            level._wake_waiting()

    # --- calls ------------------------------------------------------------------------------------------------------

    def decides(self, role: str, prompt: str) -> bool:
        """Whether this call decides the debate, and budget is still reserved for it."""
        return (role, prompt) in self._deciding_calls

    async def reserve(self, planned: PlannedCall) -> Reservation:
        """Reserves budget for a call, or raises BudgetExhausted; waits while calls in flight may release budget."""
        key = (planned.role, planned.prompt)
        own = self._deciding_calls.get(key)
        until = min(level._deadline(own is not None) for level in self._levels())
        reserved_bytes = own.bytes if own else 0

        def take(need: Spend) -> None:
            self._deciding_calls.pop(key, None)
            self._remember_call(planned)
            self._add_reserved(need)

        try:
            need = await self._take_when_available(
                lambda: planned.spend(self.prices, UNCOUNTED_SHARE, reserved_bytes),
                lambda need: self._usable_reserve(own, need) if own else NOTHING,
                until,
                take,
            )
        except BudgetExhausted:
            self.count_skipped(planned.role)
            raise
        end = asyncio.get_running_loop().time() + until - time.monotonic()
        return Reservation(need, None if until == math.inf else end)

    def count_lost_request(self, reservation: Reservation) -> Reservation:
        """Counts a reservation for a request with a lost reply as spent; returns the rest: one call."""
        # The endpoint may charge for the request.
        lost = reservation.spend._replace(calls=0)
        with self._lock():
            for level in self._levels():
                level.spent = level.spent.plus(lost)
                level.reserved = level.reserved.minus(lost)
        return reservation._replace(spend=reservation.spend.minus(lost))

    async def reserve_repeat(self, planned: PlannedCall, reservation: Reservation) -> Reservation:
        """Reserves budget for a further request of a call, after `count_lost_request`, or raises BudgetExhausted."""
        need = await self._take_when_available(
            lambda: planned.spend(self.prices, UNCOUNTED_SHARE)._replace(calls=0),
            lambda _: NOTHING,
            min(level._deadline(deciding=True) for level in self._levels()),
            self._add_reserved,
        )
        return reservation._replace(spend=reservation.spend.plus(need))

    def _add_reserved(self, need: Spend) -> None:
        for level in self._levels():
            level.reserved = level.reserved.plus(need)

    def count_skipped(self, role: str, *, awaited: bool = True) -> None:
        """Counts a call that was refused or, if ``awaited`` is false, sent but cut off before its reply."""
        self.skipped[role] += 1
        self.not_awaited.update([] if awaited else [role])

    def _usable_reserve(self, own: PlannedCall, need: Spend) -> Spend:
        """What a deciding call may use: the debate's whole reservation or, if larger than planned, its own part."""
        least, bounds = own.spend(self.prices), zip(*(level.most for level in self._levels()), strict=True)
        reserved = (amount if min(most) < math.inf else math.inf for amount, most in zip(least, bounds, strict=True))
        # Lost calls can leave too little for all deciding calls; then the last of them are refused.
        return self._own_reserve() if need.fits(Spend(*reserved)) else least

    def _remember_call(self, planned: PlannedCall) -> None:
        self._last = planned
        if self._least is None or planned.spend(self.prices).tokens < self._least.spend(self.prices).tokens:
            self._least = planned

    def release_reservation(self, reservation: Reservation, spent: Spend, seconds: float) -> None:
        """Releases a call's reservation, and records ``spent``, the part of its real cost that is not counted yet."""
        with self._lock():
            for level in self._levels():
                level.spent = level.spent.plus(spent)  # first, so that a kill before the next line loses no cost
                level.reserved = level.reserved.minus(reservation.spend)
                level._longest = max(level._longest, seconds)
        for level in self._levels():
            level._wake_waiting()

    def count_paid_calls(self, planned: PlannedCall, calls: Sequence[Call], *, skipped: bool) -> None:
        """Counts calls that an earlier run paid for, and that are not made again: their replies are stored."""
        if not self.bounded:
            return
        # The earlier run then refused a call, or cut off the last of these calls.
        if skipped:
            self.count_skipped(planned.role, awaited=not (calls and calls[-1]["outcome"] == "failed"))
        if calls:
            self._deciding_calls.pop((planned.role, planned.prompt), None)
            self._remember_call(planned)
        self._add_earlier_cost(spent_by(calls, self.prices))

    def _add_earlier_cost(self, spent: Spend) -> None:
        with self._lock():
            for level in self._levels():
                if level.adds_earlier_runs:
                    level.spent = level.spent.plus(spent)

    def real_cost(self, call: Call) -> Spend | None:
        """The real cost of a call; None if its tokens are unknown, so that its reservation counts as its cost."""
        return spent_by([call], self.prices) if is_counted(call) else None

    def cost_of_failed(self, model: str, prompt_tokens: int, reply_tokens: int) -> Spend:
        """The cost of a failed call, from the tokens reserved for lost requests; USD is 0 if the price is unknown."""
        price = price_of(model, self.prices) if self.prices else None
        return Spend(prompt_tokens + reply_tokens, sum(costs_of(prompt_tokens, reply_tokens, price)) if price else 0, 1)

    async def _take_when_available(
        self,
        wanted: Callable[[], Spend],
        usable_reserve: Callable[[Spend], Spend],  # the part of the reservation for decisions that it may use
        until: float,  # a moment of `time.monotonic`
        take: Callable[[Spend], None],
    ) -> Spend:
        """Waits until an amount is available, and takes it; BudgetExhausted if it never will be, or at ``until``."""
        while True:
            with self._lock():
                # The amount may change during the wait: replies to calls in flight correct the bytes per token.
                need = wanted()
                own = usable_reserve(need)
                short = next((level for level in self._levels() if not need.fits(level._available().plus(own))), None)
                late = time.monotonic() >= until
                if short is None and not late:
                    take(need)
                    return need
            if short is None or late:
                for level in self._levels():
                    level.refused = level.refused or time.monotonic() >= level._deadline(False)
                raise BudgetExhausted(TOO_LATE)
            if await short.request_more(need, need.minus(short._available().plus(own))):
                continue
            in_flight = short.in_flight()._replace(calls=0)
            if not need.fits(short._available().plus(own).plus(in_flight)):
                short.refused = True
                raise BudgetExhausted(self._shortage(need, short, own))
            turn = asyncio.get_running_loop().create_future()
            short._waiting.append(turn)
            left = min(until - time.monotonic(), short.recheck_seconds)
            with suppress(TimeoutError):
                async with asyncio.timeout(None if left == math.inf else max(0, left)):
                    await turn

    def _shortage(self, need: Spend, level: Ceilings, own: Spend) -> str:
        """The reason why a call was not made, in words."""
        room = level._available().plus(own)
        name = next(n for n in Spend._fields if getattr(need, n) > getattr(room, n) + 1e-9)
        left, wanted = max(0, getattr(room, name)), getattr(need, name)
        whose = f"`{SETTINGS[name]}`" if level is self else f"the ceiling shared by several debates ({SETTINGS[name]})"
        text = f"A call was not made: it may take {in_words(name, wanted)}, and {whose} leaves {in_words(name, left)}."
        if level is self and (lost := getattr(self._lost, name)):
            text += f" {resume_hint(name, lost, whose, getattr(self.most, name) - getattr(room, name) + wanted)}"
        return text

    async def wait_for_change(self) -> None:
        """Waits until a call or a debate within these ceilings has ended."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await turn

    def _wake_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for turn in waiting:
            if not turn.done():
                turn.set_result(None)

    # --- the remaining budget -----------------------------------------------------------------------------------------

    def decision_reserve(self) -> Spend:
        """The reservations for roles that decide, in this debate and in debates within it."""
        total = self._own_reserve()
        for part in self._parts:
            total = total.plus(part.decision_reserve())
        return total

    def _own_reserve(self) -> Spend:
        total = NOTHING
        for call in self._deciding_calls.values():
            total = total.plus(call.spend(self.prices))
        return total

    def _available(self) -> Spend:
        return self.most.minus(self.spent).minus(self.reserved).minus(self.decision_reserve())

    def _obtainable(self) -> Spend:
        return self._available()

    def elapsed(self) -> float:
        """Seconds since the debate started or, if it was resumed, since it was resumed."""
        return time.monotonic() - self._started

    def _deadline(self, deciding: bool) -> float:
        """The moment (`time.monotonic`) by which a call must end; later for a deciding call, infinite if unbounded."""
        if self.seconds == math.inf:
            return math.inf
        reserved = min(self.seconds / 2, max(1.5 * self._longest, self.seconds / 10))
        return self._started + self.seconds - (0 if deciding else reserved)

    def deadline(self) -> float:
        """The moment (`time.monotonic`) from which only deciding roles are called; infinite if time is not bounded."""
        return min(level._deadline(False) for level in self._levels())

    def is_spent(self) -> bool:
        """Whether only roles that decide can be called; false without bounds, and before the first call."""
        if not self.bounded or not (self.spent.calls or self.skipped):
            return False
        least = self._least.spend(self.prices) if self._least else Spend(1, 0, 1)
        return (
            time.monotonic() >= self.deadline()
            or bool(self.skipped)
            or not all(least.fits(level._obtainable()) for level in self._levels())
        )

    def affordable_calls(self) -> int:
        """How many calls like the last one still leave enough to decide; 0 unless tokens, USD or calls are bounded."""
        need = self._last.spend(self.prices) if self._last else Spend(1, 0, 1)
        shares = (
            room / one
            for level in self._levels()
            for room, one in zip(level._obtainable(), need, strict=True)
            if one and room < math.inf
        )
        return max(0, math.floor(min(shares, default=0)))

    def prompt_bytes(self, planned: PlannedCall) -> int | None:
        """The most bytes (`weight_of`) of a deciding prompt; None if neither its tokens nor their cost are bounded."""
        own, price = self._deciding_calls.get((planned.role, planned.prompt)), price_of(planned.model, self.prices)
        # To the bytes that are reserved, each deciding prompt adds an equal share of the budget that is not reserved.
        shares, tokens = max(1, len(self._deciding_calls)), math.inf
        for room in (level._obtainable() for level in self._levels()):
            tokens = min(tokens, max(0, room.tokens) / shares)
            if price and price["input"]:
                tokens = min(tokens, max(0, room.usd) / shares / costs_of(1, 0, price)[0])
        if tokens == math.inf:
            return None
        ratio = bytes_per_token(planned.model)
        share = UNCOUNTED_SHARE if ratio == BYTES_PER_TOKEN else CONTEXT_SHARE
        return (own.bytes if own else 0) + math.floor(tokens * ratio * share)


_shared: ContextVar[Ceilings | None] = ContextVar("shared_ceilings", default=None)


@contextmanager
def shared_ceilings(
    *,
    budget: int | None = None,
    max_cost: float | None = None,
    max_calls: int | None = None,
    max_seconds: float | None = None,
) -> Iterator[Ceilings]:
    """A context manager: debates started inside it share these ceilings, in addition to the ceilings in their settings.

        with shared_ceilings(max_cost=2.0):
            documents = await asyncio.gather(*(graph.ainvoke({"claim": claim}) for claim in claims))

    A debate fails before its first call (``budget_exhausted``) if too little is left for the calls that decide it.
    The ceilings apply within one event loop.

    Args:
        budget: maximum number of tokens of prompts and replies.
        max_cost: maximum cost in USD; a model without a price is refused.
        max_calls: maximum number of calls to models.
        max_seconds: maximum number of seconds from now.
    """
    *bounds, seconds = (math.inf if most is None else most for most in (budget, max_cost, max_calls, max_seconds))
    with debates_within(Ceilings(Spend(*bounds), seconds, parent=_shared.get())) as ceilings:
        yield ceilings


@contextmanager
def debates_within(ceilings: Ceilings) -> Iterator[Ceilings]:
    """A context manager: debates started inside it share these ceilings."""
    token = _shared.set(ceilings)
    try:
        yield ceilings
    finally:
        _shared.reset(token)


def open_ceilings() -> Ceilings:
    """The ceilings of a new debate: within the shared ceilings, if there are any, and still without bounds."""
    return Ceilings(parent=_shared.get())
