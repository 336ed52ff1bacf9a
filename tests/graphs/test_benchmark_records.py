"""Claims of a public benchmark through the graph, where the samples are at hand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from moot.graphs.tool_mad import ToolMadSettings, graph

from tests.conftest import SHARED, StartStub

FEVER = SHARED / "data" / "visible" / "fever.jsonl"


@pytest.mark.skipif(not FEVER.exists(), reason="the FEVER sample is not part of the project (../shared/data)")
async def test_fever_claims(start_stub: StartStub) -> None:
    start_stub()
    records: list[dict[str, Any]] = [json.loads(line) for line in FEVER.read_text().splitlines()[:5]]
    settings = ToolMadSettings(model="openai:stub", embedder="openai:stub-embedding", max_rounds=1)
    for record in records:
        document = await graph.ainvoke({"claim": record["claim"]}, context=settings)
        assert document["status"] == "done"
        assert record["label"] in document["task"]["labels"]
        assert document["answer"] in document["task"]["labels"]
