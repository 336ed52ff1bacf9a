"""Threads that persist across restarts of the server, in ``$MOOT_HOME/threads.sqlite``.

``moot serve`` uses `checkpointer`. The server keeps its own list of threads in memory. At its start, `restore` adds the
threads of the table's debates to the list, without their metadata and runs. The file is never unpickled; only types
that LangGraph considers safe are loaded from checkpoints.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiosqlite
from langgraph.checkpoint.base.id import UUID
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph_sdk import get_client
from langgraph_sdk.errors import APIError, NotFoundError, UnprocessableEntityError
from moot.core.errors import MootError
from moot.core.home import moot_home
from moot.core.ledger import Debate, open_ledger
from moot.core.ledger.file import MOST_BYTES
from moot.graphs._registry import graph_names

log = logging.getLogger(__name__)

DAYS = 30
"""A thread is removed this many days after the last change of the thread or its debate."""
EPOCH = 12_219_292_800
"""Seconds from 1582-10-15, the epoch of time-based UUIDs, to 1970."""
TABLES = ("checkpoints", "writes")


def threads_path() -> Path:
    """The path of the threads' file."""
    return moot_home() / "threads.sqlite"


def ensure_file() -> Path:
    """Creates the threads' file if it is missing, readable only by its owner; returns its path.

    An existing file is not opened. When a process closes any descriptor of a file, POSIX drops all locks of the process
    on that file. Another process could then remove the write-ahead log that SQLite still uses in this process.
    """
    path = threads_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    return path


@asynccontextmanager
async def checkpointer() -> AsyncIterator[Saver]:
    """Context manager: yields a checkpointer that stores threads in the file."""
    path = await asyncio.to_thread(ensure_file)
    async with aiosqlite.connect(path) as connection:
        await connection.execute("PRAGMA synchronous = NORMAL")
        await connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # only takes effect on a new file
        yield Saver(connection, serde=JsonPlusSerializer(pickle_fallback=False, allowed_msgpack_modules=None))


class Saver(AsyncSqliteSaver):
    """LangGraph's SQLite saver, with the methods that its server needs, and those for pruning the file."""

    async def adelete_for_runs(self, run_ids: Iterable[str]) -> None:
        """Removes the checkpoints of rolled-back runs."""
        await self.setup()
        named = "SELECT checkpoint_id FROM checkpoints WHERE json_extract(CAST(metadata AS TEXT), '$.run_id') = ?"
        async with self.lock:
            for run in run_ids:
                for table in reversed(TABLES):
                    await self.conn.execute(f"DELETE FROM {table} WHERE checkpoint_id IN ({named})", (run,))
            await self.conn.commit()

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Removes threads (``delete_all``), or all checkpoints but the last of each namespace (``keep_latest``)."""
        await self.setup()
        latest = "SELECT max(checkpoint_id) FROM checkpoints AS c WHERE c.thread_id = ? GROUP BY c.checkpoint_ns"
        for thread in map(str, thread_ids):
            if strategy == "delete_all":
                await self.adelete_thread(thread)
                continue
            async with self.lock:
                for table in reversed(TABLES):
                    await self.conn.execute(
                        f"DELETE FROM {table} WHERE thread_id = ? AND checkpoint_id NOT IN ({latest})", (thread, thread)
                    )
                await self.conn.commit()

    async def threads(self) -> dict[str, float]:
        """The time of the last write of each thread, by id, in seconds since 1970."""
        await self.setup()
        latest = "SELECT thread_id, max(checkpoint_id) FROM checkpoints GROUP BY thread_id"
        async with self.lock, self.conn.execute(latest) as rows:
            return {thread: written_at(checkpoint) async for thread, checkpoint in rows}

    async def size(self) -> int:
        """The number of bytes in use in the file."""
        await self.setup()
        used = "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, "
        async with self.lock, self.conn.execute(f"{used} pragma_page_size") as rows:
            [(bytes_,)] = await rows.fetchall()
            return int(bytes_)

    async def shrink(self) -> None:
        """Returns the file's unused space to the disk."""
        async with self.lock:
            # Each step of this statement returns one page, and `execute` would run only its first step.
            await self.conn.executescript("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE);")


def written_at(checkpoint: str) -> float:
    """When a checkpoint was written, in seconds since 1970, from its time-based id."""
    return UUID(checkpoint).time / 1e7 - EPOCH


async def restore() -> None:
    """Removes old threads from the file, and adds the threads of debates to the list of a server that has just started.

    Threads without a debate, or of a graph that this server does not have, are not added. They stay in the file until
    `prune` removes them, because another server may use them.
    """
    rows = await _debates()
    threads = get_client(url=None, api_key=None).threads
    async with checkpointer() as saver:
        await prune(saver, rows)
        for thread in await saver.threads():
            if thread in rows and rows[thread].graph in graph_names(others=True):
                await threads.create(thread_id=thread, graph_id=rows[thread].graph, if_exists="do_nothing")


async def _debates() -> dict[str, Debate]:
    """The last debate of each thread."""
    ledger = open_ledger()
    runs = await ledger.runs()  # read first, because a debate may start or be removed meanwhile
    rows = {row.id: row for row in await ledger.debates()}
    return {thread: rows[id] for id, (thread, _) in reversed(runs.items()) if id in rows}


async def prune(saver: Saver, debates: Mapping[str, Debate], days: float = DAYS, most: int = MOST_BYTES) -> None:
    """Removes threads that are too old, and then the oldest ones until the file is small enough; shrinks the file.

    The threads of running and waiting debates are removed only for their age. A debate without its thread can still be
    resumed.

    Args:
        saver: the file's saver.
        debates: the last debate of each thread.
        days: see `DAYS`.
        most: the maximum number of bytes in use in the file.
    """
    limit = time.time() - days * 86400
    written = await saver.threads()
    changed = {one: max(at, debates[one].updated if one in debates else 0) for one, at in written.items()}
    busy = {thread for thread, row in debates.items() if row.status in ("running", "waiting")}
    before = await saver.size()
    for thread in sorted(changed, key=lambda one: changed[one]):
        is_old = changed[thread] <= limit
        if is_old or (thread not in busy and await saver.size() > most):
            await forget(saver, thread)
    if await saver.size() < before:
        await saver.shrink()


async def forget(saver: Saver, thread: str) -> None:
    """Removes a thread from the file, and from the server's list."""
    with suppress(NotFoundError, UnprocessableEntityError):  # an id that is not a UUID is in no list
        await get_client(url=None, api_key=None).threads.delete(thread)
    await saver.adelete_thread(thread)


async def delete(thread: str) -> None:
    """Removes the thread of a deleted debate, even if it is not in the server's list."""
    async with checkpointer() as saver:
        await forget(saver, thread)
        await saver.shrink()


async def prune_daily() -> None:
    """Prunes the file once a day while the server runs."""
    while True:
        await asyncio.sleep(86400)
        try:
            async with checkpointer() as saver:
                await prune(saver, await _debates())
        except (MootError, sqlite3.Error, APIError):
            log.exception("The file of threads could not be pruned; the next attempt is tomorrow.")
