"""The limiter starts calls in the order of their arrival, within the limit of each call."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moot.core.endpoint import Limits
from moot.core.limiter import Limiter


async def let_other_tasks_run() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans(), st.booleans()), max_size=30))
def test_calls_start_in_order_within_their_limits_and_lose_no_slot(calls: list[tuple[int, bool, bool]]) -> None:
    """Each call sets its own limit of concurrent calls, and may be cancelled while it waits or runs."""
    asyncio.run(run_calls(calls))


async def run_calls(calls: list[tuple[int, bool, bool]]) -> None:
    """Run calls, and check their order, their limits, and that no slot is lost.

    Args:
        calls: for each call: its limit; whether it is cancelled early, while most calls wait; whether it is cancelled
            later, while it runs.
    """
    gate, started, running = Limiter(), list[int](), set[int]()
    ends = [asyncio.Event() for _ in calls]

    async def call(i: int, limit: int) -> None:
        async with gate.slot(Limits(max_concurrency=limit)):
            running.add(i)
            started.append(i)
            assert len(running) <= limit
            try:
                await ends[i].wait()
            finally:
                running.discard(i)

    tasks = [asyncio.ensure_future(call(i, limit)) for i, (limit, _, _) in enumerate(calls)]
    await let_other_tasks_run()
    for task, (_, cancelled_early, _) in zip(tasks, calls, strict=True):
        if cancelled_early:
            task.cancel()
    await let_other_tasks_run()
    for _ in calls:
        for i in list(running):
            if calls[i][2]:
                tasks[i].cancel()  # at the moment at which other calls end
            ends[i].set()
        await let_other_tasks_run()
    with suppress(asyncio.CancelledError):
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            assert result is None or isinstance(result, asyncio.CancelledError)
    assert started == sorted(started)
    assert {i for i, (_, cancelled_early, _) in enumerate(calls) if not cancelled_early} <= set(started)
    async with asyncio.timeout(5), gate.slot(Limits(max_concurrency=1)):  # no slot was lost
        pass


async def test_a_call_that_is_cancelled_just_as_it_gets_a_slot_frees_the_slot() -> None:
    gate, limits, end = Limiter(), Limits(max_concurrency=1), asyncio.Event()

    async def call() -> None:
        async with gate.slot(limits):
            await end.wait()

    first, second, third = (asyncio.ensure_future(call()) for _ in range(3))
    await let_other_tasks_run()
    end.set()
    while not first.done():
        await asyncio.sleep(0)
    second.cancel()
    await third
    with pytest.raises(asyncio.CancelledError):
        await second


@pytest.mark.parametrize("calls", [100, 1000])
async def test_the_work_of_a_call_does_not_grow_with_the_number_of_waiting_calls(
    calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A waiting call wakes up once, so the event loop takes at most four steps per call."""
    loop, steps = asyncio.get_running_loop(), 0
    call_soon = loop.call_soon

    def count_and_schedule(*arguments: object, **options: object) -> object:
        nonlocal steps
        steps += 1
        return call_soon(*arguments, **options)  # type: ignore[arg-type]

    gate = Limiter()

    async def call() -> None:
        async with gate.slot(Limits(max_concurrency=2)):
            await asyncio.sleep(0)

    monkeypatch.setattr(loop, "call_soon", count_and_schedule)
    for task in [asyncio.Task(call(), loop=loop) for _ in range(calls)]:
        await task
    assert steps <= 4 * calls
