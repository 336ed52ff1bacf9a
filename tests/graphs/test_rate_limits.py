"""Debates on an endpoint that limits the calls per second and refuses further calls (HTTP 429)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from moot.graphs import load_graph

from tests.benchmarks.latency import RULES, SETTINGS
from tests.conftest import StartStub

DEBATES = 8


@pytest.mark.parametrize("retry_after", ["1", "none"])
async def test_debates_finish_in_spite_of_rate_limits(start_stub: StartStub, retry_after: str) -> None:
    """The number of refused calls is at most 15 per cent of the number of answered calls."""
    stub = start_stub(RULES, latency_ms=20, bucket=20, bucket_size=10, retry_after=retry_after)
    system = load_graph("tool_mad")
    context = system.settings.model_validate({**SETTINGS, "embedder": "openai:stub-embedding"})
    documents: list[Any] = await asyncio.gather(
        *(system.graph.ainvoke({"claim": f"Resolution {i} says so."}, context=context) for i in range(DEBATES))
    )
    assert [document["status"] for document in documents] == ["done"] * DEBATES
    statuses = [call["status"] for call in stub.calls()]
    assert set(statuses) == {200, 429}
    assert statuses.count(429) <= 0.15 * statuses.count(200)  # most refusals come at the start of the debates
    attempts = [call["attempts"] for document in documents for call in document["calls"]]
    # Each debate makes 12 calls for queries and answers, 18 for scores, and 1 for the verdict.
    assert len(attempts) == 31 * DEBATES
    assert sum(attempts) == len(stub.requests())
