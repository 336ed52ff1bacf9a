"""Self-consistency (Wang et al., ICLR 2023, arXiv:2203.11171): several chains of thought, and a vote.

one agent reasons step by step and answers, n times at the same time, each time anew
    or, with a budget of tokens, one time after the other until the budget is used
the answer that most samples give is the verdict; a tie goes to the earliest
"""

from __future__ import annotations

from typing import Any

from langgraph.graph import END, START
from langgraph.runtime import Runtime
from langgraph.types import Send
from moot.nodes.models.ledger import tokens_of
from moot.nodes.runtime.node import DebateGraph, settings_of
from moot.nodes.runtime.opening import close_node, open_node
from moot.nodes.runtime.state import ClaimInput, DebateState, StopReason, VerdictOutput
from moot.nodes.speakers.agents import gather_node
from moot.nodes.speakers.hand_over import hand_over, new_turn
from moot.nodes.speakers.single import AGENT, SingleAgentSettings, single_needs
from moot.nodes.steps.compare import answers_of
from moot.nodes.steps.respond import respond_node
from moot.nodes.steps.vote import conclude_node
from moot.nodes.texts.demonstrations import shown_demonstrations
from pydantic import Field


class SelfConsistencySettings(SingleAgentSettings):
    """Settings of self-consistency. The defaults are the usual ones."""

    temperature: float | None = Field(
        0.7, ge=0, le=2, description="Sampling temperature; null leaves it to the endpoint."
    )
    samples: int = Field(5, ge=1, le=1000, description="How often the agent answers (n), where there is no `budget`.")
    budget: int | None = Field(
        None,
        ge=1,
        le=10_000_000,
        description="Tokens of prompts and replies, in place of `samples`: the agent answers until they are used; the "
        "last call may go beyond. For comparisons with a debate at equal cost. Answers in words are then compared by "
        "their texts alone.",
    )


def stop_reason(state: DebateState, settings: SelfConsistencySettings) -> StopReason:
    """What ended the sampling."""
    return "single_pass" if settings.budget is None else "budget_exhausted"


def samples(state: DebateState, runtime: Runtime[Any]) -> list[Send] | str:
    """All samples at once; with a budget the next one, while there is any of it left."""
    settings = settings_of(runtime, SelfConsistencySettings)
    taken = len(answers_of(state["turns"]))
    if state["error"]:
        return "close"
    if settings.budget is None:
        wanted, left = range(taken + 1, settings.samples + 1), None
    else:
        left = settings.budget - tokens_of(state["calls"])
        wanted = range(taken + 1, taken + 2) if left > 0 else range(0)
    agents: list[dict[str, Any]] = [{"name": AGENT, "tokens_left": left, "sample": i} for i in wanted]
    return [hand_over("answer", state, a, new_turn(1, AGENT, number=a["sample"])) for a in agents] or "conclude"


builder = DebateGraph(SelfConsistencySettings, DebateState, input_schema=ClaimInput, output_schema=VerdictOutput)
builder.add_node("open", open_node("self_consistency", single_needs))
builder.add_node("answer", respond_node("chain_of_thought/answer", more=shown_demonstrations(steps=True)))
builder.add_node("gather_samples", gather_node())
builder.add_node("conclude", conclude_node(stop_reason, by_text=lambda settings: settings.budget is not None))
builder.add_node("close", close_node())
builder.add_edge(START, "open")
builder.add_conditional_edges("open", samples, ["answer", "close"])
builder.add_edge("answer", "gather_samples")
builder.add_conditional_edges("gather_samples", samples, ["answer", "conclude", "close"])
builder.add_edge("conclude", "close")
builder.add_edge("close", END)
graph = builder.compile(name="Self-consistency").with_config(recursion_limit=1_000_000)  # a budget may take many steps
