"""Threads that outlive their server, in ``$MOOT_HOME/threads.sqlite``.

``moot serve`` names `checkpointer` to it. The server's own list of threads lasts as long as it runs: `restore` makes
those of the table's debates known to it again, without what else was in the list (metadata, runs). Nothing in the file
is unpickled, and of types that a checkpoint may name only those are made that LangGraph itself calls safe.
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
from moot.graphs import DESCRIPTIONS

log = logging.getLogger(__name__)

DAYS = 30
"""Days that a thread is kept after its debate has last changed."""
EPOCH = 12_219_292_800
"""Seconds from 1582-10-15, from which on checkpoints count, to 1970."""
TABLES = ("checkpoints", "writes")


def threads_path() -> Path:
    """Where the threads are."""
    return moot_home() / "threads.sqlite"


def made() -> Path:
    """The file, which only its user can read; made if it is not there."""
    path = threads_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    return path


@asynccontextmanager
async def checkpointer() -> AsyncIterator[Saver]:
    """What the server keeps its threads with."""
    path = await asyncio.to_thread(made)
    async with aiosqlite.connect(path) as connection:
        await connection.execute("PRAGMA synchronous = NORMAL")
        await connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # of a new file
        yield Saver(connection, serde=JsonPlusSerializer(pickle_fallback=False, allowed_msgpack_modules=None))


class Saver(AsyncSqliteSaver):
    """LangGraph's, with what its server asks of a checkpointer beside that."""

    async def adelete_for_runs(self, run_ids: Iterable[str]) -> None:
        """Removes what runs wrote that are rolled back."""
        await self.setup()
        named = "SELECT checkpoint_id FROM checkpoints WHERE json_extract(CAST(metadata AS TEXT), '$.run_id') = ?"
        async with self.lock:
            for run in run_ids:
                for table in reversed(TABLES):
                    await self.conn.execute(f"DELETE FROM {table} WHERE checkpoint_id IN ({named})", (run,))
            await self.conn.commit()

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Removes threads, or all of them but their last step."""
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
        """By the ids of all threads, when each was last written, in seconds since 1970."""
        await self.setup()
        latest = "SELECT thread_id, max(checkpoint_id) FROM checkpoints GROUP BY thread_id"
        async with self.lock, self.conn.execute(latest) as rows:
            return {thread: written_at(checkpoint) async for thread, checkpoint in rows}

    async def size(self) -> int:
        """Bytes of the file that hold something."""
        await self.setup()
        used = "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, "
        async with self.lock, self.conn.execute(f"{used} pragma_page_size") as rows:
            [(bytes_,)] = await rows.fetchall()
            return int(bytes_)

    async def shrink(self) -> None:
        """Gives room that is not used any more back to the disk."""
        async with self.lock:
            # Each step gives one page back, and `execute` takes one step of what has no columns.
            await self.conn.executescript("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE);")


def written_at(checkpoint: str) -> float:
    """When a checkpoint was written, in seconds since 1970: its id says it."""
    return UUID(checkpoint).time / 1e7 - EPOCH


async def restore() -> None:
    """Makes the threads of debates known again to a server that has just started; old ones go.

    Those of no debate are not in its list, but another server of the same home may be using them.
    """
    rows = await _debates()
    threads = get_client(url=None, api_key=None).threads
    async with checkpointer() as saver:
        await prune(saver, rows)
        for thread in await saver.threads():
            if thread in rows and rows[thread].graph in DESCRIPTIONS:
                await threads.create(thread_id=thread, graph_id=rows[thread].graph, if_exists="do_nothing")


async def _debates() -> dict[str, Debate]:
    """By thread, the debate that was last on it."""
    ledger = open_ledger()
    rows = {row.id: row for row in await ledger.debates()}
    return {thread: rows[id] for id, (thread, _) in reversed((await ledger.places()).items())}


async def prune(saver: Saver, debates: Mapping[str, Debate], days: float = DAYS, most: int = MOST_BYTES) -> None:
    """Removes threads that are too old, then the oldest until the file is small enough; the file gets smaller.

    For their size only those go whose debate neither runs nor waits for a person; the others go on without a thread.

    Args:
        saver: the file's.
        debates: by thread, the debate that was last on it.
        days: how long a thread is kept after it, or its debate, has last changed.
        most: bytes of the file.
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
    """Removes a thread from the file, and from the list of the server, if it is there."""
    with suppress(NotFoundError, UnprocessableEntityError):  # what is no UUID is in no list
        await get_client(url=None, api_key=None).threads.delete(thread)
    await saver.adelete_thread(thread)


async def delete(thread: str) -> None:
    """Removes the thread of a debate that is deleted, though its server may not have it in its list."""
    async with checkpointer() as saver:
        await forget(saver, thread)
        await saver.shrink()


async def prune_daily() -> None:
    """Removes old threads once a day, as long as the server runs."""
    while True:
        await asyncio.sleep(86400)
        try:
            async with checkpointer() as saver:
                await prune(saver, await _debates())
        except (MootError, sqlite3.Error, APIError):
            log.exception("Old threads were not removed; it is tried again tomorrow.")
