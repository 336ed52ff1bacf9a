"""A debate has ended, and then the task that ran it is cancelled."""

from __future__ import annotations

import asyncio

import pytest
from moot.graphs.standard_prompting import graph
from moot.nodes._runtime import running
from moot.nodes._speakers.single import SingleAgentSettings


async def test_a_cancellation_after_the_debate_does_not_discard_the_document(monkeypatch: pytest.MonkeyPatch) -> None:
    """The task of the debate is cancelled while it closes the HTTP clients. A signal may cancel it then."""

    async def cancel_this_task() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    monkeypatch.setattr(running, "close_clients", cancel_this_task)
    settings = SingleAgentSettings(model="fake:1")
    document = await running.DebateRun(graph, settings, lambda update: None).run({"claim": "Saffron is a root."})
    assert document["status"] == "done"
