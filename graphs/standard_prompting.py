"""Standard prompting (Brown et al., NeurIPS 2020, arXiv:2005.14165): a control without reasoning or evidence.

one agent answers directly
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
    from moot.graphs.contexts import StandardPromptingContext

builder = Debate("standard_prompting", SingleAgentSettings, single_needs)
builder.add_node("answer", respond_node("standard_prompting/answer", direct=True, more=demonstrations_placeholder()))
builder.add_node("conclude", conclude_node("single_pass"))
builder.add_conditional_edges(START, to_agent, ["answer"])
builder.add_edge("answer", "conclude")
builder.add_verdict("conclude")
graph: CompiledDebate[SingleAgentSettings | StandardPromptingContext] = builder.compile(name="Standard prompting")
