"""Wrong use in Python gets a sentence that says what to do."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import InvalidUpdateError
from langgraph.graph import START, StateGraph
from langgraph.types import Overwrite
from moot.core.errors import UserError
from moot.graphs import rag, tool_mad
from moot.nodes import faithfulness, graph_node, judge_node
from moot.retrievers import make_evidence
from typing_extensions import TypedDict

from tests.conftest import READERS

CLAIM = {"claim": "Saffron is made from roots."}


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


async def test_replaced_evidence_that_lacks_a_piece_which_a_turn_names() -> None:
    graph = tool_mad.builder.compile(checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    settings = {"model": "fake:1", "max_rounds": 1, "debaters": READERS}
    await graph.ainvoke(CLAIM, thread, context=settings)
    before = [state async for state in graph.aget_state_history(thread) if "faithfulness" in state.next]
    other = make_evidence(text="Saffron is made from stigmas.", title="mine", source="mine")
    with pytest.raises(UserError, match="must keep the pieces that its turns name"):
        await graph.aupdate_state(before[0].config, {"evidence": Overwrite([other])})
