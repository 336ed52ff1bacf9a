"""Rate limits: if an endpoint refuses one call, all its callers wait.

The clock of the event loop jumps to the next timer.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import random
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from moot.core.endpoint import Limits
from moot.core.errors import MootError, WorldError
from moot.core.limiter import LONGEST_WAIT, Limiter, with_retries
from moot.core.shared_waits import SharedWait
from moot.core.throttle import Throttle

CALLS = 31
"""Calls of a debate, up to four of them at once."""


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

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Call the function at once: the clock would not wait for a thread."""
        done = self.create_future()
        done.set_result(func(*args))
        return done


def run(main: Coroutine[Any, Any, Any]) -> float:
    """Run a coroutine on a `Clock`; return the simulated seconds."""
    random.seed(0)
    with asyncio.Runner(loop_factory=Clock) as runner:
        runner.run(main)
        return runner.get_loop().time()


@dataclass
class SimulatedEndpoint:
    """A simulated endpoint that refuses requests beyond its limits.

    Args:
        rate: the tokens per second that its token bucket gains; a call takes one token.
        size: the maximum number of tokens in the bucket.
        at_once: the maximum number of calls at the same time.
        retry_after: the Retry-After of a refusal in seconds; None for no header.
        seconds: the average duration of a call.
    """

    rate: float = 8.0
    size: float = 8.0
    at_once: float = 1e9
    retry_after: float | None = 1.0
    seconds: float = 0.05
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
        if self.tokens < 1 or self.running >= self.at_once:
            self.refused_at.append(now)
            raise WorldError("Busy.", kind="rate_limited", retryable=True, retry_after=self.retry_after)
        self.tokens -= 1
        self.running += 1
        try:
            await asyncio.sleep(self.seconds * random.uniform(0.5, 1.5))
        finally:
            self.running -= 1

    async def debate(self, limits: Limits, calls: int = CALLS, gate: Limiter | None = None) -> None:
        """Make ``calls`` calls, up to four at once, with the limiter ``gate`` (by default the endpoint's)."""
        while calls:
            some = min(calls, random.randint(1, 4))
            calls -= some
            await asyncio.gather(*(with_retries(self.answer, limits, gate or self.gate) for _ in range(some)))


async def run_debates(model: SimulatedEndpoint, count: int, calls: int = CALLS, **limits: Any) -> None:
    await asyncio.gather(*(model.debate(Limits(**limits), calls) for _ in range(count)))


@pytest.mark.parametrize("retry_after", [1.0, 0.0, 0.125, None], ids=lambda retry_after: f"Retry-After {retry_after}")
@pytest.mark.parametrize("count", [16, 32, 64])
def test_many_debates_at_a_token_bucket_lose_no_call(retry_after: float | None, count: int) -> None:
    model = SimulatedEndpoint(retry_after=retry_after)
    seconds = run(run_debates(model, count))
    assert len(model.sent) - len(model.refused_at) == CALLS * count  # every call succeeded in the end
    assert len(model.sent) <= 1.1 * CALLS * count
    assert seconds < 1.15 * CALLS * count / model.rate


@pytest.mark.parametrize(
    "model",
    [
        SimulatedEndpoint(size=1),
        SimulatedEndpoint(size=1, retry_after=None),
        SimulatedEndpoint(seconds=2),
        SimulatedEndpoint(rate=0.5, size=1, retry_after=None),
        SimulatedEndpoint(rate=1e9, size=1e9, at_once=1, retry_after=None),
        SimulatedEndpoint(rate=1e9, size=1e9, at_once=4, retry_after=None),
        SimulatedEndpoint(rate=1e9, size=1e9, at_once=16, seconds=2),
        SimulatedEndpoint(rate=1e9, size=1e9, at_once=4, seconds=30),
    ],
    ids=lambda model: f"{model.rate} a second, {model.size}, {model.at_once} at once, {model.seconds} s",
)
def test_few_calls_are_refused_under_other_limits(model: SimulatedEndpoint) -> None:
    run(run_debates(model, 32, max_concurrency=32))
    assert CALLS * 32 <= len(model.sent) <= 1.1 * CALLS * 32


@pytest.mark.parametrize("retry_after", [1.0, 0.125, None], ids=lambda retry_after: f"Retry-After {retry_after}")
@pytest.mark.parametrize("processes", [2, 4, 16])
@pytest.mark.parametrize("count", [16, 32, 64])
def test_many_debates_in_several_processes_lose_no_call(
    count: int, processes: int, retry_after: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The processes are simulated: each has its own limiter, and they share the files of their home."""
    monkeypatch.setenv("MOOT_HOME", str(tmp_path))
    begin = time.time_ns() + int(1e15)  # later than the files' own times
    monkeypatch.setattr("moot.core.shared_waits.time_ns", lambda: begin + int(asyncio.get_running_loop().time() * 1e9))
    endpoint = SimulatedEndpoint(retry_after=retry_after)
    gates = [Limiter() for _ in range(processes)]
    for gate in gates:
        gate.share = SharedWait("http://127.0.0.1:1/v1", gate)

    async def run_processes() -> None:
        await asyncio.gather(*(endpoint.debate(Limits(), gate=gates[i % processes]) for i in range(count)))

    run(run_processes())
    assert len(endpoint.sent) - len(endpoint.refused_at) == CALLS * count
    assert len(endpoint.sent) <= 1.05 * CALLS * count


@given(st.lists(st.integers(1, 20), min_size=1, max_size=12), st.integers(1, 5), st.sampled_from([None, 0.0, 0.3, 2.0]))
@settings(max_examples=40, deadline=None)
def test_callers_with_different_limits_are_all_served(most: list[int], at_once: int, retry_after: float | None) -> None:
    model = SimulatedEndpoint(rate=20, size=3, at_once=at_once, retry_after=retry_after)

    async def run_callers() -> None:
        await asyncio.gather(*(model.debate(Limits(max_concurrency=one), 5) for one in most))

    run(run_callers())
    assert len(model.sent) - len(model.refused_at) == 5 * len(most)


def test_no_request_is_sent_during_retry_after_and_later_requests_are_spread_out() -> None:
    """This holds for waiting calls and for new calls."""
    model = SimulatedEndpoint(rate=10, size=10, retry_after=20.0)

    async def call_now_and_later() -> None:
        async def call_later() -> None:
            await asyncio.sleep(3.0)
            await with_retries(model.answer, Limits(), model.gate)

        await asyncio.gather(*(with_retries(model.answer, Limits(), model.gate) for _ in range(40)), call_later())

    run(call_now_and_later())
    first = model.refused_at[0]
    after = [moment for moment in model.sent if moment > first]
    assert first + 20 <= after[0] <= first + 22
    assert all(later - earlier > 0.02 for earlier, later in itertools.pairwise(after[:9]))


@pytest.mark.parametrize("retry_after", [0.0, None])
def test_few_requests_are_sent_while_all_calls_are_refused_and_all_fail_at_max_wait(retry_after: float | None) -> None:
    """Calls that still wait for their first slot fail, too. Few requests are sent."""
    model, errors = SimulatedEndpoint(rate=0, size=0, retry_after=retry_after), list[MootError]()

    async def call() -> None:
        with pytest.raises(WorldError) as caught:
            await with_retries(model.answer, Limits(max_concurrency=4), model.gate)
        errors.append(caught.value)

    async def calls() -> None:
        await asyncio.gather(*(call() for _ in range(50)))

    assert 500 < run(calls()) < 1300
    assert len(errors) == 50
    assert any(error.attempts == 0 for error in errors)
    assert sum(error.attempts for error in errors) == len(model.sent) < 200
    assert all(
        error.kind == "rate_limited" and "waits at most 600 s (see the setting `max_wait`)" in error.detail
        for error in errors
    )


def test_a_call_ends_at_max_wait_if_only_other_processes_are_refused() -> None:
    model, gate = SimulatedEndpoint(), Limiter("http://user:secret@127.0.0.1:1/v1")

    async def call() -> None:
        gate.refuse_elsewhere(1.0, 8.0)
        waiting = asyncio.ensure_future(with_retries(model.answer, Limits(max_wait=30.0), gate))
        while not waiting.done():
            await asyncio.sleep(0.5)
            gate.refuse_elsewhere(1.0, 8.0)
            assert asyncio.get_running_loop().time() < 60
        with pytest.raises(WorldError, match=r"http://127\.0\.0\.1:1/v1 asks for a wait\..*the setting `max_wait`"):
            await waiting

    assert 30 < run(call()) < 35
    assert model.sent == []


def test_a_retry_after_beyond_the_longest_wait_fails_calls_until_the_rest_is_short_enough() -> None:
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


def test_calls_that_wait_for_their_turn_are_not_sent_during_a_long_wait() -> None:
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


def test_calls_that_wait_for_the_end_of_a_long_wait_are_not_sent_during_the_next_long_wait() -> None:
    model = SimulatedEndpoint(rate=0, size=0, retry_after=LONGEST_WAIT + 40)

    async def calls() -> None:
        with pytest.raises(WorldError):
            await with_retries(model.answer, Limits(), model.gate, "a")
        await asyncio.sleep(60)
        waiting = [with_retries(model.answer, Limits(), model.gate, "a") for _ in range(10)]
        errors = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(error, WorldError) for error in errors)

    run(calls())
    assert len(model.sent) == 2


def test_a_call_whose_turn_comes_during_a_long_wait_waits_for_its_end() -> None:
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


def test_a_refusal_lowers_concurrency_and_pace_and_successes_raise_both() -> None:
    throttle, now = Throttle(), 0.0
    assert not throttle.active

    def refused() -> None:
        throttle.start(now)
        throttle.refuse(now, now + 0.01, running=20, retry_after=1.0)

    def succeed(times: int) -> tuple[float, float]:
        nonlocal now
        for _ in range(times):
            now = max(now, throttle.due(now))
            throttle.start(now)
            throttle.accept(now, now + 0.01)
        return throttle.room, throttle.pace

    refused()
    succeed(30)
    refused()
    grown = [succeed(times) for times in (1, 24, 25, 25)]
    assert grown == sorted(grown)
    assert 14 < grown[0][0] < 14.5
    assert grown[-1][0] > 20
    succeed(1000)
    assert not throttle.active


@pytest.mark.parametrize(("other", "share"), [(100.0, 1.0), (1.0, 0.7), (math.inf, 1.0)])
def test_a_process_slows_down_only_after_a_refusal_of_a_slower_process(other: float, share: float) -> None:
    throttle = Throttle()
    for i in range(100):
        throttle.start(i / 50)
    throttle.refuse(99 / 50, 2.0, running=20, retry_after=1.0)
    throttle.due(4.0)  # measures the pace
    pace = throttle.pace
    throttle.refuse_elsewhere(4.0, 1.0, other)
    assert throttle.pace == pytest.approx(share * pace)
    assert throttle.due(4.0) > 5.0
    throttle.refuse_elsewhere(4.5, 1.0, other)  # a call that started before the wait was refused, too
    assert throttle.pace == pytest.approx(share * pace)


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


def test_no_call_is_made_during_a_servers_retry_after() -> None:
    sent: list[float] = []

    async def call() -> None:
        sent.append(asyncio.get_running_loop().time())
        if len(sent) == 1:
            raise WorldError("Down.", kind="server_error", retryable=True, retry_after=5.0)

    async def calls() -> None:
        gate = Limiter()
        await asyncio.gather(*(with_retries(call, Limits(max_concurrency=1), gate) for _ in range(5)))
        assert not gate.throttle.active

    run(calls())
    assert sent[0] == 0
    assert min(sent[1:]) >= 5


def test_calls_per_minute_are_spaced_evenly() -> None:
    model = SimulatedEndpoint(rate=1e9, size=1e9)
    run(run_debates(model, 5, 4, requests_per_minute=120))
    assert all(later - earlier >= 0.5 for earlier, later in itertools.pairwise(model.sent))
    assert model.sent[-1] < 0.5 * 20
