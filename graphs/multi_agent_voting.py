"""Multi-agent voting (MaV in S3): several agents and a vote, without a word between them.

every agent answers on its own, all at the same time
the answer that most agents give is the verdict; a tie goes to the earliest agent
"""

from __future__ import annotations

from typing import Any

from langgraph.graph import END, START
from langgraph.runtime import Runtime
from langgraph.types import Send
from moot.nodes.runtime.node import DebateGraph, settings_of
from moot.nodes.runtime.opening import close_node, open_node
from moot.nodes.runtime.state import ClaimInput, DebateState, VerdictOutput
from moot.nodes.speakers.agents import AgentsSettings, agent_node, agents_needs, everyone, to_agents
from moot.nodes.steps.vote import conclude_node


def begin(state: DebateState, runtime: Runtime[Any]) -> list[Send] | str:
    """All agents answer."""
    settings = settings_of(runtime, AgentsSettings)
    return "close" if state["error"] else to_agents("answer", state, settings, everyone)


builder = DebateGraph(AgentsSettings, DebateState, input_schema=ClaimInput, output_schema=VerdictOutput)
builder.add_node("open", open_node("multi_agent_voting", agents_needs))
builder.add_node("answer", agent_node(then=None))
builder.add_node("vote", conclude_node("single_pass"))
builder.add_node("close", close_node())
builder.add_edge(START, "open")
builder.add_conditional_edges("open", begin, ["answer", "close"])
builder.add_edge("answer", "vote")
builder.add_edge("vote", "close")
builder.add_edge("close", END)
graph = builder.compile(name="Multi-agent voting")
