"""Retrieval-augmented generation (Lewis et al., NeurIPS 2020, arXiv:2005.11401): a control that searches once.

search every source for the claim
one agent answers from the evidence
its answer is the verdict

The defaults of `sources` and `k` are those of Tool-MAD, so that the two systems can be compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from langgraph.graph import START
from moot.nodes import (
    SINGLE_PROMPT,
    SOURCES,
    CompiledDebate,
    Debate,
    DebateState,
    DemonstrationSettings,
    Next,
    PoolSettings,
    SingleReaderSettings,
    Source,
    ask_person,
    check_demonstrations,
    conclude_node,
    demonstrations_placeholder,
    human_review_node,
    respond_node,
    retrieve_node,
    single_needs,
    to_agent,
    to_pool,
)
from pydantic import Field

if TYPE_CHECKING:
    from moot.graphs.contexts import RagContext


class RagSettings(PoolSettings, SingleReaderSettings, DemonstrationSettings):
    """Settings of retrieval-augmented generation."""

    sources: tuple[Source, ...] = Field(
        default=("chroma", "web"), min_length=1, max_length=10, description=f"Sources of evidence: {SOURCES}."
    )
    ask_person: tuple[Literal["evidence"], ...] = ask_person()


def search(state: DebateState, settings: RagSettings) -> Next:
    """Routes to the search for the claim or, if the settings exclude a search, to the answer."""
    return to_pool(state, settings) if settings.searches else to_agent(state)


builder = Debate("rag", RagSettings, single_needs, check_demonstrations)
builder.add_plan()
builder.add_node("retrieve", retrieve_node(required=True))
builder.add_node("review_evidence", human_review_node("evidence"))
builder.add_node("answer", respond_node(SINGLE_PROMPT, more=demonstrations_placeholder(steps=True)))
builder.add_node("conclude", conclude_node("single_pass"))
builder.add_conditional_edges(START, search, ["retrieve", "answer"])
builder.add_edge("retrieve", "review_evidence")
builder.add_conditional_edges("review_evidence", to_agent, ["answer"])
builder.add_edge("answer", "conclude")
builder.add_verdict("conclude")
graph: CompiledDebate[RagSettings | RagContext] = builder.compile(name="RAG")
