"""The limiter: first come, first served, within each caller's limit; constant work per call; cancelled calls."""

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
def test_every_call_gets_a_slot_within_its_own_limit(calls: list[tuple[int, bool, bool]]) -> None:
    """Each call sets its own limit of calls at once, and may be cancelled while it waits or runs."""
    asyncio.run(run_calls(calls))


async def run_calls(calls: list[tuple[int, bool, bool]]) -> None:
    """Run calls (limit, cancelled while waiting, cancelled while running); check that no slot is lost."""
    gate, started, running = Limiter(), list[int](), set[int]()
    ends = [asyncio.Event() for _ in calls]

    async def call(i: int, most: int) -> None:
        async with gate.slot(Limits(max_concurrency=most)):
            running.add(i)
            started.append(i)
            assert len(running) <= most
            try:
                await ends[i].wait()
            finally:
                running.discard(i)

    tasks = [asyncio.ensure_future(call(i, most)) for i, (most, _, _) in enumerate(calls)]
    await let_other_tasks_run()
    for task, (_, leaves_the_queue, _) in zip(tasks, calls, strict=True):
        if leaves_the_queue:
            task.cancel()
    await let_other_tasks_run()
    for _ in calls:
        for i in list(running):
            if calls[i][2]:
                tasks[i].cancel()  # cancelled at the moment another call ends
            ends[i].set()
        await let_other_tasks_run()
    with suppress(asyncio.CancelledError):
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            assert result is None or isinstance(result, asyncio.CancelledError)
    assert started == sorted(started)
    assert {i for i, (_, left, _) in enumerate(calls) if not left} <= set(started)
    async with asyncio.timeout(5), gate.slot(Limits(max_concurrency=1)):  # no slot was lost
        pass


async def test_a_call_cancelled_as_it_gets_its_slot_passes_the_slot_on() -> None:
    gate, limits, one = Limiter(), Limits(max_concurrency=1), asyncio.Event()

    async def call() -> None:
        async with gate.slot(limits):
            await one.wait()

    first, second, third = (asyncio.ensure_future(call()) for _ in range(3))
    await let_other_tasks_run()
    one.set()
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
    """A waiting call wakes up once, so the event loop takes a constant number of steps per call."""
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
