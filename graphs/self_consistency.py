"""Self-consistency (Wang et al., ICLR 2023, arXiv:2203.11171): a vote among several chains of thought.

one agent reasons step by step and answers; it does so several times, independently and in parallel
    the budget limits the number of times; without a budget, the setting ``samples`` does
the most frequent answer is the verdict; a tie goes to the earliest answer
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from langgraph.graph import START
from moot.nodes import (
    CompiledDebate,
    Debate,
    DebateState,
    Next,
    SingleAgentSettings,
    StopReason,
    answers_of,
    calls_left,
    conclude_node,
    demonstrations_placeholder,
    join_node,
    respond_node,
    single_needs,
    to_samples,
)
from pydantic import Field

if TYPE_CHECKING:
    from moot.graphs.contexts import SelfConsistencyContext


class SelfConsistencySettings(SingleAgentSettings):
    """Settings of self-consistency. The defaults are common values, not the paper's."""

    temperature: float | None = Field(
        default=0.7, ge=0, le=2, description="Sampling temperature; null leaves it to the endpoint."
    )
    samples: int = Field(
        default=5,
        ge=1,
        le=100_000,
        description="Number of answers of the agent, if neither `budget` nor `max_cost` is set. If one of them is set, "
        "the agent answers as often as it allows, for comparisons with a debate at equal cost; free-text answers are "
        "then compared by their texts alone.",
    )

    @property
    def uses_budget(self) -> bool:
        """Whether `budget` or `max_cost` limits the number of answers."""
        return self.budget is not None or self.max_cost is not None


def stop_reason(state: DebateState, settings: SelfConsistencySettings) -> StopReason:
    """The stop reason: ``budget_exhausted`` if a budget limits the number of answers, else ``single_pass``."""
    return "budget_exhausted" if settings.uses_budget else "single_pass"


def start_samples(state: DebateState, settings: SelfConsistencySettings) -> Next:
    """Starts the next samples (answers of the agent); if no sample is left, routes to the vote.

    Without a budget, all samples start at once. With a budget, one sample starts first, because its cost shows how many
    further samples the budget allows. When these have ended, the number of further samples is computed again.
    """
    taken = len(answers_of(state["turns"]))
    last = taken + (calls_left() if taken else 1) if settings.uses_budget else settings.samples
    return to_samples(state, range(taken + 1, last + 1)) or "conclude"


builder = Debate("self_consistency", SelfConsistencySettings, single_needs)
builder.add_node("answer", respond_node("chain_of_thought/answer", more=demonstrations_placeholder(steps=True)))
builder.add_node("gather_samples", join_node())
# With `max_calls` equal to `samples`, no call is left for comparing free-text answers.
builder.add_node("conclude", conclude_node(stop_reason, by_text=lambda s: s.uses_budget or s.samples == s.max_calls))
builder.add_conditional_edges(START, start_samples, ["answer"])
builder.add_edge("answer", "gather_samples")
builder.add_conditional_edges("gather_samples", start_samples, ["answer", "conclude"])
builder.add_verdict("conclude")
compiled = builder.compile(name="Self-consistency")
graph: CompiledDebate[SelfConsistencySettings | SelfConsistencyContext]
graph = compiled.with_config(recursion_limit=1_000_000)  # a budget may need many steps
