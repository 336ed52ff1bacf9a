"""Finds the claims in a text, as a step before debates. The procedure is moot's own.

divide the text into parts
for every part at the same time:
    a model finds the words that make a claim
    the model rates how much each claim is worth checking
    the model rewrites the claims worth checking, so that each can be understood alone
join claims with the same meaning, and keep those with the highest scores if their number is limited

Quotes and claims that the text does not support are dropped; the output lists them with the reasons.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from moot.nodes import (
    ClaimSettings,
    ClaimsInput,
    ClaimsOutput,
    ClaimsState,
    DebateGraph,
    PartResults,
    PartState,
    extract_claims_node,
    finish_claims_node,
    join_duplicates_node,
    rate_claims_node,
    read_text_node,
    rewrite_claims_node,
    to_parts,
)

if TYPE_CHECKING:
    from moot.graphs.contexts import FindClaimsContext

part = DebateGraph(ClaimSettings, PartState, output_schema=PartResults)
part.add_node("extract_claims", extract_claims_node())
part.add_node("rate_claims", rate_claims_node())
part.add_node("rewrite_claims", rewrite_claims_node())
part.add_edge(START, "extract_claims")
part.add_edge("extract_claims", "rate_claims")
part.add_edge("rate_claims", "rewrite_claims")
part.add_edge("rewrite_claims", END)

builder = DebateGraph(ClaimSettings, ClaimsState, input_schema=ClaimsInput, output_schema=ClaimsOutput)
builder.add_node("read_text", read_text_node())
builder.add_node("part", part.compile(name="part"))
builder.add_node("join_duplicates", join_duplicates_node())
builder.add_node("close", finish_claims_node())
builder.add_edge(START, "read_text")
builder.add_conditional_edges("read_text", to_parts, ["part", "close"])
builder.add_edge("part", "join_duplicates")
builder.add_edge("join_duplicates", "close")
builder.add_edge("close", END)
graph: CompiledStateGraph[ClaimsState, ClaimSettings | FindClaimsContext, ClaimsInput, ClaimsOutput] = builder.compile(
    name="Find claims"
)
