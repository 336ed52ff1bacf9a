"""Retrieval-augmented generation (Lewis et al., NeurIPS 2020, arXiv:2005.11401): the control that reads once.

look for the claim in every source
one agent answers from what was found
its answer is the verdict

Its sources and k are those of Tool-MAD here, so that the two can be compared; those of any other system can be set.
"""

from __future__ import annotations

from typing import Any, Literal

from langgraph.graph import END, START
from langgraph.runtime import Runtime
from langgraph.types import Send
from moot.nodes.runtime.node import DebateGraph, settings_of
from moot.nodes.runtime.opening import close_node, open_node
from moot.nodes.runtime.settings import SOURCES, PoolSettings, Source, ask_person
from moot.nodes.runtime.state import ClaimInput, DebateState, VerdictOutput
from moot.nodes.speakers.pool import to_pool
from moot.nodes.speakers.single import AGENT, SingleReaderSettings, single_needs, to_agent
from moot.nodes.steps.person import person_node
from moot.nodes.steps.respond import respond_node
from moot.nodes.steps.retrieve import retrieve_node
from moot.nodes.steps.vote import conclude_node
from pydantic import Field


class RagSettings(PoolSettings, SingleReaderSettings):
    """Settings of retrieval-augmented generation."""

    sources: tuple[Source, ...] = Field(
        ("chroma", "web"), min_length=1, max_length=10, description=f"Where evidence is looked for: {SOURCES}."
    )
    ask_person: tuple[Literal["evidence"], ...] = ask_person()


def search(state: DebateState, runtime: Runtime[Any]) -> Send | str:
    """The agent looks for the claim itself; without that, it answers."""
    settings = settings_of(runtime, RagSettings)
    return to_pool(state, settings, AGENT) if settings.searches else to_agent(state)


builder = DebateGraph(RagSettings, DebateState, input_schema=ClaimInput, output_schema=VerdictOutput)
builder.add_node("open", open_node("rag", single_needs))
builder.add_node("retrieve", retrieve_node(required=True))
builder.add_node("review_evidence", person_node("evidence"))
builder.add_node("answer", respond_node("rag/answer"))
builder.add_node("conclude", conclude_node("single_pass"))
builder.add_node("close", close_node())
builder.add_edge(START, "open")
builder.add_conditional_edges("open", search, ["retrieve", "answer", "close"])
builder.add_edge("retrieve", "review_evidence")
builder.add_conditional_edges("review_evidence", to_agent, ["answer", "close"])
builder.add_edge("answer", "conclude")
builder.add_edge("conclude", "close")
builder.add_edge("close", END)
graph = builder.compile(name="RAG")
