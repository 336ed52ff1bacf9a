"""Multi-agent debate (Du et al., ICML 2024, arXiv:2305.14325; "MLD" in S3, "MAD" in S4): everybody hears everybody.

every agent answers on its own
repeat until the rounds are used up:
    every agent reads the others' last answers and answers anew
the answer that most agents give in the last round is the verdict; a tie goes to the earliest agent

With one agent it is self-correction: nobody is heard, and every round the agent reads its own last answer alone.
"""

from __future__ import annotations

from langgraph.graph import END, START
from moot.nodes.runtime.budget import rounds_or_budget
from moot.nodes.runtime.node import DebateGraph
from moot.nodes.runtime.opening import close_node, open_node
from moot.nodes.runtime.state import ClaimInput, DebateState, VerdictOutput
from moot.nodes.speakers.agents import Agents, RoundsSettings, agent_node, agents_needs, everyone, rounds, so_many
from moot.nodes.steps.compare import compare_node
from moot.nodes.steps.person import person_node, remark_first
from moot.nodes.steps.vote import conclude_node
from pydantic import Field


class SocietySettings(RoundsSettings):
    """Settings of multi-agent debate. The defaults are the paper's."""

    agents: Agents = Field(
        so_many(3), min_length=1, max_length=50, description="Who debates: a list, or how many; one corrects itself."
    )
    max_rounds: int = Field(2, ge=1, le=20, description="Rounds (T); the first answers are the first round.")


another_round = rounds(SocietySettings, everyone)

builder = DebateGraph(SocietySettings, DebateState, input_schema=ClaimInput, output_schema=VerdictOutput)
builder.add_node("open", open_node("society_of_minds", agents_needs))
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
graph = builder.compile(name="Society of minds")
