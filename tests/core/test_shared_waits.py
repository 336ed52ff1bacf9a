"""Processes with the same home folder call an endpoint. If one process is refused, all processes wait.

Event loops stand for the processes, because each event loop has its own limiter.
"""

from __future__ import annotations

import asyncio
import gc
import math
import os
import resource
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from moot.core import shared_waits
from moot.core.endpoint import Limits, close_clients
from moot.core.errors import WorldError
from moot.core.limiter import Limiter, limiter
from moot.core.shared_waits import SharedWait
from moot.core.throttle import Throttle

ADDRESS = "http://user:secret@127.0.0.1:1/v1"
WAIT = 30.0


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new home folder for each test."""
    monkeypatch.setenv("MOOT_HOME", str(tmp_path))
    return tmp_path


async def call_and_fail(kind: str = "rate_limited") -> None:
    """Make a call that fails with an error of this kind, which asks for a wait."""
    with pytest.raises(WorldError):
        async with limiter(ADDRESS).slot(Limits()):
            raise WorldError("Too many.", kind=kind, retryable=True, retry_after=WAIT)


async def wait_until_written() -> None:
    """Wait until this process has written its latest wait to the file."""
    share = limiter(ADDRESS).share
    assert isinstance(share, SharedWait)
    await asyncio.wrap_future(share._writer.submit(lambda: None))


async def call_and_share_wait(kind: str = "rate_limited") -> None:
    """Make a call that fails, and wait until other processes can read the wait that its error asks for."""
    await call_and_fail(kind)
    await wait_until_written()


async def seconds_to_wait(address: str = ADDRESS) -> float:
    """The seconds that a new call waits; 0 or less if it does not wait."""
    gate, started = limiter(address), asyncio.Event()

    async def make_call() -> None:
        async with gate.slot(Limits()):
            started.set()

    call = asyncio.ensure_future(make_call())
    await asyncio.sleep(0)
    left = gate.throttle.opens_at - asyncio.get_running_loop().time()
    assert started.is_set() == (left <= 0)
    call.cancel()
    return left


@pytest.mark.parametrize("kind", ["rate_limited", "server_error"])
def test_a_new_process_waits_if_the_endpoint_asked_an_earlier_process_to_wait(kind: str) -> None:
    """It calls another endpoint at once."""
    asyncio.run(call_and_share_wait(kind))
    assert 0.9 * WAIT < asyncio.run(seconds_to_wait()) < 1.3 * WAIT
    assert asyncio.run(seconds_to_wait("http://127.0.0.1:2/v1")) <= 0


def test_a_running_process_waits_after_another_process_is_refused() -> None:
    async def call() -> None:
        gate = limiter(ADDRESS)
        assert await seconds_to_wait() <= 0
        await asyncio.to_thread(asyncio.run, call_and_share_wait())
        assert await seconds_to_wait() > 0.9 * WAIT
        opens_at = gate.throttle.opens_at
        await seconds_to_wait()
        assert gate.throttle.opens_at == opens_at  # the refusal is applied only once

    asyncio.run(call())


def test_a_process_ignores_its_own_refusal_in_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(Limiter, "refuse_elsewhere", lambda self, wait, pace: waits.append(wait))

    async def refuse_twice() -> None:
        gate = limiter(ADDRESS)
        assert gate.share
        for _ in range(2):
            await call_and_fail()
            gate.throttle = Throttle()
            gate.share.update()  # perhaps the file is not written yet
            await wait_until_written()
            gate.share.update()

    asyncio.run(refuse_twice())
    assert waits == []


def test_a_refusal_is_shared_while_all_threads_of_the_event_loop_are_busy() -> None:
    async def refuse_while_busy() -> None:
        threads, end = ThreadPoolExecutor(1), threading.Event()
        asyncio.get_running_loop().set_default_executor(threads)
        threads.submit(end.wait)
        try:
            await call_and_fail()
            await wait_until_written()
            assert await asyncio.wrap_future(ThreadPoolExecutor(1).submit(asyncio.run, seconds_to_wait())) > 0.9 * WAIT
        finally:
            end.set()

    asyncio.run(refuse_while_busy())


def test_the_pace_is_not_lowered_if_another_process_was_asked_to_wait_without_a_refusal() -> None:
    async def wait_elsewhere() -> None:
        gate = limiter(ADDRESS)
        await seconds_to_wait()
        assert gate.throttle.due(gate.throttle.opens_at) == gate.throttle.opens_at
        assert gate.throttle.pace == math.inf

    asyncio.run(call_and_share_wait("server_error"))
    asyncio.run(wait_elsewhere())


def test_the_pace_of_the_refused_process_is_shared(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paces: list[float] = []
    monkeypatch.setattr(Limiter, "refuse_elsewhere", lambda self, wait, pace: paces.append(pace))
    monkeypatch.setattr(Throttle, "refused_pace", 12.5)
    asyncio.run(call_and_share_wait())
    asyncio.run(seconds_to_wait())
    (file,) = (own_home / "waits").iterdir()
    until = file.stat().st_mtime_ns
    file.write_text("damaged")
    os.utime(file, ns=(until, until))
    asyncio.run(seconds_to_wait())
    assert paces == [12.5, math.inf]  # from a damaged file, only the wait is known


def test_a_limiter_does_not_outlive_its_event_loop() -> None:
    async def make_limiter() -> weakref.ref[Limiter]:
        reference = weakref.ref(limiter(ADDRESS))
        await close_clients()
        return reference

    gc.collect()
    gc.disable()
    try:
        assert asyncio.run(make_limiter())() is None
    finally:
        gc.enable()


async def call(name: str) -> WorldError | None:
    """Make a call to this model; return the limiter's error, or None if the limiter allows the call."""
    try:
        async with limiter(ADDRESS).slot(Limits(), name):
            return None
    except WorldError as error:
        return error


async def call_and_get_long_wait(name: str) -> None:
    """Make a call to this model; the endpoint refuses it and asks for a wait of two hours."""
    with pytest.raises(WorldError):
        async with limiter(ADDRESS).slot(Limits(), name):
            raise WorldError("Too many.", kind="rate_limited", retryable=True, retry_after=7200.0)
    await wait_until_written()
    assert await call(name) is not None  # the wait goes on after the process has read its own file


def test_a_long_wait_for_a_model_applies_until_its_file_is_deleted(own_home: Path) -> None:
    """Until then, even a process that was not refused does not call this model. Other models can be called."""

    async def other_process() -> None:
        error = await call("model-a")
        assert error is not None
        assert error.retry_after == pytest.approx(7200, abs=60)
        assert error.detail.startswith("http://127.0.0.1:1/v1 asked another process for a long wait. If the endpoint")
        assert "secret" not in error.detail
        assert await call("model-b") is None
        (file,) = (own_home / "waits").iterdir()
        assert f"delete {file}." in error.detail
        file.unlink()
        assert await call("model-a") is None

    asyncio.run(call_and_get_long_wait("model-a"))
    asyncio.run(other_process())


def test_a_running_process_learns_of_a_long_wait_of_another_process() -> None:
    async def running() -> None:
        assert await call("model-a") is None
        await asyncio.to_thread(asyncio.run, call_and_get_long_wait("model-a"))
        assert await call("model-a") is not None

    asyncio.run(running())


def test_the_refused_process_calls_again_after_the_file_of_the_wait_is_deleted(own_home: Path) -> None:
    async def running() -> None:
        with pytest.raises(WorldError):
            async with limiter(ADDRESS).slot(Limits(), "model-a"):
                raise WorldError("Too many.", kind="rate_limited", retryable=True, retry_after=7200.0)
        await wait_until_written()
        await asyncio.sleep(0)
        (file,) = (own_home / "waits").iterdir()
        error = await call("model-a")
        assert error is not None
        assert f"delete {file}." in error.detail
        file.unlink()
        assert await call("model-a") is None

    asyncio.run(running())


def test_a_queued_call_fails_if_another_process_gets_a_long_wait() -> None:
    async def running() -> None:
        gate, limits, end = limiter(ADDRESS), Limits(max_concurrency=1), asyncio.Event()

        async def first() -> None:
            async with gate.slot(limits, "model-a"):
                await end.wait()

        async def second() -> None:
            async with gate.slot(limits, "model-a"):
                pass

        calls = [asyncio.ensure_future(first()), asyncio.ensure_future(second())]
        await asyncio.sleep(0)
        await asyncio.to_thread(asyncio.run, call_and_get_long_wait("model-a"))
        end.set()
        error = (await asyncio.gather(*calls, return_exceptions=True))[1]
        assert isinstance(error, WorldError)
        assert error.retry_after == pytest.approx(7200, abs=60)

    asyncio.run(running())


def test_a_long_wait_of_several_months_is_ignored(own_home: Path) -> None:
    asyncio.run(call_and_get_long_wait("model-a"))
    (file,) = (own_home / "waits").iterdir()
    os.utime(file, (0, time.time() + 90 * 86_400))
    assert asyncio.run(call("model-a")) is None


def test_a_wait_of_a_day_for_a_whole_endpoint_is_ignored(own_home: Path) -> None:
    """Waits for a whole endpoint are short, so a wait of a day shows that the clock was changed."""
    asyncio.run(call_and_share_wait())
    (file,) = (own_home / "waits").iterdir()
    os.utime(file, (0, time.time() + 86_400))
    assert asyncio.run(seconds_to_wait()) <= 0


def test_a_new_refusal_replaces_a_wait_of_a_day_for_a_whole_endpoint(own_home: Path) -> None:
    asyncio.run(call_and_share_wait())
    (file,) = (own_home / "waits").iterdir()
    os.utime(file, (0, time.time() + 86_400))
    asyncio.run(call_and_share_wait())
    assert asyncio.run(seconds_to_wait()) > 0.9 * WAIT


def test_a_wait_is_shared_even_if_the_disk_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # empty bytecode files would break later imports
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))  # files can be created, but not written
    try:
        asyncio.run(call_and_share_wait())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert asyncio.run(seconds_to_wait()) > 0.9 * WAIT


def test_a_warning_is_logged_if_a_wait_cannot_be_written(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[str] = []  # `caplog` may miss warnings: other tests may have changed the loggers' levels
    monkeypatch.setattr(shared_waits.log, "warning", lambda text, *values: warnings.append(text % values))
    (own_home / "waits").write_text("no folder")
    asyncio.run(call_and_share_wait())
    (warning,) = warnings
    assert warning.startswith("Other processes do not learn that http://127.0.0.1:1/v1 asks for a wait")
    assert asyncio.run(seconds_to_wait()) <= 0
