"""DebateCV (He et al., arXiv:2507.19090): two debaters with fixed stances over the same evidence, and a moderator.

search every source for the claim, once
repeat:
    the affirmative debater argues that the claim holds, then the negative debater that it does not
    the moderator says which side is ahead, and whether the debate can be decided
until the moderator can decide, or the rounds are used up
the moderator decides among all labels of the task, from the evidence and the whole debate

Without sources, the evidence is the texts given with the claim, so that given and found evidence can be compared. The
paper also trains the moderator on synthetic debates; here it is any model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from langgraph.graph import START
from moot.nodes import (
    Agent,
    CompiledDebate,
    Debate,
    DebateState,
    Next,
    PoolDebateSettings,
    argue_for_side_node,
    can_decide,
    check_two_sides,
    decide_between_node,
    fixed_speakers,
    human_review_node,
    no_round_left,
    pool_needs,
    retrieve_node,
    round_is_argued,
    to_next_side,
    to_pool,
    weigh_sides_node,
)
from pydantic import Field

if TYPE_CHECKING:
    from moot.graphs.contexts import DebateCvContext

SIDES = ("affirmative", "negative")


class DebateCvSettings(PoolDebateSettings):
    """Settings of DebateCV."""

    other_roles: ClassVar[frozenset[str]] = frozenset({"moderator"})
    debaters: Annotated[tuple[Agent, ...], fixed_speakers(*SIDES)] = Field(
        default=tuple(Agent(name=side) for side in SIDES),
        min_length=2,
        max_length=2,
        description="The two debaters, the affirmative one first.",
    )


def search(state: DebateState, settings: DebateCvSettings) -> Next:
    """Routes to the search for the claim or, if the settings exclude a search, to the first argument."""
    return to_pool(state, settings) if settings.searches else next_side(state, settings)


def next_side(state: DebateState, settings: DebateCvSettings) -> Next:
    """Routes to the side that argues next; after a round, to the moderator."""
    return to_next_side("argue", state, settings.debaters)


def after_argument(state: DebateState, settings: DebateCvSettings) -> Next:
    """Routes to the moderator if both sides have argued in this round, else to the other side."""
    return "moderate" if round_is_argued(state) else next_side(state, settings)


def after_moderation(state: DebateState, settings: DebateCvSettings) -> Next:
    """Routes to the verdict if the moderator can decide, or if the rounds or the budget are used up."""
    return "decide" if can_decide(state) or no_round_left(state, settings) else next_side(state, settings)


builder = Debate("debate_cv", DebateCvSettings, pool_needs, check_two_sides)
builder.add_plan()
builder.add_node("retrieve", retrieve_node(required=True))
builder.add_node("review_evidence", human_review_node("evidence"))
builder.add_node("argue", argue_for_side_node())
builder.add_node("moderate", weigh_sides_node())
builder.add_node("decide", decide_between_node())
builder.add_conditional_edges(START, search, ["retrieve", "argue"])
builder.add_edge("retrieve", "review_evidence")
builder.add_round(next_side, ["argue"], after="review_evidence")
builder.add_conditional_edges("argue", after_argument, ["argue", "moderate"])
builder.add_conditional_edges("moderate", after_moderation, ["argue", "decide"])
builder.add_verdict("decide", on_question="decide")
graph: CompiledDebate[DebateCvSettings | DebateCvContext] = builder.compile(name="DebateCV")
