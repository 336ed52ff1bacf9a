"""Debate in tit for tat (Liang et al., EMNLP 2024, arXiv:2305.19118): two sides and a moderator.

Tool-MAD's papers call this system "MAD".

repeat:
    the affirmative debater answers and argues, then the negative debater argues against this answer
    if at least one of them gave an answer, the moderator says which answer it prefers, if any
until the moderator prefers an answer, or the rounds are used up
a preferred answer is the verdict; if there is none, the judge decides from the whole debate
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from moot.nodes import (
    SHARED_ROLES,
    Agent,
    CompiledDebate,
    Debate,
    DebaterState,
    DebateState,
    Needs,
    Next,
    Settings,
    answers_of,
    ask_person,
    compare_texts_node,
    fixed_speakers,
    judge_node,
    moderate_node,
    needs_for,
    no_round_left,
    respond_node,
    to_next_speakers,
)
from pydantic import Field

if TYPE_CHECKING:
    from moot.graphs.contexts import TitForTatContext

SIDES = ("affirmative", "negative")
DEBATERS = tuple(Agent(name=side) for side in SIDES)
STANCES = {
    "affirmative": "You speak first: give the answer that you hold to be right, and argue for it. If the other one "
    "shows that it is wrong, give it up.",
    "negative": "You speak second: contradict. Look for what is wrong in the other one's answer and give the answer "
    "that you hold to be right; if you find nothing wrong, say so.",
}


class TitForTatSettings(Settings):
    """Settings of the debate in tit for tat. The defaults below are the paper's."""

    debaters: Annotated[tuple[Agent, ...], fixed_speakers(*SIDES)] = Field(
        default=DEBATERS, min_length=2, max_length=2, description="The two debaters, the affirmative one first."
    )
    max_rounds: int = Field(default=3, ge=1, le=20, description="Maximum number of rounds.")
    ask_person: tuple[Literal["remark", "verdict"], ...] = ask_person()

    def roles(self) -> set[str]:
        """The roles that may have a model of their own."""
        return {*SIDES, "moderator", "judge"} | SHARED_ROLES


def needs(settings: TitForTatSettings) -> Needs:
    """The resources that a debate with these settings needs."""
    return needs_for(settings, {d.name: d.model for d in settings.debaters} | dict.fromkeys(("moderator", "judge")))


def stance(state: DebaterState, settings: Any) -> dict[str, str]:
    """The placeholder ``stance``: the instructions for the debater's side."""
    return {"stance": STANCES[state["debater"]["name"]]}


def after_argument(state: DebateState, settings: TitForTatSettings) -> Next:
    """Routes to the moderator if both debaters spoke in this round and at least one gave an answer; else as `go_on`."""
    given = answers_of(state["turns"])
    may_moderate = len(given) == len(SIDES) and any(turn.get("answer") is not None for turn in given)
    return "moderate" if may_moderate else go_on(state, settings)


def go_on(state: DebateState, settings: TitForTatSettings) -> Next:
    """Routes to the end if the moderator prefers an answer.

    Otherwise, it routes to the next debater. But if a round is over, and the rounds or the budget are used up, it
    routes to the judge.
    """
    if state["answer"] is not None:
        return "close"
    over = len(answers_of(state["turns"])) == len(SIDES) and no_round_left(state, settings)
    return "judge" if over else to_next_speakers("argue", state, settings.debaters, in_turn=lambda round: True)


builder = Debate("tit_for_tat", TitForTatSettings, needs)
builder.add_node("argue", respond_node("tit_for_tat/argue", more=stance))
builder.add_node("compare_answers", compare_texts_node("no_preference"))
builder.add_node("moderate", moderate_node())
builder.add_node("judge", judge_node("tit_for_tat/judge"))
builder.add_round(go_on, ["argue"])
builder.add_edge("argue", "compare_answers")
builder.add_conditional_edges("compare_answers", after_argument, ["argue", "moderate", "judge"])
builder.add_conditional_edges("moderate", go_on, ["argue", "judge"])
builder.add_verdict("judge", on_question="judge")
graph: CompiledDebate[TitForTatSettings | TitForTatContext] = builder.compile(name="Tit for tat")
