"""Neighbor debate (sparse communication; Li et al., Findings of EMNLP 2024, arXiv:2406.11776): agents in a ring.

every agent answers on its own
repeat until the rounds are used up:
    every agent reads the last answers of its two neighbours in the ring and answers anew
the answer that most agents give in the last round is the verdict; a tie goes to the earliest agent
"""

from __future__ import annotations

from langgraph.graph import END, START
from moot.nodes.runtime.budget import rounds_or_budget
from moot.nodes.runtime.node import DebateGraph
from moot.nodes.runtime.opening import close_node, open_node
from moot.nodes.runtime.state import ClaimInput, DebateState, VerdictOutput
from moot.nodes.speakers.agents import Agents, RoundsSettings, agent_node, agents_needs, neighbours, rounds, so_many
from moot.nodes.steps.compare import compare_node
from moot.nodes.steps.person import person_node, remark_first
from moot.nodes.steps.vote import conclude_node
from pydantic import Field


class NeighborSettings(RoundsSettings):
    """Settings of neighbor debate. Rounds and number of agents are those of S3's comparison."""

    agents: Agents = Field(so_many(5), min_length=2, max_length=50, description="Who debates: a list, or how many.")


another_round = rounds(NeighborSettings, neighbours)

builder = DebateGraph(NeighborSettings, DebateState, input_schema=ClaimInput, output_schema=VerdictOutput)
builder.add_node("open", open_node("neighbor_debate", agents_needs))
builder.add_node("answer", agent_node())
builder.add_node("compare_answers", compare_node(by_text=True))
builder.add_node("hear_remark", person_node("remark"))
builder.add_node("vote", conclude_node(rounds_or_budget))
builder.add_node("close", close_node())
builder.add_edge(START, "open")
builder.add_conditional_edges("open", another_round, ["answer", "close"])
builder.add_edge("answer", "compare_answers")
builder.add_conditional_edges(
    "compare_answers", remark_first(another_round), ["hear_remark", "answer", "vote", "close"]
)
builder.add_conditional_edges("hear_remark", another_round, ["answer", "close"])
builder.add_edge("vote", "close")
builder.add_edge("close", END)
graph = builder.compile(name="Neighbor debate")
