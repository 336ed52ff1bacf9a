"""Retrieval-augmented generation (Lewis et al., NeurIPS 2020, arXiv:2005.11401): a control that searches once.

search every source for the claim
one agent answers from the evidence
its answer is the verdict

The defaults of `sources` and `k` are those of Tool-MAD, so that the two systems can be compared.
"""

from __future__ import annotations

from typing import Literal

from moot.nodes._runtime.settings import SOURCES, PoolSettings, Source, ask_person
from moot.nodes._runtime.state import DebateState
from moot.nodes._runtime.system import Debate, Next
from moot.nodes._speakers.pool import to_pool
from moot.nodes._speakers.single import AGENT, SingleReaderSettings, single_needs, to_agent
from moot.nodes._steps.person import human_review_node
from moot.nodes._steps.responding import SINGLE_PROMPT, respond_node
from moot.nodes._steps.retrieving import retrieve_node
from moot.nodes._steps.vote import conclude_node
from pydantic import Field


class RagSettings(PoolSettings, SingleReaderSettings):
    """Settings of retrieval-augmented generation."""

    sources: tuple[Source, ...] = Field(
        default=("chroma", "web"), min_length=1, max_length=10, description=f"Sources of evidence: {SOURCES}."
    )
    ask_person: tuple[Literal["evidence"], ...] = ask_person()


def search(state: DebateState, settings: RagSettings) -> Next:
    """Routes to the search for the claim or, if the settings exclude a search, to the answer."""
    return to_pool(state, settings, AGENT) if settings.searches else to_agent(state)


builder = Debate("rag", RagSettings, single_needs)
builder.add_node("retrieve", retrieve_node(required=True))
builder.add_node("review_evidence", human_review_node("evidence"))
builder.add_node("answer", respond_node(SINGLE_PROMPT))
builder.add_node("conclude", conclude_node("single_pass"))
builder.begin(search, ["retrieve", "answer"])
builder.begin(to_agent, ["answer"], after="retrieve", reviewed="review_evidence")
builder.add_edge("answer", "conclude")
builder.verdict_from("conclude")
graph = builder.compile(name="RAG")
