"""Callers share a simulated endpoint that refuses calls (HTTP 429).

The event loop has a simulated clock, which jumps to the next timer.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from moot.core.endpoint import Limits
from moot.core.errors import MootError, WorldError
from moot.core.limiter import LONGEST_WAIT, Limiter, with_retries

CALLS = 31
"""Number of calls of a debate. Up to four of them are made at once."""


class Clock(asyncio.SelectorEventLoop):
    """An event loop with a simulated clock, which jumps to the next timer if the loop has nothing to do."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = 0.0
        selector: Any = self._selector  # type: ignore[attr-defined]
        select = selector.select

        def jump(timeout: float | None = None) -> Any:
            self.passed += timeout or 0.0
            return select(0)

        selector.select = jump

    def time(self) -> float:
        return self.passed


def run(main: Coroutine[Any, Any, Any]) -> float:
    """Run a coroutine on a `Clock`; return the simulated seconds."""
    random.seed(0)
    with asyncio.Runner(loop_factory=Clock) as runner:
        runner.run(main)
        return runner.get_loop().time()


@dataclass
class SimulatedEndpoint:
    """A simulated endpoint that refuses requests beyond its limits, or at random.

    Args:
        rate: the tokens per second that its token bucket gains; a call takes one token.
        size: the maximum number of tokens in the bucket.
        at_once: the maximum number of calls at the same time.
        retry_after: the Retry-After of a refusal in seconds; None for no header.
        seconds: the average duration of a call.
        at_random: the share of requests that are refused whatever the load.
        slow: whether a request is refused only after the duration of a call.
        down: the moments at which the endpoint begins and ends to refuse all requests.
    """

    rate: float = 8.0
    size: float = 8.0
    at_once: float = 1e9
    retry_after: float | None = 1.0
    seconds: float = 0.05
    at_random: float = 0.0
    slow: bool = False
    down: tuple[float, float] = (0.0, 0.0)
    gate: Limiter = field(default_factory=Limiter)
    sent: list[float] = field(default_factory=list)
    refused_at: list[float] = field(default_factory=list)
    running: int = 0
    filled_at: float = 0.0
    tokens: float = -1.0

    async def answer(self) -> None:
        """Answer a request, or refuse it."""
        now = asyncio.get_running_loop().time()
        tokens = self.size if self.tokens < 0 else self.tokens
        self.tokens, self.filled_at = min(self.size, tokens + self.rate * (now - self.filled_at)), now
        self.sent.append(now)
        is_down = self.down[0] <= now < self.down[1]
        if is_down or self.tokens < 1 or self.running >= self.at_once or random.random() < self.at_random:
            if self.slow:
                await asyncio.sleep(self.seconds)
            self.refused_at.append(now)
            raise WorldError("Busy.", kind="rate_limited", retryable=True, retry_after=self.retry_after)
        self.tokens -= 1
        self.running += 1
        try:
            await asyncio.sleep(self.seconds * random.uniform(0.5, 1.5))
        finally:
            self.running -= 1

    async def debate(self, limits: Limits, calls: int = CALLS) -> None:
        """Make ``calls`` calls, up to four at once."""
        while calls:
            some = min(calls, random.randint(1, 4))
            calls -= some
            await asyncio.gather(*(with_retries(self.answer, limits, self.gate) for _ in range(some)))


async def run_debates(endpoint: SimulatedEndpoint, count: int, calls: int = CALLS, **limits: Any) -> None:
    """Run ``count`` debates at once, each with ``calls`` calls; ``limits`` are the fields of `Limits`."""
    await asyncio.gather(*(endpoint.debate(Limits(**limits), calls) for _ in range(count)))


UNLIMITED: dict[str, Any] = {"rate": 1e9, "size": 1e9}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"retry_after": None},
        {"retry_after": 0.125},
        {"seconds": 2},
        {"size": 1, "retry_after": None},
        {"rate": 40, "retry_after": None},
        {**UNLIMITED, "at_once": 1, "retry_after": None},
        {**UNLIMITED, "at_once": 4, "retry_after": None},
        {**UNLIMITED, "at_once": 4, "seconds": 1},
        {**UNLIMITED, "at_once": 16, "seconds": 2},
        {**UNLIMITED, "at_once": 4, "seconds": 30},
    ],
    ids=str,
)
@pytest.mark.parametrize("max_concurrency", [16, 32])
def test_most_of_what_an_endpoint_accepts_is_used(options: dict[str, Any], max_concurrency: int) -> None:
    endpoint = SimulatedEndpoint(**options)
    seconds = run(run_debates(endpoint, 32, max_concurrency=max_concurrency, max_wait=1e9))
    assert len(endpoint.sent) - len(endpoint.refused_at) == CALLS * 32  # every call succeeded in the end
    assert len(endpoint.sent) <= 3 * CALLS * 32
    assert seconds <= 2 * CALLS * 32 / min(endpoint.rate, endpoint.at_once / endpoint.seconds)


@pytest.mark.parametrize("seconds", [0.05, 2.0])
@pytest.mark.parametrize("slow", [False, True], ids=["refused at once", "refused slowly"])
@pytest.mark.parametrize("debates", [8, 40])
def test_refusals_at_random_hardly_slow_calls_down(debates: int, slow: bool, seconds: float) -> None:
    """60% of the requests are refused, so each call takes 2.5 requests."""
    plain = SimulatedEndpoint(**UNLIMITED, seconds=2.5 * seconds)
    refusing = SimulatedEndpoint(**UNLIMITED, seconds=seconds, retry_after=None, at_random=0.6, slow=slow)
    assert run(run_debates(refusing, debates)) <= 2 * run(run_debates(plain, debates))


@pytest.mark.parametrize("begins", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("lasts", [1.0, 6.0, 30.0])
@pytest.mark.parametrize("debates", [1, 12, 40])
def test_calls_soon_go_on_as_before_after_an_endpoint_refused_everything(
    debates: int, lasts: float, begins: float
) -> None:
    plain, down = SimulatedEndpoint(**UNLIMITED), SimulatedEndpoint(**UNLIMITED, retry_after=None)
    down.down = (begins, begins + lasts)
    undisturbed = run(run_debates(plain, debates, 62))
    assert run(run_debates(down, debates, 62)) <= 2 * undisturbed + 2.5 * lasts + 4


def test_no_request_is_sent_before_retry_after_is_over() -> None:
    """One call arrives while other calls wait for the end of Retry-After."""
    endpoint = SimulatedEndpoint(rate=10, size=10, retry_after=20.0)

    async def call_now_and_later() -> None:
        async def call_later() -> None:
            await asyncio.sleep(3.0)
            await with_retries(endpoint.answer, Limits(), endpoint.gate)

        await asyncio.gather(*(with_retries(endpoint.answer, Limits(), endpoint.gate) for _ in range(40)), call_later())

    run(call_now_and_later())
    first = endpoint.refused_at[0]
    assert min(moment for moment in endpoint.sent if moment > first) >= first + 20


@given(st.lists(st.integers(1, 20), min_size=1, max_size=12), st.integers(1, 5), st.sampled_from([None, 0.0, 0.3, 2.0]))
@settings(max_examples=40, deadline=None)
def test_callers_with_different_limits_are_all_served(
    limits: list[int], at_once: int, retry_after: float | None
) -> None:
    endpoint = SimulatedEndpoint(rate=20, size=3, at_once=at_once, retry_after=retry_after)

    async def run_callers() -> None:
        await asyncio.gather(*(endpoint.debate(Limits(max_concurrency=limit), 5) for limit in limits))

    run(run_callers())
    assert len(endpoint.sent) - len(endpoint.refused_at) == 5 * len(limits)


@pytest.mark.parametrize("retry_after", [0.0, None])
def test_all_calls_fail_because_of_max_wait_if_every_request_is_refused(retry_after: float | None) -> None:
    """Calls that still wait for their first slot also fail. Few requests are sent."""
    endpoint, errors = SimulatedEndpoint(rate=0, size=0, retry_after=retry_after), list[MootError]()

    async def call() -> None:
        with pytest.raises(WorldError) as caught:
            await with_retries(endpoint.answer, Limits(max_concurrency=4), endpoint.gate)
        errors.append(caught.value)

    async def calls() -> None:
        await asyncio.gather(*(call() for _ in range(50)))

    assert 500 < run(calls()) < 1300
    assert len(errors) == 50
    assert any(error.attempts == 0 for error in errors)
    assert sum(error.attempts for error in errors) == len(endpoint.sent) < 1000
    assert all(
        error.kind == "rate_limited" and "waits at most 600 s (see the setting `max_wait`)" in error.detail
        for error in errors
    )


def test_calls_fail_during_a_long_wait_until_its_rest_is_short_enough() -> None:
    """Calls of another model at the same endpoint are still made."""
    model, other = SimulatedEndpoint(rate=0, size=0, retry_after=LONGEST_WAIT + 40), SimulatedEndpoint()

    async def calls() -> None:
        loop = asyncio.get_running_loop()
        for left in (100, 80):
            with pytest.raises(WorldError) as caught:
                await with_retries(model.answer, Limits(), model.gate, "a")
            assert caught.value.retry_after == pytest.approx(left)
            assert len(model.sent) == 1
            await asyncio.sleep(20)
        assert "another 80 s" in caught.value.detail
        assert (await with_retries(other.answer, Limits(), model.gate, "b"))[1] == 1
        model.size = model.tokens = 1.0
        assert (await with_retries(model.answer, Limits(), model.gate, "a"))[1] == 1
        assert 100 <= model.sent[-1] <= 106  # with a random delay, so that not all calls start at once
        assert loop.time() == pytest.approx(model.sent[-1], abs=1)

    run(calls())


def test_queued_calls_fail_when_a_long_wait_for_their_model_begins() -> None:
    """A queued call of another model is sent."""
    model, other = SimulatedEndpoint(rate=0, size=0, retry_after=LONGEST_WAIT + 40), SimulatedEndpoint()

    async def calls() -> None:
        limits = Limits(max_concurrency=1)
        waiting = [asyncio.ensure_future(with_retries(model.answer, limits, model.gate, "a")) for _ in range(3)]
        answered = asyncio.ensure_future(with_retries(other.answer, limits, model.gate, "b"))
        errors = await asyncio.gather(*waiting, return_exceptions=True)
        assert [error.retry_after for error in errors if isinstance(error, WorldError)] == [pytest.approx(100)] * 3
        assert (await answered)[1] == 1

    run(calls())
    assert len(model.sent) == 1


def test_a_queued_call_waits_for_the_end_of_a_long_wait_if_little_of_it_is_left() -> None:
    gate, limits, sent = Limiter(), Limits(max_concurrency=2), list[float]()

    async def refuse_first() -> None:
        sent.append(asyncio.get_running_loop().time())
        await asyncio.sleep(1)
        if len(sent) == 1:
            raise WorldError("Busy.", kind="rate_limited", retryable=True, retry_after=LONGEST_WAIT + 40)

    async def calls() -> None:
        asked = [with_retries(refuse_first, limits, gate, "a"), *(occupy(70) for _ in range(3))]
        await asyncio.gather(*asked, with_retries(refuse_first, limits, gate, "a"), return_exceptions=True)

    async def occupy(seconds: float) -> None:
        async with gate.slot(limits, "b"):
            await asyncio.sleep(seconds)

    run(calls())
    assert sent == [0.0, pytest.approx(LONGEST_WAIT + 41)]


def test_a_refused_call_is_retried_first() -> None:
    started, busy = list[int](), [1]

    async def call(i: int) -> None:
        if busy and busy.pop():
            raise WorldError("Busy.", kind="rate_limited", retryable=True)
        started.append(i)
        await asyncio.sleep(1)

    async def calls() -> None:
        gate, limits = Limiter(), Limits(max_concurrency=1)
        await asyncio.gather(*(with_retries(partial(call, i), limits, gate) for i in range(5)))

    run(calls())
    assert started == [0, 1, 2, 3, 4]


def test_rate_limit_refusals_do_not_use_up_attempts() -> None:
    gate, left = Limiter(), [429, 429, 500, 429, 500, 429]

    async def call() -> None:
        if left:
            kind = "rate_limited" if left.pop() == 429 else "server_error"
            raise WorldError("Busy.", kind=kind, retryable=True)

    async def calls() -> None:
        assert await with_retries(call, Limits(attempts=3), gate) == (None, 7)  # 4 refusals, 2 failures, 1 success

    run(calls())


def test_no_call_is_made_during_the_retry_after_of_a_server_error() -> None:
    sent: list[float] = []

    async def call() -> None:
        sent.append(asyncio.get_running_loop().time())
        if len(sent) == 1:
            raise WorldError("Down.", kind="server_error", retryable=True, retry_after=5.0)

    async def calls() -> None:
        gate = Limiter()
        await asyncio.gather(*(with_retries(call, Limits(max_concurrency=1), gate) for _ in range(5)))

    run(calls())
    assert sent[0] == 0
    assert min(sent[1:]) >= 5


def test_calls_per_minute_are_spaced_evenly() -> None:
    endpoint = SimulatedEndpoint(rate=1e9, size=1e9)
    run(run_debates(endpoint, 5, 4, requests_per_minute=120))
    assert all(later - earlier >= 0.5 for earlier, later in itertools.pairwise(endpoint.sent))
    assert endpoint.sent[-1] < 0.5 * 20


@pytest.mark.parametrize("retry_after", [None, 30.0])
def test_a_refused_call_that_is_cancelled_while_it_waits_frees_its_place(retry_after: float | None) -> None:
    async def refuse() -> None:
        raise WorldError("Busy.", kind="rate_limited", retryable=True, retry_after=retry_after)

    async def calls() -> None:
        gate, limits = Limiter(), Limits(max_concurrency=1)
        refused = asyncio.ensure_future(with_retries(refuse, limits, gate))
        while gate.running or not gate.waiting:
            await asyncio.sleep(0)
        next_call = asyncio.ensure_future(with_retries(partial(asyncio.sleep, 0), limits, gate))
        await asyncio.sleep(0)
        refused.cancel()
        assert (await next_call)[1] == 1
        assert (gate.running, gate.waiting) == (0, 0)
        with pytest.raises(asyncio.CancelledError):
            await refused

    assert run(calls()) <= (retry_after or 0.0) * 1.1
