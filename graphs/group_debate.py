"""GroupDebate (Liu et al., 2024, arXiv:2409.14051): debates in small groups, which exchange summaries.

every agent answers independently
every agent reads the last answers in its own group and answers again
repeat until the rounds are used up:
    summarise the last answers of every group, all groups at the same time
    every agent reads the summaries of all groups and the last answers in its own group, and answers again
the most frequent answer of the last round is the verdict; a tie goes to the earliest agent
"""

from __future__ import annotations

from typing import ClassVar

from moot.nodes._runtime.budget import no_round_left, rounds_or_budget
from moot.nodes._runtime.state import DebateState
from moot.nodes._runtime.system import Debate, Next
from moot.nodes._speakers.agents import (
    Agents,
    RoundsSettings,
    agent_node,
    agents_needs,
    groups_of,
    join_node,
    last_round,
    n_agents,
    same_group,
    to_agents,
)
from moot.nodes._steps.compare import compare_node
from moot.nodes._steps.summarise import summaries_of, summary_node, to_summariser
from moot.nodes._steps.vote import conclude_node
from pydantic import Field


class GroupSettings(RoundsSettings):
    """Settings of GroupDebate. The default numbers of rounds and agents are from CortexDebate's experiments."""

    other_roles: ClassVar[frozenset[str]] = frozenset({"summariser"})
    agents: Agents = Field(
        default=n_agents(5), min_length=2, max_length=50, description="The agents: a list, or their number."
    )
    group_size: int = Field(
        default=2, ge=2, le=3, description="Agents in a group. If it is 2, one group may have 3; if 3, some may have 2."
    )


def groups(settings: GroupSettings) -> list[list[str]]:
    """The names of the agents in each group; the groups stay the same if an agent leaves the debate."""
    return groups_of([agent.name for agent in settings.agents], settings.group_size)


def answer(state: DebateState, settings: GroupSettings) -> Next:
    """Starts the next round: every agent gets the last answers in its group, and all groups' summaries, if any."""
    heard = summaries_of(state["turns"], state["rounds"])
    return to_agents("answer", state, settings, same_group(groups(settings)), heard=lambda name: heard)


def after_round(state: DebateState, settings: GroupSettings) -> Next:
    """Routes to the vote after the last round, to the next round after round 1, and else to a summariser per group."""
    if no_round_left(state, settings):
        return "vote"
    if state["rounds"] == 1:
        return answer(state, settings)
    last = last_round(state, settings)
    by_group = [[last[name] for name in group if name in last] for group in groups(settings)]
    return [to_summariser(state, answers, f"group-{i}") for i, answers in enumerate(by_group, 1) if answers]


builder = Debate("group_debate", GroupSettings, agents_needs)
builder.add_node("answer", agent_node())
builder.add_node("compare_answers", compare_node(by_text=True))
builder.add_node("summarise", summary_node("group_debate/summary"))
builder.add_node("share", join_node())
builder.add_node("vote", conclude_node(rounds_or_budget))
builder.begin(answer, ["answer"])
builder.rounds(answer, ["answer"])
builder.add_edge("answer", "compare_answers")
builder.add_conditional_edges("compare_answers", after_round, ["answer", "summarise", "vote"])
builder.add_edge("summarise", "share")
builder.add_conditional_edges("share", answer, ["answer"])
builder.verdict_from("vote")
graph = builder.compile(name="GroupDebate")
