"""Idle nodes have no work in a debate. They are skipped, unless this would call a router several times."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.errors import GraphRecursionError
from langgraph.graph import END, START
from langgraph.types import Send
from moot.graphs import DESCRIPTIONS, load_graph
from moot.nodes import DebateGraph, Node, Settings
from moot.nodes._runtime.state import StepUpdate, TrialState

from tests.conftest import StartStub, reading_demo

ALLOWED_TO_WRITE_NOTHING = {
    name: {node for node in load_graph(name).graph.builder.nodes if node.startswith("gather_")} for name in DESCRIPTIONS
}
ALLOWED_TO_WRITE_NOTHING["proclaim"] |= {"gather_queries", "gather_challenges", "gather_testimony", "compile_record"}
ALLOWED_TO_WRITE_NOTHING["peer_review"] |= {"hand_back"}
ALLOWED_TO_WRITE_NOTHING["group_debate"] |= {"share"}
"""By system, the nodes that need not write anything. They wait for parallel nodes, or write only warnings."""


@pytest.mark.parametrize("name", DESCRIPTIONS)
async def test_idle_nodes_do_not_run(start_stub: StartStub, name: str) -> None:
    """Every node that runs writes something, except for the nodes of `ALLOWED_TO_WRITE_NOTHING`."""
    start_stub([{"fields": {"citations": []}}])
    system = load_graph(name)
    settings = system.settings.model_validate(
        {"model": "openai:stub", "embedder": "openai:stub-embedding", **reading_demo(system.settings)}
    )
    wrote: list[tuple[str, Any]] = []
    claim = {"claim": "The kilogram is defined by a metal cylinder."}
    async for _, updates in system.graph.astream(claim, context=settings, stream_mode="updates", subgraphs=True):
        wrote += updates.items()
    assert wrote[-1][0] == "close"
    assert {node for node, update in wrote if not update} <= ALLOWED_TO_WRITE_NOTHING[name]


async def write_step(state: Any, run: Any) -> dict[str, Any]:
    return {"turns": [{**state["turns"][0], "step": "spoke"}] if "debater" in state else []}


async def count_rounds(state: Any, run: Any) -> dict[str, Any]:
    return {"rounds": state.get("rounds", 0) + len(state["turns"])}


def is_review_idle(state: Any, settings: Any) -> bool:
    return not settings.verified_quotes


@pytest.mark.parametrize("has_work", [False, True])
@pytest.mark.parametrize("plain_edge", [False, True])
async def test_after_parallel_speakers_the_node_behind_an_idle_node_runs_once(has_work: bool, plain_edge: bool) -> None:
    """An idle node before a router is not skipped. If it were, each speaker would call the router."""
    graph = DebateGraph(Settings, TrialState, output_schema=StepUpdate)
    for name, node in {
        "speak": Node(write_step),
        "review": Node(write_step, idle=is_review_idle),
        "count": Node(count_rounds),
    }.items():
        graph.add_node(name, node)
    turns = [{"round": 1, "phase": "primary", "agent": f"agent-{i}", "step": "respond"} for i in range(3)]
    sends = [Send("speak", {"debater": {"name": turn["agent"]}, "turns": [turn]}) for turn in turns]
    graph.add_conditional_edges(START, lambda state: sends, ["speak"])
    graph.add_edge("speak", "review")
    if plain_edge:
        graph.add_edge("review", "count")
    else:
        graph.add_conditional_edges("review", lambda state: [Send("count", state)], ["count"])
    graph.add_edge("count", END)
    for _ in range(2):  # a user who adds a checkpointer compiles the graph again
        entered: list[str] = []
        given = {"turns": [], "phase": "primary"}
        context = Settings(verified_quotes=has_work)
        async for updates in graph.compile().astream(given, context=context, stream_mode="updates"):
            entered += updates
        assert entered == ["speak"] * 3 + ["review"] * (has_work or not plain_edge) + ["count"]


def add_two_nodes_and_router(graph: DebateGraph) -> None:
    """Add two parallel nodes before the idle node ``review``, and a router after it."""
    for name in ("one", "other"):
        graph.add_node(name, Node(write_step))
        graph.add_edge(START, name)
        graph.add_edge(name, "review")
    graph.add_conditional_edges("review", lambda state: [Send("count", {"turns": [], "rounds": 0})], ["count"])
    graph.add_edge("count", END)


async def test_after_two_parallel_nodes_the_router_of_an_idle_node_is_called_once() -> None:
    graph = DebateGraph(Settings, TrialState, output_schema=StepUpdate)
    graph.add_node("review", Node(write_step, idle=is_review_idle))
    graph.add_node("count", Node(count_rounds))
    add_two_nodes_and_router(graph)
    entered: list[str] = []
    async for updates in graph.compile().astream({"turns": [], "phase": "primary"}, stream_mode="updates"):
        entered += updates
    assert sorted(entered) == ["count", "one", "other", "review"]


async def test_a_cycle_of_idle_nodes_ends_at_the_recursion_limit() -> None:
    graph = DebateGraph(Settings, TrialState, output_schema=StepUpdate)
    graph.add_node("begin", Node(count_rounds))
    for name, after in (("review", "again"), ("again", "review")):
        graph.add_node(name, Node(write_step, idle=is_review_idle))
        graph.add_edge(name, after)
    graph.add_edge(START, "begin")
    graph.add_edge("begin", "review")
    with pytest.raises(GraphRecursionError):
        await graph.compile().ainvoke({"turns": [], "phase": "primary"}, {"recursion_limit": 9})
