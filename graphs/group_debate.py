"""GroupDebate (Liu et al., 2024, arXiv:2409.14051): debates in small groups, which exchange summaries.

every agent answers independently
repeat until the rounds are used up:
    from the third round on, summarise the last answers of every group, all groups at the same time
    every agent reads the last answers in its own group and, from the third round on, the summaries of all groups
    every agent answers again
the most frequent answer of the last round is the verdict; a tie goes to the earliest agent
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from moot.nodes import (
    Agents,
    CompiledDebate,
    Debate,
    DebateState,
    Next,
    RoundsSettings,
    agent_node,
    agents_needs,
    compare_texts_node,
    conclude_node,
    groups_of,
    join_node,
    last_round,
    n_agents,
    no_round_left,
    rounds_or_budget,
    same_group,
    summaries_of,
    summary_node,
    to_agents,
    to_summariser,
)
from pydantic import Field

if TYPE_CHECKING:
    from moot.graphs.contexts import GroupDebateContext


class GroupSettings(RoundsSettings):
    """Settings of GroupDebate. The default numbers of rounds and agents are those of CortexDebate's experiments."""

    other_roles: ClassVar[frozenset[str]] = frozenset({"summariser"})
    agents: Agents = Field(
        default=n_agents(5), min_length=2, max_length=50, description="The agents: a list, or their number."
    )
    group_size: int = Field(
        default=2, ge=2, le=3, description="Agents in a group. With 2, one group may have 3; with 3, some may have 2."
    )


def groups(settings: GroupSettings) -> list[list[str]]:
    """The names of the agents in each group. An agent that leaves the debate does not change the groups."""
    return groups_of([agent.name for agent in settings.agents], settings.group_size)


def start_round(state: DebateState, settings: GroupSettings) -> Next:
    """Starts the next round. Every agent gets its group's last answers and, from round 3 on, all groups' summaries."""
    heard = summaries_of(state["turns"], state["rounds"])
    return to_agents("answer", state, settings, same_group(groups(settings)), heard=lambda name: heard)


def after_round(state: DebateState, settings: GroupSettings) -> Next:
    """Routes to the vote if the rounds or the budget are used up.

    Otherwise, after round 1, it starts the next round without summaries. After a later round, it routes to the
    summariser, once for each group with answers.
    """
    if no_round_left(state, settings):
        return "vote"
    if state["rounds"] == 1:
        return start_round(state, settings)
    last = last_round(state, settings)
    by_group = [[last[name] for name in group if name in last] for group in groups(settings)]
    return [to_summariser(state, answers, f"group-{i}") for i, answers in enumerate(by_group, 1) if answers]


builder = Debate("group_debate", GroupSettings, agents_needs)
builder.add_node("answer", agent_node())
builder.add_node("compare_answers", compare_texts_node())
builder.add_node("summarise", summary_node("group_debate/summary"))
builder.add_node("share", join_node())
builder.add_node("vote", conclude_node(rounds_or_budget))
builder.add_round(start_round, ["answer"])
builder.add_edge("answer", "compare_answers")
builder.add_conditional_edges("compare_answers", after_round, ["answer", "summarise", "vote"])
builder.add_edge("summarise", "share")
builder.add_conditional_edges("share", start_round, ["answer"])
builder.add_verdict("vote")
graph: CompiledDebate[GroupSettings | GroupDebateContext] = builder.compile(name="GroupDebate")
