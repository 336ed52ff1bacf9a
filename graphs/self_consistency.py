"""Self-consistency (Wang et al., ICLR 2023, arXiv:2203.11171): several chains of thought, and a vote.

one agent reasons step by step and answers, n times at the same time, each time anew
    or, with a budget of tokens, one time after the other until the budget is used
the answer that most samples give is the verdict; a tie goes to the earliest
"""

from __future__ import annotations

from typing import Any

from moot.nodes.models.ledger import tokens_of
from moot.nodes.runtime.state import DebateState, StopReason
from moot.nodes.runtime.system import Debate, Next
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


def samples(state: DebateState, settings: SelfConsistencySettings) -> Next:
    """All samples at once; with a budget the next one, while there is any of it left."""
    taken = len(answers_of(state["turns"]))
    left = None if settings.budget is None else settings.budget - tokens_of(state["calls"])
    last = settings.samples if left is None else taken + (left > 0)
    agents: list[dict[str, Any]] = [{"name": AGENT, "tokens_left": left, "sample": i + 1} for i in range(taken, last)]
    return [hand_over("answer", state, a, new_turn(1, AGENT, number=a["sample"])) for a in agents] or "conclude"


builder = Debate("self_consistency", SelfConsistencySettings, single_needs)
builder.add_node("answer", respond_node("chain_of_thought/answer", more=shown_demonstrations(steps=True)))
builder.add_node("gather_samples", gather_node())
builder.add_node("conclude", conclude_node(stop_reason, by_text=lambda settings: settings.budget is not None))
builder.begin(samples, ["answer"])
builder.add_edge("answer", "gather_samples")
builder.add_conditional_edges("gather_samples", samples, ["answer", "conclude"])
builder.verdict_from("conclude")
graph = builder.compile(name="Self-consistency").with_config(recursion_limit=1_000_000)  # a budget may take many steps
