"""A person in the loop: the moments at which a debate waits, shows its next step, and takes a person's reply.

The setting ``ask_person`` names the moments at which a debate waits. Each moment has its own node. These nodes call no
model, because LangGraph runs a node again from its start when the debate is resumed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Literal, NotRequired

from langgraph.config import get_config
from langgraph.constants import CONFIG_KEY_CHECKPOINTER
from langgraph.types import Send, interrupt
from moot.core.errors import UserError
from moot.nodes._records.entries import PERSON, Turn
from moot.nodes._runtime.graph import plain_router
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.settings import Moment, waits_for_person
from moot.nodes._runtime.state import DebaterState, DebateState, TrialState
from moot.nodes._runtime.trace import graph_run
from moot.nodes._runtime.tracing import set_prices
from moot.nodes._runtime.turns import Known, Said, Started, new_turn, tells
from moot.nodes._steps.person_replies import PersonEvidence, PersonReply, check_person_reply
from moot.nodes._texts.plans import plan_of
from moot.nodes._texts.verdict import verdict_turns
from moot.retrievers import Evidence
from moot.retrievers._evidence import active_evidence

State = DebateState | DebaterState | TrialState
Written = tuple[dict[str, Any], dict[str, Any]]
"""The fields that a reply adds to the person's turn, and the other state keys that it updates."""


class PersonAsked(Started):
    """The fields of every review by a person. ``about`` is the question to the person."""

    # In a review of one debater, ``number`` is the debater's position in the settings, from 1.
    number: int
    about: str


class QueriesReview(PersonAsked):
    """A person's review of queries."""

    step: Literal["review_queries"]
    proposed: dict[str, Any]
    queries: dict[str, str]


class PremisesReview(PersonAsked):
    """A person's review of premises."""

    step: Literal["review_premises"]
    proposed: dict[str, Any]
    premises: NotRequired[list[str] | None]


class EvidenceReview(PersonAsked):
    """A person's review of evidence."""

    step: Literal["review_evidence"]
    struck: list[str]
    added: list[str]


class Remark(PersonAsked):
    """A person's remark before another round."""

    step: Literal["review_remark"]
    remark: str | None


class VerdictReview(PersonAsked):
    """A person's review of a verdict."""

    step: Literal["review_verdict"]
    proposed: dict[str, Any]
    question: str | None


@tells(QueriesReview, PremisesReview, EvidenceReview, Remark, headed=False)
@tells(VerdictReview, headed=False, late=True)
def tell_person(turn: Turn, known: Known) -> Iterator[Said]:
    """A line for each change, remark or question of a person; if there are none, what the person accepts."""
    said = [("asks", f"for {name}: {query}") for name, query in turn.get("queries", {}).items()]
    said += [("premise", premise) for premise in turn.get("premises") or []]
    said += [(verb, "; ".join(known.titles(turn[changed]))) for verb, changed in CHANGES.items() if turn.get(changed)]
    said += [("remarks", turn["remark"])] if turn.get("remark") else []
    said += [("questions", f"the verdict: {turn['question']}")] if turn.get("question") else []
    for verb, text in said or [("accepts", turn["step"].removeprefix("review_"))]:
        yield Said("about", verb, text, kind="person")


CHANGES = {"strikes": "struck", "adds": "added"}
"""For each verb, the field with the evidence that a person struck or added."""


def check_resumable(settings: Any) -> None:
    """Refuses a debate that is to wait for a person (`ask_person`) in a graph without a checkpointer."""
    if not getattr(settings, "ask_person", ()) or get_config()["configurable"].get(CONFIG_KEY_CHECKPOINTER):
        return
    raise UserError(
        "`ask_person` needs a checkpointer, which stores the debate while it waits: compile the graph with one "
        "(`graph.builder.compile(checkpointer=InMemorySaver())`) and name a thread, or use `moot verify --ask`, or a "
        "thread of the server. If the debate runs in a node or a tool of another graph, compile that graph with one.",
        kind="no_checkpointer",
    )


def human_review_node(moment: Moment, *, phase: str | None = None, of_plan: bool = False) -> Node:
    """Lets a person review the next step, if the setting ``ask_person`` names the moment.

    The interrupt's value is ``{"kind", "about", "proposed"}``: the moment, the question to the person, and the
    proposal. After an invalid reply the debate waits again, and the value also has ``problem``. The replies true, null
    and ``{"accept": true}`` accept the proposal. The form of any other reply depends on the moment:

    - ``queries``: ``{"queries": {name: query}}``
    - ``premises``: ``{"premises": [...]}``
    - ``evidence``: ``{"strike": [ids], "add": [{"text": ...}]}``
    - ``remark``: ``{"remark": text}``
    - ``verdict``: ``{"question": text}``

    The review is recorded as a turn of the agent ``person``. If the setting names a moment, but the graph has no
    checkpointer, the debate fails. If the setting does not name this node's moment, the node does nothing, with one
    exception: pieces of evidence that a person struck earlier are struck again at the moment ``evidence`` if a search
    found them again.

    Reads: turns; debater and phase, if present; at the moment ``evidence``, also evidence; at the moment ``verdict``,
    also task, answer, raw_verdict, votes and rounds.

    Args:
        moment: the moment of the review.
        phase: the trial's phase, if the state does not have it.
        of_plan: whether the queries are those of a plan; then the node does nothing if there is no plan.
    """
    _, propose, apply = MOMENTS[moment]

    async def step(state: State, run: NodeContext) -> dict[str, Any]:
        again = strike_again_update(state) if moment == "evidence" else {}
        if not waits_for_person(run.settings, moment):
            return again
        check_resumable(run.settings)
        proposed = propose(state, {piece["id"] for piece in again.get("evidence", [])})
        turn = review_turn(state, moment, phase)
        about = question_to_person(state, moment, turn)
        reply = await valid_reply(moment, about, proposed)
        await set_prices(graph_run())
        fields, written = apply(state, reply, proposed)
        turns, evidence = written.get("turns", []), [*again.get("evidence", []), *written.get("evidence", [])]
        return {"turns": [*turns, turn | fields | {"about": about}]} | ({"evidence": evidence} if evidence else {})

    def idle(state: State, settings: Any) -> bool:
        if of_plan and plan_of(state["turns"]) is None:
            return True
        return not waits_for_person(settings, moment) and not (moment == "evidence" and strike_again_update(state))

    return Node(step, moment=moment, idle=idle)


async def valid_reply(moment: Moment, about: str, proposed: Mapping[str, Any]) -> PersonReply:
    """Asks a person for a reply until a reply is valid, and returns the valid reply."""
    value: dict[str, Any] = {"kind": moment, "about": about, "proposed": dict(proposed)}
    problem: dict[str, str] = {}
    while True:
        given = interrupt(value | problem)
        try:
            return await asyncio.to_thread(check_person_reply, moment, given, proposed)
        except UserError as error:
            problem = {"problem": error.detail}


def review_turn(state: State, moment: Moment, phase: str | None) -> Turn:
    """A person's turn in the last round of the phase, without the reply."""
    turns, step = state["turns"], f"review_{moment}"
    near = turns[-1:] if moment == "verdict" else turns[:1]  # the turns are in the order of phases; the last decides
    phase = phase or state.get("phase") or (near[0]["phase"] if near else "primary")  # type: ignore[assignment]
    round = max((turn["round"] for turn in turns if turn["phase"] == phase), default=0)
    same = [turn for turn in turns if (turn["step"], turn["round"], turn["phase"]) == (step, round, phase)]
    # Without a reviewed debater, the number counts the moment's reviews in the round.
    number = state.get("debater", {}).get("place") or len(same) + 1  # type: ignore[attr-defined]
    return new_turn(round, PERSON, step, number, phase=str(phase))


def question_to_person(state: State, moment: Moment, turn: Turn) -> str:
    """The question to a person, followed by the round, the phase of a trial and the debater, if there are any."""
    who = state.get("debater", {}).get("name")  # type: ignore[attr-defined]
    phase = turn["phase"] if turn["phase"] in ("primary", "switched") and "phase" in state else None
    parts = (f"round {turn['round']}" if turn["round"] else None, f"{phase} debate" if phase else None, who)
    where = ", ".join(filter(None, parts))
    question = MOMENTS[moment][0]
    return f"{question} ({where})" if where else question


# --- proposals, and the changes by a reply ----------------------------------------------------------------------------


def _propose_evidence(state: State, struck: set[str]) -> dict[str, Any]:
    shown = ("id", "title", "source", "url", "published", "text")
    pieces = [piece for piece in active_evidence(state["evidence"]) if piece["id"] not in struck]
    return {"evidence": [{key: piece[key] for key in shown if key in piece} for piece in pieces]}  # type: ignore[literal-required]


def _apply_evidence(state: State, reply: PersonReply, proposed: Mapping[str, Any]) -> Written:
    """Marks the pieces that the person strikes, which stay in the state unused; adds the person's texts as evidence."""
    asked = PersonEvidence.model_validate(reply.model_dump())
    struck: list[Evidence] = [{**p, "struck": True} for p in state["evidence"] if p["id"] in asked.strike]
    added = asked.pieces(max((turn["round"] for turn in state["turns"]), default=0))
    fields: dict[str, Any] = {"evidence_ids": [piece["id"] for piece in proposed["evidence"]]}
    fields |= {"struck": [piece["id"] for piece in struck], "added": [piece["id"] for piece in added]}
    return fields, {"evidence": [*struck, *added]}


def strike_again_update(state: State) -> dict[str, Any]:
    """A state update that marks pieces as struck if a person struck them earlier and a search found them again."""
    earlier = set(state.get("debater", {}).get("struck", ()))  # type: ignore[attr-defined]
    again: list[Evidence] = [{**piece, "struck": True} for piece in state["evidence"] if piece["id"] in earlier]
    return {"evidence": again} if again else {}


def _propose_queries(state: State, struck: set[str]) -> dict[str, Any]:
    """Proposes a debater's query or queries, those of a plan, or the two queries of a trial's negotiation."""
    turn = _query_turn(state)
    if several := turn.get("queries"):
        return {"queries": dict(zip(_numbered_names(turn), several, strict=True))}
    names = {"query": turn["agent"]} if turn["step"] != "stance_queries" else STANCES
    return {"queries": {name: turn[field] for field, name in names.items() if turn.get(field) is not None}}


def _numbered_names(turn: Turn) -> list[str]:
    """A name for each of a turn's several queries."""
    return [f"{turn['agent']}-{number}" for number, _ in enumerate(turn["queries"], 1)]


def _apply_queries(state: State, reply: PersonReply, proposed: Mapping[str, Any]) -> Written:
    turn, queries = _query_turn(state), reply.model_dump()["queries"]
    if turn.get("queries"):
        several = [queries.get(name, old) for name, old in zip(_numbered_names(turn), turn["queries"], strict=True)]
        changed = {"queries": several} | ({} if turn["step"] == "plan" else {"query": several[0]})
        return {"proposed": dict(proposed), "queries": queries}, {"turns": [{**turn, **changed}] if queries else []}
    fields = {name: field for field, name in STANCES.items()} if turn["step"] == "stance_queries" else {}
    changed = {fields.get(name, "query"): query for name, query in queries.items()}
    return {"proposed": dict(proposed), "queries": queries}, {"turns": [{**turn, **changed}] if changed else []}


STANCES = {"supporting_query": "plaintiff", "challenging_query": "defense"}
"""The query fields of a negotiator's turn, each with its side."""


def _query_turn(state: State) -> Turn:
    """The turn that contains the next queries."""
    turns = state["turns"]
    return next((turn for turn in turns if turn["step"] in ("stance_queries", "plan")), turns[0])


def _propose_premises(state: State, struck: set[str]) -> dict[str, Any]:
    return {"premises": _premises_turn(state).get("premises") or []}


def _apply_premises(state: State, reply: PersonReply, proposed: Mapping[str, Any]) -> Written:
    premises = reply.model_dump()["premises"]
    if premises is None:
        return {"proposed": dict(proposed)}, {}
    return {"proposed": dict(proposed), "premises": premises}, {
        "turns": [{**_premises_turn(state), "premises": premises}]
    }


def _premises_turn(state: State) -> Turn:
    return next(turn for turn in state["turns"] if turn["step"] == "premises")


def _propose_answers(state: State, struck: set[str]) -> dict[str, Any]:
    """The answers of the last round, for the person who may make a remark before the next round."""
    last = max((turn["round"] for turn in state["turns"]), default=0)
    answers = [
        (t["agent"], t.get("answer"), t.get("rationale") or t.get("argument"))
        for t in state["turns"]
        if _is_answer_in(t, last)
    ]
    return {"answers": [{"agent": agent, "answer": answer, "reasons": reasons} for agent, answer, reasons in answers]}


def _is_answer_in(turn: Turn, round: int) -> bool:
    return turn["round"] == round and turn["step"] in ("respond", "argue")


def _apply_remark(state: State, reply: PersonReply, proposed: Mapping[str, Any]) -> Written:
    return {"remark": reply.model_dump()["remark"]}, {}


def _propose_verdict(state: Any, struck: set[str]) -> dict[str, Any]:
    reasons = [{"agent": t["agent"], "reasons": t.get("rationale") or t.get("reason")} for t in verdict_turns(state)]
    return {"answer": state["answer"], "verdict": state["raw_verdict"], "reasons": reasons}


def _apply_verdict(state: State, reply: PersonReply, proposed: Mapping[str, Any]) -> Written:
    return {"proposed": dict(proposed), "question": reply.model_dump()["question"]}, {}


Propose = Callable[[Any, set[str]], dict[str, Any]]
Apply = Callable[[Any, PersonReply, Mapping[str, Any]], Written]
MOMENTS: dict[Moment, tuple[str, Propose, Apply]] = {
    "queries": (
        "The next queries. Accept them, or replace them.",
        _propose_queries,
        _apply_queries,
    ),
    "premises": (
        "The premises of the claim; each guides a search for evidence. Accept them, or list other premises.",
        _propose_premises,
        _apply_premises,
    ),
    "evidence": (
        "The evidence found. Accept it, strike pieces, or add texts.",
        _propose_evidence,
        _apply_evidence,
    ),
    "remark": (
        "Another round starts. Accept, or make a remark that all debaters must answer.",
        _propose_answers,
        _apply_remark,
    ),
    "verdict": (
        "The draft of the verdict. Accept it, or ask a question: the verdict is then decided again.",
        _propose_verdict,
        _apply_verdict,
    ),
}
"""For each moment, the question to the person, and the functions that make the proposal and that apply the reply."""


# --- edges ------------------------------------------------------------------------------------------------------------


def remark_first(
    edge: Callable[..., Any], to: str = "human_remark", rounds: Collection[str] = ()
) -> Callable[[Any, Any], Any]:
    """Wraps a router, so that a person may make a remark before another round.

    If the setting ``ask_person`` names the moment ``remark``, the new router returns ``to`` before another round. In
    all other cases it returns the same as ``edge``.

    Args:
        edge: a router, which returns `Send`s for the next speakers, or a node's name.
        to: the name of a `human_review_node` of the moment ``remark``.
        rounds: the nodes that begin a round, if the router may return a node's name instead of `Send`s.

    Raises:
        ValueError: ``edge`` is not a plain function.
    """
    ask = plain_router(edge)

    def route(state: Any, settings: Any) -> Any:
        onward = ask(state, settings)
        return to if waits_for_person(settings, "remark") and begins_round(onward, state["turns"], rounds) else onward

    route.__name__ = getattr(edge, "__name__", "remark_first")
    return route


def begins_round(onward: Any, turns: list[Turn], rounds: Collection[str] = ()) -> bool:
    """Whether a router's result has a `Send` for a round later than all turns, or names a node in ``rounds``."""
    last = max((turn["round"] for turn in turns), default=0)
    return any(
        to.arg["turns"][0]["round"] > last if isinstance(to, Send) else to in rounds
        for to in ([onward] if isinstance(onward, Send | str) else onward)
    )


def question_or(to: str, end: str = "close") -> Callable[[DebateState], str]:
    """A router after a person's review of the verdict: a question leads to ``to``, an accepted verdict to ``end``."""

    def after_review(state: DebateState) -> str:
        reviews = [turn for turn in state["turns"] if turn["step"] == "review_verdict"]
        asked = bool(reviews) and reviews[-1].get("question") is not None
        return to if asked and not state["error"] else end

    return after_review
