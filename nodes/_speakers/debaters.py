"""Debaters that find their own evidence: their settings, their subgraph, and the start of rounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Send
from moot.nodes._models.chat_models import ModelChoice
from moot.nodes._records.entries import RoundRecord, Task, Turn
from moot.nodes._records.pieces import Pieces
from moot.nodes._runtime.ceilings import no_round_left
from moot.nodes._runtime.graph import DebateGraph
from moot.nodes._runtime.opening import Needs
from moot.nodes._runtime.settings import (
    PLANNER,
    SOURCES,
    EvidenceSettings,
    InWords,
    Name,
    NamedModel,
    PlanSettings,
    Source,
    ask_person,
    by_preset,
)
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
from moot.nodes._texts.given import inherited_searches
from moot.nodes._texts.plans import planned_search, searches_of_round, searches_so_far
from moot.nodes._texts.show import cited_ids, show_why, show_why_open
from moot.nodes._texts.task import leaves_open
from moot.retrievers import Evidence
from moot.retrievers._evidence import active_evidence, given_evidence
from pydantic import AfterValidator, ConfigDict, Field, model_validator


class Debater(InWords):
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


RESERVED = {"judge", PLANNER} | SHARED_ROLES
"""Roles whose names a debater may not have."""


def _check_names(debaters: tuple[Debater, ...]) -> tuple[Debater, ...]:
    check_unique_names((d.name for d in debaters), RESERVED)
    return debaters


class DebaterSettings(PlanSettings):
    """Settings of debates whose debaters find their own evidence. The defaults are Tool-MAD's."""

    debaters: Annotated[tuple[Debater, ...], AfterValidator(_check_names)] = Field(
        default=(Debater(name="rag", retriever="chroma"), Debater(name="search", retriever="web")),
        min_length=2,
        max_length=8,
        description="The debaters: two or more, each with its own retriever or none.",
    )
    max_rounds: int = Field(default=3, ge=1, le=20, description="Maximum number of rounds.")
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
    own_answer: bool = by_preset(
        paper=False,
        practical=True,
        description="On: from the second round on, a debater also reads its own last answer. Off, as in Tool-MAD's "
        "papers: only the others'.",
    )
    query_reason: bool = by_preset(
        paper=False,
        practical=True,
        description="On: a query for another round is written with the reason for the round: the last answers that "
        "differ, or the scores that are too low. Off, as in Tool-MAD's papers: with the others' answers and the "
        "debater's last query alone.",
    )
    passages_travel: bool = by_preset(
        paper=False,
        practical=True,
        description="On: from the second round on, a debater is also shown the passages from which any debater quoted "
        "word for word in the last round, at most `k` of them, the most quoted first, each marked with who quoted it. "
        "It may quote from them, and they count as its evidence.",
    )
    open_continues: bool = by_preset(
        paper=False,
        practical=True,
        description="On: if all debaters answer that the evidence does not settle the claim, another round searches "
        "on, until a round finds nothing new or the rounds are used up.",
    )
    ask_person: tuple[Literal["queries", "evidence", "remark", "verdict"], ...] = ask_person()

    def roles(self) -> set[str]:
        """The roles that may have a model of their own."""
        return {d.name for d in self.debaters} | RESERVED

    def searches_in(self, round: int) -> bool:
        """Whether debaters search in a round."""
        searching = {"every_round": True, "once": round <= 1, "later": round > 1, "none": False}[self.retrieval]
        return searching and any(debater.retriever for debater in self.debaters)

    @property
    def searches(self) -> bool:
        """Whether the debate begins with a search."""
        return self.searches_in(1)

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
    last, round = answers_of(state["turns"]), state["rounds"] + 1
    why = round_reason(state, settings)
    asked = [*inherited_searches(), *searches_so_far(state["turns"], state["evidence"])] if settings.plan else []
    quoted = quoted_passages(last, state["evidence"], settings.k) if settings.passages_travel else {}
    sends: list[Send] = []
    for debater in settings.debaters:
        own = next((t for t in last if t["agent"] == debater.name), None)
        opponents = [t for t in last if t["agent"] != debater.name]
        turn = new_turn(round, debater.name)
        if round == 1 and debater.retriever and settings.searches:
            turn |= planned_search(state["claim"], state["turns"])
        more: dict[str, Any] = kept_evidence_input(state, own, settings)
        if quoted:
            more["evidence"], turn["quoted_by"] = with_passages(state["evidence"], more.get("evidence"), quoted)
        query = own.get("query") if own else None
        more |= {"why": why, "previous_query": query, "asked": asked}
        read = own if settings.own_answer else None
        speaker = speaker_declaration(debater) | {"place": len(sends) + 1}
        sends.append(send_turn("debater", state, speaker, turn, opponents=opponents, own=read, **more))
    return sends


def quoted_passages(answers: Iterable[Turn], evidence: Iterable[Evidence], most: int) -> dict[str, list[str]]:
    """The passages that answers quote word for word, each with who quoted it: the most quoted first, at most ``most``.

    Of passages that equally many debaters quote, the one with more quotes is first, then the one quoted first. If rag
    quotes a twice and b, and search quotes c and b, the order is b (two debaters), a (two quotes), c.
    """
    usable = {piece["id"] for piece in active_evidence(evidence)}
    by: dict[str, list[str]] = {}
    for turn in answers:
        for citation in turn.get("citations") or []:
            if citation["verified"] and citation["evidence_id"] in usable:
                by.setdefault(citation["evidence_id"], []).append(turn["agent"])
    best = sorted(by, key=lambda id: (-len(set(by[id])), -len(by[id])))
    return {id: list(dict.fromkeys(by[id])) for id in best[:most]}


def with_passages(
    evidence: Sequence[Evidence], kept: Sequence[Evidence] | None, quoted: Mapping[str, list[str]]
) -> tuple[list[Evidence], dict[str, list[str]]]:
    """What a debater is shown before its search: what it keeps, then the quoted passages, and who quoted which."""
    base = given_evidence(evidence) if kept is None else list(kept)
    known, has = Pieces(evidence), {piece["id"] for piece in base}
    return base + [known[id] for id in quoted if id not in has], dict(quoted)


def kept_evidence_input(state: DebateState, own: Turn | None, settings: DebaterSettings) -> dict[str, Any]:
    """The arguments of `send_turn` for the evidence that a debater keeps; empty if it keeps only given texts."""
    known = Pieces(state["evidence"])
    if own and settings.retrieval == "once":
        # Passages that others quoted are shown for one round.
        answers = (t for t in state["turns"] if t["step"] == "respond" and t["agent"] == own["agent"])
        searched = next(answers) if settings.passages_travel else own
        return {"evidence": [known[i] for i in searched["evidence_ids"]], "retrieval": own.get("retrieval")}
    if own and settings.keep_evidence:
        cited = cited_ids([own])
        return {"evidence": given_evidence(state["evidence"]) + [known[i] for i in known if i in cited]}
    return {}


def round_reason(state: DebateState, settings: DebaterSettings) -> str:
    """The reason for the next round, as a text for prompts of debaters that search; empty before the first round.

    Without the setting ``query_reason``, only an open agreement that `searches_on` is a reason.
    """
    agreed = agreed_answer(state["votes"])
    if settings.open_continues and leaves_open(state["task"], agreed):
        return show_why_open(state["votes"], state["task"]["subject"])
    if not (state["votes"] and settings.query_reason):
        return ""
    if agreed is None:
        return show_why(state["votes"], None)
    answers = answers_of(state["turns"])
    low = low_scores(answers, settings, state["task"])
    unfaithful = {agent for agent, name, *_ in low if name == "faithfulness"}
    return show_why(state["votes"], low, unsupported_statements(t for t in answers if t["agent"] in unfaithful))


def searches_on(state: DebateState, settings: DebaterSettings) -> bool:
    """Whether another round searches on although all debaters agree: they agree that the evidence settles nothing.

    This is so with the setting ``open_continues`` if the last round's searches found something new, or if the debate
    has not searched yet. The debaters must search in the next round, and there must be a next round.

    Args:
        state: the debate's state after `compare_node`.
        settings: the debate's settings.
    """
    if no_round_left(state, settings) or not settings.searches_in(state["rounds"] + 1):
        return False
    record = state["round_log"][-1]
    return "searches" in record and has_found_new(record)


def has_found_new(record: RoundRecord) -> bool:
    """Whether the searches of a round (with ``searches`` in its record) found something new, or none was made yet."""
    return any(one["new"] for one in searches_of_round(record)) or not record["searches"]


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
    [turn] = state["turns"]
    if turn["query"] is not None:
        return "retrieve"
    round = turn["round"]
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
