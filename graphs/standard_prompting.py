"""Standard prompting (Brown et al., NeurIPS 2020, arXiv:2005.14165): the control without reasoning or evidence.

one agent answers at once
its answer is the verdict
"""

from __future__ import annotations

from langgraph.graph import END, START
from moot.nodes.runtime.node import DebateGraph
from moot.nodes.runtime.opening import close_node, open_node
from moot.nodes.runtime.state import ClaimInput, DebateState, VerdictOutput
from moot.nodes.speakers.single import SingleAgentSettings, single_needs, to_agent
from moot.nodes.steps.respond import respond_node
from moot.nodes.steps.vote import conclude_node
from moot.nodes.texts.demonstrations import shown_demonstrations

builder = DebateGraph(SingleAgentSettings, DebateState, input_schema=ClaimInput, output_schema=VerdictOutput)
builder.add_node("open", open_node("standard_prompting", single_needs))
builder.add_node("answer", respond_node("standard_prompting/answer", direct=True, more=shown_demonstrations()))
builder.add_node("conclude", conclude_node("single_pass"))
builder.add_node("close", close_node())
builder.add_edge(START, "open")
builder.add_conditional_edges("open", to_agent, ["answer", "close"])
builder.add_edge("answer", "conclude")
builder.add_edge("conclude", "close")
builder.add_edge("close", END)
graph = builder.compile(name="Standard prompting")
