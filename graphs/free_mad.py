"""Free-MAD (Cui et al., Findings of ACL 2026, arXiv:2509.11035): no consensus is sought, and every answer counts.

every agent answers independently
repeat until the rounds are used up:
    every agent reads its own and the others' last answers, looks for errors in them, and answers again; that others
        agree is no reason to change an answer
score each answer over all rounds; in round r, the points are divided by r:
    an agent's first answer gains points; so does an answer that an agent keeps
    if an agent changes its answer, the new answer gains points, and the old one loses some
the answer with the highest score is the verdict; a tie goes to the answer that was given first

The weights, and that points are divided by the round, are from a public reimplementation, which names them as the
paper's (docs/systems.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from moot.nodes import (
    CompiledDebate,
    Debate,
    RoundsSettings,
    agent_node,
    agents_needs,
    all_others,
    compare_texts_node,
    decide_by_trajectory_node,
    round_router,
)
from pydantic import Field

if TYPE_CHECKING:
    from moot.graphs.contexts import FreeMadContext


class FreeMadSettings(RoundsSettings):
    """Settings of Free-MAD. The defaults below are those of a reimplementation, the number of agents is ours."""

    max_rounds: int = Field(default=2, ge=1, le=20, description="Rounds (T); the first answers are the first round.")
    conformity: Literal["independent"] = Field(
        default="independent",
        description="What agents are told about others' answers, under either preset: to look for errors in them, and "
        "not to give way to a majority.",
    )
    first_weight: float = Field(
        default=20,
        ge=0,
        le=1000,
        description="Points that an agent's first answer gains. In round r, all points are divided by r.",
    )
    left_weight: float = Field(
        default=25, ge=0, le=1000, description="Points that the old answer loses if an agent changes its answer."
    )
    taken_weight: float = Field(
        default=30, ge=0, le=1000, description="Points that the new answer gains if an agent changes its answer."
    )
    kept_weight: float = Field(
        default=20, ge=0, le=1000, description="Points that an answer gains if an agent keeps it for another round."
    )


another_round = round_router(FreeMadSettings, all_others, end="decide")

builder = Debate("free_mad", FreeMadSettings, agents_needs)
builder.add_node("answer", agent_node("free_mad/revise"))
builder.add_node("compare_answers", compare_texts_node())
builder.add_node("decide", decide_by_trajectory_node())
builder.add_round(another_round, ["answer"], last="compare_answers", then=["decide"])
builder.add_edge("answer", "compare_answers")
builder.add_verdict("decide")
graph: CompiledDebate[FreeMadSettings | FreeMadContext] = builder.compile(name="Free-MAD")
