"""Peer review (Xu et al., 2023, arXiv:2311.08152): agents review each other's answers and revise their own.

every agent answers independently
repeat until the rounds of reviews are used up:
    every agent reviews the answer of every other agent, all reviews at the same time
    every agent reads its own answer and the reviews of it, and answers again
the most frequent answer of the last round is the verdict; a tie goes to the earliest agent
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from moot.nodes import (
    AgentsSettings,
    CompiledDebate,
    Debate,
    DebaterState,
    DebateState,
    Next,
    agent_node,
    agents_needs,
    ask_person,
    compare_texts_node,
    conclude_node,
    join_node,
    no_agents,
    no_round_left,
    review_node,
    reviews_of,
    rounds_or_budget,
    show_heard,
    to_agents,
    to_reviewers,
)
from pydantic import Field

if TYPE_CHECKING:
    from moot.graphs.contexts import PeerReviewContext


class PeerReviewSettings(AgentsSettings):
    """Settings of peer review."""

    rounds: int = Field(default=1, ge=1, le=19, description="Rounds of review and revision after the first answers.")
    ask_person: tuple[Literal["remark"], ...] = ask_person()

    @property
    def max_rounds(self) -> int:
        """The maximum number of rounds, including the first answers."""
        return self.rounds + 1


def start_round(state: DebateState, settings: PeerReviewSettings) -> Next:
    """Starts the next round. From round 2 on, every agent gets its own last answer and the reviews of it."""
    return to_agents("answer", state, settings, no_agents, heard=lambda name: reviews_of(state, name))


def after_round(state: DebateState, settings: PeerReviewSettings) -> Next:
    """Routes to the vote if the rounds or the budget are used up.

    Otherwise, it routes to the reviews or, if no answer can be reviewed, starts the next round.
    """
    if no_round_left(state, settings):
        return "vote"
    return to_reviewers("review", state, settings) or start_round(state, settings)


def reviews(state: DebaterState, settings: Any) -> Mapping[str, str]:
    """The placeholder ``heard``: the reviews of an agent's answer, or a note that no review came."""
    return {"heard": show_heard(state.get("heard") or []) or "(no review came)"}


builder = Debate("peer_review", PeerReviewSettings, agents_needs)
builder.add_node("answer", agent_node("peer_review/revise", heard=reviews))
builder.add_node("compare_answers", compare_texts_node())
builder.add_node("review", review_node())
builder.add_node("hand_back", join_node())
builder.add_node("vote", conclude_node(rounds_or_budget))
builder.add_round(start_round, ["answer"])
builder.add_edge("answer", "compare_answers")
builder.add_conditional_edges("compare_answers", after_round, ["review", "answer", "vote"])
builder.add_edge("review", "hand_back")
builder.add_conditional_edges("hand_back", start_round, ["answer"])
builder.add_verdict("vote")
graph: CompiledDebate[PeerReviewSettings | PeerReviewContext] = builder.compile(name="Peer review")
