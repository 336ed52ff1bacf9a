"""Parallel calls of a node: the order of their records, and the chain of calls on which a call depends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Iterable
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")

chain: ContextVar[int] = ContextVar("chain", default=0)
"""The length of the longest chain of calls on which the next call of the running coroutine depends."""
branch: ContextVar[tuple[int, ...]] = ContextVar("branch", default=(0,))
"""A coroutine's position among its node's parallel calls. Calls and warnings are sorted by this position.

The first number counts the groups of parallel calls (`all_at_once`) that the node has already run. Inside a group, two
numbers follow: the coroutine's index in the group, and the number of groups that the coroutine itself has run.
"""


def start_chain() -> None:
    """Starts a new chain of dependent calls; every node does this when it starts."""
    chain.set(0)
    branch.set((0,))


async def all_at_once(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Makes calls in parallel, and returns their results in order; raises the first error, while the others run on."""
    here, calls = branch.get(), [*calls]

    async def run_branch(number: int, call: Awaitable[T]) -> tuple[T, int]:
        branch.set((*here, number, 0))
        return await call, chain.get()

    try:
        done = await asyncio.gather(*(run_branch(number, call) for number, call in enumerate(calls)))
    except asyncio.CancelledError:
        for call in calls:  # those that had not started yet; the others have ended
            call.close()
        raise
    branch.set((*here[:-1], here[-1] + 1))
    chain.set(max((depth for _, depth in done), default=chain.get()))
    return [result for result, _ in done]
