"""Tool-MAD with the consistency score (Jeong et al., first version; S0).

open the debate on a claim
repeat, for every debater at the same time:
    formulate a query (from the second round on, also from the others' last answers) and retrieve evidence
    respond from the evidence and the others' last answers
until all debaters give one answer, or the rounds are used up
if the rounds are used up:
    score every response: its similarity to the evidence that it was written from
    the judge decides from the whole debate and each debater's mean similarity
"""

from __future__ import annotations

from typing import Any, Literal

from langgraph.graph import END, START
from langgraph.runtime import Runtime
from langgraph.types import Send
from moot.nodes.runtime.budget import no_round_left
from moot.nodes.runtime.node import DebateGraph, settings_of
from moot.nodes.runtime.opening import close_node, open_node
from moot.nodes.runtime.state import ClaimInput, DebateState, ScoreState, StepUpdate, VerdictOutput
from moot.nodes.speakers.debaters import DebaterSettings, debater_graph, needs_of, to_debaters, unscored_answers
from moot.nodes.steps.compare import agree_node, agreed_answer, average_scores_node, compare_node
from moot.nodes.steps.judge import judge_node
from moot.nodes.steps.person import person_node, question_or, remark_first
from moot.nodes.steps.score import consistency_node, similarity_node
from pydantic import Field


class ConsistencySettings(DebaterSettings):
    """Settings of Tool-MAD with the consistency score. The defaults are the paper's."""

    cross_encoder: str = Field(
        "cross-encoder/stsb-roberta-base",
        min_length=1,
        max_length=300,
        description="Cross-encoder that compares answers with evidence: a sentence-transformers CrossEncoder by name "
        "or folder. Where it cannot be loaded, the cosine of `embedder` takes its place.",
    )
    scoring: Literal["on", "off"] = Field("on", description="off: the judge decides without scores.")


def consensus(state: DebateState, runtime: Runtime[Any]) -> list[Send] | str:
    """After a round's answers: one answer ends the debate; with rounds left, go on; else score and judge."""
    settings = settings_of(runtime, ConsistencySettings)
    if state["error"]:
        return "close"
    if agreed_answer(state["votes"]) is not None:
        return "agree"
    if not no_round_left(state, settings):
        return to_debaters(state, runtime)
    return unscored_answers(state) if settings.scoring == "on" else "judge"


score = DebateGraph(ConsistencySettings, ScoreState, output_schema=StepUpdate)
score.add_node("consistency", consistency_node())
score.add_edge(START, "consistency")
score.add_edge("consistency", END)

builder = DebateGraph(ConsistencySettings, DebateState, input_schema=ClaimInput, output_schema=VerdictOutput)
builder.add_node("open", open_node("tool_mad_consistency", lambda settings: needs_of(settings, "judge")))
builder.add_node("choose_similarity", similarity_node())
builder.add_node("debater", debater_graph(ConsistencySettings))
builder.add_node("compare_answers", compare_node())
builder.add_node("score", score.compile(name="score"))
builder.add_node("average_scores", average_scores_node())
builder.add_node("hear_remark", person_node("remark"))
builder.add_node("agree", agree_node(lambda settings: "consensus"))
builder.add_node("judge", judge_node())
builder.add_node("review_verdict", person_node("verdict"))
builder.add_node("close", close_node())
builder.add_edge(START, "open")
builder.add_edge("open", "choose_similarity")
builder.add_conditional_edges("choose_similarity", to_debaters, ["debater", "close"])
builder.add_edge("debater", "compare_answers")
after_answers = ["hear_remark", "debater", "score", "agree", "judge", "close"]
builder.add_conditional_edges("compare_answers", remark_first(consensus), after_answers)
builder.add_conditional_edges("hear_remark", to_debaters, ["debater", "close"])
builder.add_edge("score", "average_scores")
builder.add_edge("average_scores", "judge")
builder.add_edge("agree", "close")
builder.add_edge("judge", "review_verdict")
builder.add_conditional_edges("review_verdict", question_or("judge"), ["judge", "close"])
builder.add_edge("close", END)
graph = builder.compile(name="Tool-MAD (consistency)")
