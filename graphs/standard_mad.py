"""Standard multi-agent debate, the baseline in PROClaim's paper (section 4): one retrieval, two debaters, a judge.

search every source for the claim, once
repeat, for one debater after the other:
    the debater answers from the evidence, its own last answer and the others' latest answers
until the rounds are used up
the judge decides from the whole debate
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langgraph.graph import START
from moot.nodes import (
    SOURCES,
    CompiledDebate,
    Debate,
    DebateState,
    Next,
    PoolDebateSettings,
    Source,
    compare_texts_node,
    human_review_node,
    judge_node,
    no_round_left,
    pool_needs,
    respond_node,
    retrieve_node,
    round_is_over,
    to_next_speakers,
    to_pool,
)
from pydantic import Field

if TYPE_CHECKING:
    from moot.graphs.contexts import StandardMadContext


class StandardMadSettings(PoolDebateSettings):
    """Settings of standard multi-agent debate. The defaults below are the paper's."""

    sources: tuple[Source, ...] = Field(
        default=("chroma",), min_length=1, max_length=10, description=f"Sources of evidence: {SOURCES}."
    )
    k: int = Field(default=5, ge=1, le=50, description="Documents from each source.")


def search(state: DebateState, settings: StandardMadSettings) -> Next:
    """Routes to the search for the claim or, if the settings exclude a search, to the first debater."""
    return to_pool(state, settings) if settings.searches else next_speaker(state, settings)


def next_speaker(state: DebateState, settings: StandardMadSettings) -> Next:
    """Routes to the debater who speaks next; after a round, to the judge if the rounds or the budget are used up."""
    if round_is_over(state, settings) and no_round_left(state, settings):
        return "judge"
    return to_next_speakers("argue", state, settings.debaters, in_turn=lambda round: True, evidence=state["evidence"])


builder = Debate("standard_mad", StandardMadSettings, pool_needs)
builder.add_plan()
builder.add_node("retrieve", retrieve_node(required=True))
builder.add_node("review_evidence", human_review_node("evidence"))
builder.add_node("argue", respond_node("standard_mad/argue"))
builder.add_node("compare_answers", compare_texts_node())
builder.add_node("judge", judge_node())
builder.add_conditional_edges(START, search, ["retrieve", "argue"])
builder.add_edge("retrieve", "review_evidence")
builder.add_round(next_speaker, ["argue"], after="review_evidence", last="compare_answers", then=["judge"])
builder.add_edge("argue", "compare_answers")
builder.add_verdict("judge", on_question="judge")
graph: CompiledDebate[StandardMadSettings | StandardMadContext] = builder.compile(name="Standard MAD")
