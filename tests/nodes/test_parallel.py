"""Calls that a node makes at once."""

from __future__ import annotations

import asyncio
import inspect

import pytest
from moot.nodes._models.parallel import all_at_once


async def test_calls_that_have_not_started_are_closed_if_their_node_is_cancelled() -> None:
    calls = [asyncio.sleep(1) for _ in range(3)]
    making = asyncio.create_task(all_at_once(calls))
    asyncio.get_running_loop().call_soon(making.cancel)  # after the calls have tasks, before these tasks start
    with pytest.raises(asyncio.CancelledError):
        await making
    assert {inspect.getcoroutinestate(call) for call in calls} == {inspect.CORO_CLOSED}
