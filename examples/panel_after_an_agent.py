"""A panel like PROClaim's as the last node of an agent: three judges read the agent's findings and decide.

    python examples/panel_after_an_agent.py                        # on the demonstration model
    python examples/panel_after_an_agent.py openai:gpt-4o-mini     # on any other model; see docs/howto/models.md

`search` and `conclude` stand for your agent. The panel is built from two of moot's nodes. It reads the agent's
conclusion as a plaintiff's argument, and the agent's findings as exhibits. If you can, give each judge its own model in
`TrialSettings`: ``judges=("openai:gpt-4o-mini", "ollama:llama3.2", ...)``.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from moot.graphs import panel_graph
from moot.nodes import (
    DebateGraph,
    DebateState,
    TrialSettings,
    decide_node,
    graph_node,
    make_task,
    new_turn,
    open_chat_model,
)
from moot.retrievers import from_documents

NOTES = [
    Document("Since 2019 the kilogram rests on a fixed value of the Planck constant.", metadata={"source": "notes"}),
    Document("The cylinder near Paris is kept for history's sake; its mass may drift.", metadata={"source": "notes"}),
]


class Agent(MessagesState, total=False):
    """The agent's own state, and the keys that the panel adds to it."""

    found: list[Document]
    verdict: str | None
    confidence: float | None
    reasons: list[str | None]


def read(state: Agent) -> dict[str, Any]:
    """The panel's input: the agent's last message as an argument, and its findings as admitted exhibits."""
    turn = {**new_turn(1, "plaintiff", "argue", side="plaintiff"), "argument": state["messages"][-1].text}
    exhibits = [{**piece, "status": "admitted"} for piece in from_documents(state["found"])]
    return {"claim": state["messages"][0].text, "task": make_task("fever"), "turns": [turn], "evidence": exhibits}


def write(record: dict[str, Any]) -> dict[str, Any]:
    """The parts of the panel's decision that the agent's state keeps."""
    reasons = [turn["reason"] for turn in record["turns"] if turn["step"] == "judge"]
    return {"verdict": record["answer"], "confidence": record["confidence"], "reasons": reasons}


panel = DebateGraph(TrialSettings, DebateState)
panel.add_node("judges", panel_graph(TrialSettings))
panel.add_node("decide", decide_node())
panel.add_edge(START, "judges")
panel.add_edge("judges", "decide")
panel.add_edge("decide", END)


def build(model: str) -> CompiledStateGraph[Any, Any, Any, Any]:
    """A graph that searches, concludes, and lets the panel decide."""

    def search(state: Agent) -> dict[str, Any]:
        return {"found": NOTES}

    async def conclude(state: Agent) -> dict[str, Any]:
        chat = (await open_chat_model(model)).chat  # or your own ChatOpenAI(...)
        notes = "\n".join(note.page_content for note in state["found"])
        prompt = f"{notes}\n\nSay in two sentences whether this holds: {state['messages'][0].text}"
        return {"messages": [AIMessage((await chat.ainvoke(prompt)).text)]}

    judges = graph_node(panel.compile(name="panel")).with_settings(TrialSettings(model=model), "panel")
    builder = StateGraph(Agent)
    builder.add_node("search", search)
    builder.add_node("conclude", conclude)
    builder.add_node("panel", judges.with_keys(read, write))
    builder.add_edge(START, "search")
    builder.add_edge("search", "conclude")
    builder.add_edge("conclude", "panel")
    builder.add_edge("panel", END)
    return builder.compile()


async def main(model: str = "embedded:smollm2-135m") -> dict[str, Any]:
    """The agent's state after one claim."""
    claim = "The kilogram is no longer defined by a metal cylinder."
    state: dict[str, Any] = await build(model).ainvoke({"messages": [("user", claim)]})
    return state


if __name__ == "__main__":
    decided = asyncio.run(main(*sys.argv[1:]))
    print(f"verdict: {decided['verdict']} (confidence {decided['confidence']})", *decided["reasons"], sep="\n- ")
