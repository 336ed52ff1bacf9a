"""RECONCILE (Chen et al., ACL 2024, arXiv:2309.13007): votes are weighted by the agents' confidences.

every agent answers independently and states its confidence
repeat until all agents give the same answer, or the rounds are used up:
    every agent reads all last answers, in groups of equal answers, with reasons and confidences, and answers again
the answer with the greatest sum of confidence weights is the verdict; a tie goes to the earliest agent
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from moot.nodes import (
    CompiledDebate,
    Debate,
    DebaterState,
    DebateState,
    Next,
    RoundsSettings,
    agent_node,
    agents_needs,
    agreed_answer,
    all_others,
    compare_node,
    confidence_weight,
    consensus_or_rounds,
    no_round_left,
    show_groups,
    to_agents,
    vote_node,
)
from pydantic import Field

if TYPE_CHECKING:
    from moot.graphs.contexts import ReconcileContext


class ReconcileSettings(RoundsSettings):
    """Settings of RECONCILE."""

    voting: Literal["confidence", "majority"] = Field(
        default="confidence",
        description="confidence: votes are weighted by confidence; majority: all have weight 1, as in CortexDebate.",
    )


def another_round(state: DebateState, settings: ReconcileSettings) -> Next:
    """Routes to the vote if all agree, or if the rounds or the budget are used up; else starts the next round."""
    if no_round_left(state, settings) or agreed_answer(state["votes"]) is not None:
        return "vote"
    groups = {vote["agent"]: vote["group"] for vote in state["votes"]}
    return to_agents("answer", state, settings, all_others, groups=lambda name: groups)


def round_table(state: DebaterState, settings: Any) -> Mapping[str, str]:
    """The placeholder ``heard``: all last answers, including the agent's own, in groups of equal answers.

    Invalid answers are left out. If no answer is valid, a note says so.
    """
    turns = {turn["agent"]: turn for turn in (state.get("own"), *state["opponents"]) if turn}
    groups = {name: group for name, group in (state.get("groups") or {}).items() if name in turns}
    table = show_groups([turns[name] for name in groups], list(groups.values()))
    return {"heard": table or "(nobody gave a valid answer)"}


def weight(vote: Mapping[str, Any], settings: Any) -> float | None:
    """The weight of a vote, from its confidence; None if the setting `voting` gives all votes the same weight."""
    return confidence_weight(vote["confidence"]) if settings.voting == "confidence" else None


builder = Debate("reconcile", ReconcileSettings, agents_needs)
builder.add_node("answer", agent_node("reconcile/revise", confidence=True, heard=round_table))
builder.add_node("compare_answers", compare_node())
builder.add_node("vote", vote_node(consensus_or_rounds, weigh=weight))
builder.add_round(another_round, ["answer"], last="compare_answers", then=["vote"])
builder.add_edge("answer", "compare_answers")
builder.add_verdict("vote")
graph: CompiledDebate[ReconcileSettings | ReconcileContext] = builder.compile(name="RECONCILE")
