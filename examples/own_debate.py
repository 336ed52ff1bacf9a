"""A debate of your own, from moot's nodes: agents in a ring hear their neighbours until all agree, then they vote.

    python examples/own_debate.py                        # on the demonstration model
    python examples/own_debate.py openai:gpt-4o-mini     # on any other; see README

The debate is what stands between the imports and `main`. It takes claims, questions, tasks, personas and budgets as
moot's own systems do, its prompts are settings, and its result is the same document.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from langgraph.graph import END, START
from langgraph.runtime import Runtime
from langgraph.types import Send
from moot.nodes import (
    ClaimInput,
    DebateGraph,
    DebateState,
    RoundsSettings,
    VerdictOutput,
    agent_node,
    agents_needs,
    agreed_answer,
    close_node,
    compare_node,
    confidence_weight,
    consensus_or_rounds,
    neighbours,
    no_round_left,
    open_node,
    settings_of,
    to_agents,
    vote_node,
)


def another_round(state: DebateState, runtime: Runtime[Any]) -> list[Send] | str:
    """Until all agree, or the rounds or the budget are used up, every agent answers anew."""
    settings = settings_of(runtime, RoundsSettings)
    if state["error"]:
        return "close"
    if no_round_left(state, settings) or agreed_answer(state["votes"]) is not None:
        return "vote"
    return to_agents("answer", state, settings, neighbours)


def weight(vote: Any, settings: RoundsSettings) -> float:
    """Who is sure counts more."""
    return confidence_weight(vote["confidence"])


builder = DebateGraph(RoundsSettings, DebateState, input_schema=ClaimInput, output_schema=VerdictOutput)
builder.add_node("open", open_node("ring", agents_needs))
builder.add_node("answer", agent_node(confidence=True))
builder.add_node("compare_answers", compare_node())
builder.add_node("vote", vote_node(consensus_or_rounds, weigh=weight))
builder.add_node("close", close_node())
builder.add_edge(START, "open")
builder.add_conditional_edges("open", another_round, ["answer", "vote", "close"])
builder.add_edge("answer", "compare_answers")
builder.add_conditional_edges("compare_answers", another_round, ["answer", "vote", "close"])
builder.add_edge("vote", "close")
builder.add_edge("close", END)
graph = builder.compile(name="Ring")


async def main(model: str = RoundsSettings().model) -> dict[str, Any]:
    """The result document of one debate."""
    agents: list[dict[str, Any]] = [
        {"persona": "a physicist"},
        {"persona": "a historian of science"},
        {},
        {},
    ]  # each may have a model
    settings = RoundsSettings.model_validate({"model": model, "agents": agents, "max_rounds": 3})
    claim = "The kilogram rests on a constant of nature."
    document: dict[str, Any] = await graph.ainvoke({"claim": claim}, context=settings)
    return document


if __name__ == "__main__":
    result = asyncio.run(main(*sys.argv[1:]))
    print(f"{result['answer']} ({result['stop_reason']}, {result['rounds']} rounds)", result["error"] or "")
    for vote in result["votes"]:
        print(f"- {vote['agent']}: {vote['answer']}")
