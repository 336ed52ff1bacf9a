"""Only a model that somebody named answers: in a context of any form, in graphs of one's own, and by MOOT_MODEL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from langgraph.graph import END, START, StateGraph
from moot.core.errors import UserError
from moot.graphs import DESCRIPTIONS, load_graph
from moot.nodes import DebateGraph, DebateState, Settings, graph_node
from pydantic import BaseModel
from typing_extensions import TypedDict

from tests.conftest import DEMO, StartStub, StubEndpoint, reading_demo

CLAIM = {"claim": "Saffron is made from roots."}
NAMED = "openai:stub-named"
WAYS = ("MOOT_MODEL", "--model", "moot config set model", 'context={"model"')
"""The ways to name a model that the error lists."""


class Parent(TypedDict, total=False):
    claim: str
    answer: Any
    error: Any
    settings: Any
    calls: Any


@dataclass
class Fields:
    model: str = NAMED
    sources: tuple[str, ...] = DEMO


class Typed(TypedDict):
    model: str
    sources: tuple[str, ...]


class Object(BaseModel):
    model: str = NAMED
    sources: tuple[str, ...] = DEMO


@dataclass
class Foreign:
    user: str = "u"
    model: str = NAMED


@pytest.fixture
def stub(start_stub: StartStub) -> StubEndpoint:
    return start_stub([{"fields": {"answer": "REFUTES", "citations": []}}])


Nest = Callable[[Any, Any], Any]


def as_subgraph(graph: Any, schema: Any) -> Any:
    builder: Any = StateGraph(Parent, context_schema=schema)
    builder.add_node("debate", graph)
    return builder.add_edge(START, "debate").add_edge("debate", END).compile()


def called_in_node(graph: Any, schema: Any) -> Any:
    async def call(state: Parent) -> Any:
        return await graph.ainvoke({"claim": state["claim"]})

    return as_subgraph(call, schema)


def two_deep(graph: Any, schema: Any) -> Any:
    return as_subgraph(as_subgraph(graph, None), schema)


def itself(graph: Any, schema: Any) -> Any:
    return graph


NESTS = (itself, as_subgraph, called_in_node, two_deep)


def models_called(stub: StubEndpoint) -> set[str]:
    return {request["model"] for request in stub.requests()}


@pytest.mark.parametrize("nest", NESTS)
@pytest.mark.parametrize(
    ("schema", "context"),
    [
        (None, {"model": NAMED, "sources": DEMO}),
        (Typed, {"model": NAMED, "sources": DEMO}),
        (Fields, Fields()),
        (Object, Object()),
        (None, Object()),
    ],
    ids=["dict", "TypedDict", "dataclass", "pydantic", "pydantic without schema"],
)
async def test_a_context_of_any_form_names_the_model(stub: StubEndpoint, nest: Nest, schema: Any, context: Any) -> None:
    document = await nest(load_graph("react").graph, schema).ainvoke(CLAIM, context=context)
    assert (document["settings"]["model"], document["settings"]["sources"]) == (NAMED, [*DEMO])
    assert models_called(stub) == {"stub-named"}


@pytest.mark.parametrize("nest", NESTS)
async def test_settings_of_a_base_class_name_the_model(stub: StubEndpoint, nest: Nest) -> None:
    """A field that was not set has the graph's own default."""
    document = await nest(load_graph("self_consistency").graph, None).ainvoke(CLAIM, context=Settings(model=NAMED))
    default = load_graph("self_consistency").settings()
    assert document["settings"] == {**default.recorded(), "model": NAMED}
    assert models_called(stub) == {"stub-named"}


async def test_settings_in_a_runs_own_configurable_are_an_error(stub: StubEndpoint) -> None:
    """A ``configurable`` of the graph around it may have names of other things."""
    graph = load_graph("standard_prompting").graph
    named: Any = {"configurable": {"seed": 1, "thread_id": "t"}}
    for run in (graph.ainvoke(CLAIM, named), graph.with_config(named).ainvoke(CLAIM, context={"model": NAMED})):
        with pytest.raises(UserError, match="'seed', but settings belong into the context: ainvoke"):
            await run
    misplaced: Any = Settings(model=NAMED)
    with pytest.raises(UserError, match="type Settings; it must be a dict, and settings belong into the context"):
        await graph.ainvoke(CLAIM, misplaced)
    with pytest.raises(UserError, match="settings belong into the context"):
        graph.invoke(CLAIM, misplaced)
    document = await as_subgraph(graph, None).ainvoke(CLAIM, named, context={"model": NAMED})
    assert (document["settings"]["seed"], models_called(stub)) == (None, {"stub-named"})


@pytest.mark.parametrize("nest", NESTS[1:])
@pytest.mark.parametrize("context", [{}, {"models": {"judge": NAMED}}], ids=["none", "judge only"])
async def test_a_subgraph_without_a_model_raises_in_any_state(stub: StubEndpoint, nest: Nest, context: Any) -> None:
    class Narrow(TypedDict, total=False):
        claim: str
        answer: Any

    builder: Any = StateGraph(Narrow)
    builder.add_node("debates", nest(load_graph("tool_mad").graph, None))
    graph = builder.add_edge(START, "debates").add_edge("debates", END).compile()
    with pytest.raises(UserError, match="No model is named for the roles rag, search") as caught:
        await graph.ainvoke(CLAIM, context=context)
    assert (caught.value.kind, stub.requests()) == ("missing_model", [])


@pytest.mark.parametrize("nest", NESTS)
@pytest.mark.parametrize(
    ("context", "problem"),
    [
        (Foreign(), "no setting 'user'"),
        ({"modle": NAMED}, "Did you mean model"),
        ({"model": "gpt-4o"}, "name a model as provider:name"),
        (load_graph("tool_mad").settings(model=NAMED), "settings of another system"),
        ("openai:gpt-4o", "no fields"),
    ],
    ids=["dataclass", "misspelt", "value", "other system", "text"],
)
async def test_a_context_that_is_no_settings_is_an_error(
    stub: StubEndpoint, nest: Nest, context: Any, problem: str
) -> None:
    graph = nest(load_graph("standard_prompting").graph, None)
    with pytest.raises(UserError, match=problem) as caught:
        await graph.ainvoke(CLAIM, context=context)
    assert "graph_node(graph).with_settings(SingleAgentSettings(...))" in caught.value.detail
    assert stub.requests() == []


@pytest.mark.parametrize("name", DESCRIPTIONS)
async def test_without_a_named_model_each_system_ends_with_an_error_that_lists_the_ways(name: str) -> None:
    system = load_graph(name)
    sources = reading_demo(system.settings)
    ways: list[Any] = [{}, {"context": {}}, {"context": sources}, {"config": {"configurable": {"thread_id": "t"}}}]
    for given in ways:
        document = await system.graph.ainvoke(CLAIM, **given)
        assert (document["status"], document["error"]["kind"], document["calls"]) == ("failed", "missing_model", [])
        assert [way for way in WAYS if way not in document["error"]["detail"]] == []


async def test_roles_with_models_of_their_own_need_no_other_model(stub: StubEndpoint) -> None:
    graph, speakers = load_graph("society_of_minds").graph, [{"name": f"agent-{n}", "model": NAMED} for n in (1, 2)]
    document = await graph.ainvoke(CLAIM, context={"agents": speakers})
    assert (document["status"], models_called(stub)) == ("done", {"stub-named"})
    document = await graph.ainvoke(CLAIM, context={"agents": [*speakers, {"name": "agent-3"}]})
    assert (document["error"]["kind"], "role agent-3" in document["error"]["detail"]) == ("missing_model", True)


async def test_moot_model_is_the_default_everywhere_but_never_replaces_a_named_model(
    stub: StubEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOOT_MODEL", " openai:stub-usual ")
    graph = load_graph("standard_prompting").graph
    for given in ({}, {"context": {"temperature": 0.5}}, {"context": Settings(temperature=0.5)}):
        document = await as_subgraph(graph, None).ainvoke(CLAIM, **given)
        assert document["settings"]["model"] == "openai:stub-usual"
    assert (await graph.ainvoke(CLAIM, context={"model": NAMED}))["settings"]["model"] == NAMED
    assert models_called(stub) == {"stub-usual", "stub-named"}
    monkeypatch.setenv("MOOT_MODEL", "gpt-4o")
    assert (await graph.ainvoke(CLAIM, context={"model": NAMED}))["settings"]["model"] == NAMED
    with pytest.raises(UserError, match="MOOT_MODEL cannot be used.*name a model as provider:name"):
        await graph.ainvoke(CLAIM)


async def test_a_resumed_debate_keeps_its_model_if_moot_model_changes(
    stub: StubEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    from langgraph.checkpoint.memory import InMemorySaver

    graph = load_graph("standard_prompting").graph.copy(update={"checkpointer": InMemorySaver()})
    config: Any = {"configurable": {"thread_id": "t"}}
    monkeypatch.setenv("MOOT_MODEL", NAMED)
    await graph.ainvoke(CLAIM, config, interrupt_after=["open"])
    monkeypatch.setenv("MOOT_MODEL", "openai:stub-other")
    document = await graph.ainvoke(None, config)
    assert (document["settings"]["model"], models_called(stub)) == (NAMED, {"stub-named"})


@pytest.mark.parametrize("nest", NESTS[1:])
async def test_a_graph_around_a_debate_is_resumed_with_its_context(
    stub: StubEndpoint, nest: Nest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it, the debate would go on with another prompt, and with another model."""
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.types import Command

    system = load_graph("tool_mad")
    graph = nest(system.graph, None).copy(update={"checkpointer": InMemorySaver()})
    config: Any = {"configurable": {"thread_id": "t"}}
    edited = f"{system.settings.model_fields['judge_prompt'].default} Edited."
    asked = {"max_rounds": 1, "ask_person": ["verdict"], "corpus": "demo-news", "scoring": "all_rounds"}
    context = {"model": NAMED, "judge_prompt": edited, **asked}
    await graph.ainvoke(CLAIM, config, context=context)
    before = len(stub.requests())
    monkeypatch.setenv("MOOT_MODEL", "openai:stub-other")
    for reply in ({"question": "Why?"}, {"accept": True}):
        with pytest.raises(UserError, match=r"began with other settings \(model, .*judge_prompt"):
            await graph.ainvoke(Command(resume=reply), config)
        document = await graph.ainvoke(Command(resume=reply), config, context=context)
    assert (document["answer"], models_called(stub)) == ("REFUTES", {"stub-named"})
    assert "Edited." in stub.prompts()[-1]
    assert len(stub.requests()) == before + 1


async def test_a_debate_in_a_debate_graph_keeps_its_own_settings(stub: StubEndpoint) -> None:
    """The settings of the graph around it are those of another system."""
    inner = load_graph("standard_prompting")

    class OuterState(DebateState):
        answer: Any

    async def run(node: Any) -> Any:
        builder = DebateGraph(load_graph("rag").settings, OuterState)
        builder.add_node("debate", node)
        builder.add_edge(START, "debate")
        builder.add_edge("debate", END)
        return await builder.compile().ainvoke(CLAIM, context={"model": "openai:stub-outer"})

    await run(graph_node(inner.graph).with_settings(inner.settings(model=NAMED)))
    assert models_called(stub) == {"stub-named"}
    with pytest.raises(UserError, match="settings of another system"):
        await run(inner.graph)
    assert (await run(graph_node(inner.graph)))["error"]["kind"] == "invalid_setting"
    assert models_called(stub) == {"stub-named"}


async def test_a_debate_with_subgraphs_takes_prompts_from_context_and_configurable_at_once(stub: StubEndpoint) -> None:
    """A LangGraph server passes a context in both places."""
    graph = load_graph("tool_mad").graph
    schema: Any = graph.context_schema
    context = {"model": NAMED, "max_rounds": 1, "corpus": "demo-news"}
    context |= {name: f"{schema.model_fields[name].default} Edited." for name in schema.prompts}
    for given in (context, schema(**context)):
        document = await graph.ainvoke(CLAIM, {"configurable": context}, context=given)
        assert (document["settings"]["model"], document["status"]) == (NAMED, "done"), document["error"]
