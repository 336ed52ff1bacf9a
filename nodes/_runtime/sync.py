"""Runs graphs for callers that are not asynchronous: in one event loop, which has a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterator
from contextlib import aclosing
from contextvars import copy_context
from functools import lru_cache
from queue import SimpleQueue
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple


@lru_cache(maxsize=1)
def event_loop() -> asyncio.AbstractEventLoop:
    """The event loop of all synchronous calls of this process: so they share clients, limits and models."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="moot-sync", daemon=True).start()
    return loop


def stream_in_loop(graph: Any, input: Any, config: RunnableConfig | None, options: dict[str, Any]) -> Iterator[Any]:
    """Yields the chunks of the graph's ``astream``, which runs in `event_loop` with the caller's context variables."""
    # Checkpointers, also that of a graph around this one, are called in threads: not all of them are asynchronous.
    loop = event_loop()
    if threading.current_thread().name == "moot-sync":
        raise RuntimeError(
            "A synchronous call in the event loop that runs it would wait for ever; await the asynchronous one, such "
            "as `ainvoke`, instead."
        )
    if _is_saver(graph.checkpointer):
        graph = graph.copy({"checkpointer": SaverInThread(graph.checkpointer)})
    chunks: AsyncGenerator[Any, None] = graph.astream(input, _with_threads(config), **options)
    found: SimpleQueue[Any] = SimpleQueue()
    tasks: list[asyncio.Task[None]] = []

    async def run() -> None:
        async with aclosing(chunks):
            async for chunk in chunks:
                found.put(chunk)

    def begin() -> None:  # one task for all chunks: LangGraph sets context variables, and resets them at the end
        tasks.append(loop.create_task(run()))
        tasks[0].add_done_callback(found.put)

    context = copy_context()
    context.run(lambda: var_child_runnable_config.set(_with_threads(var_child_runnable_config.get())))
    loop.call_soon_threadsafe(begin, context=context)
    ended: asyncio.Task[None] | None = None
    try:
        while not isinstance(chunk := found.get(), asyncio.Task):
            yield chunk
        ended = chunk
    finally:
        if ended is None:  # the caller has stopped, or was interrupted
            loop.call_soon_threadsafe(lambda: tasks[0].cancel())
            while not isinstance(found.get(), asyncio.Task):
                pass
    ended.result()


def _with_threads(config: RunnableConfig | None) -> Any:
    """The config with its checkpointer, if it has one, called in threads."""
    given = (config or {}).get("configurable") or {}
    savers = {name: SaverInThread(one) for name, one in given.items() if _is_saver(one)}
    return {**(config or {}), "configurable": {**given, **savers}} if savers else config


def _is_saver(one: Any) -> bool:
    return isinstance(one, BaseCheckpointSaver) and not isinstance(one, SaverInThread)


class SaverInThread(BaseCheckpointSaver[Any]):
    """A checkpointer whose synchronous methods run in threads, for a graph that calls the asynchronous ones."""

    def __init__(self, saver: BaseCheckpointSaver[Any]) -> None:
        super().__init__(serde=saver.serde)
        self._saver = saver

    def get_next_version(self, current: Any, channel: None) -> Any:
        """As the checkpointer's own method."""
        return self._saver.get_next_version(current, channel)

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> SaverInThread:
        """As the checkpointer's own method."""
        return SaverInThread(self._saver.with_allowlist(extra_allowlist))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Calls ``get_tuple``."""
        return await asyncio.to_thread(self._saver.get_tuple, config)

    async def alist(self, *arguments: Any, **options: Any) -> AsyncIterator[CheckpointTuple]:
        """Calls ``list``."""
        for one in await asyncio.to_thread(lambda: list(self._saver.list(*arguments, **options))):
            yield one

    async def aput(self, *arguments: Any) -> RunnableConfig:
        """Calls ``put``."""
        return await asyncio.to_thread(self._saver.put, *arguments)

    async def aput_writes(self, *arguments: Any, **options: Any) -> None:
        """Calls ``put_writes``."""
        await asyncio.to_thread(self._saver.put_writes, *arguments, **options)
