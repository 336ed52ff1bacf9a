"""A signal that arrives after the end of a debate does not lose its document."""

from __future__ import annotations

import asyncio

import pytest
from moot.graphs.standard_prompting import graph
from moot.nodes._runtime import running
from moot.nodes._speakers.single import SingleAgentSettings


async def test_a_signal_after_the_end_does_not_lose_the_document(monkeypatch: pytest.MonkeyPatch) -> None:
    async def interrupted() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    monkeypatch.setattr(running, "close_clients", interrupted)
    settings = SingleAgentSettings(model="fake:1")
    document = await running.DebateRun(graph, settings, lambda update: None).run({"claim": "Saffron is a root."})
    assert document["status"] == "done"
