"""Your own debate from moot's nodes: agents in a ring hear their neighbours for up to three rounds, then they vote.

    python examples/own_debate.py                        # on the demonstration model
    python examples/own_debate.py openai:gpt-4o-mini     # on any other model; see docs/howto/models.md

The debate is the code between the imports and `main`; `Debate` adds the first and the last step. Like moot's own
systems, it supports claims, questions, tasks, personas and budgets, and it can ask a person. Its prompts are settings,
and it returns a result document.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from moot.graphs.contexts import RoundsSettingsDict
from moot.nodes import (
    CompiledDebate,
    Debate,
    DebateState,
    Next,
    RoundsSettings,
    agent_node,
    agents_needs,
    agreed_answer,
    compare_node,
    confidence_weight,
    consensus_or_rounds,
    neighbours,
    no_round_left,
    to_agents,
    vote_node,
)


def another_round(state: DebateState, settings: RoundsSettings) -> Next:
    """Routes to the vote if all agree, or if the rounds or the budget are used up; else starts the next round.

    It is called before the first round, when there are no votes yet, and after each round.
    """
    if no_round_left(state, settings) or agreed_answer(state["votes"]) is not None:
        return "vote"
    return to_agents("answer", state, settings, neighbours)


def weight(vote: Any, settings: RoundsSettings) -> float:
    """The weight of a vote, which rises with the agent's confidence."""
    return confidence_weight(vote["confidence"])


builder = Debate("ring", RoundsSettings, agents_needs)
builder.add_node("answer", agent_node(confidence=True))
builder.add_node("compare_answers", compare_node())
builder.add_node("vote", vote_node(consensus_or_rounds, weigh=weight))
builder.add_round(another_round, ["answer"], last="compare_answers", then=["vote"])
builder.add_edge("answer", "compare_answers")
builder.add_verdict("vote")
graph: CompiledDebate[RoundsSettings | RoundsSettingsDict] = builder.compile(name="Ring")


async def main(model: str = "embedded:smollm2-135m") -> dict[str, Any]:
    """The result document of one debate."""
    # An agent may also have its own model.
    agents: list[dict[str, Any]] = [
        {"persona": "a physicist"},
        {"persona": "a historian of science"},
        {},
        {},
    ]
    settings = RoundsSettings.model_validate({"model": model, "agents": agents, "max_rounds": 3})
    claim = "The kilogram rests on a constant of nature."
    document: dict[str, Any] = await graph.ainvoke({"claim": claim}, context=settings)
    return document


if __name__ == "__main__":
    result = asyncio.run(main(*sys.argv[1:]))
    print(f"{result['answer']} ({result['stop_reason']}, {result['rounds']} rounds)", result["error"] or "")
    for vote in result["votes"]:
        print(f"- {vote['agent']}: {vote['answer']}")
