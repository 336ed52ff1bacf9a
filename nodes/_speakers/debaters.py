"""Debaters that find their own evidence: their settings, their subgraph, and the start of rounds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Send
from moot.nodes._models.chat_models import ModelChoice
from moot.nodes._records.entries import Task, Turn
from moot.nodes._records.pieces import Pieces
from moot.nodes._runtime.graph import DebateGraph
from moot.nodes._runtime.opening import Needs
from moot.nodes._runtime.settings import SOURCES, EvidenceSettings, Name, NamedModel, Source, ask_person
from moot.nodes._runtime.state import DebaterState, DebateState, StepUpdate
from moot.nodes._runtime.turns import new_turn
from moot.nodes._speakers.turns import (
    SHARED_ROLES,
    check_unique_names,
    needs_for,
    send_turn,
    speaker_declaration,
)
from moot.nodes._steps.compare import agreed_answer, answers_of
from moot.nodes._steps.person import human_review_node
from moot.nodes._steps.query import query_node
from moot.nodes._steps.responding import PROMPT, respond_node
from moot.nodes._steps.retrieving import retrieve_node, sources_of
from moot.nodes._steps.score import needs_evidence
from moot.nodes._texts.show import cited_ids, show_why
from moot.retrievers._evidence import given_evidence
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator


class Debater(BaseModel):
    """The declaration of a debater."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name = Field(description="The debater's name, which is also its role in `models`.")
    retriever: Source | tuple[Source, ...] | None = Field(
        default=None,
        description=f"Its source, or a list of several: {SOURCES}; null for a debater without one.",
    )
    fallback: tuple[Source, ...] = Field(
        default=(), max_length=10, description="Sources that replace its failed ones, in this order."
    )
    model: NamedModel | ModelChoice | None = Field(default=None, description="Its model, if it differs from `model`.")

    @model_validator(mode="after")
    def _check_fallback(self) -> Debater:
        if self.fallback and not self.retriever:
            raise ValueError(f"{self.name}: `fallback` needs a `retriever`; move the first source of `fallback` there")
        return self


RESERVED = {"judge", "scorer"} | SHARED_ROLES
"""Roles whose names a debater may not have."""


def _check_names(debaters: tuple[Debater, ...]) -> tuple[Debater, ...]:
    check_unique_names((d.name for d in debaters), RESERVED)
    return debaters


class DebaterSettings(EvidenceSettings):
    """Settings of debates whose debaters find their own evidence. The defaults are Tool-MAD's."""

    debaters: Annotated[tuple[Debater, ...], AfterValidator(_check_names)] = Field(
        default=(Debater(name="rag", retriever="chroma"), Debater(name="search", retriever="web")),
        min_length=2,
        max_length=8,
        description="The debaters: two or more, each with its own retriever or none.",
    )
    max_rounds: int = Field(default=3, ge=1, le=20, description="Maximum number of rounds (T).")
    query_formulation: bool = Field(default=True, description="Off: the claim itself is the query in every round.")
    retrieval: Literal["every_round", "once", "later", "none"] = Field(
        default="every_round",
        description="When debaters search for evidence. once: in the first round, and they keep the evidence; later: "
        "from the second round on; none: never.",
    )

    keep_evidence: bool = Field(
        default=False,
        description="On: in each round, a debater reads the evidence that its last answer cites, together with the "
        "new results. Off, as in Tool-MAD's papers: only the new results. Texts given with the claim are always read.",
    )
    ask_person: tuple[Literal["queries", "evidence", "remark", "verdict"], ...] = ask_person()

    def roles(self) -> set[str]:
        """The roles that may have a model of their own."""
        return {d.name for d in self.debaters} | RESERVED

    def thresholds(self) -> dict[str, float]:
        """The thresholds that scores must reach before an agreement ends the debate; empty if scores do not count."""
        return {}


def debaters_needs(settings: DebaterSettings, *roles: str, encoder: bool = False) -> Needs:
    """The resources that debaters and further roles need.

    Args:
        settings: the debate's settings.
        roles: the roles that speak besides the debaters.
        encoder: whether a text encoder is needed.
    """
    sources = [name for d in settings.debaters for name in sources_of(d.model_dump())]
    sources += [name for d in settings.debaters for name in d.fallback]
    speakers = {d.name: d.model for d in settings.debaters} | dict.fromkeys(roles)
    return needs_for(settings, speakers, sources if settings.retrieval != "none" else [], encoder=encoder)


def to_debaters(state: DebateState, settings: DebaterSettings) -> list[Send]:
    """Builds the `Send`s of all debaters for the next round, each with the last answers of all debaters.

    Args:
        state: the debate's state.
        settings: the debate's settings.
    """
    last, why = answers_of(state["turns"]), round_reason(state, settings)
    sends: list[Send] = []
    for debater in settings.debaters:
        own = next((t for t in last if t["agent"] == debater.name), None)
        opponents = [t for t in last if t["agent"] != debater.name]
        turn = new_turn(state["rounds"] + 1, debater.name)
        query = own.get("query") if own else None
        more = kept_evidence_input(state, own, settings) | {"why": why, "previous_query": query}
        speaker = speaker_declaration(debater) | {"place": len(sends) + 1}
        sends.append(send_turn("debater", state, speaker, turn, opponents=opponents, own=own, **more))
    return sends


def kept_evidence_input(state: DebateState, own: Turn | None, settings: DebaterSettings) -> dict[str, Any]:
    """The arguments of `send_turn` for the evidence that a debater keeps; empty if it keeps only given texts."""
    known = Pieces(state["evidence"])
    if own and settings.retrieval == "once":
        return {"evidence": [known[i] for i in own["evidence_ids"]], "retrieval": own.get("retrieval")}
    if own and settings.keep_evidence:
        cited = cited_ids([own])
        return {"evidence": given_evidence(state["evidence"]) + [known[i] for i in known if i in cited]}
    return {}


def round_reason(state: DebateState, settings: DebaterSettings) -> str:
    """The reason for the next round, as a text for prompts of debaters that search; empty before the first round."""
    if not state["votes"]:
        return ""
    if agreed_answer(state["votes"]) is None:
        return show_why(state["votes"], None)
    answers = answers_of(state["turns"])
    low = low_scores(answers, settings, state["task"])
    unfaithful = {agent for agent, name, *_ in low if name == "faithfulness"}
    return show_why(state["votes"], low, unsupported_statements(t for t in answers if t["agent"] in unfaithful))


def unsupported_statements(answers: Iterable[Turn]) -> list[tuple[str, str]]:
    """Pairs of a debater and a statement of its answer that does not follow from the answer's evidence."""
    judged = ((turn["agent"], turn.get("scores", {})) for turn in answers)
    return [
        (agent, statement)
        for agent, scores in judged
        for statement, holds in zip(scores.get("statements", []), scores.get("supported", []), strict=True)
        if not holds
    ]


def low_scores(
    answers: Iterable[Turn], settings: DebaterSettings, task: Task | None = None
) -> list[tuple[str, str, float | None, float]]:
    """The debater, name, value and threshold of each score that is unknown or below its threshold."""
    return [
        (turn["agent"], name, turn.get("scores", {}).get(name), least)
        for turn in answers
        for name, least in settings.thresholds().items()
        if (name != "faithfulness" or needs_evidence(turn, settings, task))
        and ((value := turn.get("scores", {}).get(name)) is None or value < least)
    ]


def send_to_scoring(state: DebateState, *metrics: str) -> list[Send]:
    """Builds the `Send`s that score every answer without scores, each with the evidence that its debater was shown.

    Args:
        state: the debate's state.
        metrics: the names of the nodes that score an answer, in parallel.
    """
    known = Pieces(state["evidence"])
    shared = {key: state.get(key) for key in ("claim", "task", "settings", "metrics", "depth")}
    return [
        Send(metric, shared | {"turns": [turn], "evidence": [known[i] for i in turn["evidence_ids"]]})
        for turn in state["turns"]
        if turn["step"] == "respond" and not turn["scores"]
        for metric in metrics
    ]


def first_step(state: DebaterState, settings: Any) -> Literal["formulate_query", "retrieve", "respond"]:
    """Routes to a debater's first node: ``respond`` without a search, ``retrieve`` if the claim itself is the query."""
    round = state["turns"][0]["round"]
    searching = {"every_round": True, "once": round <= 1, "later": round > 1, "none": False}[settings.retrieval]
    if not (searching and state["debater"]["retriever"]):
        return "respond"
    return "formulate_query" if settings.query_formulation else "retrieve"


def debater_graph(
    settings: type[EvidenceSettings], prompt: str = PROMPT, name: str = "debater"
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The subgraph of one debater's round: query, retrieval and answer.

    A person may review the query before the retrieval, and the evidence before the answer.

    Args:
        settings: the settings class of the parent graph.
        prompt: the prompt for the answer.
        name: the subgraph's name.
    """
    debater = DebateGraph(settings, DebaterState, output_schema=StepUpdate)
    debater.add_node("formulate_query", query_node())
    debater.add_node("review_query", human_review_node("queries"))
    debater.add_node("retrieve", retrieve_node())
    debater.add_node("review_evidence", human_review_node("evidence"))
    debater.add_node("respond", respond_node(prompt))
    debater.add_conditional_edges(START, first_step)
    debater.add_edge("formulate_query", "review_query")
    debater.add_edge("review_query", "retrieve")
    debater.add_edge("retrieve", "review_evidence")
    debater.add_edge("review_evidence", "respond")
    debater.add_edge("respond", END)
    return debater.compile(name=name)
