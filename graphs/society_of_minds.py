"""Multi-agent debate (Du et al., ICML 2024, arXiv:2305.14325): every agent hears all others.

CortexDebate's paper calls this system "MLD"; MADKE's paper calls it "MAD".

every agent answers independently
repeat until the rounds are used up:
    every agent reads its own and the others' last answers, and answers again
the most frequent answer of the last round is the verdict; a tie goes to the earliest agent

With one agent, this is self-correction: in every round the agent reads only its own last answer.
"""

from __future__ import annotations

from moot.nodes import (
    Agents,
    Debate,
    RoundsSettings,
    agent_node,
    agents_needs,
    all_others,
    compare_texts_node,
    conclude_node,
    n_agents,
    round_router,
    rounds_or_budget,
)
from pydantic import Field


class SocietySettings(RoundsSettings):
    """Settings of multi-agent debate. The defaults below are the paper's."""

    agents: Agents = Field(
        default=n_agents(3),
        min_length=1,
        max_length=50,
        description="The agents: a list, or their number; one agent corrects itself.",
    )
    max_rounds: int = Field(default=2, ge=1, le=20, description="Rounds (T); the first answers are the first round.")


another_round = round_router(SocietySettings, all_others)

builder = Debate("society_of_minds", SocietySettings, agents_needs)
builder.add_node("answer", agent_node())
builder.add_node("compare_answers", compare_texts_node())
builder.add_node("vote", conclude_node(rounds_or_budget))
builder.add_round(another_round, ["answer"])
builder.add_edge("answer", "compare_answers")
builder.add_conditional_edges("compare_answers", another_round, ["answer", "vote"])
builder.add_verdict("vote")
graph = builder.compile(name="Society of minds")
