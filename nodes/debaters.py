"""Debaters that find their own evidence, each a subgraph: who they are, and how a round of them begins."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Send
from moot.nodes.agree import answers_of
from moot.nodes.debate import Needs
from moot.nodes.models import ModelChoice
from moot.nodes.query import query_node
from moot.nodes.respond import respond_node
from moot.nodes.retrieve import retrieve_node, sources_of
from moot.nodes.run import DebateGraph, settings_of
from moot.nodes.settings import EvidenceSettings, ModelName, Name
from moot.nodes.show import cited_ids
from moot.nodes.state import DebaterState, DebateState, StepUpdate
from moot.retrievers.search import SCHOLARLY, resolve
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

Source = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class Debater(BaseModel):
    """One debater."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name = Field(description="The debater's name, which is also its role in `models`.")
    retriever: Source | tuple[Source, ...] | None = Field(
        None,
        description="Its source, or a list of several: chroma, bm25 or hybrid (each also with :CORPUS), web (Tavily or "
        "Serper where its key is set, else bm25), tavily, serper, wikipedia, openalex, pubmed, arxiv, "
        "langchain:MODULE:ATTRIBUTE; null for a debater without one.",
    )
    fallback: tuple[Source, ...] = Field(
        (), max_length=10, description="Sources that are tried, in this order, when its own fail."
    )
    model: ModelName | ModelChoice | None = Field(None, description="Its model, where it differs from `model`.")

    @model_validator(mode="after")
    def _fallback_for_something(self) -> Debater:
        if self.fallback and not self.retriever:
            raise ValueError(f"{self.name}: `fallback` is for debaters with a `retriever`; put its first source there")
        return self


RESERVED = {"judge", "scorer", "equivalence", "source_summariser"}
"""Roles that no debater may be called."""


def _named_once(debaters: tuple[Debater, ...]) -> tuple[Debater, ...]:
    names = [d.name for d in debaters]
    if RESERVED & set(names) or len(set(names)) < len(names):
        raise ValueError(f"debaters need names of their own, and not {', '.join(sorted(RESERVED))}: {names}")
    return debaters


class DebaterSettings(EvidenceSettings):
    """Settings of debates whose debaters find their own evidence. The defaults are Tool-MAD's."""

    debaters: Annotated[tuple[Debater, ...], AfterValidator(_named_once)] = Field(
        (Debater(name="rag", retriever="chroma"), Debater(name="search", retriever="web")),
        min_length=2,
        max_length=8,
        description="Who debates: two or more, each with its own retriever or none.",
    )
    max_rounds: int = Field(3, ge=1, le=20, description="Most rounds (T).")
    query_formulation: bool = Field(True, description="Off: the claim itself is the query in every round.")

    def roles(self) -> set[str]:
        """Who may have a model of its own."""
        return {d.name for d in self.debaters} | RESERVED


def needs_of(settings: DebaterSettings, *roles: str, encoder: bool = False) -> Needs:
    """What the debaters use, and these further roles."""
    sources = [name for d in settings.debaters for name in (*sources_of(d.model_dump()), *d.fallback)]
    scholarly, how = any(resolve(name)[0] in SCHOLARLY for name in sources), settings.source_summaries
    if scholarly and how == "model":
        roles += ("source_summariser",)
    return Needs(
        sources=sources,
        summariser=how if scholarly and how not in ("model", "none") else None,
        roles={d.name: d.model for d in settings.debaters} | dict.fromkeys(roles),
        encoder=encoder,
    )


def next_round(state: DebateState, runtime: Runtime[Any]) -> list[Send] | str:
    """Every debater goes into the next round, with the others' last answers."""
    if state["error"]:
        return "close"
    last = answers_of(state["turns"])
    sends = []
    for debater in settings_of(runtime, DebaterSettings).debaters:
        own = next((t for t in last if t["agent"] == debater.name), None)
        opponents = [t for t in last if t["agent"] != debater.name]
        cited = cited_ids(opponents)
        turn = {"round": state["rounds"] + 1, "phase": "primary", "agent": debater.name, "step": "respond"}
        blank: dict[str, Any] = {"role": debater.name, "side": None, "query": None, "evidence_ids": [], "scores": {}}
        debate = {
            "claim": state["claim"],
            "task": state["task"],
            "debater": debater.model_dump(mode="json"),
            "opponents": opponents,
            "cited": [piece for piece in state["evidence"] if piece["id"] in cited],
            "previous_query": own.get("query") if own else None,
            "turns": [{**turn, **blank}],
            "depth": state["depth"],
        }
        sends.append(Send("debater", debate))
    return sends


def unscored_answers(state: DebateState) -> list[Send]:
    """Every answer without scores goes to be scored, with the evidence that it was written from."""
    known = {piece["id"]: piece for piece in state["evidence"]}
    return [
        Send(
            "score",
            {
                "claim": state["claim"],
                "task": state["task"],
                "metrics": state["metrics"],
                "turns": [turn],
                "evidence": [known[i] for i in turn["evidence_ids"]],
                "depth": state["depth"],
            },
        )
        for turn in state["turns"]
        if turn["step"] == "respond" and not turn["scores"]
    ]


def first_step(state: DebaterState, runtime: Runtime[Any]) -> Literal["formulate_query", "retrieve", "respond"]:
    """A debater without a retriever answers at once; without query formulation the claim is the query."""
    if not state["debater"]["retriever"]:
        return "respond"
    return "formulate_query" if settings_of(runtime, DebaterSettings).query_formulation else "retrieve"


def debater_graph(settings: type[DebaterSettings]) -> CompiledStateGraph[Any, Any, Any, Any]:
    """One debater's round: query, retrieval, answer."""
    debater = DebateGraph(settings, DebaterState, output_schema=StepUpdate)
    debater.add_node("formulate_query", query_node())
    debater.add_node("retrieve", retrieve_node())
    debater.add_node("respond", respond_node())
    debater.add_conditional_edges(START, first_step)
    debater.add_edge("formulate_query", "retrieve")
    debater.add_edge("retrieve", "respond")
    debater.add_edge("respond", END)
    return debater.compile(name="debater")
