"""One limiter for each endpoint, and the retry loop around it.

All calls of an event loop to one endpoint go through its `Limiter`: chat models, embeddings and web sources. What the
endpoint says to one of them (HTTP 429, Retry-After) holds for all.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import weakref
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from moot.core.endpoint import Limits, once_per_loop
from moot.core.errors import MootError, WorldError
from moot.core.telemetry.switch import telemetry
from moot.core.throttle import Throttle

T = TypeVar("T")

LONGEST_WAIT = 60.0
"""Seconds that we wait at most because an endpoint asked for it; beyond that the call fails and says so."""


class Share(Protocol):
    """What this process may send of what all processes may that share an endpoint."""

    granted: int
    """Calls at once."""
    most: int
    """Calls at once of all processes."""

    def want(self) -> None:
        """More calls are to be made than are granted."""
        ...

    def refused(self, seconds: float) -> None:
        """The endpoint asks all for so many seconds of patience."""
        ...


_share: Callable[[str, Limiter], Share | None] = lambda address, gate: None  # noqa: E731


def share_endpoints(join: Callable[[str, Limiter], Share | None]) -> None:
    """Has the limiters that are made from now on share their endpoints with those of other processes.

    Args:
        join: is given an endpoint's address and its limiter.
    """
    global _share
    _share = join


class Limiter:
    """Calls to one endpoint, however many debates make them: so many at once, and so many a minute if that is set.

    Each caller brings its own limits, and calls start in the order in which they came: one that may not start yet, as
    its caller allows fewer at once, is not overtaken, and one that was refused as one too many is the first again.
    Calls of a minute are spaced evenly, and callers of one rate share it. `Throttle` says what the endpoint takes.

    Args:
        address: the endpoint's.
    """

    def __init__(self, address: str = "") -> None:
        self.address = address
        self.throttle = Throttle()
        self._running = 0
        self._waiting: deque[Slot] = deque()
        self._numbers = itertools.count()
        self._next: dict[int, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._closed: dict[str, tuple[float, MootError]] = {}
        self.share: Share | None = None
        """What this process may send of what all may; None if it shares with nobody."""

    @property
    def running(self) -> int:
        """Calls in flight."""
        return self._running

    @property
    def wanted(self) -> int:
        """Calls in flight, and those that wait."""
        return self._running + len(self._waiting)

    def look(self) -> None:
        """What is granted has changed: those start that may now."""
        self._start_waiting()

    def _at_once(self, limits: Limits) -> int:
        if self.share is None:
            return limits.max_concurrency
        if limits.max_concurrency > self.share.most:
            self.share.most = limits.max_concurrency
            self.share.want()
        if self._running >= self.share.granted:
            self.share.want()
        return min(limits.max_concurrency, self.share.granted)

    def slot(self, limits: Limits, name: str = "") -> Slot:
        """A place for one call, entered again for each of its requests; ``name`` is the model or source it asks."""
        return Slot(self, limits, name)

    async def enter(self, slot: Slot) -> None:
        """Waits for the call's turn.

        Raises:
            WorldError: the endpoint has asked for more patience than we have.
        """
        loop, limits = asyncio.get_running_loop(), slot.limits
        now = loop.time()
        if self._closed and (asked := self._closed.get(slot.name)):
            now = await self._wait_until_open(slot.name, *asked, loop)
        if slot.refusal and self.throttle.opens > slot.since + limits.max_wait:
            raise gave_up(slot.refusal, limits) from slot.refusal
        busy = self._waiting or self._running >= self._at_once(limits)
        if not (busy or limits.requests_per_minute or self.throttle.active):
            self._start(slot, now)
            return
        slot.made, slot.turn = now, loop.create_future()
        place = 0 if slot.refusal else len(self._waiting)
        while place < len(self._waiting) and self._waiting[place].number < slot.number:
            place += 1
        self._waiting.insert(place, slot)
        self._start_waiting()
        try:
            async with asyncio.timeout_at(slot.since + limits.max_wait if slot.refusal else None):
                await slot.turn
        except (asyncio.CancelledError, TimeoutError) as error:
            if slot.turn.cancelled():
                self._start_waiting()  # if it was the first, others may start now
            elif not slot.turn.exception():
                self.leave(slot, None)
            if slot.refusal and isinstance(error, TimeoutError):
                raise gave_up(slot.refusal, limits) from slot.refusal
            raise

    def leave(self, slot: Slot, error: BaseException | None, answered: bool = False) -> None:
        """Ends a request of a call; ``answered`` says that the endpoint took it."""
        self._running -= 1
        if self.throttle.active and answered:
            self.throttle.accept(slot.started, asyncio.get_running_loop().time())
        elif isinstance(error, MootError) and (is_busy(error) or (error.retryable and error.retry_after)):
            self._refused(slot, error)
            if is_busy(error) and (seen := telemetry()):
                seen.refused(self.address, slot.name)
        if self._waiting:
            self._start_waiting()

    def _refused(self, slot: Slot, error: MootError) -> None:
        now, asked = asyncio.get_running_loop().time(), error.retry_after or 0.0
        if self.share and 0 < asked <= LONGEST_WAIT:
            self.share.refused(asked)
        if asked > LONGEST_WAIT:
            self._closed[slot.name] = (now + asked, error)  # of other models or sources nothing was said
            return
        if not is_busy(error):
            self.throttle.close(now + asked)
            return
        slot.since = slot.since if slot.refusal else now
        slot.refusal = error
        self.throttle.refuse(slot.started, now, self._running, asked)
        for other in self._waiting:
            waited = now - max(other.made, self.throttle.took_one)
            if waited > other.limits.max_wait and other.turn and not other.turn.done():
                other.turn.set_exception(gave_up(error, other.limits))

    async def _wait_until_open(
        self, name: str, until: float, error: MootError, loop: asyncio.AbstractEventLoop
    ) -> float:
        left = until - loop.time()
        if left > LONGEST_WAIT:
            raise WorldError(
                f"{error.detail} Nothing is sent to it for another {left:.0f} s.",
                kind=error.kind,
                retryable=True,
                retry_after=left,
            )
        await asyncio.sleep(left)
        if self._closed.get(name) == (until, error):
            del self._closed[name]
        return loop.time()

    def _start(self, slot: Slot, now: float) -> None:
        self._running += 1
        slot.started = now
        self.throttle.start(now)
        if asked := slot.limits.requests_per_minute:
            part = self.share.granted / self.share.most if self.share else 1.0
            self._next[asked] = now + 60 / asked / part

    def _start_waiting(self) -> None:
        """Starts those that wait, in their order, as far as may be now; sets a timer if time holds the first up."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._waiting:
            slot = self._waiting[0]
            assert slot.turn is not None
            if not slot.turn.done():
                if self._running >= min(self._at_once(slot.limits), self.throttle.room):
                    return
                due = max(self.throttle.due(now), self._next.get(slot.limits.requests_per_minute or 0, 0.0))
                if due > now:
                    if self._timer:
                        self._timer.cancel()
                    self._timer = loop.call_at(due, self._start_waiting)
                    return
                self._start(slot, now)
                slot.turn.set_result(None)
            self._waiting.popleft()


class Slot:
    """A call's place in a limiter: an asynchronous context manager around each of its requests.

    Attributes:
        requests: those that were made.
        refusal: the last answer that the call was one too many; None if there was none.
        since: the loop's time of the first such answer.
        turned_away: whether the last request was not made, as the endpoint asks for too much patience.
    """

    __slots__ = (
        "_limiter",
        "limits",
        "made",
        "name",
        "number",
        "refusal",
        "requests",
        "since",
        "started",
        "turn",
        "turned_away",
    )

    def __init__(self, limiter: Limiter, limits: Limits, name: str) -> None:
        self._limiter = limiter
        self.limits = limits
        self.name = name
        self.number = next(limiter._numbers)
        self.requests = 0
        self.refusal: MootError | None = None
        self.since = self.started = self.made = 0.0
        self.turn: asyncio.Future[None] | None = None
        self.turned_away = False

    async def __aenter__(self) -> None:
        try:
            await self._limiter.enter(self)
        except MootError:
            self.turned_away = True
            raise
        self.requests += 1

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._limiter.leave(self, error, answered=error is None)


def limiter(base_url: str) -> Limiter:
    """The limiter that all calls to one endpoint share in the running event loop."""

    def make() -> Limiter:
        made = Limiter(base_url)
        made.share = _share(base_url, made)
        _made[:] = [*(reference for reference in _made if reference()), weakref.ref(made)]
        return made

    return once_per_loop(("limiter", base_url), make)


_made: list[weakref.ref[Limiter]] = []


def limiters() -> list[Limiter]:
    """The limiters of all event loops of this process."""
    return [made for reference in [*_made] if (made := reference())]


def is_busy(error: MootError) -> bool:
    """Whether an endpoint refused a call as one too many (HTTP 429): the call itself is not at fault."""
    return error.kind == "rate_limited"


def gave_up(error: MootError, limits: Limits) -> WorldError:
    """The error for a call whose time is up before the endpoint has taken it."""
    text = f"{error.detail} The call has waited as long as the setting `max_wait` has it ({limits.max_wait:.0f} s)."
    return WorldError(text, kind=error.kind, retryable=True, retry_after=error.retry_after)


async def with_retries(
    call: Callable[[], Awaitable[T]], limits: Limits, gate: Limiter, name: str = ""
) -> tuple[T, int]:
    """Runs a call in its turn until it succeeds, fails for good, or its attempts are used up.

    A request that the endpoint refuses as one too many is no attempt: the call takes its turn again, for
    ``limits.max_wait`` seconds at most. A call whose other side asks for more than `LONGEST_WAIT` seconds is not tried
    again.

    Args:
        call: makes one request.
        limits: how the endpoint may be called.
        gate: the endpoint's limiter.
        name: the model or source that is asked.

    Returns:
        The call's result, and the number of requests that it took.

    Raises:
        MootError: the last request's error, with the number of requests as ``attempts``.
    """
    slot = gate.slot(limits, name)
    failures = 0
    while True:
        try:
            async with slot:
                return await call(), slot.requests
        except MootError as error:
            error.attempts = slot.requests
            busy, asked = is_busy(error), error.retry_after
            failures += not busy
            hopeless = slot.turned_away or not error.retryable or (asked or 0.0) > LONGEST_WAIT
            if hopeless or failures >= limits.attempts:
                raise
        if not busy:
            await asyncio.sleep(backoff(failures) if asked is None else asked)


def backoff(failures: int) -> float:
    """Seconds to wait after so many failures: at random, up to half a second, and twice as long after each further."""
    return random.uniform(0, min(8.0, 0.5 * 2 ** (failures - 1)))
