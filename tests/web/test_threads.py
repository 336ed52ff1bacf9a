"""The file of threads is pruned by age and by size, and shrinks when a thread is deleted."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from moot.web import threads
from moot.web.threads import Saver, checkpointer, prune, threads_path

THREAD_SIZE = 200_000


async def fill_threads(saver: Saver, *names: str) -> None:
    """Write a checkpoint with random bytes on each thread."""
    for name in names:
        checkpoint = empty_checkpoint() | {"channel_values": {"said": os.urandom(THREAD_SIZE // 2).hex()}}
        config: Any = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
        await saver.aput(config, checkpoint, {}, {})


@pytest.fixture
def unlisted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The threads that the server is asked to remove from its list; ``MOOT_HOME`` is a new folder."""
    monkeypatch.setenv("MOOT_HOME", str(tmp_path))
    forgotten: list[str] = []

    async def forget(thread: str) -> None:
        forgotten.append(thread)

    client = SimpleNamespace(threads=SimpleNamespace(delete=forget))
    monkeypatch.setattr(threads, "get_client", lambda **_: client)
    return forgotten


def test_the_thread_of_a_waiting_debate_is_pruned_by_age_but_not_by_size(unlisted: list[str]) -> None:
    row: Any = SimpleNamespace(status="waiting", updated=0.0)

    async def run() -> None:
        async with checkpointer() as saver:
            await fill_threads(saver, "waits", "first", "second", "third")
            before = await saver.size()
            await prune(saver, {"waits": row}, most=before - THREAD_SIZE)
            assert list(await saver.threads()) == ["second", "third", "waits"]
            assert await saver.size() <= before - THREAD_SIZE
            await prune(saver, {"waits": row}, days=0)
            assert await saver.threads() == {}

    asyncio.run(run())
    assert unlisted == ["first", "waits", "second", "third"]
    assert threads_path().stat().st_size < THREAD_SIZE


def test_deleting_a_thread_shrinks_the_file(unlisted: list[str]) -> None:
    async def run() -> None:
        async with checkpointer() as saver:
            await fill_threads(saver, "one", "other")
        size = threads_path().stat().st_size
        await threads.delete("one")
        async with checkpointer() as saver:
            assert list(await saver.threads()) == ["other"]
        assert threads_path().stat().st_size <= size - THREAD_SIZE

    asyncio.run(run())
    assert unlisted == ["one"]


READ = "import sqlite3, sys; file = sqlite3.connect(sys.argv[1]); file.execute('SELECT * FROM writes'); file.close()"


async def test_another_process_keeps_the_write_ahead_log_of_an_open_file(unlisted: list[str]) -> None:
    """If this process lost its locks on the file, the other process would remove the log, and lose later writes."""
    async with checkpointer() as saver:
        await fill_threads(saver, "first")
        await threads.delete("another")
        log = threads_path().with_name(f"{threads_path().name}-wal")
        before = log.stat().st_ino
        reader = await asyncio.create_subprocess_exec(sys.executable, "-c", READ, threads_path())
        assert await reader.wait() == 0
        await fill_threads(saver, "second")
        assert log.stat().st_ino == before
    async with checkpointer() as saver:
        assert list(await saver.threads()) == ["first", "second"]


async def test_daily_pruning_continues_if_the_file_cannot_be_created(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "home").touch()
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
    days = 0

    async def sleep_twice(seconds: float) -> None:
        nonlocal days
        days += 1
        if days > 2:
            raise asyncio.CancelledError

    monkeypatch.setattr(asyncio, "sleep", sleep_twice)
    with pytest.raises(asyncio.CancelledError):
        await threads.prune_daily()
    assert days == 3
