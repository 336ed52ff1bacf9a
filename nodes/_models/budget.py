"""The budget of a debate, or of all debates of a batch or an evaluation: it keeps calls within the ceilings.

A ceiling is a user's bound on tokens, USD, calls or seconds. Before a call, the most that it can take is reserved
(`Budget.reserve`); afterwards its real cost is counted (`Budget.settle`), or the whole reservation of a request whose
reply was lost (`Budget.lose`). A call that does not fit waits for the calls in flight, which may take less than was
reserved. A call that can never fit is not made (`BudgetExhausted`).

For the calls that decide a debate, such as a judge's, the smallest cost is held back from the start: that of a prompt
without evidence and without the debaters' answers. A debate within another debate or in a batch has its own budget, and
pays into the other's (`parent`). Budgets that belong together are used in one event loop.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from moot.core.errors import BudgetExhausted
from moot.nodes._models.contexts import BYTES_PER_TOKEN, CONTEXT_SHARE, bytes_per_token
from moot.nodes._models.prices import Price, costs_of, price_of
from moot.nodes._models.spend import (
    NOTHING,
    ONE_CALL,
    UNBOUNDED,
    UNCOUNTED_SHARE,
    PlannedCall,
    Spend,
    in_words,
    spent_by,
    sum_of,
)
from moot.nodes._records.entries import Call

SETTINGS = {"tokens": "budget", "usd": "max_cost", "calls": "max_calls", "seconds": "max_seconds"}
"""The setting that bounds each quantity."""
TOO_LATE = "The call was not made: the time of `max_seconds` is used up."


@dataclass
class Reservation:
    """What is reserved for a call in flight."""

    planned: PlannedCall
    amount: Spend  # for the present request of the call
    until: float | None  # the call's deadline on the event loop's clock; None if unbounded
    lost: Spend = NOTHING  # what earlier requests of the call count, because their replies were lost
    losses: int = 0  # the number of these requests


class Budget:
    """Ceilings and spending of one debate or, as the parent of their budgets, of several debates."""

    # ``seconds`` count from now, or from `start_clock`. ``counts_earlier``: whether earlier runs' cost is added to
    # ``spent``. ``keep`` is called with each new spending, calls in flight included, before a call and after it.
    def __init__(
        self,
        most: Spend = UNBOUNDED,
        seconds: float = math.inf,
        parent: Budget | None = None,
        spent: Spend = NOTHING,
        *,
        counts_earlier: bool = True,
        keep: Callable[[Spend], object] | None = None,
    ) -> None:
        self.most = most
        self.seconds = seconds
        self.parent = parent
        self.prices: Mapping[str, Price] = {}
        self.spent = spent
        self.reserved = NOTHING
        self.skipped: Counter[str] = Counter()
        """How many calls were not made, by role."""
        self.cut: Counter[str] = Counter()
        """How many calls were sent, but ended before their reply, by role; also searches and encoders, by name."""
        self.refused = False
        """Whether a call was not made because these ceilings left too little."""
        self._counts_earlier = counts_earlier
        self._keep = keep
        self._started = time.monotonic()
        self._longest = 0.0
        self._smallest: PlannedCall | None = None
        self._lost = NOTHING
        self._deciding: dict[tuple[str, str], PlannedCall] = {}
        """The deciding calls of this debate that were not made yet, by role and prompt."""
        self._outermost: Budget = parent._outermost if parent else self
        self._debates: set[Budget] = set()
        """In the outermost budget: the debates that have deciding calls."""
        self._change = asyncio.Event()

    @property
    def levels(self) -> list[Budget]:
        """This budget and those that it pays into, the outermost last."""
        return [self, *(self.parent.levels if self.parent else [])]

    @property
    def tightest(self) -> Spend:
        """The lowest ceiling of all levels for each amount."""
        return Spend(*map(min, zip(*(level.most for level in self.levels), strict=True)))

    @property
    def is_bounded(self) -> bool:
        """Whether tokens, USD, calls or seconds are bounded."""
        return self.counts_amounts or any(level.seconds < math.inf for level in self.levels)

    @property
    def counts_amounts(self) -> bool:
        """Whether tokens, USD or calls are bounded."""
        return self.tightest != UNBOUNDED

    @property
    def counts_tokens(self) -> bool:
        """Whether tokens or USD are bounded, so that replies must have a limit and tokens must be counted."""
        return min(self.tightest[:2]) < math.inf

    # --- a debate begins and ends ---------------------------------------------------------------------------------

    async def begin(self, budget: Mapping[str, Any], lost: Spend = NOTHING) -> None:
        """Sets a debate's ceilings from the dict of `open_budget`; waits until its deciding calls can be held back."""
        deciding = self._set_ceilings(budget)
        self.count_lost_calls(lost)
        await self._wait_for_room(lambda: sum_of(call.most(self.prices) for call in deciding))
        self._hold(deciding)

    def resume(self, budget: Mapping[str, Any], calls: Sequence[Call] = ()) -> None:
        """Sets a resumed debate's ceilings, and counts its earlier calls as spent."""
        deciding = self._set_ceilings(budget)
        self.spent = spent_by(calls, self.prices)
        decided = {call["role"] for call in calls}
        self._hold(call for call in deciding if call.role not in decided)

    def _set_ceilings(self, budget: Mapping[str, Any]) -> list[PlannedCall]:
        """Sets the ceilings and the prices; returns the calls that decide."""
        most = (budget.get(name) for name in Spend._fields)
        self.most = Spend(*(math.inf if one is None else one for one in most))
        self.seconds = budget.get("seconds") or math.inf
        self.prices = budget.get("prices") or {}
        return [PlannedCall(**call) for call in budget.get("kept") or ()]

    def _hold(self, calls: Iterable[PlannedCall]) -> None:
        self._deciding = {(call.role, call.prompt): call for call in calls}
        self._outermost._debates.add(self)

    def start_clock(self) -> None:
        """Starts the debate's clock, after its resources are loaded; a batch's clock starts with the batch."""
        self._started = time.monotonic()

    def release_held(self) -> None:
        """Releases what is held back: the debate has ended, waits for a person, or an inner debate decides for it."""
        self._deciding = {}
        self._outermost._debates.discard(self)
        self._tell_waiting()

    # --- calls ------------------------------------------------------------------------------------------------------

    async def reserve(self, planned: PlannedCall) -> Reservation:
        """Reserves the most that a call can take; waits for calls in flight, or raises BudgetExhausted."""
        held = self._deciding.get((planned.role, planned.prompt))
        until = self.deadline(deciding=held is not None)
        try:
            amount = await self._wait_for_room(
                lambda: planned.most(self.prices, held.bytes if held else 0), until, deciding=held is not None
            )
        except BudgetExhausted:
            self.skipped[planned.role] += 1
            raise
        self._note_made(planned)
        self._add(NOTHING, amount)
        end = asyncio.get_running_loop().time() + until - time.monotonic()
        return Reservation(planned, amount, None if until == math.inf else end)

    def lose(self, reservation: Reservation) -> None:
        """Counts the reservation of a request as spent, because its reply was lost: the endpoint may charge for it."""
        lost = reservation.amount.minus(ONE_CALL)
        self._add(lost, NOTHING.minus(lost))
        reservation.amount, reservation.lost = ONE_CALL, reservation.lost.plus(lost)
        reservation.losses += 1

    async def reserve_again(self, reservation: Reservation) -> None:
        """After `lose`, reserves for a further request of the same call, or raises BudgetExhausted."""
        planned = reservation.planned
        more = await self._wait_for_room(
            lambda: planned.most(self.prices, 0).minus(ONE_CALL), self.deadline(deciding=True)
        )
        self._add(NOTHING, more)
        reservation.amount = reservation.amount.plus(more)

    def settle(self, reservation: Reservation, cost: Spend | None, seconds: float) -> None:
        """Ends a reservation: counts what the call has taken besides its losses; all that is reserved if unknown."""
        self._add(reservation.amount if cost is None else cost, NOTHING.minus(reservation.amount))
        for level in self.levels:
            level._longest = max(level._longest, seconds)
        self._tell_waiting()

    def _add(self, spent: Spend, reserved: Spend) -> None:
        for level in self.levels:
            level.spent, level.reserved = level.spent.plus(spent), level.reserved.plus(reserved)
            if level._keep:
                level._keep(level.spent.plus(level.reserved))

    def count_paid_calls(self, planned: PlannedCall, calls: Sequence[Call], *, skipped: bool) -> None:
        """Counts calls that an earlier run paid for and that are not made again: their replies were stored."""
        if not self.is_bounded:
            return
        # If ``skipped``, the earlier run did not make a call, or cut the last of these calls.
        if skipped:
            (self.cut if calls and calls[-1]["outcome"] == "failed" else self.skipped)[planned.role] += 1
        if calls:
            self._note_made(planned)
        self._add_earlier(spent_by(calls, self.prices))

    def count_lost_calls(self, lost: Spend) -> None:
        """Counts the cost of earlier runs' calls whose replies were lost, because a run was killed or a call failed."""
        self._lost = self._lost.plus(lost)
        self._add_earlier(lost)

    def _add_earlier(self, spent: Spend) -> None:
        for level in self.levels:
            if level._counts_earlier:
                level.spent = level.spent.plus(spent)

    def _note_made(self, planned: PlannedCall) -> None:
        self._deciding.pop((planned.role, planned.prompt), None)
        if self._smallest is None or planned.most(self.prices).tokens < self._smallest.most(self.prices).tokens:
            self._smallest = planned

    async def _wait_for_room(
        self, need_now: Callable[[], Spend], until: float = math.inf, *, deciding: bool = False
    ) -> Spend:
        """Waits until an amount is available, and returns it; BudgetExhausted if it never will be, or at ``until``."""
        while True:
            # The amount may change during the wait: replies to calls in flight correct the bytes per token.
            need = need_now()
            own = self.held(by=self) if deciding else NOTHING
            short = next((level for level in self.levels if not need.fits(level._available().plus(own))), None)
            if time.monotonic() >= until:
                for level in self.levels:
                    level.refused = level.refused or time.monotonic() >= level._end(deciding=False)
                raise BudgetExhausted(TOO_LATE)
            if short is None:
                return need
            room = short._available().plus(own)
            if not need.fits(room.plus(short.reserved._replace(calls=0))):
                short.refused = True
                raise BudgetExhausted(self._shortage(need, short, room))
            with suppress(TimeoutError):
                async with asyncio.timeout(None if until == math.inf else max(0, until - time.monotonic())):
                    await self.wait_for_change()

    def _shortage(self, need: Spend, level: Budget, room: Spend) -> str:
        """The reason why a call was not made, in words."""
        name = next(n for n in Spend._fields if getattr(need, n) > getattr(room, n) + 1e-9)
        left, wanted, lost = max(0, getattr(room, name)), getattr(need, name), getattr(self._lost, name)
        whose = f"`{SETTINGS[name]}`" if level is self else f"the ceiling shared by several debates ({SETTINGS[name]})"
        text = f"A call was not made: it may take {in_words(name, wanted)}, and {whose} leaves {in_words(name, left)}."
        if level is not self or not lost:
            return text
        least = getattr(self.most, name) - getattr(room, name) + wanted
        enough = f"{math.ceil(least * 1e6) / 1e6:f}" if name == "usd" else math.ceil(least)
        return (
            f"{text} Calls whose replies were lost when the debate was stopped may have taken {in_words(name, lost)}. "
            f"To continue this debate, run it again with {whose} of {enough} or more."
        )

    async def wait_for_change(self) -> None:
        """Waits until a call or a debate within the same outermost budget has ended."""
        await self._outermost._change.wait()

    def _tell_waiting(self) -> None:
        self._outermost._change.set()
        self._outermost._change = asyncio.Event()

    # --- what is left -----------------------------------------------------------------------------------------------

    def held(self, by: Budget | None = None) -> Spend:
        """What is held back for calls that decide: by one debate or, by default, by all that pay into this budget."""
        debates = [by] if by else [debate for debate in self._outermost._debates if self in debate.levels]
        return sum_of(call.most(debate.prices) for debate in debates for call in debate._deciding.values())

    def _available(self) -> Spend:
        return self.most.minus(self.spent).minus(self.reserved).minus(self.held())

    def elapsed(self) -> float:
        """Seconds since the debate started or, if it was resumed, since it was resumed."""
        return time.monotonic() - self._started

    def _end(self, *, deciding: bool) -> float:
        if self.seconds == math.inf:
            return math.inf
        reserved = min(self.seconds / 2, max(1.5 * self._longest, self.seconds / 10))
        return self._started + self.seconds - (0 if deciding else reserved)

    def deadline(self, *, deciding: bool = False) -> float:
        """The moment (`time.monotonic`) by which a call must end; later if it decides, infinite if unbounded."""
        return min(level._end(deciding=deciding) for level in self.levels)

    def is_spent(self) -> bool:
        """Whether only calls that decide can be made; false without bounds, and before the first call."""
        if not self.is_bounded or not (self.spent.calls or self.skipped or self.cut):
            return False
        least = self._smallest.most(self.prices) if self._smallest else Spend(1, 0, 1)
        return (
            time.monotonic() >= self.deadline()
            or bool(self.skipped or self.cut)
            or not all(least.fits(level._available()) for level in self.levels)
        )

    def affordable_calls(self) -> int:
        """How many calls like the smallest so far can be made before the deciding ones; 0 if only time is bounded."""
        need = self._smallest.most(self.prices) if self._smallest else Spend(1, 0, 1)
        shares = (
            room / one
            for level in self.levels
            for room, one in zip(level._available(), need, strict=True)
            if one and room < math.inf
        )
        return max(0, math.floor(min(shares, default=0)))

    def prompt_bytes(self, role: str, prompt: str, model: str) -> int | None:
        """The most bytes (`weight_of`) of a prompt that decides; None if it does not, or if tokens are not bounded."""
        if (held := self._deciding.get((role, prompt))) is None:
            return None
        # To the bytes that are held back, each deciding prompt adds an equal share of what is left besides.
        price, shares, tokens = price_of(model, self.prices), len(self._deciding), math.inf
        for room in (level._available() for level in self.levels):
            tokens = min(tokens, max(0, room.tokens) / shares)
            if price and price["input"]:
                tokens = min(tokens, max(0, room.usd) / shares / costs_of(1, 0, price)[0])
        if tokens == math.inf:
            return None
        per = bytes_per_token(model)
        margin = UNCOUNTED_SHARE if per == BYTES_PER_TOKEN else CONTEXT_SHARE
        return held.bytes + math.floor(tokens * per * margin)


_shared: ContextVar[Budget | None] = ContextVar("shared_budget", default=None)


@contextmanager
def shared_ceilings(
    *,
    budget: int | None = None,
    max_cost: float | None = None,
    max_calls: int | None = None,
    max_seconds: float | None = None,
) -> Iterator[Budget]:
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
    with debates_within(Budget(Spend(*bounds), seconds, parent=_shared.get())) as shared:
        yield shared


@contextmanager
def debates_within(budget: Budget) -> Iterator[Budget]:
    """A context manager: debates started inside it pay into this budget."""
    token = _shared.set(budget)
    try:
        yield budget
    finally:
        _shared.reset(token)


def new_budget() -> Budget:
    """The budget of a new debate, which pays into the shared one, if there is one, and is still without bounds."""
    return Budget(parent=_shared.get())
