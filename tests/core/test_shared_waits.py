"""Several processes with one home folder call an endpoint: all wait after one is refused.

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
    """A home folder for one test."""
    monkeypatch.setenv("MOOT_HOME", str(tmp_path))
    return tmp_path


async def refuse(kind: str = "rate_limited") -> None:
    """Make a call; the endpoint refuses it and asks for a wait."""
    with pytest.raises(WorldError):
        async with limiter(ADDRESS).slot(Limits()):
            raise WorldError("Too many.", kind=kind, retryable=True, retry_after=WAIT)


async def wait_until_written() -> None:
    """Wait until this process has stored the wait of its last refusal."""
    share = limiter(ADDRESS).share
    assert isinstance(share, SharedWait)
    await asyncio.wrap_future(share._writer.submit(lambda: None))


async def refuse_and_write(kind: str = "rate_limited") -> None:
    """Make a call that is refused, and wait until other processes can learn of the refusal."""
    await refuse(kind)
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
def test_a_new_process_waits_after_a_refusal_of_another_at_the_same_endpoint(kind: str) -> None:
    asyncio.run(refuse_and_write(kind))
    assert 0.9 * WAIT < asyncio.run(seconds_to_wait()) < 1.3 * WAIT
    assert asyncio.run(seconds_to_wait("http://127.0.0.1:2/v1")) <= 0


def test_a_running_process_waits_after_a_refusal_of_another() -> None:
    async def call() -> None:
        gate = limiter(ADDRESS)
        assert await seconds_to_wait() <= 0
        await asyncio.to_thread(asyncio.run, refuse_and_write())
        assert await seconds_to_wait() > 0.9 * WAIT
        opens_at = gate.throttle.opens_at
        await seconds_to_wait()
        assert gate.throttle.opens_at == opens_at  # it learns of a refusal once

    asyncio.run(call())


def test_a_process_does_not_learn_of_its_own_refusal_from_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[float] = []
    monkeypatch.setattr(Limiter, "refuse_elsewhere", lambda self, wait, pace: heard.append(wait))

    async def refuse_twice() -> None:
        gate = limiter(ADDRESS)
        assert gate.share
        for _ in range(2):
            await refuse()
            gate.throttle = Throttle()
            gate.share.update()  # perhaps before the file is written
            await wait_until_written()
            gate.share.update()

    asyncio.run(refuse_twice())
    assert heard == []


def test_other_processes_learn_of_a_refusal_while_all_threads_of_the_loop_are_busy() -> None:
    async def refuse_while_busy() -> None:
        threads, end = ThreadPoolExecutor(1), threading.Event()
        asyncio.get_running_loop().set_default_executor(threads)
        threads.submit(end.wait)
        try:
            await refuse()
            await wait_until_written()
            assert await asyncio.wrap_future(ThreadPoolExecutor(1).submit(asyncio.run, seconds_to_wait())) > 0.9 * WAIT
        finally:
            end.set()

    asyncio.run(refuse_while_busy())


def test_the_pace_is_not_lowered_if_another_process_was_only_asked_to_wait() -> None:
    async def wait_elsewhere() -> None:
        gate = limiter(ADDRESS)
        await seconds_to_wait()
        assert gate.throttle.due(gate.throttle.opens_at) == gate.throttle.opens_at
        assert gate.throttle.pace == math.inf

    asyncio.run(refuse_and_write("server_error"))
    asyncio.run(wait_elsewhere())


def test_the_pace_of_the_refused_process_is_shared(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[float] = []
    monkeypatch.setattr(Limiter, "refuse_elsewhere", lambda self, wait, pace: heard.append(pace))
    monkeypatch.setattr(Throttle, "refused_pace", 12.5)
    asyncio.run(refuse_and_write())
    asyncio.run(seconds_to_wait())
    (file,) = (own_home / "waits").iterdir()
    until = file.stat().st_mtime_ns
    file.write_text("damaged")
    os.utime(file, ns=(until, until))
    asyncio.run(seconds_to_wait())
    assert heard == [12.5, math.inf]  # a damaged file shares only the wait


def test_a_limiter_does_not_outlive_its_event_loop() -> None:
    async def made() -> weakref.ref[Limiter]:
        found = weakref.ref(limiter(ADDRESS))
        await close_clients()
        return found

    gc.collect()
    gc.disable()
    try:
        assert asyncio.run(made())() is None
    finally:
        gc.enable()


async def call(name: str) -> WorldError | None:
    """Make a call to this model; return the error that prevents it, None if it is sent."""
    try:
        async with limiter(ADDRESS).slot(Limits(), name):
            return None
    except WorldError as error:
        return error


async def ask_for_a_long_wait(name: str) -> None:
    """Make a call to this model; the endpoint refuses it and asks for a wait of two hours."""
    with pytest.raises(WorldError):
        async with limiter(ADDRESS).slot(Limits(), name):
            raise WorldError("Too many.", kind="rate_limited", retryable=True, retry_after=7200.0)
    await wait_until_written()
    assert await call(name) is not None  # reading the process's own file changes nothing


def test_a_long_wait_holds_for_its_model_in_all_processes_until_its_file_is_deleted(own_home: Path) -> None:
    async def other_process() -> None:
        error = await call("day")
        assert error is not None
        assert error.retry_after == pytest.approx(7200, abs=60)
        assert error.detail.startswith("http://127.0.0.1:1/v1 asked another process for a long wait. If the endpoint")
        assert "secret" not in error.detail
        assert await call("hour") is None
        (file,) = (own_home / "waits").iterdir()
        assert f"delete {file}." in error.detail
        file.unlink()
        assert await call("day") is None

    asyncio.run(ask_for_a_long_wait("day"))
    asyncio.run(other_process())


def test_a_running_process_learns_of_a_long_wait() -> None:
    async def running() -> None:
        assert await call("day") is None
        await asyncio.to_thread(asyncio.run, ask_for_a_long_wait("day"))
        assert await call("day") is not None

    asyncio.run(running())


def test_the_refused_process_calls_again_when_its_file_is_deleted(own_home: Path) -> None:
    async def running() -> None:
        with pytest.raises(WorldError):
            async with limiter(ADDRESS).slot(Limits(), "day"):
                raise WorldError("Too many.", kind="rate_limited", retryable=True, retry_after=7200.0)
        await wait_until_written()
        await asyncio.sleep(0)
        (file,) = (own_home / "waits").iterdir()
        error = await call("day")
        assert error is not None
        assert f"delete {file}." in error.detail
        file.unlink()
        assert await call("day") is None

    asyncio.run(running())


def test_a_queued_call_learns_of_a_long_wait() -> None:
    async def running() -> None:
        gate, limits, end = limiter(ADDRESS), Limits(max_concurrency=1), asyncio.Event()

        async def first() -> None:
            async with gate.slot(limits, "day"):
                await end.wait()

        async def second() -> None:
            async with gate.slot(limits, "day"):
                pass

        calls = [asyncio.ensure_future(first()), asyncio.ensure_future(second())]
        await asyncio.sleep(0)
        await asyncio.to_thread(asyncio.run, ask_for_a_long_wait("day"))
        end.set()
        error = (await asyncio.gather(*calls, return_exceptions=True))[1]
        assert isinstance(error, WorldError)
        assert error.retry_after == pytest.approx(7200, abs=60)

    asyncio.run(running())


def test_a_long_wait_of_months_is_ignored(own_home: Path) -> None:
    asyncio.run(ask_for_a_long_wait("day"))
    (file,) = (own_home / "waits").iterdir()
    os.utime(file, (0, time.time() + 90 * 86_400))
    assert asyncio.run(call("day")) is None


def test_a_wait_that_ends_in_the_far_future_is_ignored(own_home: Path) -> None:
    asyncio.run(refuse_and_write())
    (file,) = (own_home / "waits").iterdir()
    os.utime(file, (0, time.time() + 86_400))
    assert asyncio.run(seconds_to_wait()) <= 0


def test_a_new_refusal_replaces_a_wait_that_ends_in_the_far_future(own_home: Path) -> None:
    asyncio.run(refuse_and_write())
    (file,) = (own_home / "waits").iterdir()
    os.utime(file, (0, time.time() + 86_400))
    asyncio.run(refuse_and_write())
    assert asyncio.run(seconds_to_wait()) > 0.9 * WAIT


def test_a_wait_is_shared_even_if_the_disk_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # bytecode would be cut off, and could not be loaded later
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))  # files can be created, but not written
    try:
        asyncio.run(refuse_and_write())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert asyncio.run(seconds_to_wait()) > 0.9 * WAIT


def test_a_home_that_cannot_be_written_gives_a_warning(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[str] = []  # not by caplog: other tests of the process may have changed the levels of loggers
    monkeypatch.setattr(shared_waits.log, "warning", lambda text, *values: warnings.append(text % values))
    (own_home / "waits").write_text("no folder")
    asyncio.run(refuse_and_write())
    (warning,) = warnings
    assert warning.startswith("Other processes do not learn that http://127.0.0.1:1/v1 asks for a wait")
    assert asyncio.run(seconds_to_wait()) <= 0
