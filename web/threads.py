"""Threads that outlive their server, in ``$MOOT_HOME/threads.sqlite``.

``moot serve`` names `checkpointer` to it. The server's own list of threads lasts as long as it runs: `restore` makes
those of the table's debates known to it again, without what else was in the list (metadata, runs). Nothing in the file
is unpickled, and of types that a checkpoint may name only those are made that LangGraph itself calls safe.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import aiosqlite
from langgraph.checkpoint.base.id import UUID
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph_sdk import get_client
from moot.core.home import moot_home
from moot.core.ledger import open_ledger
from moot.graphs import DESCRIPTIONS

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


def written_at(checkpoint: str) -> float:
    """When a checkpoint was written, in seconds since 1970: its id says it."""
    return UUID(checkpoint).time / 1e7 - EPOCH


async def restore() -> None:
    """Makes the threads of debates known again to a server that has just started; old ones go.

    Those of no debate are not in its list, but another server of the same home may be using them.
    """
    ledger = open_ledger()
    rows = {row.id: row for row in await ledger.debates()}
    limit = time.time() - DAYS * 86400
    placed = await ledger.places()
    graphs = {
        thread: rows[id].graph
        for id, (thread, _) in reversed(placed.items())
        if rows[id].updated > limit and rows[id].graph in DESCRIPTIONS
    }
    threads = get_client(url=None, api_key=None).threads
    async with checkpointer() as saver:
        for thread, written in (await saver.threads()).items():
            if thread in graphs:
                await threads.create(thread_id=thread, graph_id=graphs[thread], if_exists="do_nothing")
            elif written <= limit:
                await saver.adelete_thread(thread)
