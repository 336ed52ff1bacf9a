"""Neighbor debate (sparse communication; Li et al., Findings of EMNLP 2024, arXiv:2406.11776): a ring of agents.

every agent answers independently
repeat until the rounds are used up:
    every agent reads its own last answer and those of its two neighbours in the ring, and answers again
the most frequent answer of the last round is the verdict; a tie goes to the earliest agent
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moot.nodes import (
    Agents,
    CompiledDebate,
    Debate,
    RoundsSettings,
    agent_node,
    agents_needs,
    compare_texts_node,
    conclude_node,
    n_agents,
    neighbours,
    round_router,
    rounds_or_budget,
)
from pydantic import Field

if TYPE_CHECKING:
    from moot.graphs.contexts import NeighborDebateContext


class NeighborSettings(RoundsSettings):
    """Settings of neighbor debate. The default numbers of rounds and agents are those of CortexDebate's experiments."""

    agents: Agents = Field(
        default=n_agents(5), min_length=2, max_length=50, description="The agents: a list, or their number."
    )


another_round = round_router(NeighborSettings, neighbours)

builder = Debate("neighbor_debate", NeighborSettings, agents_needs)
builder.add_node("answer", agent_node())
builder.add_node("compare_answers", compare_texts_node())
builder.add_node("vote", conclude_node(rounds_or_budget))
builder.add_round(another_round, ["answer"], last="compare_answers", then=["vote"])
builder.add_edge("answer", "compare_answers")
builder.add_verdict("vote")
graph: CompiledDebate[NeighborSettings | NeighborDebateContext] = builder.compile(name="Neighbor debate")
