"""ReAct (Yao et al., ICLR 2023, arXiv:2210.03629): one agent alternates reasoning and search.

repeat: the agent states its thoughts, calls tools that search the sources, and reads the results
until the agent calls no tool, or the tool calls or the budget are used up
if the agent's last message has a usable answer, this answer is the verdict
otherwise the agent gets all its thoughts, searches and results, and must answer; this answer is the verdict

Every tool call is recorded as a turn, and its results become evidence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langgraph.graph import START
from moot.nodes import (
    SOURCES,
    CompiledDebate,
    Debate,
    PlanSettings,
    SingleReaderSettings,
    Source,
    after_tool_agent,
    conclude_node,
    respond_node,
    show_steps,
    single_needs,
    to_tool_agent,
    tool_agent,
)
from pydantic import Field

if TYPE_CHECKING:
    from moot.graphs.contexts import ReactContext

# --- settings -------------------------------------------------------------------------------------------------------


class ReactSettings(SingleReaderSettings, PlanSettings):
    """Settings of ReAct. The default source, a vector store, is Tool-MAD's; the limit of tool calls is moot's own."""

    sources: tuple[Source, ...] = Field(
        default=("chroma",),
        max_length=10,
        description=f"The sources; each is a tool of the agent: {SOURCES}.",
    )
    max_tool_calls: int = Field(
        default=6, ge=0, le=50, description="Maximum number of tool calls; with 0, the agent answers without a search."
    )

    @property
    def searches(self) -> bool:
        return bool(self.sources) and self.max_tool_calls > 0


# --- the graph ------------------------------------------------------------------------------------------------------

builder = Debate("react", ReactSettings, single_needs)
builder.add_plan()
builder.add_node("agent", tool_agent(ReactSettings))
builder.add_node("answer", respond_node("react/answer", more=show_steps))
builder.add_node("conclude", conclude_node(lambda state, settings: state["stop_reason"] or "single_pass"))
builder.add_conditional_edges(START, to_tool_agent, ["agent"])
builder.add_conditional_edges("agent", after_tool_agent, ["answer", "conclude"])
builder.add_edge("answer", "conclude")
builder.add_verdict("conclude")
graph: CompiledDebate[ReactSettings | ReactContext] = builder.compile(name="ReAct")
