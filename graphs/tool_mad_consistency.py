"""Tool-MAD with the consistency score (Jeong et al., first version).

repeat, for every debater at the same time:
    formulate a query (from the second round on, also from the others' last answers) and retrieve evidence
    respond from the evidence, the debater's own last answer and the others' last answers
until all debaters give the same answer, or the rounds are used up
if the rounds are used up without an agreement:
    score the similarity of every response to its evidence
    the judge decides from the whole debate and each debater's mean similarity
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from moot.nodes import (
    CompiledDebate,
    Debate,
    DebaterSettings,
    DebateState,
    Next,
    agreed_answer,
    average_scores_node,
    compare_node,
    consistency_node,
    debater_graph,
    debaters_needs,
    end_agreed_node,
    judge_node,
    no_round_left,
    searches_on,
    send_to_scoring,
    similarity_node,
    to_debaters,
)
from pydantic import Field

if TYPE_CHECKING:
    from moot.graphs.contexts import ToolMadConsistencyContext


class ConsistencySettings(DebaterSettings):
    """Settings of Tool-MAD with the consistency score. The defaults below are the paper's."""

    cross_encoder: str = Field(
        default="cross-encoder/stsb-roberta-base",
        min_length=1,
        max_length=300,
        description="Cross-encoder that compares answers with evidence: a sentence-transformers CrossEncoder by "
        "name or folder, loaded when answers are scored. If it cannot be loaded, the cosine of "
        "`embedder` is used.",
    )
    scoring: Literal["on", "off"] = Field(default="on", description="off: the judge decides without scores.")


def consensus(state: DebateState, settings: ConsistencySettings) -> Next:
    """Routes to the end after a consensus, unless it leaves the claim open and the debate `searches_on`.

    Otherwise, it routes to the next round. But if the rounds or the budget are used up, it routes to the scoring or,
    with the setting ``scoring`` off, to the judge.
    """
    if searches_on(state, settings):
        return to_debaters(state, settings)
    if agreed_answer(state["votes"]) is not None:
        return "agree"
    if not no_round_left(state, settings):
        return to_debaters(state, settings)
    return "choose_similarity" if settings.scoring == "on" else "judge"


def to_scoring(state: DebateState) -> Next:
    """Starts the scoring of all responses of the debate in parallel."""
    return send_to_scoring(state, "consistency")


builder = Debate("tool_mad_consistency", ConsistencySettings, lambda settings: debaters_needs(settings, "judge"))
builder.add_plan()
builder.add_node("debater", debater_graph(ConsistencySettings))
builder.add_node("compare_answers", compare_node())
builder.add_node("choose_similarity", similarity_node())
builder.add_node("consistency", consistency_node())
builder.add_node("average_scores", average_scores_node())
builder.add_node("agree", end_agreed_node(lambda settings: "consensus"))
builder.add_node("judge", judge_node())
builder.add_round(to_debaters, ["debater"])
builder.add_edge("debater", "compare_answers")
builder.add_conditional_edges("compare_answers", consensus, ["debater", "choose_similarity", "agree", "judge"])
builder.add_conditional_edges("choose_similarity", to_scoring, ["consistency"])
builder.add_edge("consistency", "average_scores")
builder.add_edge("average_scores", "judge")
builder.add_verdict("agree")
builder.add_verdict("judge", on_question="judge")
graph: CompiledDebate[ConsistencySettings | ToolMadConsistencyContext] = builder.compile(name="Tool-MAD (consistency)")
