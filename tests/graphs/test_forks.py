"""Debates that run again from an earlier state: each attempt has a document of its own, which says what was used."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, Overwrite
from moot.core.errors import UserError
from moot.graphs import rag
from moot.retrievers import make_evidence

CLAIM: Any = {"claim": "Saffron is made from roots."}
THREAD: Any = {"configurable": {"thread_id": "1"}}
SETTINGS: Any = {"model": "fake:1", "sources": ["bm25:demo-news"]}


def changes(document: Any) -> list[str]:
    return [warned["detail"] for warned in document["warnings"] if warned["kind"] == "settings_changed"]


async def states_before(graph: Any, node: str) -> list[Any]:
    return [state async for state in graph.aget_state_history(THREAD) if state.next == (node,)]


@pytest.mark.parametrize(("is_replaced", "as_node"), [(False, None), (True, "retrieve"), (True, None)])
async def test_an_earlier_state_with_other_settings_gives_another_document(
    is_replaced: bool, as_node: str | None
) -> None:
    graph = rag.builder.compile(checkpointer=InMemorySaver())
    first = await graph.ainvoke(CLAIM, THREAD, context=SETTINGS)
    [found] = await states_before(graph, "review_evidence")
    place, other = found.config, make_evidence(text="It is made from stigmas.", title="mine", source="mine")
    if is_replaced:
        place = await graph.aupdate_state(place, {"evidence": Overwrite([other])}, as_node=as_node)
    again: Any = SETTINGS | {"model": "fake:7", "k": 2}
    second = await graph.ainvoke(None, place, context=again)
    assert (second["settings"]["model"], second["settings"]["k"]) == ("fake:7", 2)
    assert {call["model"] for call in second["calls"]} == {"fake:7"}
    assert first["id"] != second["id"]
    assert [piece["title"] for piece in second["evidence"]] == (
        ["mine"] if is_replaced else [piece["title"] for piece in first["evidence"]]
    )
    assert changes(second) == [
        "The debate began with other settings, and went on with those in this document: k, model."
    ]
    third = await graph.ainvoke(None, found.config)  # the settings of the beginning
    assert (third["settings"]["model"], changes(third), len({first["id"], second["id"], third["id"]})) == (
        "fake:1",
        [],
        3,
    )


@pytest.mark.parametrize("place", ["retrieve", "review_evidence", "answer", "conclude", "close"])
@pytest.mark.parametrize("is_sync", [False, True])
async def test_a_changed_state_belongs_to_the_node_that_ran_last(place: str, is_sync: bool) -> None:
    """LangGraph overlooks nodes that `Send` has started, and would run them again."""
    graph = rag.builder.compile(checkpointer=InMemorySaver())
    await graph.ainvoke(CLAIM, THREAD, context=SETTINGS)
    [found] = await states_before(graph, place)
    config = found.config
    for _ in range(2):
        if is_sync:
            config = graph.update_state(config, {"speaker": "me"})
        else:
            config = await graph.aupdate_state(config, {"speaker": "me"})
    assert (await graph.aget_state(config)).next == (place,)


async def test_the_state_of_a_debate_in_a_graph_is_changed_while_it_waits() -> None:
    builder = StateGraph(MessagesState, context_schema=rag.RagSettings)
    builder.add_node("debate", rag.graph)
    builder.add_edge(START, "debate")
    graph, context = builder.compile(checkpointer=InMemorySaver()), SETTINGS | {"ask_person": ["evidence"]}
    await graph.ainvoke({"messages": [HumanMessage("Gold floats.")]}, THREAD, context=context)
    waiting: Any = (await graph.aget_state(THREAD, subgraphs=True)).tasks[0].state
    other = make_evidence(text="Gold is heavy.", title="mine", source="mine")
    with pytest.raises(UserError, match="no key 'evidense'. Did you mean evidence?"):
        await graph.aupdate_state(waiting.config, {"evidense": []})
    await graph.aupdate_state(waiting.config, {"evidence": Overwrite([other])})
    [question] = (await graph.ainvoke(None, THREAD, context=context))["__interrupt__"]
    assert [piece["title"] for piece in question.value["proposed"]["evidence"]] == ["mine"]


@pytest.mark.parametrize("piece", ["Gold is heavy.", {"text": "Gold is heavy."}, Document("Gold is heavy.")])
@pytest.mark.parametrize("wrapped", [lambda pieces: pieces, Overwrite, lambda pieces: {"__overwrite__": pieces}])
async def test_evidence_of_another_form_is_refused(piece: Any, wrapped: Any) -> None:
    graph = rag.builder.compile(checkpointer=InMemorySaver())
    with pytest.raises(UserError, match="make pieces of evidence"):
        await graph.aupdate_state(THREAD, {"evidence": wrapped([piece])})


async def test_a_debate_that_is_resumed_keeps_its_id() -> None:
    graph = rag.builder.compile(checkpointer=InMemorySaver())
    await graph.ainvoke(CLAIM, THREAD, context=SETTINGS | {"ask_person": ["evidence"]})
    state = await graph.aget_state(THREAD)
    document = await graph.ainvoke(Command(resume=True), state.config)
    assert (document["id"], changes(document), document["status"]) == (state.values["id"], [], "done")
