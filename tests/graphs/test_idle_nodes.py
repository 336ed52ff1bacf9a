"""Nodes without work in a debate, such as reviews that nobody asked for: they write nothing and stream no events."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from moot.graphs import DESCRIPTIONS, load_graph

from tests.conftest import StartStub, reading_demo

SILENT = {
    name: {node for node in load_graph(name).graph.builder.nodes if node.startswith("gather_")} for name in DESCRIPTIONS
}
SILENT["proclaim"] |= {"gather_queries", "gather_challenges", "gather_testimony", "compile_record"}
SILENT["peer_review"] |= {"hand_back"}
SILENT["group_debate"] |= {"share"}
"""By system, the nodes that stream events, but need not write anything. They wait for parallel nodes, or only warn."""


@pytest.mark.parametrize("name", DESCRIPTIONS)
async def test_a_node_streams_events_only_if_it_writes_something(start_stub: StartStub, name: str) -> None:
    start_stub([{"fields": {"citations": []}}])
    system = load_graph(name)
    settings = system.settings.model_validate(
        {"model": "openai:stub", "embedder": "openai:stub-embedding", **reading_demo(system.settings)}
    )
    wrote: list[tuple[str, Any]] = []
    begun: Counter[str] = Counter()
    claim = {"claim": "The kilogram is defined by a metal cylinder."}
    modes: Any = {"stream_mode": ["updates", "custom"], "subgraphs": True}
    async for _, mode, chunk in system.graph.astream(claim, context=settings, **modes):
        if mode == "updates":
            wrote += chunk.items()
        else:
            begun[chunk["node"]] += chunk["event"] == "begin"
    assert wrote[-1][0] == "close"
    assert begun["close"] == begun["open"]  # a gate opens and closes a debate of its own
    writers = Counter(node for node, update in wrote if update)
    assert {node for node in begun if begun[node] > writers[node]} <= SILENT[name]
