"""Chain of thought (Kojima et al., NeurIPS 2022, arXiv:2205.11916): a control that reasons without evidence.

one agent reasons step by step, then answers
its answer is the verdict
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langgraph.graph import START
from moot.nodes import (
    CompiledDebate,
    Debate,
    SingleAgentSettings,
    conclude_node,
    demonstrations_placeholder,
    respond_node,
    single_needs,
    to_agent,
)

if TYPE_CHECKING:
    from moot.graphs.contexts import ChainOfThoughtContext

builder = Debate("chain_of_thought", SingleAgentSettings, single_needs)
builder.add_node("answer", respond_node("chain_of_thought/answer", more=demonstrations_placeholder(steps=True)))
builder.add_node("conclude", conclude_node("single_pass"))
builder.add_conditional_edges(START, to_agent, ["answer"])
builder.add_edge("answer", "conclude")
builder.add_verdict("conclude")
graph: CompiledDebate[SingleAgentSettings | ChainOfThoughtContext] = builder.compile(name="Chain of thought")
