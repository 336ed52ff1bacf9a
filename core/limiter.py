"""One limiter for each endpoint and event loop, and the retry loop that uses it.

All calls of an event loop to one endpoint share a `Limiter`: calls to chat models, embedding models and web sources. If
the endpoint asks for a wait (Retry-After), all further calls to it wait. But a wait of more than `LONGEST_WAIT` seconds
applies only to calls of one model or source. As long as more than `LONGEST_WAIT` seconds of this wait are left, calls
of the model or source fail at once. After that, they wait for the end of the wait.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from moot.core.endpoint import Limits, once_per_loop
from moot.core.errors import MootError, WorldError
from moot.core.telemetry import count_refusal

T = TypeVar("T")

LONGEST_WAIT = 60.0
"""The longest accepted wait, in seconds. If an endpoint asks for a longer wait, the call fails."""
LONGEST_PAUSE = 16.0
"""The longest pause, in seconds, after a refusal without Retry-After."""
LONGEST_INTERVAL = 4.0
"""The longest time, in seconds, between the starts of two calls that `Places` asks for, if calls take less time."""
FREE_PERIODS = 8
"""For how many periods the number of calls is not reduced after it was found that load does not cause the refusals."""


class Places:
    """Estimates how many calls an endpoint that refuses calls (HTTP 429) accepts at once."""

    # All times are an event loop's, in seconds.

    def __init__(self) -> None:
        # The maximum number of calls in flight. Below 1, one call may be in flight, and calls start less often.
        self.most = math.inf
        self.latency = 0.25  # the average duration of an accepted call; a guess until a call is accepted
        # When a call was last accepted, or when the first call was sent after none was in flight.
        self.accepted_at = 0.0
        self._gap = 0.05  # the average time between two accepted calls
        self._in_flight = 0
        self._last_end = self._closed_until = 0.0
        self._share = math.inf  # the share of refusals before the places were reduced; infinite if they are not
        self._free = 0  # periods left of `FREE_PERIODS`
        self._begin(0.0)

    def _begin(self, now: float) -> None:
        """Begins a period."""
        self._begun, self._ended, self._refused, self._accepted = now, 0, 0, 0

    def begin(self, now: float) -> None:
        """Begins to count when a call arrives while no other waits or is in flight."""
        if now - self.accepted_at > LONGEST_WAIT:  # the limit is old
            self.most = math.inf
        self.accepted_at = self._last_end = now
        self._begin(now)

    def start(self, now: float, closed_until: float) -> None:
        """Records the start of a call."""
        if not self._in_flight:  # the period does not include time in which the endpoint was closed
            self._begun += max(0.0, min(now, closed_until) - self._last_end)
        self._closed_until = closed_until
        self._in_flight += 1

    def end(self, started: float, now: float, refused: bool | None) -> None:
        """Records the end of a call; ``refused`` is None if neither a reply nor a refusal came."""
        self._in_flight -= 1
        self._last_end = now
        if refused is None:
            return
        if refused:
            counts = started > self._begun
            self._ended, self._refused = self._ended + counts, self._refused + counts
            return
        gap, self.accepted_at = now - self.accepted_at, now
        if gap > max(0.5, 16 * self._gap):  # nothing was accepted for long, so load was not the cause
            self._begin(started)
        self._gap += (gap - self._gap) / 8
        self.latency += (now - started - self.latency) / 8
        self._accepted += 1
        self._ended += started > self._begun
        # A period lasts about two round trips.
        enough = max(16, 2 * self._in_flight)
        if self._ended >= enough and self._ended - self._refused >= 3 and now - self._begun >= 2 * self.latency:
            self._adapt(self._accepted / (now - self._begun) * self.latency)  # Little's law
            self._begin(now)

    def _adapt(self, accepted: float) -> None:
        """Changes the places at the end of a period; ``accepted`` is the average number of accepted calls in flight."""
        share = self._refused / self._ended
        # A refusal with a wait stops all calls, so none is tolerated.
        if share <= (0.0 if self._closed_until > self._begun else 0.2):
            self._share = math.inf
            self.most = 1.1 * self.most if 1.1 * self.most <= 2 * accepted + 8 else math.inf
        elif self._free:
            self._free -= 1
        elif share < 0.6 * self._share:
            # This fits limits of concurrent calls and of calls per second. The next period shows whether it helps.
            self._share = share if self._share == math.inf else self._share
            self.most = 1.1 * accepted
        else:  # fewer calls were refused almost as often, so their number was not the cause
            self.most, self._share, self._free = math.inf, math.inf, FREE_PERIODS

    def interval(self) -> float:
        """Seconds between the starts of two calls."""
        return min(self.latency / max(self.most, 1e-9), max(self.latency, LONGEST_INTERVAL))

    def pause(self, sent: float, now: float, calls: int) -> float:
        """Seconds for which a refused call keeps its place if the endpoint asked for no wait; ``calls`` calls pause."""
        # They count from `sent`: a call that was not refused at once pauses for a shorter time.
        longest = max(self.latency, (now - self.accepted_at) * calls / 8)
        return max(0.0, sent + random.uniform(0, min(longest, LONGEST_PAUSE)) - now)


@dataclass(eq=False)
class Slot:
    """A call's place in a limiter; times are an event loop's, in seconds."""

    number: int  # the place in the order of arrival
    limits: Limits
    name: str  # the model or source
    requests: int = 0  # the number of requests that have started
    refusal: MootError | None = None  # the last refusal with HTTP 429
    since: float = 0.0  # the time of the first refusal
    queued: float = 0.0  # when the call last began to wait for its turn
    started: float = 0.0  # when the call last got a place
    holds_place: bool = False
    turn: asyncio.Future[None] = field(init=False)  # ends when the call gets a place or fails


class Limiter:
    """Limits the calls that all debates of an event loop make to one endpoint; they start in the order of arrival."""

    def __init__(self, address: str = "") -> None:
        self.address = address
        self.places = Places()
        self._held = 0  # number of calls that hold a place
        self._pausing = 0  # number of those that are not in flight, because they were refused
        self._queue: list[tuple[int, Slot]] = []
        self._numbers = itertools.count()
        # When the next call may start, by limit per minute: calls with the same limit share it.
        self._next: dict[int, float] = {}
        self._last_start = 0.0
        self._closed_until = 0.0
        self._long_waits: dict[str, tuple[float, MootError]] = {}
        self._refusal: MootError | None = None  # the last refusal, if no call was accepted since
        self._timer: asyncio.TimerHandle | None = None

    @property
    def running(self) -> int:
        """The number of calls in flight."""
        return self._held - self._pausing

    @property
    def waiting(self) -> int:
        """The number of calls that wait for their turn."""
        return self._pausing + sum(not slot.turn.done() for _, slot in self._queue)

    @asynccontextmanager
    async def slot(self, limits: Limits, name: str = "") -> AsyncIterator[Slot]:
        """Waits for a call's turn as `enter` does, and frees its place at the end."""
        slot = Slot(next(self._numbers), limits, name)
        try:
            await self.enter(slot)
            yield slot
        except MootError as error:
            error.attempts = slot.requests
            raise
        finally:
            self.leave(slot)

    async def enter(self, slot: Slot) -> None:
        """Waits for the call's turn, and gives it a place until `leave`; WorldError if the wait is too long."""
        loop = asyncio.get_running_loop()
        slot.queued, slot.turn = loop.time(), loop.create_future()
        until = slot.since + slot.limits.max_wait if slot.refusal else None
        if not (self._held or self._queue or slot.refusal):
            self.places.begin(slot.queued)
        heapq.heappush(self._queue, (slot.number, slot))
        self._start_calls()
        try:
            async with asyncio.timeout_at(until):
                await slot.turn
        except (asyncio.CancelledError, TimeoutError) as error:
            if not slot.turn.cancelled():
                slot.turn.exception()  # otherwise asyncio logs that nobody has asked for it
            self.leave(slot)  # even without a place: the call may have been the first in the queue
            if slot.refusal and isinstance(error, TimeoutError):
                raise timeout_error(slot.refusal, slot.limits) from slot.refusal
            raise

    def leave(self, slot: Slot) -> None:
        """Frees the call's place, if it holds one; if the call enters again, it is the last in the queue."""
        self._held -= slot.holds_place
        slot.holds_place, slot.number = False, next(self._numbers)
        self._start_calls()

    def _start_calls(self) -> None:
        """Starts waiting calls in order, as far as the limits allow; fails those that wait too long."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._queue:
            slot = self._queue[0][1]
            if not slot.turn.done():
                is_full = self._held + 1 > min(slot.limits.max_concurrency, max(1.0, self.places.most))
                due = self._due(slot)
                if error := self._error(slot, now, must_wait=is_full or due > now):
                    slot.turn.set_exception(error)
                elif is_full:  # perhaps only because of its own debate's limit, but no later call overtakes it
                    return
                elif due > now:
                    if self._timer:
                        self._timer.cancel()
                    self._timer = loop.call_at(due, self._start_calls)
                    return
                else:
                    self._held, slot.holds_place, slot.started, self._last_start = self._held + 1, True, now, now
                    if rate := slot.limits.requests_per_minute:
                        self._next[rate] = now + 60 / rate
                    slot.turn.set_result(None)
            heapq.heappop(self._queue)

    def _due(self, slot: Slot) -> float:
        """When a call may start, apart from the number of calls in flight."""
        long_wait, _ = self._long_waits.get(slot.name, (0.0, None))
        paced = self._next.get(slot.limits.requests_per_minute or 0, 0.0)
        return max(self._closed_until, long_wait, paced, self._last_start + self.places.interval())

    def _error(self, slot: Slot, now: float, must_wait: bool) -> MootError | None:
        """The error of a queued call that has waited too long, or would have to; else None."""
        until, error = self._long_waits.get(slot.name, (0.0, None))
        if error and (left := until - now) > LONGEST_WAIT:
            text = f"{error.detail} {slot.name} is not called for another {left:.0f} s."
            return WorldError(text, kind=error.kind, retryable=True, retry_after=left)
        waited = now - max(slot.queued, self.places.accepted_at)
        if must_wait and self._refusal and waited > slot.limits.max_wait:
            return timeout_error(self._refusal, slot.limits)
        return None

    async def send(self, slot: Slot, call: Callable[[], Awaitable[T]]) -> T:
        """Makes one request of a call that holds a place; further calls wait if the endpoint asks for a wait."""
        loop, refused = asyncio.get_running_loop(), None
        slot.requests += 1
        self.places.start(loop.time(), self._closed_until)
        try:
            result = await call()
            refused, self._refusal = False, None
            return result
        except MootError as error:
            count_refusal(self.address, error.kind)
            now, wait = loop.time(), (error.retryable and error.retry_after) or 0.0
            if wait > LONGEST_WAIT:
                self._long_waits[slot.name] = now + wait, error  # other models or sources are not affected
            elif wait:
                self._closed_until = max(self._closed_until, now + wait * random.uniform(1.0, 1.1))
            if refused := is_rate_limited(error) or None:
                slot.since = slot.since if slot.refusal else now
                slot.refusal = self._refusal = error
            raise
        finally:
            self.places.end(slot.started, loop.time(), refused)

    async def pause(self, slot: Slot, refusal: MootError) -> None:
        """Frees a refused call's place, but not its place in the order; WorldError if ``max_wait`` is too short."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        wait = (
            self._closed_until - now if refusal.retry_after else self.places.pause(slot.started, now, self._pausing + 1)
        )
        if now + wait > slot.since + slot.limits.max_wait:
            raise timeout_error(refusal, slot.limits) from refusal
        # If the endpoint asked for a wait, no call starts before its end, so the place is freed at once.
        if not refusal.retry_after:
            self._start_calls()  # there may be more places than before
            self._pausing += 1
            try:
                await asyncio.sleep(wait)
            finally:
                self._pausing -= 1
        self._held, slot.holds_place = self._held - 1, False
        loop.call_soon(self._start_calls)  # first, the call itself may queue again


def limiter(base_url: str) -> Limiter:
    """The limiter that all calls to one endpoint share in the running event loop."""
    return once_per_loop(("limiter", base_url), partial(Limiter, base_url))


def is_rate_limited(error: MootError) -> bool:
    """Whether an error means that an endpoint receives too many requests (HTTP 429)."""
    return error.kind == "rate_limited"


def timeout_error(error: MootError, limits: Limits) -> WorldError:
    """The error for a call that has waited, or would wait, longer than `max_wait`; ``error`` is a refusal."""
    text = f"{error.detail} The call waits at most {limits.max_wait:.0f} s (see the setting `max_wait`)."
    return WorldError(text, kind=error.kind, retryable=True, retry_after=error.retry_after)


async def with_retries(
    call: Callable[[], Awaitable[T]],
    limits: Limits,
    gate: Limiter,
    name: str = "",  # the model or source
    before_repeat: Callable[[MootError], Awaitable[None]] | None = None,  # gets the last error; its own ends the call
) -> tuple[T, int]:
    """The result of a call, which is repeated after errors that may pass, and the number of its requests."""
    failures = 0
    async with gate.slot(limits, name) as slot:
        while True:
            try:
                return await gate.send(slot, call), slot.requests
            except MootError as error:
                last, refused = error, is_rate_limited(error)
                failures += not refused  # `max_wait` bounds a refused call, not its number of attempts
                if not error.retryable or (error.retry_after or 0.0) > LONGEST_WAIT or failures >= limits.attempts:
                    raise
            await gate.pause(slot, last) if refused else gate.leave(slot)
            if before_repeat is not None:
                await before_repeat(last)
            if not refused:
                await asyncio.sleep(backoff(failures) if last.retry_after is None else last.retry_after)
            await gate.enter(slot)


def backoff(failures: int) -> float:
    """Seconds to wait after this many failures: a random number below a limit.

    The limit is 0.5 for the first failure. Each further failure doubles the limit, up to 8.
    """
    return random.uniform(0, min(8.0, 0.5 * 2 ** (failures - 1)))
