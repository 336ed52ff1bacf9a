"""Isolated reading, a defence against poisoned evidence.

search every source for the claim
group the evidence by origin: a registered domain or a document; origins with near-duplicates count as one
for every origin at the same time:
    one agent answers from this origin's evidence alone, or says that the evidence does not decide the question
origins with the same answer form a group; the weight of an origin is the reciprocal of its best rank
origins whose evidence leaves the question open count only if all origins leave it open
the answer of the group with the greatest sum of weights is the verdict
there is no verdict after a tie, or if this group has only one origin and another origin gives another answer

The procedure is moot's own, after ReliabilityRAG (arXiv:2509.23519).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from langgraph.graph import START
from moot.nodes import (
    CompiledDebate,
    Debate,
    DebateState,
    Next,
    PoolSettings,
    SingleReaderSettings,
    ask_person,
    decide_by_origins_node,
    group_origins_node,
    human_review_node,
    origin_instructions,
    respond_node,
    retrieve_node,
    single_needs,
    to_origins,
    to_pool,
)
from pydantic import Field

if TYPE_CHECKING:
    from moot.graphs.contexts import IsolateContext


class IsolateSettings(PoolSettings, SingleReaderSettings):
    """Settings of isolated reading."""

    max_origins: int = Field(
        default=8,
        ge=1,
        le=50,
        description="Maximum number of origins that are read; these are the origins with the best ranks.",
    )
    ask_person: tuple[Literal["evidence"], ...] = ask_person()


def search(state: DebateState, settings: IsolateSettings) -> Next:
    """Routes to the search for the claim or, if the settings exclude a search, to the grouping of the given texts."""
    return to_pool(state, settings) if settings.searches else "group_origins"


def to_grouping(state: DebateState) -> Next:
    """Routes to the grouping of the evidence by origin."""
    return "group_origins"


builder = Debate("isolate", IsolateSettings, single_needs)
builder.add_plan()
builder.add_node("retrieve", retrieve_node(required=True))
builder.add_node("review_evidence", human_review_node("evidence"))
builder.add_node("group_origins", group_origins_node())
builder.add_node("answer", respond_node("isolate/answer", more=origin_instructions))
builder.add_node("decide", decide_by_origins_node())
builder.add_conditional_edges(START, search, ["retrieve", "group_origins"])
builder.add_edge("retrieve", "review_evidence")
builder.add_conditional_edges("review_evidence", to_grouping, ["group_origins"])
builder.add_conditional_edges("group_origins", to_origins, ["answer"])
builder.add_edge("answer", "decide")
builder.add_verdict("decide")
graph: CompiledDebate[IsolateSettings | IsolateContext] = builder.compile(name="Isolated reading")
