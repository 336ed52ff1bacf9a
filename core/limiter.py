"""One limiter for each endpoint, and the retry loop that uses it.

All calls of an event loop to one endpoint share a `Limiter`: calls to chat models, embedding models and web sources. If
the endpoint refuses a call (HTTP 429) or asks for a wait (Retry-After), all further calls to it wait. But a wait of
more than `LONGEST_WAIT` seconds applies only to calls of one model or source. As long as more than `LONGEST_WAIT`
seconds of this wait are left, calls of the model or source fail at once. After that, they wait for the end of the wait.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import weakref
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from moot.core.endpoint import Limits, once_per_loop, without_user
from moot.core.errors import MootError, WorldError
from moot.core.shared_waits import SharedWait
from moot.core.telemetry.switch import telemetry
from moot.core.throttle import Throttle

T = TypeVar("T")

LONGEST_WAIT = 60.0
"""The longest accepted wait, in seconds. If an endpoint asks for a longer wait, the call fails."""


class Share(Protocol):
    """This process's share of an endpoint that several processes call."""

    granted: int
    """Maximum number of concurrent calls of this process."""
    most: int
    """Maximum number of concurrent calls of all processes together, as far as this process knows it.

    If a call of the limiter has a higher `max_concurrency`, the limiter increases this number to it.
    """

    def request_more(self) -> None:
        """Requests a larger share, because this process has more calls than its share allows."""
        ...

    def report_wait(self, seconds: float, pace: float) -> None:
        """Reports a wait to the other processes, so that none of them calls the endpoint for this many seconds.

        ``pace`` is the number of calls per second that this process made before the refusal (HTTP 429). It is infinite
        if it was not measured. It is 0 if the endpoint asked for the wait with another error.
        """
        ...

    def report_long_wait(self, name: str, seconds: float) -> str:
        """Reports a wait of more than `LONGEST_WAIT` seconds for a model or a source (``name``) to the other processes.

        Returns advice on how to end the wait; empty for no advice. The limiter appends the advice to the text of the
        call's error.
        """
        ...

    def update(self, name: str = "") -> None:
        """Applies the waits that other processes have reported.

        These are waits for the endpoint, and long waits for the model or source ``name`` (empty for none). The limiter
        calls this method before each request.
        """
        ...


_join_endpoint: Callable[[str, Limiter], Share] = SharedWait


def share_endpoints(join: Callable[[str, Limiter], Share]) -> None:
    """Sets the function with which each new limiter joins the other processes that call its endpoint.

    By default, this function is `SharedWait`, which uses files in the home folder.

    Args:
        join: takes an endpoint's address and its limiter; returns this process's share of the endpoint.
    """
    global _join_endpoint
    _join_endpoint = join


class Limiter:
    """Limits the calls that all debates together make to one endpoint.

    It limits the number of concurrent calls and, if a debate has a limit for it, the number of calls per minute. Each
    call has the limits of its own debate. Calls start in the order of their arrival: a call that waits because of a low
    limit is not overtaken. A call that was refused with HTTP 429 keeps its place; a call that is repeated after another
    error queues again at the end. Calls with a limit per minute start at equal intervals. Calls with the same limit per
    minute share this limit; calls with another limit per minute are counted separately. `Throttle` estimates how many
    calls the endpoint accepts.

    Args:
        address: the endpoint's address.
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
        """This process's share of the endpoint; None if the endpoint is not shared."""

    @property
    def running(self) -> int:
        """The number of calls in flight."""
        return self._running

    @property
    def demand(self) -> int:
        """The number of calls in flight or waiting."""
        return self._running + len(self._waiting)

    def start_queued_calls(self) -> None:
        """Starts waiting calls, as far as the limits allow. It must be called after the share has changed."""
        self._start_queued_calls()

    def _max_concurrency(self, limits: Limits) -> int:
        """The smaller of a call's limit and this process's share.

        Requests a larger share if this share is used up, or if the call's limit is higher than ``share.most``.
        """
        if self.share is None:
            return limits.max_concurrency
        if limits.max_concurrency > self.share.most:
            self.share.most = limits.max_concurrency
            self.share.request_more()
        if self._running >= self.share.granted:
            self.share.request_more()
        return min(limits.max_concurrency, self.share.granted)

    def slot(self, limits: Limits, name: str = "") -> Slot:
        """The context manager to enter for each request of one call; ``name`` is the model or source."""
        return Slot(self, limits, name)

    async def enter(self, slot: Slot) -> None:
        """Waits for the call's turn; its request then counts as running until `leave`.

        Raises:
            WorldError: the rest of a wait for the model or source exceeds `LONGEST_WAIT`. Or the call has waited,
                or would wait, longer than ``max_wait`` because the endpoint refuses calls.
        """
        loop, limits = asyncio.get_running_loop(), slot.limits
        now = loop.time()
        if self.share:
            self.share.update(slot.name)
        while closed := self._closed.get(slot.name):  # during the wait, another call may have been refused
            now = await self._wait_until_open(slot.name, *closed, loop)
        if slot.refusal and self.throttle.opens_at > slot.since + limits.max_wait:
            raise timeout_error(slot.refusal, limits) from slot.refusal
        busy = self._waiting or self._running >= self._max_concurrency(limits)
        if not (busy or limits.requests_per_minute or self.throttle.active):
            self._start(slot, now)
            return
        slot.queued_at, slot.turn = now, loop.create_future()
        index = 0 if slot.refusal else len(self._waiting)
        while index < len(self._waiting) and self._waiting[index].number < slot.number:
            index += 1
        self._waiting.insert(index, slot)
        self._start_queued_calls()
        try:
            async with asyncio.timeout_at(slot.since + limits.max_wait if slot.refusal else None):
                await slot.turn
        except (asyncio.CancelledError, TimeoutError) as error:
            if slot.turn.cancelled():
                self._start_queued_calls()  # the call may have been the first in the queue, so others may start now
            elif not slot.turn.exception():
                self.leave(slot, None)
            if slot.refusal and isinstance(error, TimeoutError):
                raise timeout_error(slot.refusal, limits) from slot.refusal
            raise

    def leave(self, slot: Slot, error: BaseException | None, answered: bool = False) -> None:
        """Ends a request; if its error is a refusal or asks for a wait, other calls wait.

        ``answered`` is true if the endpoint answered the request without an error.
        """
        self._running -= 1
        if self.throttle.active and answered:
            self.throttle.accept(slot.started, asyncio.get_running_loop().time())
        elif isinstance(error, MootError) and (is_rate_limited(error) or (error.retryable and error.retry_after)):
            self._record_refusal(slot, error)
            if is_rate_limited(error) and (seen := telemetry()):
                seen.count_refusal(self.address, slot.name)
        if self._waiting:
            self._start_queued_calls()

    def _record_refusal(self, slot: Slot, error: MootError) -> None:
        """Makes other calls wait after the endpoint has refused a call or asked for a wait."""
        now, wait = asyncio.get_running_loop().time(), error.retry_after or 0.0
        if wait > LONGEST_WAIT:
            advice = self.share.report_long_wait(slot.name, wait) if self.share else ""
            closing = WorldError(f"{error.detail}{advice}", kind=error.kind, retryable=True, retry_after=wait)
            self._closed[slot.name] = (now + wait, closing)  # other models or sources are not affected
            return
        refused = is_rate_limited(error)
        if refused:
            self.throttle.refuse(slot.started, now, self._running, wait)
        else:
            self.throttle.close(now + wait)
        if self.share:
            self.share.report_wait(self.throttle.opens_at - now, self.throttle.refused_pace if refused else 0.0)
        if not refused:
            return
        slot.since = slot.since if slot.refusal else now
        slot.refusal = error
        self._fail_overdue_calls(now, error)

    def _fail_overdue_calls(self, now: float, error: MootError) -> None:
        """Makes calls fail that have waited longer than `max_wait` while the endpoint accepted no call.

        ``error`` is the refusal that the errors of these calls quote.
        """
        for other in self._waiting:
            waited = now - max(other.queued_at, self.throttle.last_accepted)
            if waited > other.limits.max_wait and other.turn and not other.turn.done():
                other.turn.set_exception(timeout_error(error, other.limits))

    def refuse_elsewhere(self, wait: float, pace: float) -> None:
        """Makes calls wait, because the endpoint refused another process or asked it to wait.

        Args:
            wait: seconds to wait.
            pace: see `Throttle.refuse_elsewhere`.
        """
        now = asyncio.get_running_loop().time()
        self.throttle.refuse_elsewhere(now, wait, pace)
        if self._waiting:
            text = f"{without_user(self.address)} asks for a wait."
            self._fail_overdue_calls(now, WorldError(text, kind="rate_limited", retryable=True, retry_after=wait))

    def close_elsewhere(self, name: str, wait: float, advice: str = "") -> None:
        """Makes calls of a model or a source fail or wait, because the endpoint asked another process for a long wait.

        Args:
            name: the model or the source.
            wait: seconds during which the model or source must not be called.
            advice: how to end the wait, appended to the text of the error; begins with a space. Empty for no advice.
        """
        until = asyncio.get_running_loop().time() + wait
        if name not in self._closed or self._closed[name][0] < until - 1:  # otherwise the wait is already known
            text = f"{without_user(self.address)} asked another process for a long wait.{advice}"
            self._closed[name] = (
                until,
                WorldError(text, kind="rate_limited", retryable=True, retry_after=wait),
            )

    def reopen(self, name: str) -> None:
        """Ends the long wait of a model or a source early. Some of the calls that already wait go on waiting."""
        self._closed.pop(name, None)

    async def _wait_until_open(
        self, name: str, until: float, error: MootError, loop: asyncio.AbstractEventLoop
    ) -> float:
        """Waits for the end of a long wait of a model or a source. Returns the event loop's time at this end.

        Raises:
            WorldError: the rest of the wait is longer than `LONGEST_WAIT`.
        """
        if refused := self._long_wait_error(name, loop.time()):
            raise refused
        await asyncio.sleep((until - loop.time()) * random.uniform(1.0, 1.1))
        if self._closed.get(name) == (until, error):
            del self._closed[name]
        return loop.time()

    def _long_wait_error(self, name: str, now: float) -> WorldError | None:
        """The error of a call during a long wait; None if there is no wait, or its rest is at most `LONGEST_WAIT`."""
        until, error = self._closed.get(name, (0.0, None))
        if error is None or (left := until - now) <= LONGEST_WAIT:
            return None
        return WorldError(
            f"{error.detail} {name} is not called for another {left:.0f} s.",
            kind=error.kind,
            retryable=True,
            retry_after=left,
        )

    def _start(self, slot: Slot, now: float) -> None:
        """Counts a call as running, and sets when the next call with the same limit per minute may start."""
        self._running += 1
        slot.started = now
        self.throttle.start(now)
        if rate := slot.limits.requests_per_minute:
            part = self.share.granted / self.share.most if self.share else 1.0
            self._next[rate] = now + 60 / rate / part

    def _start_queued_calls(self) -> None:
        """Starts waiting calls in order, as far as the limits allow; sets a timer if the next call must start later.

        If the first call in the queue has to wait longer than `LONGEST_WAIT` for its model or source, it fails.
        """
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._waiting:
            slot = self._waiting[0]
            assert slot.turn is not None
            if self.share:
                self.share.update(slot.name)
            if self._closed and not slot.turn.done() and (refused := self._long_wait_error(slot.name, now)):
                slot.turn.set_exception(refused)
            if not slot.turn.done():
                if self._running >= min(self._max_concurrency(slot.limits), self.throttle.room):
                    return
                open_at, _ = self._closed.get(slot.name, (0.0, None))
                next_at = self._next.get(slot.limits.requests_per_minute or 0, 0.0)
                due = max(self.throttle.due(now), next_at, open_at)
                if due > now:
                    if self._timer:
                        self._timer.cancel()
                    self._timer = loop.call_at(due, self._start_queued_calls)
                    return
                self._start(slot, now)
                slot.turn.set_result(None)
            self._waiting.popleft()


class Slot:
    """A call's slot in a limiter: an asynchronous context manager around each request of the call.

    Attributes:
        requests: the number of requests that have started.
        refusal: the error of the last refusal with HTTP 429; None if there was no refusal.
        since: the event loop's time of the first refusal; 0 if there was no refusal.
        rejected: whether a request was not sent, because its wait was too long.
    """

    __slots__ = (
        "_limiter",
        "limits",
        "name",
        "number",
        "queued_at",
        "refusal",
        "rejected",
        "requests",
        "since",
        "started",
        "turn",
    )

    def __init__(self, limiter: Limiter, limits: Limits, name: str) -> None:
        self._limiter = limiter
        self.limits = limits
        self.name = name
        self.number = next(limiter._numbers)
        self.requests = 0
        self.refusal: MootError | None = None
        self.since = self.started = self.queued_at = 0.0
        self.turn: asyncio.Future[None] | None = None
        self.rejected = False

    async def __aenter__(self) -> None:
        try:
            await self._limiter.enter(self)
        except MootError:
            self.rejected = True
            raise
        self.requests += 1

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._limiter.leave(self, error, answered=error is None)


def limiter(base_url: str) -> Limiter:
    """The limiter that all calls to one endpoint share in the running event loop."""

    def make() -> Limiter:
        made = Limiter(base_url)
        made.share = _join_endpoint(base_url, made)
        _limiters[:] = [*(reference for reference in _limiters if reference()), weakref.ref(made)]
        return made

    return once_per_loop(("limiter", base_url), make)


_limiters: list[weakref.ref[Limiter]] = []


def limiters() -> list[Limiter]:
    """All limiters of this process that are still in use, in any of its event loops."""
    return [made for reference in [*_limiters] if (made := reference())]


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
    name: str = "",
    before_repeat: Callable[[MootError], Awaitable[None]] | None = None,
) -> tuple[T, int]:
    """Runs a call under the limiter until it succeeds, fails with a permanent error, or has used its attempts.

    A request that is refused with HTTP 429 does not count as an attempt. The call queues again, for at most
    ``limits.max_wait`` seconds after its first refusal. A call is not retried if the endpoint asks for a wait longer
    than `LONGEST_WAIT`.

    Args:
        call: makes one request.
        limits: the call's limits.
        gate: the endpoint's limiter.
        name: the model or source that is called.
        before_repeat: called with the error of the last request, before the request is repeated. If `before_repeat`
            raises an error, the call ends with this error.

    Returns:
        The call's result, and the number of its requests.

    Raises:
        MootError: the error of the last request, or of the limiter if the call would wait too long. Its ``attempts``
            is the number of requests. Other errors of ``call``, and errors of ``before_repeat``, are raised unchanged.
    """
    slot = gate.slot(limits, name)
    failures = 0
    while True:
        try:
            async with slot:
                return await call(), slot.requests
        except MootError as error:
            error.attempts = slot.requests
            rate_limited, wait = is_rate_limited(error), error.retry_after
            failures += not rate_limited
            permanent = slot.rejected or not error.retryable or (wait or 0.0) > LONGEST_WAIT
            if permanent or failures >= limits.attempts:
                raise
            if before_repeat is not None:
                await before_repeat(error)
        if not rate_limited:
            await asyncio.sleep(backoff(failures) if wait is None else wait)


def backoff(failures: int) -> float:
    """Seconds to wait after this many failures: a random number below a limit.

    The limit is 0.5 for the first failure. Each further failure doubles the limit, up to 8.
    """
    return random.uniform(0, min(8.0, 0.5 * 2 ** (failures - 1)))
