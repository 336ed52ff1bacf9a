"""Debates on an endpoint that limits calls per second and refuses the rest (HTTP 429)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from moot.graphs import load_graph

from tests.benchmarks.latency import RULES, SETTINGS
from tests.conftest import StartStub

DEBATES = 8


@pytest.mark.parametrize("retry_after", ["1", "none"])
async def test_no_debate_is_lost_and_few_calls_are_refused(start_stub: StartStub, retry_after: str) -> None:
    stub = start_stub(RULES, latency_ms=20, bucket=20, bucket_size=10, retry_after=retry_after)
    system = load_graph("tool_mad")
    context = system.settings.model_validate({**SETTINGS, "embedder": "openai:stub-embedding"})
    documents: list[Any] = await asyncio.gather(
        *(system.graph.ainvoke({"claim": f"Resolution {i} says so."}, context=context) for i in range(DEBATES))
    )
    assert [document["status"] for document in documents] == ["done"] * DEBATES
    sent = [call["status"] for call in stub.calls()]
    assert set(sent) == {200, 429}
    assert len(sent) <= 1.15 * sent.count(200)  # most refusals come at the start, so more calls would lower this ratio
    requests = [call["attempts"] for document in documents for call in document["calls"]]
    assert len(requests) == 31 * DEBATES  # each debate: 12 for queries and answers, 18 for scores, 1 for the verdict
    assert sum(requests) == len(stub.requests())
