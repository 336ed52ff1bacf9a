"""Multi-agent debate (Du et al., ICML 2024, arXiv:2305.14325): every agent hears all others.

CortexDebate's paper calls this system "MLD"; MADKE's paper calls it "MAD".

every agent answers independently
repeat until the rounds are used up:
    every agent reads its own and the others' last answers, and answers again
the most frequent answer of the last round is the verdict; a tie goes to the earliest agent

With one agent, this is self-correction: in every round the agent reads only its own last answer. With the setting
``hear`` at nobody, all agents do: the control for what they tell each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from moot.nodes import (
    Agents,
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
    n_agents,
    no_agents,
    no_round_left,
    rounds_or_budget,
    to_agents,
)
from pydantic import Field

if TYPE_CHECKING:
    from moot.graphs.contexts import SocietyOfMindsContext


class SocietySettings(RoundsSettings):
    """Settings of multi-agent debate. The defaults below are the paper's."""

    agents: Agents = Field(
        default=n_agents(3),
        min_length=1,
        max_length=50,
        description="The agents: a list, or their number; one agent corrects itself.",
    )
    max_rounds: int = Field(default=2, ge=1, le=20, description="Rounds; the first answers are the first round.")
    hear: Literal["others", "nobody"] = Field(
        default="others",
        description="others: every agent reads all last answers; nobody: every agent reads only its own.",
    )


def another_round(state: DebateState, settings: SocietySettings) -> Next:
    """Routes to the next round, or to the vote if no round or no budget is left."""
    hears = all_others if settings.hear == "others" else no_agents
    return "vote" if no_round_left(state, settings) else to_agents("answer", state, settings, hears)


builder = Debate("society_of_minds", SocietySettings, agents_needs)
builder.add_node("answer", agent_node())
builder.add_node("compare_answers", compare_texts_node())
builder.add_node("vote", conclude_node(rounds_or_budget))
builder.add_round(another_round, ["answer"], last="compare_answers", then=["vote"])
builder.add_edge("answer", "compare_answers")
builder.add_verdict("vote")
graph: CompiledDebate[SocietySettings | SocietyOfMindsContext] = builder.compile(name="Society of minds")
