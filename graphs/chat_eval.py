"""ChatEval with a summariser (Chan et al., ICLR 2024, arXiv:2308.07201): every agent hears the others and a summary.

every agent answers independently
repeat until the rounds are used up:
    the summariser summarises the round
    every agent reads the summary and all last answers, including its own, and answers again
the most frequent answer of the last round is the verdict; a tie goes to the earliest agent
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from moot.nodes import (
    CompiledDebate,
    Debate,
    DebateState,
    Next,
    RoundsSettings,
    agent_node,
    agents_needs,
    all_others,
    compare_texts_node,
    conclude_node,
    last_round,
    no_round_left,
    rounds_or_budget,
    summaries_of,
    summary_node,
    to_agents,
    to_summariser,
)
from pydantic import Field

if TYPE_CHECKING:
    from moot.graphs.contexts import ChatEvalContext


class ChatEvalSettings(RoundsSettings):
    """Settings of ChatEval."""

    other_roles: ClassVar[frozenset[str]] = frozenset({"summariser"})
    max_rounds: int = Field(default=2, ge=1, le=20, description="Rounds; the first answers are the first round.")


def start_round(state: DebateState, settings: ChatEvalSettings) -> Next:
    """Starts the next round. From round 2 on, every agent gets all last answers and their summary."""
    heard = summaries_of(state["turns"], state["rounds"])
    return to_agents("answer", state, settings, all_others, heard=lambda name: heard)


def after_round(state: DebateState, settings: ChatEvalSettings) -> Next:
    """Routes to the vote if the rounds or the budget are used up, else to the summariser."""
    if no_round_left(state, settings):
        return "vote"
    return to_summariser(state, list(last_round(state, settings).values()))


builder = Debate("chat_eval", ChatEvalSettings, agents_needs)
builder.add_node("answer", agent_node())
builder.add_node("compare_answers", compare_texts_node())
builder.add_node("summarise", summary_node())
builder.add_node("vote", conclude_node(rounds_or_budget))
builder.add_round(start_round, ["answer"])
builder.add_edge("answer", "compare_answers")
builder.add_conditional_edges("compare_answers", after_round, ["summarise", "vote"])
builder.add_conditional_edges("summarise", start_round, ["answer"])
builder.add_verdict("vote")
graph: CompiledDebate[ChatEvalSettings | ChatEvalContext] = builder.compile(name="ChatEval")
