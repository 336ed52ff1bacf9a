"""Summarises a finished debate for readers, from its result document. The procedure is moot's own.

if the debate has a verdict and a verified quote:
    a model writes a short summary (three sentences or so); each sentence has the quotes that support it
    the model says which answer each quote supports, which evidence was not found, and what would change the verdict
drop the sentences whose quotes or figures cannot be confirmed
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from moot.nodes import (
    DebateGraph,
    ReaderInput,
    ReaderState,
    Settings,
    keep_supported_node,
    read_debate_node,
)

if TYPE_CHECKING:
    from moot.graphs.contexts import SummariseForReadersContext


class ReaderSettings(Settings):
    """Settings of the graph that summarises a debate for readers."""

    def roles(self) -> set[str]:
        """The roles that may have a model of their own."""
        return {"reporter"}


builder = DebateGraph(ReaderSettings, ReaderState, input_schema=ReaderInput)
builder.add_node("read_debate", read_debate_node())
builder.add_node("keep_what_rests", keep_supported_node())
builder.add_edge(START, "read_debate")
builder.add_edge("read_debate", "keep_what_rests")
builder.add_edge("keep_what_rests", END)
graph: CompiledStateGraph[ReaderState, ReaderSettings | SummariseForReadersContext, ReaderInput, ReaderState] = (
    builder.compile(name="Summarise for readers")
)
