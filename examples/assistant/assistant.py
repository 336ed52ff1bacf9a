"""An assistant that checks what it says: it drafts an answer, debaters check the draft, and the reply quotes evidence.

Copy the folder. This one command starts it, on your model, and opens Studio:

    MOOT_MODEL=openai:gpt-4o-mini langgraph dev

It needs `pip install 'moot[server]'`. The two sources are moot's demo corpora: name yours in `SETTINGS`.
"""

from __future__ import annotations

import os
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from moot.graphs.tool_mad import ToolMadSettings
from moot.graphs.tool_mad import graph as debate
from moot.nodes import Debater, graph_node, open_chat_model, verdict_citations

MODEL = os.environ.get("MOOT_MODEL", "embedded:smollm2-135m")  # the demonstration model, for which no key is needed
SETTINGS = ToolMadSettings(
    model=MODEL,
    debaters=(
        Debater(name="encyclopaedia", retriever="bm25:demo-encyclopaedia"),  # or: wikipedia, web, chroma:CORPUS ...
        Debater(name="news", retriever="bm25:demo-news"),
    ),
    max_rounds=2,
    scoring="consensus_only",
    verified_quotes=True,  # a debater's answer needs a quote that is in the evidence word for word
)
INSTRUCTIONS = "Answer the last question in one sentence that can be understood without the question."
VERDICTS = {"SUPPORTS": "The evidence supports this", "REFUTES": "The evidence contradicts this"}


class Chat(MessagesState, total=False):
    """The conversation, the draft of the next reply, and the result document of the debate about it."""

    draft: str
    document: dict[str, Any]


async def write_draft(state: Chat) -> Chat:
    """Writes the sentence that will be checked."""
    model = (await open_chat_model(MODEL)).chat  # or your own ChatOpenAI(...)
    reply = await model.ainvoke([("system", INSTRUCTIONS), *state["messages"]])
    return {"messages": [], "draft": reply.text}


def reply(state: Chat) -> Chat:
    """Replies with the draft, what the debate found, and the quotes that moot found in the evidence."""
    document = state["document"]
    titles = {piece["id"]: piece["title"] for piece in document["evidence"]}
    found = VERDICTS.get(document["answer"], "The evidence does not decide this")
    quotes = [f"> {c['quote']} ({titles[c['evidence_id']]})" for c in verdict_citations(document) if c["verified"]]
    return {"messages": [AIMessage("\n\n".join([state["draft"], f"{found}.", *quotes]))]}


check = graph_node(debate).with_settings(SETTINGS, "check")  # if the debate fails, the node raises the reason
builder = StateGraph(Chat)
builder.add_node("write_draft", write_draft)
builder.add_node("check", check.with_keys(lambda state: {"claim": state["draft"]}, lambda found: {"document": found}))
builder.add_node("reply", reply)
builder.add_edge(START, "write_draft")
builder.add_edge("write_draft", "check")
builder.add_edge("check", "reply")
builder.add_edge("reply", END)
graph = builder.compile(name="Assistant")
