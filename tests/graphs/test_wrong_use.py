"""Wrong use in Python gets a sentence that says what to do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import InvalidUpdateError
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Overwrite
from moot.core.errors import UserError
from moot.graphs import rag, tool_mad
from moot.nodes import (
    Agent,
    Debate,
    Debater,
    FakeChatModel,
    RoundsSettings,
    Settings,
    faithfulness,
    graph_node,
    judge_node,
    open_chat_model,
    store_use,
)
from moot.retrievers import from_documents, make_evidence, open_retriever
from typing_extensions import TypedDict

from tests.conftest import StartStub

CLAIM: Any = {"claim": "Saffron is made from roots."}
MODEL: Any = {"model": "fake:1"}


class Own(TypedDict, total=False):
    question: str
    error: str


def own_graph(node: Any) -> Any:
    builder: Any = StateGraph(Own)
    builder.add_node("own", node)
    builder.add_edge(START, "own")
    return builder.compile()


@pytest.mark.parametrize("given", ["Saffron", ["Saffron"], 3])
async def test_an_input_that_is_no_dict(given: Any) -> None:
    with pytest.raises(UserError, match=f"The input of RAG is of the type {type(given).__name__}; pass a dict"):
        await rag.graph.ainvoke(given, context={"model": "fake:1"})


async def test_a_factory_that_is_added_as_a_node() -> None:
    with pytest.raises(InvalidUpdateError, match="the node judge_node of moot: call its factory"):
        await own_graph(judge_node).ainvoke({"question": "x"})


def test_graph_node_of_another_graph() -> None:
    with pytest.raises(UserError, match="LangGraph's own add_node takes other graphs"):
        graph_node(own_graph(lambda state: {}))


async def test_documents_as_evidence() -> None:
    with pytest.raises(UserError, match=r"make_evidence\(text=document\.page_content"):
        await faithfulness("It is so.", [Document("It is so.")], FakeListChatModel(responses=[]))  # type: ignore[list-item]


async def test_replaced_evidence_that_lacks_a_piece_which_a_turn_names(start_stub: StartStub) -> None:
    start_stub()
    graph = tool_mad.builder.compile(checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    readers = [{"name": name, "retriever": "bm25:demo-news"} for name in ("one", "other")]
    settings: Any = {"model": "fake:1", "embedder": "openai:stub-embedding", "max_rounds": 1, "debaters": readers}
    await graph.ainvoke(CLAIM, thread, context=settings)
    before = [state async for state in graph.aget_state_history(thread) if "faithfulness" in state.next]
    other = make_evidence(text="Saffron is made from stigmas.", title="mine", source="mine")
    with pytest.raises(UserError, match="must keep the pieces that its turns name"):
        await graph.aupdate_state(before[0].config, {"evidence": Overwrite([other])})


@pytest.mark.parametrize(
    ("given", "config", "message"),
    [
        ({"clam": "x"}, {}, "no `claim`, but clam. Did you mean claim?"),
        (CLAIM, MODEL, r"config has the key 'model'.*context="),
        (CLAIM, {"context": MODEL}, r"config has the key 'context'.*context="),
    ],
)
async def test_keys_in_the_wrong_place(given: Any, config: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        await rag.graph.ainvoke(given, config, context=MODEL)


async def test_a_graph_around_whose_state_has_no_claim() -> None:
    with pytest.raises(UserError, match="no `claim`, but question.*with_keys"):
        await own_graph(rag.graph).ainvoke({"question": "x"})


async def test_a_claim_that_is_no_text() -> None:
    document = await rag.graph.ainvoke({"claim": 3}, context=MODEL)  # type: ignore[call-overload]
    assert document["error"]["detail"] == "The claim must be a text, not a int."


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"sources": [object()]}, r"of it. sources\.0: an object must be a LangChain retriever, .{,150}\. If"),
        ({"models": {"agent-1": object()}}, r"of it. models\.agent-1: an object must be a chat model of LangChain"),
    ],
)
async def test_objects_of_other_classes(setting: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        await rag.graph.ainvoke(CLAIM, context=MODEL | setting)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rag.RagSettings(modle="fake:1"), "There is no setting 'modle'. Did you mean model?"),  # type: ignore[call-arg]
        (lambda: rag.RagSettings(model="gpt-4o", k=0), "for example openai:gpt-4o, .*; k: Input should be greater"),
        (lambda: Debater(name="a", retreiver="x"), "'retreiver'. Did you mean retriever?"),  # type: ignore[call-arg]
        (lambda: Debater("a"), r"Debater takes values by name: Debater\(name=\.\.\.\)"),  # type: ignore[call-arg]
        (lambda: Agent(person="a judge"), "'person'. Did you mean persona?"),  # type: ignore[call-arg]
    ],
)
def test_settings_that_are_made_with_wrong_values(make: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()


@pytest.mark.parametrize("opened", [open_chat_model, open_retriever])
@pytest.mark.parametrize("name", [None, FakeChatModel()])
async def test_an_object_in_place_of_a_name(opened: Any, name: Any) -> None:
    with pytest.raises(UserError, match=f"is opened by its name, a text, not by a {type(name).__name__}"):
        await opened(name)


def test_texts_in_place_of_documents() -> None:
    with pytest.raises(UserError, match=r"from_documents takes LangChain's documents, not str"):
        from_documents(["Gold is heavy."])


async def test_a_model_of_ones_own_that_fails() -> None:
    context: Any = {"model": FakeChatModel(cache=True), "sources": ["bm25:demo-news"], "attempts": 1}
    document = await rag.graph.ainvoke(CLAIM, context=context)
    assert "failed (ValueError: Asked to cache, but no cache" in document["error"]["detail"]


@pytest.mark.parametrize("settings", [MODEL, rag.RagSettings, None])
def test_settings_of_a_node_that_are_no_settings(settings: Any) -> None:
    with pytest.raises(UserError, match=r"with_settings takes settings such as Settings\(model=...\), not"):
        judge_node().with_settings(settings)


@pytest.mark.parametrize(
    ("reads", "writes", "function"),
    [
        (lambda state: state["question"], dict, "reads"),
        (lambda state: {"claim": state["question"]}, lambda document: document["answer"], "writes"),
    ],
)
async def test_a_function_of_with_keys_that_returns_no_dict(reads: Any, writes: Any, function: str) -> None:
    settings = rag.RagSettings.model_validate(MODEL | {"sources": ["bm25:demo-news"]})
    node = graph_node(rag.graph).with_settings(settings, "check").with_keys(reads, writes)
    with pytest.raises(UserError, match=f"The function {function} of with_keys, at the node check, must return a dict"):
        await own_graph(node).ainvoke({"question": "Saffron is red."})


@pytest.mark.parametrize("settings", ["RoundsSettings", RoundsSettings(), Own])
def test_a_debate_whose_settings_are_no_class_of_settings(settings: Any) -> None:
    with pytest.raises(TypeError, match="takes the class of its settings"):
        Debate("own", settings)


@pytest.mark.parametrize(
    ("verdicts", "message"),
    [((), "no node decides the verdict: name it with add_verdict"), (("vtoe",), "add_verdict names 'vtoe', which")],
)
def test_a_debate_in_which_no_node_decides(verdicts: Any, message: str) -> None:
    builder = Debate("own", Settings)
    builder.add_node("vote", judge_node())
    builder.add_edge(START, "vote")
    for node in verdicts:
        builder.add_verdict(node)
    with pytest.raises(ValueError, match=message):
        builder.compile()


@pytest.mark.parametrize("is_sync", [False, True])
async def test_threads_that_are_missing_or_empty(is_sync: bool) -> None:
    graph = rag.builder.compile(checkpointer=InMemorySaver())
    empty: Any = {"configurable": {"thread_id": "1"}}

    async def run(given: Any, config: Any = None) -> None:
        await (asyncio.to_thread(graph.invoke, given, config) if is_sync else graph.ainvoke(given, config))

    with pytest.raises(UserError, match="a run needs the name of its thread"):
        await run(CLAIM)
    inputs: list[Any] = [None, Command(resume=True)]
    for given in inputs:
        with pytest.raises(UserError, match="waits or was interrupted on this thread"):
            await run(given, empty)


def test_store_use_of_a_text() -> None:
    with pytest.raises(UserError, match="store_use takes StoreUse"), store_use("replay"):  # type: ignore[arg-type]
        pass
