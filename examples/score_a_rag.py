"""Tool-MAD's scoring node in a plain RAG graph: an answer that does not follow from its documents is withheld.

    python examples/score_a_rag.py                        # on the demonstration model
    python examples/score_a_rag.py openai:gpt-4o-mini     # on any other model; see docs/howto/models.md

`retrieve` and `answer` stand for the nodes that your graph already has. `score` is moot's node: `read` makes its input
from the graph's own keys, and `write` keeps the node's score and warnings in the graph's state.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any, Literal

from langchain_core.documents import Document
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from moot.nodes import Settings, faithfulness_node, new_turn, open_chat_model
from moot.retrievers import from_documents
from typing_extensions import TypedDict

THRESHOLD = 0.7
PAGES = [
    Document("The kilogram has been defined by the Planck constant since May 2019.", metadata={"title": "Kilogram"}),
    Document("The metal cylinder that used to define it is kept near Paris.", metadata={"title": "The prototype"}),
    Document("Saffron is made from the stigmas of a crocus.", metadata={"title": "Saffron"}),
]


class Rag(TypedDict, total=False):
    """The state of your graph, and the keys that the node `score` adds to it."""

    question: str
    documents: list[Document]
    answer: str | None
    faithfulness: float | None
    doubts: list[str]


def read(state: Rag) -> dict[str, Any]:
    """The scoring node's input, from the graph's own keys."""
    turn = {**new_turn(1, "rag"), "answer": state["answer"], "rationale": state["answer"]}
    return {"claim": state["question"], "turns": [turn], "evidence": from_documents(state["documents"])}


def write(update: dict[str, Any]) -> Rag:
    """The parts of the node's output that the graph keeps. A missing score is None; then the warnings say why."""
    doubts = [warning["detail"] for warning in update.get("warnings", [])]
    return {"faithfulness": update["turns"][0]["scores"]["faithfulness"], "doubts": doubts}


def build(model: str) -> CompiledStateGraph[Any, Any, Any, Any]:
    """A graph that retrieves, answers and scores. It withholds an answer whose score is None or below the threshold."""

    def retrieve(state: Rag) -> Rag:
        words = set(state["question"].lower().strip("?").split())
        return {"documents": sorted(PAGES, key=lambda page: -len(words & set(page.page_content.lower().split())))[:2]}

    async def answer(state: Rag) -> Rag:
        chat = (await open_chat_model(model)).chat  # or your own ChatOpenAI(...)
        pages = "\n".join(page.page_content for page in state["documents"])
        return {"answer": (await chat.ainvoke(f"{pages}\n\nAnswer in a sentence or two: {state['question']}")).text}

    def gate(state: Rag) -> Literal["hold_back", "__end__"]:
        score = state["faithfulness"]
        return "__end__" if score is not None and score >= THRESHOLD else "hold_back"

    builder = StateGraph(Rag)
    builder.add_node("retrieve", retrieve)
    builder.add_node("answer", answer)
    builder.add_node("score", faithfulness_node().with_settings(Settings(model=model), "score").with_keys(read, write))
    builder.add_node("hold_back", lambda state: {"answer": None})
    builder.add_edge(START, "retrieve")
    builder.add_edge("retrieve", "answer")
    builder.add_edge("answer", "score")
    builder.add_conditional_edges("score", gate)
    builder.add_edge("hold_back", END)
    return builder.compile()


async def main(model: str = "embedded:smollm2-135m") -> dict[str, Any]:
    """The graph's state after one question."""
    state: dict[str, Any] = await build(model).ainvoke({"question": "What defines the kilogram?"})
    return state


if __name__ == "__main__":
    found = asyncio.run(main(*sys.argv[1:]))
    print(f"answer: {found['answer']}\nfaithfulness: {found['faithfulness']}", *found["doubts"], sep="\n")
