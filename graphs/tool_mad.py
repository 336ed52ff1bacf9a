"""Tool-MAD with the stability score (Jeong et al., second version).

with the setting `plan`: a planner writes queries, and all debaters search for them and for the claim in round 1
repeat, for every debater at the same time:
    formulate a query (from the second round on, also from the others' last answers) and retrieve evidence
    respond from the evidence, the debater's own last answer and the others' last answers
    score the response: faithfulness and answer relevance
until all debaters give the same answer and every score reaches its threshold, or the rounds are used up
if the rounds end without such an agreement, the judge decides from the whole debate and each debater's mean scores
with the setting `open_continues`: if all answer that the evidence settles nothing, search on until nothing new is found

The scores are needed only after an agreement and by the judge. So the answers of a round without an agreement are not
scored at once. They are scored together with the answers of the next agreement, or before the judge decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from moot.nodes import (
    CompiledDebate,
    Debate,
    DebaterSettings,
    DebateState,
    Needs,
    Next,
    RelevanceSettings,
    agreed_answer,
    answer_is_stable,
    answer_relevance_node,
    answers_of,
    average_scores_node,
    by_preset,
    compare_node,
    debater_graph,
    debaters_needs,
    end_agreed_node,
    faithfulness_node,
    judge_node,
    needs_evidence,
    no_round_left,
    searches_on,
    send_to_scoring,
    to_debaters,
)
from pydantic import Field

if TYPE_CHECKING:
    from moot.graphs.contexts import ToolMadContext

# --- settings -------------------------------------------------------------------------------------------------------


class ToolMadSettings(DebaterSettings, RelevanceSettings):
    """Settings of Tool-MAD. The defaults below are the paper's."""

    faithfulness_threshold: float = Field(
        default=0.7, ge=0, le=1, description="Minimum faithfulness of a stable answer, if it must follow from evidence."
    )
    answer_relevance_threshold: float = Field(
        default=0.8,
        ge=0,
        le=1,
        description="Minimum answer relevance of a stable answer. Another `embedder` needs another threshold.",
    )
    scoring: Literal["on", "all_rounds", "consensus_only"] = by_preset(
        paper="on",
        practical="consensus_only",
        description="on: a consensus needs scores that reach their thresholds, and the judge reads the scores. Without "
        "scores: all_rounds holds all rounds, then the judge decides; consensus_only ends at the first consensus.",
    )

    def thresholds(self) -> dict[str, float]:
        """The thresholds that scores must reach for a stable consensus; empty unless ``scoring`` is on."""
        gate = {"faithfulness": self.faithfulness_threshold, "answer_relevance": self.answer_relevance_threshold}
        return gate if self.scoring == "on" else {}


def needs(settings: ToolMadSettings) -> Needs:
    """The resources that a debate with these settings needs."""
    scored = settings.scoring == "on"
    return debaters_needs(settings, "judge", *(["scorer"] if scored else []), encoder=scored)


SCORES = ("faithfulness", "answer_relevance")

# --- edges ----------------------------------------------------------------------------------------------------------


def consensus(state: DebateState, settings: ToolMadSettings) -> Next:
    """Routes after a round, as the setting ``scoring`` says. A round that uses up the budget counts as the last.

    - ``on``: to the scoring after an agreement or the last round, else to the next round.
    - ``consensus_only``: to the end after an agreement, to the judge after the last round, else to the next round.
    - ``all_rounds``: to the judge after the last round, else to the next round.

    An agreement that the evidence settles nothing leads to the next round if `searches_on` says so.
    """
    if searches_on(state, settings):
        return to_debaters(state, settings)
    agreed = agreed_answer(state["votes"]) is not None
    if settings.scoring == "consensus_only" and agreed:
        return "agree"
    if not no_round_left(state, settings) and (settings.scoring != "on" or not agreed):
        return to_debaters(state, settings)
    return send_to_scoring(state, *SCORES) if settings.scoring == "on" else "judge"


def is_stable(state: DebateState, settings: ToolMadSettings) -> bool:
    """Whether all answers of the last round are stable (`answer_is_stable`)."""
    gate = settings.thresholds()
    return all(
        answer_is_stable(turn.get("scores", {}), **gate, has_evidence=needs_evidence(turn, settings, state["task"]))
        for turn in answers_of(state["turns"])
    )


def stability(state: DebateState, settings: ToolMadSettings) -> Next:
    """Routes to the end after a stable consensus.

    Otherwise, it routes to the judge if the rounds or the budget are used up, else to the next round.
    """
    if agreed_answer(state["votes"]) is not None and is_stable(state, settings):
        return "agree"
    return "judge" if no_round_left(state, settings) else to_debaters(state, settings)


# --- the graph ------------------------------------------------------------------------------------------------------

builder = Debate("tool_mad", ToolMadSettings, needs)
builder.add_plan()
builder.add_node("debater", debater_graph(ToolMadSettings))
builder.add_node("compare_answers", compare_node(finds=lambda s: "every_round" if s.scoring == "all_rounds" else None))
builder.add_node("faithfulness", faithfulness_node())
builder.add_node("answer_relevance", answer_relevance_node())
builder.add_node("average_scores", average_scores_node(is_stable))
builder.add_node("agree", end_agreed_node(lambda s: "stable_consensus" if s.scoring == "on" else "consensus"))
builder.add_node("judge", judge_node())
builder.add_round(to_debaters, ["debater"])
builder.add_edge("debater", "compare_answers")
builder.add_conditional_edges("compare_answers", consensus, ["debater", *SCORES, "agree", "judge"])
builder.add_edge("faithfulness", "average_scores")
builder.add_edge("answer_relevance", "average_scores")
builder.add_conditional_edges("average_scores", stability, ["debater", "agree", "judge"])
builder.add_verdict("agree")
builder.add_verdict("judge", on_question="judge")
graph: CompiledDebate[ToolMadSettings | ToolMadContext] = builder.compile(name="Tool-MAD")
