"""All nodes of one run share a session. Each run has a new session, even if it resumes a debate."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command
from moot.graphs import load_graph
from moot.nodes import graph_node
from moot.nodes._models.session import Session, current_session
from moot.nodes._runtime.node import NodeContext
from moot.nodes._runtime.state import ClaimInput, VerdictOutput

CLAIM = {"claim": "The platypus is a mammal that lays eggs."}


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Session]:
    """A list that gets the session of each node that runs."""
    sessions: list[Session] = []

    def record_session() -> Session:
        sessions.append(current_session())
        return sessions[-1]

    original = NodeContext.__init__

    def start_with_record(run: NodeContext, settings: Any, record: Any) -> None:
        original(run, settings, record, record_session())

    monkeypatch.setattr(NodeContext, "__init__", start_with_record)
    return sessions


@pytest.mark.parametrize("name", ["tool_mad", "proclaim", "madke"])
async def test_all_nodes_of_a_debate_share_one_session(name: str, seen: list[Session]) -> None:
    system = load_graph(name)
    settings = system.settings.model_validate({"model": "fake:1", "corpus": "demo-news"})
    documents = [await system.graph.ainvoke(CLAIM, context=settings) for _ in range(2)]
    ids = [document["id"] for document in documents]
    assert len({*ids}) == 2
    assert {*map(len, ids)} == {32}
    assert len(seen) > 10
    assert len({*map(id, seen)}) == 2


async def test_a_resumed_debate_keeps_its_id(seen: list[Session]) -> None:
    system = load_graph("tool_mad")
    graph = system.graph.builder.compile(checkpointer=InMemorySaver())
    settings = system.settings.model_validate({"model": "fake:1", "corpus": "demo-news", "ask_person": ["verdict"]})
    config: Any = {"configurable": {"thread_id": "1"}}
    first = await graph.ainvoke(CLAIM, config, context=settings)
    waiting = seen[-1]
    last = await graph.ainvoke(Command(resume=True), config, context=settings)
    assert waiting.document is None
    assert first["status"] == "interrupted"
    assert seen[-1] is not waiting
    assert seen[-1].id == waiting.id == last["id"]
    assert seen[-1].document == last
    assert seen[-1].before["calls"] == first["calls"]


async def test_a_run_that_a_server_starts_again_begins_with_the_first_node() -> None:
    """LangGraph by itself would resume a run whose id is in the thread's state."""
    system = load_graph("standard_mad")
    graph = system.graph.builder.compile(checkpointer=InMemorySaver())
    settings = system.settings.model_validate({"model": "fake:1", "corpus": "demo-news"})
    config: Any = {"configurable": {"thread_id": "1", "run_id": "a run of a server"}}
    for most in (4, 3, 1000):  # updates before the run's worker is lost
        ran = []
        async for update in graph.astream(CLAIM, config, context=settings, stream_mode="updates"):
            ran += update
            if len(ran) >= most:
                break
        assert ran[0] == "open"
    undisturbed = await system.graph.ainvoke(CLAIM, context=settings)
    document = (await graph.aget_state(config)).values
    assert (document["status"], len(document["calls"])) == ("done", len(undisturbed["calls"]))


async def test_debates_inside_a_users_graph_have_different_ids() -> None:
    inner = load_graph("standard_mad")
    builder = StateGraph(VerdictOutput, input_schema=ClaimInput)
    builder.add_node(
        "debate", graph_node(inner.graph).with_settings(inner.settings(model="fake:1", corpus="demo-news"))
    )
    builder.add_edge(START, "debate")
    builder.add_edge("debate", END)
    graph: Any = builder.compile()
    documents = [await graph.ainvoke(CLAIM) for _ in range(2)]
    assert len({document["id"] for document in documents}) == 2


@pytest.mark.parametrize("name", ["tool_mad", "proclaim"])
async def test_the_events_of_a_debate_can_be_streamed(name: str) -> None:
    system = load_graph(name)
    settings = system.settings.model_validate({"model": "fake:1", "corpus": "demo-news"})
    events = [event async for event in system.graph.astream_events(CLAIM, version="v2", context=settings)]
    assert events[-1]["data"]["output"]["status"] == "done"
    assert Counter(event["event"] for event in events)["on_chat_model_end"] > 5
