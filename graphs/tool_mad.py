"""Tool-MAD with the stability score (Jeong et al., second version; S1).

open the debate on a claim
repeat, for every debater at the same time:
    formulate a query (from the second round on, also from the others' last answers) and retrieve evidence
    respond from the evidence and the others' last answers
    score the response: faithfulness and answer relevance
until all debaters give one answer and every score reaches its threshold, or the rounds are used up
if the rounds are used up, the judge decides from the whole debate and each debater's average scores

A round whose answers differ cannot end the debate before the last round, so the next round begins at once and the
scores are made beside it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from langgraph.graph import END, START
from langgraph.runtime import Runtime
from langgraph.types import Send
from moot.nodes.agree import agree_node, agreed_answer, answers_of, average_scores_node, compare_node
from moot.nodes.debate import close_node, open_node
from moot.nodes.judge import judge_node
from moot.nodes.models import ModelChoice
from moot.nodes.query import query_node
from moot.nodes.respond import respond_node
from moot.nodes.retrieve import retrieve_node
from moot.nodes.run import DebateGraph
from moot.nodes.score import answer_relevance_node, faithfulness_node, passes
from moot.nodes.settings import ModelName, Name, Settings
from moot.nodes.state import ClaimInput, DebaterState, DebateState, ScoreState, StepUpdate, VerdictOutput
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

# --- settings -------------------------------------------------------------------------------------------------------


class Debater(BaseModel):
    """One debater."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name = Field(description="The debater's name, which is also its role in `models`.")
    retriever: str | None = Field(
        None,
        max_length=100,
        description="Its source: chroma, chroma:CORPUS, bm25, bm25:CORPUS, tavily, web (Tavily where its key is set, "
        "else bm25); null for a debater without one.",
    )
    model: ModelName | ModelChoice | None = Field(None, description="Its model, where it differs from `model`.")


def _named_once(debaters: tuple[Debater, ...]) -> tuple[Debater, ...]:
    names = [d.name for d in debaters]
    taken = {"judge", "scorer"} & set(names)
    if taken or len(set(names)) < len(names):
        raise ValueError(f"debaters need names of their own, and not judge or scorer: {names}")
    return debaters


class ToolMadSettings(Settings):
    """Settings of Tool-MAD. The defaults are the paper's."""

    debaters: Annotated[tuple[Debater, ...], AfterValidator(_named_once)] = Field(
        (Debater(name="rag", retriever="chroma"), Debater(name="search", retriever="web")),
        min_length=2,
        max_length=8,
        description="Who debates: two or more, each with its own retriever or none.",
    )
    max_rounds: int = Field(3, ge=1, le=20, description="Most rounds (T).")
    k: int = Field(3, ge=1, le=50, description="Documents per query.")
    faithfulness_threshold: float = Field(0.7, ge=0, le=1, description="Least faithfulness of a stable answer.")
    answer_relevance_threshold: float = Field(0.8, ge=0, le=1, description="Least answer relevance of a stable answer.")
    questions: int = Field(3, ge=1, le=10, description="Questions that answer relevance is averaged over (n).")
    query_formulation: bool = Field(True, description="Off: the claim itself is the query in every round.")
    scoring: Literal["on", "all_rounds", "consensus_only"] = Field(
        "on",
        description="on: scores gate the consensus and reach the judge. Without scores: all_rounds runs every round, "
        "then the judge; consensus_only stops at the first consensus.",
    )


def settings_of(runtime: Runtime[Any]) -> ToolMadSettings:
    """The run's settings, or the defaults where none were given."""
    return runtime.context if isinstance(runtime.context, ToolMadSettings) else ToolMadSettings()


# --- edges ----------------------------------------------------------------------------------------------------------


def next_round(state: DebateState, runtime: Runtime[Any]) -> list[Send] | str:
    """Every debater goes into the next round, with the others' last answers."""
    if state["error"]:
        return "close"
    last = answers_of(state["turns"])
    sends = []
    for debater in settings_of(runtime).debaters:
        own = next((t for t in last if t["agent"] == debater.name), None)
        turn = {"round": state["rounds"] + 1, "phase": "primary", "agent": debater.name, "step": "respond"}
        debate = {
            "claim": state["claim"],
            "task": state["task"],
            "debater": debater.model_dump(mode="json"),
            "opponents": [t for t in last if t["agent"] != debater.name],
            "previous_query": own.get("query") if own else None,
            "turns": [{**turn, "role": debater.name, "side": None}],
            "depth": state["depth"],
        }
        sends.append(Send("debater", debate))
    return sends


def scores_of_round(state: DebateState, node: str) -> list[Send]:
    """Every answer of the round goes to be scored, with the evidence that it was written from."""
    known = {piece["id"]: piece for piece in state["evidence"]}
    return [
        Send(
            node,
            {
                "claim": state["claim"],
                "turns": [turn],
                "evidence": [known[i] for i in turn.get("evidence_ids", [])],
                "depth": state["depth"],
            },
        )
        for turn in answers_of(state["turns"])
    ]


def first_step(state: DebaterState, runtime: Runtime[Any]) -> Literal["formulate_query", "retrieve", "respond"]:
    """A debater without a retriever answers at once; without query formulation the claim is the query."""
    if state["debater"]["retriever"] is None:
        return "respond"
    return "formulate_query" if settings_of(runtime).query_formulation else "retrieve"


def consensus(state: DebateState, runtime: Runtime[Any]) -> list[Send] | str:
    """After a round's answers: disputed with rounds left, go on at once; otherwise the scores have to be known."""
    settings = settings_of(runtime)
    agreed = agreed_answer(answers_of(state["turns"])) is not None
    left = state["rounds"] < settings.max_rounds
    if state["error"]:
        return "close"
    if settings.scoring == "consensus_only" and agreed:
        return "agree"
    if settings.scoring != "on":
        return next_round(state, runtime) if left else "judge"
    if not agreed and left:
        return [*next_round(state, runtime), *scores_of_round(state, "score_beside")]
    return scores_of_round(state, "score")


def stability(state: DebateState, runtime: Runtime[Any]) -> list[Send] | str:
    """After a round's scores: a consensus whose every score reaches its threshold ends the debate."""
    settings = settings_of(runtime)
    last = answers_of(state["turns"])
    searches = {d.name: d.retriever is not None for d in settings.debaters}
    stable = all(
        passes(
            turn.get("scores", {}),
            faithfulness=settings.faithfulness_threshold,
            answer_relevance=settings.answer_relevance_threshold,
            has_retriever=searches[turn["agent"]],
        )
        for turn in last
    )
    if state["error"]:
        return "close"
    if agreed_answer(last) is not None and stable:
        return "agree"
    return next_round(state, runtime) if state["rounds"] < settings.max_rounds else "judge"


# --- the graph ------------------------------------------------------------------------------------------------------

debater = DebateGraph(ToolMadSettings, DebaterState, output_schema=StepUpdate)
debater.add_node("formulate_query", query_node())
debater.add_node("retrieve", retrieve_node())
debater.add_node("respond", respond_node())
debater.add_conditional_edges(START, first_step)
debater.add_edge("formulate_query", "retrieve")
debater.add_edge("retrieve", "respond")
debater.add_edge("respond", END)

score = DebateGraph(ToolMadSettings, ScoreState, output_schema=StepUpdate)
score.add_node("faithfulness", faithfulness_node())
score.add_node("answer_relevance", answer_relevance_node())
score.add_edge(START, "faithfulness")
score.add_edge(START, "answer_relevance")
score.add_edge("faithfulness", END)
score.add_edge("answer_relevance", END)

builder = DebateGraph(ToolMadSettings, DebateState, input_schema=ClaimInput, output_schema=VerdictOutput)
builder.add_node(
    "open", open_node("tool_mad", lambda settings: [d.retriever for d in settings.debaters if d.retriever])
)
builder.add_node("debater", debater.compile(name="debater"))
builder.add_node("compare_answers", compare_node())
builder.add_node("score", score.compile(name="score"))
builder.add_node("score_beside", score.compile(name="score_beside"))
builder.add_node("average_scores", average_scores_node())
builder.add_node("agree", agree_node(lambda s: "stable_consensus" if s.scoring == "on" else "consensus"))
builder.add_node("judge", judge_node())
builder.add_node("close", close_node())
builder.add_edge(START, "open")
builder.add_conditional_edges("open", next_round, ["debater", "close"])
builder.add_edge("debater", "compare_answers")
builder.add_conditional_edges(
    "compare_answers", consensus, ["debater", "score_beside", "score", "agree", "judge", "close"]
)
builder.add_edge("score_beside", "compare_answers")
builder.add_edge("score", "average_scores")
builder.add_conditional_edges("average_scores", stability, ["debater", "agree", "judge", "close"])
builder.add_edge("agree", "close")
builder.add_edge("judge", "close")
builder.add_edge("close", END)
graph = builder.compile(name="Tool-MAD")
