"""Debates that run again from an earlier state: each attempt has a document of its own, which says what was used."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, Overwrite
from moot.graphs import rag
from moot.retrievers import make_evidence

CLAIM: Any = {"claim": "Saffron is made from roots."}
THREAD: Any = {"configurable": {"thread_id": "1"}}
SETTINGS: Any = {"model": "fake:1", "sources": ["bm25:demo-news"]}


def changes(document: Any) -> list[str]:
    return [warned["detail"] for warned in document["warnings"] if warned["kind"] == "settings_changed"]


async def states_before(graph: Any, node: str) -> list[Any]:
    return [state async for state in graph.aget_state_history(THREAD) if state.next == (node,)]


@pytest.mark.parametrize("is_replaced", [False, True])
async def test_an_earlier_state_with_other_settings_gives_another_document(is_replaced: bool) -> None:
    graph = rag.builder.compile(checkpointer=InMemorySaver())
    first = await graph.ainvoke(CLAIM, THREAD, context=SETTINGS)
    [found] = await states_before(graph, "review_evidence")
    place, other = found.config, make_evidence(text="It is made from stigmas.", title="mine", source="mine")
    if is_replaced:
        place = await graph.aupdate_state(place, {"evidence": Overwrite([other])}, as_node="retrieve")
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


async def test_a_debate_that_is_resumed_keeps_its_id() -> None:
    graph = rag.builder.compile(checkpointer=InMemorySaver())
    await graph.ainvoke(CLAIM, THREAD, context=SETTINGS | {"ask_person": ["evidence"]})
    state = await graph.aget_state(THREAD)
    document = await graph.ainvoke(Command(resume=True), state.config)
    assert (document["id"], changes(document), document["status"]) == (state.values["id"], [], "done")
