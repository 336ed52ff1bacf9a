"""Direct nodes skip LangGraph's tracing if a run has no callbacks. Apart from that, they are like LangGraph's nodes."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import pytest
from langchain_core.callbacks import AsyncCallbackHandler, AsyncCallbackManager
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.graph import END, START
from moot.nodes import DebateGraph, Node, Settings
from moot.nodes._records.reducers import overwrite
from moot.nodes._runtime.state import StepUpdate, TrialState

VARIABLE: ContextVar[str] = ContextVar("variable", default="")
INPUT: Any = {"turns": [], "phase": "primary"}


class StartedRuns(AsyncCallbackHandler):
    """A callback handler that records the names of the runs that start."""

    def __init__(self) -> None:
        self.names: list[str] = []

    async def on_chain_start(self, serialized: Any, inputs: Any, **more: Any) -> None:
        self.names.append(more.get("name", ""))


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of all runs that start, even if no callback handler is given."""
    names: list[str] = []
    start = AsyncCallbackManager.on_chain_start

    async def record_start(self: Any, *given: Any, **more: Any) -> Any:
        names.append(more.get("name", ""))
        return await start(self, *given, **more)

    monkeypatch.setattr(AsyncCallbackManager, "on_chain_start", record_start)
    return names


def two_steps(first: Any, second: Any) -> Any:
    """A compiled graph of two nodes. The second runs if the first sets the depth."""
    graph = DebateGraph(Settings, TrialState, output_schema=StepUpdate)
    graph.add_node("first", Node(first))
    graph.add_node("second", Node(second))
    graph.add_edge(START, "first")
    graph.add_conditional_edges("first", lambda state: "second" if state["depth"] else END, ["second", END])
    graph.add_edge("second", END)
    return graph.compile(name="two steps")


async def add_depth(state: Any, run: Any) -> dict[str, Any]:
    return {"depth": 1}


async def test_nodes_are_traced_only_if_callbacks_are_given(started: list[str]) -> None:
    graph = two_steps(add_depth, add_depth)
    await graph.ainvoke(INPUT, context=Settings())
    assert started == ["two steps"]
    started.clear()
    handler = StartedRuns()
    await graph.ainvoke(INPUT, {"callbacks": [handler]}, context=Settings())
    assert started == handler.names
    assert [name for name in handler.names if name != "<lambda>"] == ["two steps", "first", "second"]


async def test_context_variables_that_a_node_sets_stay_inside_the_node() -> None:
    """The config variable inside a node holds the node's config, but no run name and no run id."""
    seen: list[Any] = []

    async def set_variable(state: Any, run: Any) -> dict[str, Any]:
        config = var_child_runnable_config.get() or {}
        seen.append((VARIABLE.get(), config["metadata"]["langgraph_node"], {"run_name", "run_id"} & config.keys()))
        VARIABLE.set("by a node")
        return {"depth": 1}

    await two_steps(set_variable, set_variable).ainvoke(INPUT, context=Settings())
    assert seen == [("", "first", set()), ("", "second", set())]
    assert VARIABLE.get() == ""


async def test_a_callback_of_a_runnable_inside_a_node_sees_only_that_runnable() -> None:
    handler = StartedRuns()

    async def call_within(state: Any, run: Any) -> dict[str, Any]:
        await RunnableLambda(lambda value: value, name="within").ainvoke(1, {"callbacks": [handler]})
        return {"depth": 1}

    await two_steps(add_depth, call_within).ainvoke(INPUT, context=Settings())
    assert handler.names == ["within"]


async def test_an_error_in_a_direct_node_is_raised_with_the_name_of_the_node() -> None:
    async def fail(state: Any, run: Any) -> dict[str, Any]:
        raise LookupError("nothing there")

    with pytest.raises(LookupError, match="nothing there") as raised:
        await two_steps(add_depth, fail).ainvoke(INPUT, context=Settings())
    assert any("'second'" in note for note in raised.value.__notes__)


async def test_a_router_reads_the_same_state_with_and_without_callbacks() -> None:
    warning = {"kind": "stand_in", "detail": "wikipedia stood in"}
    states: list[dict[str, Any]] = []

    def route(state: Any) -> str:
        states.append(dict(state))
        return END

    async def write(state: Any, run: Any) -> dict[str, Any]:
        return {"warnings": [warning], "depth": 2, "query": "platinum", "calls": overwrite([]), "unheard_of": 1}

    graph = DebateGraph(Settings, TrialState, output_schema=StepUpdate)
    graph.add_node("first", Node(write))
    graph.add_edge(START, "first")
    graph.add_conditional_edges("first", route, [END])
    compiled = graph.compile(name="one step")
    given = {**INPUT, "warnings": [{"kind": "unparsed", "detail": "no JSON"}], "depth": 3, "calls": [{"node": "open"}]}
    await compiled.ainvoke(given, context=Settings())
    await compiled.ainvoke(given, {"callbacks": [StartedRuns()]}, context=Settings())
    direct, traced = states
    assert direct == traced
    assert [warned["kind"] for warned in direct["warnings"]] == ["unparsed", "stand_in"]
    assert (direct["depth"], direct["calls"], "unheard_of" in direct) == (3, [], True)
