"""Several simulated processes call one endpoint. Each process has its own limiter.

Together they stay within the limit of concurrent calls. If one process is refused, all processes wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moot.core.endpoint import Limits
from moot.core.errors import WorldError
from moot.core.limiter import Limiter
from moot.core.postgres.connection import Postgres
from moot.core.postgres.endpoints import SharedEndpoints, fair_share

from tests.cluster.postgres import Server, binaries, running_postgres

ADDRESS = "http://127.0.0.1:1/v1"


def test_processes_get_fair_shares() -> None:
    wanted = {"a": 2, "b": 9, "c": 9}
    # Process `a` gets all that it wants, and the others share the rest.
    assert [fair_share(12, wanted, process) for process in wanted] == [2, 5, 5]
    assert [fair_share(12, {"a": 1, "b": 3}, process) for process in "ab"] == [1 + 4, 3 + 4]  # 8 calls are spare


@given(st.integers(1, 64), st.dictionaries(st.text("abcd", min_size=1), st.integers(0, 99), min_size=1), st.integers())
def test_shares_are_even_and_do_not_exceed_the_limit(most: int, wanted: dict[str, int], turn: int) -> None:
    shares = {process: fair_share(most, wanted, process, turn) for process in wanted}
    assert sum(shares.values()) <= most
    too_small = [shares[process] for process in wanted if shares[process] < wanted[process]]
    if too_small:
        assert sum(shares.values()) == most  # no call is left over while a process wants more
        assert max(shares.values()) <= min(too_small) + 1


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A Postgres server whose database has moot's tables."""
    pytest.importorskip("procrastinate", reason="the extra `queue` is not installed")
    if binaries() is None:
        pytest.skip("no Postgres is installed (initdb is not found)")
    with running_postgres() as found:
        postgres = Postgres(found.url)
        postgres.prepare()
        postgres.close()
        yield found


@asynccontextmanager
async def limiters(server: Server, count: int) -> AsyncIterator[list[Limiter]]:
    """Context manager: yields a list with the limiters of ``count`` simulated processes that call one endpoint."""
    made, tasks, all_shared = [], [], []
    for _ in range(count):
        shared = SharedEndpoints(Postgres(server.url))
        all_shared.append(shared)
        limiter = Limiter()
        limiter.share = shared.join(ADDRESS, limiter)
        tasks.append(asyncio.create_task(shared.work()))
        made.append(limiter)
    try:
        yield made
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for shared in all_shared:
            await asyncio.to_thread(shared.close)


async def test_processes_share_the_limit_of_concurrent_calls(server: Server) -> None:
    limits, running, most, done = Limits(max_concurrency=6), 0, 0, [0, 0]

    async def call(limiter: Limiter, which: int) -> None:
        nonlocal running, most
        async with limiter.slot(limits):
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.02)
            running -= 1
            done[which] += 1

    async with limiters(server, 2) as both, asyncio.TaskGroup() as group:
        for which, limiter in enumerate(both):
            for _ in range(100):
                group.create_task(call(limiter, which))
    assert done == [100, 100]
    assert most == 6


async def test_calls_that_start_during_a_report_count_against_the_limit(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report reduces the share of the process that starts these calls."""
    loop, address, limits = asyncio.get_running_loop(), "http://127.0.0.1:2/v1", Limits(max_concurrency=12)
    one, other = (SharedEndpoints(Postgres(server.url)) for _ in range(2))
    gates = [Limiter(), Limiter()]
    exchange: Any = SharedEndpoints._exchange
    started: list[asyncio.Task[None]] = []

    async def start_calls(limiter: Limiter) -> None:
        started.extend(asyncio.create_task(limiter.slot(limits).__aenter__()) for _ in range(12))
        await asyncio.sleep(0)

    def exchange_while_calls_start(self: SharedEndpoints, *asked: Any) -> Any:
        found = exchange(self, *asked)
        if self is one and calls_start_meanwhile:
            asyncio.run_coroutine_threadsafe(start_calls(gates[0]), loop).result()
        return found

    monkeypatch.setattr(SharedEndpoints, "_exchange", exchange_while_calls_start)
    for shared, limiter in zip((one, other), gates, strict=True):
        limiter.share = shared.join(address, limiter)
        limiter.share.most = 12
    calls_start_meanwhile = False
    await one.report_demand(address)
    assert gates[0].share is not None
    assert gates[0].share.granted == 12
    await start_calls(gates[1])
    await other.report_demand(address)
    calls_start_meanwhile = True
    await one.report_demand(address)
    await other.report_demand(address)
    assert gates[0].running + gates[1].running == 12
    for task in started:
        task.cancel()
    await asyncio.wait(started)
    for shared in (one, other):
        await asyncio.to_thread(shared.close)


async def test_a_long_wait_for_a_model_applies_in_all_processes(server: Server) -> None:
    """Another model is called without a wait."""

    async def call(limiter: Limiter, name: str, times: int = 1) -> None:
        for _ in range(times):
            async with limiter.slot(Limits(), name):
                await asyncio.sleep(0.005)

    async with limiters(server, 2) as (one, other):
        await call(other, "model-a")
        with pytest.raises(WorldError):
            async with one.slot(Limits(), "model-a"):
                raise WorldError("Too many.", kind="rate_limited", retryable=True, retry_after=7200.0)
        with pytest.raises(WorldError, match="asked another process for a long wait") as caught:
            await call(other, "model-a", times=10_000)  # until the other process knows of the wait
        assert caught.value.retry_after == pytest.approx(7200, abs=60)
        await call(other, "model-b")
    async with limiters(server, 1) as (new,):
        await call(new, "model-b")
        with pytest.raises(WorldError, match="asked another process for a long wait"):
            await call(new, "model-a")


async def test_invalid_notifications_are_ignored(server: Server) -> None:
    """A valid notification makes the limiter wait."""
    shared = SharedEndpoints(Postgres(server.url))
    limiter = Limiter()
    shared.join(ADDRESS, limiter)
    for payload in ("[]", "{", '["a", "b", 1, 2, 3]', '["a", "b", "c", "d"]'):
        shared._read_notification(payload)
    await asyncio.sleep(0)
    assert limiter.throttle.opens_at == 0
    shared._read_notification(f'["other", "{ADDRESS}", 5, 2]')
    await asyncio.sleep(0)
    assert limiter.throttle.opens_at > 0
    await asyncio.to_thread(shared.close)


async def test_all_processes_wait_after_one_process_is_refused(server: Server) -> None:
    limits, loop = Limits(), asyncio.get_running_loop()
    async with limiters(server, 2) as (one, other):
        async with other.slot(limits):  # gives the other process a share
            pass
        with pytest.raises(WorldError):
            async with one.slot(limits):
                raise WorldError("Too many.", kind="rate_limited", retryable=True, retry_after=1.0)
        refused = loop.time()
        while other.throttle.opens_at <= refused:  # until the other process knows of the refusal
            await asyncio.sleep(0.005)
        async with other.slot(limits):
            assert loop.time() > refused + 0.9
