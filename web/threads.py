"""Stores the threads of ``moot serve`` in ``$MOOT_HOME/threads.sqlite``, so that they outlive the server.

LangGraph's server uses `checkpointer`, but keeps its own list of threads in memory. When the server starts, `restore`
adds the threads of the debates in the store to this list, without metadata and runs. Nothing in the file is ever
unpickled; only types that LangGraph considers safe are loaded from checkpoints.
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
from moot.core.home import moot_home, private_folder
from moot.core.store import Run, open_store
from moot.graphs._registry import graph_names

log = logging.getLogger(__name__)

MOST_BYTES = 10**9
"""Number of bytes above which the file is pruned."""
DAYS = 30
"""A thread is removed this many days after the last change of the thread or its debate."""
EPOCH = 12_219_292_800
"""Seconds from the epoch of time-based UUIDs (1582-10-15) to 1970."""
TABLES = ("checkpoints", "writes")
"""The tables of LangGraph's checkpointer. ``writes`` must be pruned first, because the queries read ``checkpoints``."""


def threads_path() -> Path:
    """The path of the threads' file."""
    return moot_home() / "threads.sqlite"


def ensure_file() -> Path:
    """Creates the threads' file if it is missing, readable only by its owner; returns its path.

    An existing file is not opened. When a process closes any descriptor of a file, POSIX drops all locks of the process
    on that file. Another process could then remove the write-ahead log that SQLite still uses in this process.

    """
    path = threads_path()
    private_folder(path.parent)
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
    """LangGraph's SQLite checkpointer, with additional methods for LangGraph's server and for pruning the file."""

    async def adelete_for_runs(self, run_ids: Iterable[str]) -> None:
        """Removes the checkpoints of runs that were rolled back, and the writes of these checkpoints."""
        await self.setup()
        of_run = "SELECT checkpoint_id FROM checkpoints WHERE json_extract(CAST(metadata AS TEXT), '$.run_id') = ?"
        async with self.lock:
            for run in run_ids:
                for table in reversed(TABLES):
                    await self.conn.execute(f"DELETE FROM {table} WHERE checkpoint_id IN ({of_run})", (run,))
            await self.conn.commit()

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Removes threads, or all their checkpoints except the last one of each namespace."""
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
        """The time of each thread's last checkpoint in seconds since 1970, by the thread's id."""
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
        """Gives the unused space of the file back to the file system."""
        async with self.lock:
            # Each step of `incremental_vacuum` frees one page; `execute` would run only the first step.
            await self.conn.executescript("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE);")


def written_at(checkpoint: str) -> float:
    """The time at which a checkpoint was written, in seconds since 1970. It is read from the checkpoint's id."""
    return UUID(checkpoint).time / 1e7 - EPOCH


async def restore() -> None:
    """Prunes the file, and adds the threads of debates to the list of a server that has just started.

    A thread is not added if it has no debate, or if this server does not have the debate's graph. Such a thread stays
    in the file until `prune` removes it, because another server may use it.

    """
    rows = await _last_debates()
    threads = get_client(url=None, api_key=None).threads
    async with checkpointer() as saver:
        await prune(saver, rows)
        for thread in await saver.threads():
            if thread in rows and rows[thread].graph in graph_names(others=True):
                await threads.create(thread_id=thread, graph_id=rows[thread].graph, if_exists="do_nothing")


async def _last_debates() -> dict[str, Run]:
    """The last debate of each thread, by the thread's id."""
    store = open_store()
    return {run.thread: run for run in reversed(await store.soon(store.runs)) if run.thread}


async def prune(saver: Saver, debates: Mapping[str, Run], days: float = DAYS, most: int = MOST_BYTES) -> None:
    """Removes threads that are too old, then the oldest threads until the file is small enough; shrinks the file.

    The thread of a running or waiting debate is removed only if it is too old, not because of the file's size. A debate
    whose thread was removed can still be resumed.

    """
    limit = time.time() - days * 86400
    written = await saver.threads()
    changed = {thread: max(at, debates[thread].updated if thread in debates else 0) for thread, at in written.items()}
    busy = {thread for thread, row in debates.items() if row.status in ("running", "waiting")}
    before = await saver.size()
    for thread in sorted(changed, key=changed.__getitem__):
        is_old = changed[thread] <= limit
        if is_old or (thread not in busy and await saver.size() > most):
            await forget(saver, thread)
    if await saver.size() < before:
        await saver.shrink()


async def forget(saver: Saver, thread: str) -> None:
    """Removes a thread from the file, and from the server's list."""
    with suppress(NotFoundError, UnprocessableEntityError):  # the thread is not in the list, or its id is not a UUID
        await get_client(url=None, api_key=None).threads.delete(thread)
    await saver.adelete_thread(thread)


async def delete(thread: str) -> None:
    """Removes the thread of a deleted debate, even if the thread is not in the server's list; shrinks the file."""
    async with checkpointer() as saver:
        await forget(saver, thread)
        await saver.shrink()


async def prune_daily() -> None:
    """Prunes the file once a day until the task is cancelled; logs errors of the store, the file and the server."""
    while True:
        await asyncio.sleep(86400)
        try:
            async with checkpointer() as saver:
                await prune(saver, await _last_debates())
        except (MootError, OSError, sqlite3.Error, APIError):
            log.exception("The file of threads could not be pruned; the next attempt is tomorrow.")
