"""A chaired debate: the first agent hears all others, and the others hear only the first. Then all vote."""

from collections.abc import Sequence

from moot.nodes import (
    Debate,
    DebateState,
    Next,
    RoundsSettings,
    agent_node,
    agents_needs,
    agreed_answer,
    compare_node,
    consensus_or_rounds,
    no_round_left,
    to_agents,
    vote_node,
)


def heard_by(name: str, names: Sequence[str]) -> list[str]:
    """The names of the agents that an agent hears: the chair hears everybody, the others hear the chair."""
    chair = names[0]
    return [other for other in names if other != chair] if name == chair else [chair]


def another_round(state: DebateState, settings: RoundsSettings) -> Next:
    """Routes to the vote if all agree, or if the rounds or the budget are used up; else starts the next round."""
    if no_round_left(state, settings) or agreed_answer(state["votes"]) is not None:
        return "vote"
    return to_agents("answer", state, settings, heard_by)


builder = Debate("chaired", RoundsSettings, agents_needs)
builder.add_node("answer", agent_node())
builder.add_node("compare_answers", compare_node())
builder.add_node("vote", vote_node(consensus_or_rounds))
builder.add_round(another_round, ["answer"], last="compare_answers", then=["vote"])
builder.add_edge("answer", "compare_answers")
builder.add_verdict("vote")
graph = builder.compile(name="Chaired debate")
