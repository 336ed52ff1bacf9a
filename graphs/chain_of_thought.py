"""Chain of thought (Kojima et al., NeurIPS 2022, arXiv:2205.11916): the control that reasons without evidence.

one agent reasons step by step, then answers
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
builder.add_node("open", open_node("chain_of_thought", single_needs))
builder.add_node("answer", respond_node("chain_of_thought/answer", more=shown_demonstrations(steps=True)))
builder.add_node("conclude", conclude_node("single_pass"))
builder.add_node("close", close_node())
builder.add_edge(START, "open")
builder.add_conditional_edges("open", to_agent, ["answer", "close"])
builder.add_edge("answer", "conclude")
builder.add_edge("conclude", "close")
builder.add_edge("close", END)
graph = builder.compile(name="Chain of thought")
