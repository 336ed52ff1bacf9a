"""MADAM-RAG (Wang et al., COLM 2025, arXiv:2504.13079): documents that may conflict, each with a reader of its own.

search every source for the claim, and keep the best passage of each document
repeat:
    for every document at the same time: one agent answers from it alone, or says that it does not tell; from the
        second round on, it sees its own last answer and what the aggregator said last, and keeps or changes its answer
    if no agent changed its answer, the debate ends
    the aggregator names the answers that the documents give, which documents mislead, and one answer
    with the setting `one_answer_ends`: if that is the only answer that is left, and no document misleads, it ends, too
until the rounds are used up
the aggregator's last answer is the verdict

In the paper, the aggregator may give several answers to an ambiguous question; here it gives one. In the paper's
published code, agents read all other agents' answers in place of the aggregator's reply.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from langgraph.graph import START
from moot.nodes import (
    SHARED_ROLES,
    CompiledDebate,
    Debate,
    DebateState,
    Needs,
    Next,
    PoolSettings,
    aggregate_node,
    answers_settled,
    ask_person,
    by_preset,
    choose_documents_node,
    compare_with_last_round_node,
    conclude_aggregate_node,
    document_instructions,
    human_review_node,
    no_round_left,
    pool_needs_for,
    respond_node,
    retrieve_node,
    to_documents,
    to_pool,
)
from pydantic import Field

if TYPE_CHECKING:
    from moot.graphs.contexts import MadamRagContext


class MadamRagSettings(PoolSettings):
    """Settings of MADAM-RAG. The number of rounds is the paper's."""

    max_documents: int = Field(
        default=8, ge=1, le=50, description="Maximum number of documents that are read, those with the best ranks."
    )
    max_rounds: int = Field(default=3, ge=1, le=20, description="Maximum number of rounds (T).")
    one_answer_ends: bool = by_preset(
        paper=False,
        practical=True,
        description="On: the debate also ends if all documents that tell give one answer, the aggregator gives the "
        "same, and it finds no document misleading. Off, as in the paper: only if no agent changed its answer.",
    )
    ask_person: tuple[Literal["evidence", "remark"], ...] = ask_person()

    def readers(self) -> list[str]:
        """The names of the agents, each of which may read a document."""
        return [f"agent-{number}" for number in range(1, self.max_documents + 1)]

    def roles(self) -> set[str]:
        """The roles that may have a model of their own."""
        return {*self.readers(), "planner", "pool", "aggregator"} | SHARED_ROLES


def needs(settings: MadamRagSettings) -> Needs:
    """The resources that a debate with these settings needs."""
    return pool_needs_for(settings, dict.fromkeys([*settings.readers(), "aggregator"]))


def search(state: DebateState, settings: MadamRagSettings) -> Next:
    """Routes to the search for the claim or, if the settings exclude a search, to the given texts."""
    return to_pool(state, settings) if settings.searches else "choose_documents"


def to_choice(state: DebateState) -> Next:
    """Routes to the choice of the documents."""
    return "choose_documents"


def after_answers(state: DebateState, settings: MadamRagSettings) -> Next:
    """Routes to the end if no agent changed its answer, else to the aggregator."""
    return "conclude" if answers_settled(state, settings) else "aggregate"


def another_round(state: DebateState, settings: MadamRagSettings) -> Next:
    """Routes to all agents or, if one answer is left or the rounds or the budget are used up, to the end."""
    ended = answers_settled(state, settings) or (state["rounds"] and no_round_left(state, settings))
    return "conclude" if ended else to_documents(state)


builder = Debate("madam_rag", MadamRagSettings, needs)
builder.add_plan()
builder.add_node("retrieve", retrieve_node(required=True))
builder.add_node("review_evidence", human_review_node("evidence"))
builder.add_node("choose_documents", choose_documents_node())
builder.add_node("answer", respond_node("isolate/answer", then="madam_rag/revise", more=document_instructions))
builder.add_node("compare_answers", compare_with_last_round_node())
builder.add_node("aggregate", aggregate_node())
builder.add_node("conclude", conclude_aggregate_node())
builder.add_conditional_edges(START, search, ["retrieve", "choose_documents"])
builder.add_edge("retrieve", "review_evidence")
builder.add_conditional_edges("review_evidence", to_choice, ["choose_documents"])
builder.add_round(another_round, ["answer"], after="choose_documents", last="aggregate", then=["conclude"])
builder.add_edge("answer", "compare_answers")
builder.add_conditional_edges("compare_answers", after_answers, ["aggregate", "conclude"])
builder.add_verdict("conclude")
graph: CompiledDebate[MadamRagSettings | MadamRagContext] = builder.compile(name="MADAM-RAG")
