"""Multi-agent voting ("MaV" in CortexDebate's paper): agents answer without communication, and vote.

every agent answers independently, all at the same time
the most frequent answer is the verdict; a tie goes to the earliest agent
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langgraph.graph import START
from moot.nodes import (
    AgentsSettings,
    CompiledDebate,
    Debate,
    DebateState,
    Next,
    agent_node,
    agents_needs,
    all_others,
    conclude_node,
    to_agents,
)

if TYPE_CHECKING:
    from moot.graphs.contexts import MultiAgentVotingContext


def begin(state: DebateState, settings: AgentsSettings) -> Next:
    """Starts the only round, in which all agents answer."""
    return to_agents("answer", state, settings, all_others)


builder = Debate("multi_agent_voting", AgentsSettings, agents_needs)
builder.add_node("answer", agent_node(then=None))
builder.add_node("vote", conclude_node("single_pass"))
builder.add_conditional_edges(START, begin, ["answer"])
builder.add_edge("answer", "vote")
builder.add_verdict("vote")
graph: CompiledDebate[AgentsSettings | MultiAgentVotingContext] = builder.compile(name="Multi-agent voting")
