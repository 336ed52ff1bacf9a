"""Progressive retrieval in a trial (PROClaim; S2, section 2.4, appendix I): a gap, a query, what it finds, how new."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langgraph.types import Send
from moot.core.errors import MootError
from moot.nodes.models.speaker import Speaker, is_alone
from moot.nodes.runtime.node import Node, Run
from moot.nodes.runtime.state import Task, TrialState, Turn
from moot.nodes.steps.score import average, mean_cosine
from moot.nodes.texts.replies import QueryReply
from moot.nodes.trial.counsel import (
    RECENT,
    SIDES,
    SO_FAR,
    Side,
    about,
    case,
    counsel_for,
    given,
    kept_out,
    on_record,
    said_in,
    show_statements,
    side_of,
    statements,
    this_round,
    to_sides,
)
from moot.nodes.trial.negotiation import searcher
from moot.nodes.trial.novelty import is_new, novelties, redundant_share, relevance_gain, retrieval_end
from moot.nodes.trial.replies import GapReply
from moot.nodes.trial.step import Step, explained
from moot.prompts import as_data
from moot.retrievers import Encoder, Evidence, vectors_of

# --- steps ------------------------------------------------------------------------------------------------------------


GAP = Step("proclaim/gap", GapReply)
QUERY = Step("proclaim/query", QueryReply, "retrieval")
REFINE = Step("proclaim/refine", QueryReply, "court")


@explained()
async def state_gap(
    claim: str,
    task: Task,
    premises: Sequence[str],
    exhibits: Sequence[Evidence],
    said: Sequence[Turn],
    model: Speaker | BaseChatModel,
    *,
    side: str,
    prompt: str = GAP.prompt,
) -> GapReply:
    """The one piece of evidence that a side misses most (S2, appendix I, step 1)."""
    values = case(claim, task, premises, exhibits) | {"statements": show_statements(said, SO_FAR)}
    return await GAP.ask(model, values, prompt, side=side)


@explained(request="the gap that the side stated, and what its reflection found missing.")
async def query_for(
    claim: str,
    task: Task,
    said: Sequence[Turn],
    request: Sequence[str],
    model: Speaker | BaseChatModel,
    *,
    prompt: str = QUERY.prompt,
) -> QueryReply:
    """A query from the claim, what was said last and what a side requests (S2, appendix I, step 2)."""
    wanted = as_data("request", "\n".join(request)) if request else "(whatever helps to decide)"
    values = case(claim, task) | {"statements": show_statements(said, SO_FAR), "request": wanted}
    return await QUERY.ask(model, values, prompt)


@explained(query="the side's query.")
async def refine_query(
    claim: str,
    task: Task,
    premises: Sequence[str],
    said: Sequence[Turn],
    query: str,
    model: Speaker | BaseChatModel,
    *,
    prompt: str = REFINE.prompt,
) -> QueryReply:
    """A side's query as the court has it searched (S2, appendix I, step 3)."""
    shown = {"statements": show_statements(said, SO_FAR), "query": as_data("query", query)}
    return await REFINE.ask(model, case(claim, task, premises) | shown, prompt)


# --- nodes ------------------------------------------------------------------------------------------------------------


def gap_node() -> Node:
    """Writes what a side misses into its turn. Reads: claim, task, premises, evidence, heard, turns."""
    return GAP.node(
        lambda state, speaker, settings: state_gap(
            *about(state), state["evidence"], state["heard"], speaker, side=side_of(state)
        ),
        shown=given,
    )


def discovery_query_node() -> Node:
    """Writes a query for what a side misses into its turn. Reads: claim, task, heard, turns.

    Without a usable query the claim takes its place, and a warning says so.
    """

    async def step(state: TrialState, run: Run) -> dict[str, Any]:
        turn, speaker = state["turns"][0], await run.speaker(QUERY.role)
        wanted = [text for text in (turn.get("gap"), state["debater"].get("need")) if text]
        try:
            said = await query_for(state["claim"], state["task"], state["heard"], wanted, speaker)
        except MootError as error:
            if not is_alone(error):
                raise
            run.ledger.warn("query_not_formulated", f"{error.detail} The claim took its place.")
            return {"turns": [{**turn, "formulated": None, "query": state["claim"]}]}
        return {"turns": [{**turn, "formulated": said.query, "query": said.query}]}

    return Node(step, prompts=(QUERY.prompt,))


def refine_node() -> Node:
    """Writes the query as the court refines it into a side's turn; without a usable one, it stays as it was.

    Reads: claim, task, heard, turns.
    """

    async def step(state: TrialState, run: Run) -> dict[str, Any]:
        turn, speaker = state["turns"][0], await run.speaker(REFINE.role)
        try:
            said = await refine_query(*about(state), state["heard"], str(turn["query"]), speaker)
        except MootError as error:
            if not is_alone(error):
                raise
            run.ledger.warn("query_not_refined", f"{error.detail} The query was searched as it was.")
            return {}
        return {"turns": [{**turn, "query": said.query}]}

    return Node(step, prompts=(REFINE.prompt,))


def admit_node() -> Node:
    """Lets what both sides retrieved in a round join the record where it is new, and ends a side's retrieval.

    Reads: rounds, turns, evidence. The plaintiff's candidates come first. What was kept out before the debate stays
    out, however new it is.
    """

    async def step(state: TrialState, run: Run) -> dict[str, Any]:
        turns = sorted(said_in(state["turns"], this_round(state), "discover"), key=_side)
        known = {piece["id"]: piece for piece in state["evidence"]}
        found = [known[i] for turn in turns for i in turn["evidence_ids"]]
        if not found:
            return {"turns": [_ended(_searched(turn), state["turns"], run.settings) for turn in turns]}
        encoder, least = await run.encoder(), run.settings.novelty_threshold
        vectors = await vectors_of([*found, *on_record(state["evidence"])], encoder)
        barred = [place for place, piece in enumerate(found) if kept_out(piece)]
        new = novelties(vectors[: len(found)], vectors[len(found) :], least, barred)
        written: list[Turn] = []
        evidence: list[Evidence] = []
        for turn in turns:
            pieces = [known[i] for i in turn["evidence_ids"]]
            mine, new = new[: len(pieces)], new[len(pieces) :]
            joins = [is_new(n, least) and not kept_out(piece) for piece, n in zip(pieces, mine, strict=True)]
            evidence += [_met(*met, turn) for met in zip(pieces, mine, joins, strict=True)]
            scores = {"novelty": average(mine), "redundancy": redundant_share(mine, run.settings.redundant_similarity)}
            scores |= await _relevance(turn, pieces, run, encoder)
            joined = [piece["id"] for piece, joins_in in zip(pieces, joins, strict=True) if joins_in]
            written.append(_ended({**turn, "joined": joined, "scores": scores}, state["turns"], run.settings))
        return {"turns": written, "evidence": evidence}

    return Node(step)


def _searched(turn: Turn) -> Turn:
    return {**turn, "joined": [], "scores": {"novelty": None, "redundancy": None}}


def _side(turn: Turn) -> int:
    return SIDES.index(turn["side"])


def _met(piece: Evidence, novelty: float, joins: bool, turn: Turn) -> Evidence:
    """The piece with how new it was when a side found it, and what became of it where nothing had yet."""
    asked = {"agent": turn["agent"], "round": turn["round"], "query": turn["query"]}
    found = [r for r in piece["retrievals"] if asked.items() <= r.items()]
    met: Evidence = {**piece, "retrievals": [{**r, "novelty": novelty} for r in found]}
    if "status" not in piece or joins:
        met |= {"pool": "discovery", "status": "discovered" if joins else "discarded"}
    return met


async def _relevance(turn: Turn, pieces: Sequence[Evidence], run: Run, encoder: Encoder) -> dict[str, float | None]:
    """The mean cosine of a side's query with what it found, where gains in it count."""
    if run.settings.relevance_gain is None:
        return {}
    (query,) = await encoder.embed([str(turn["query"])])
    return {"relevance": mean_cosine(query, await vectors_of(pieces, encoder))}


def _ended(turn: Turn, turns: Sequence[Turn], settings: Any) -> Turn:
    """The turn of a side's retrieval, which says why that is its last one, where it is."""
    made = [t for t in turns if t["step"] == "discover" and t["agent"] == turn["agent"] and t["round"] < turn["round"]]
    gain = relevance_gain([t["scores"].get("relevance") for t in [*made, turn]])
    end = retrieval_end(
        turn["scores"]["redundancy"],
        len(made) + 1,
        gain,
        most_redundant=settings.redundant_share,
        most_retrievals=settings.max_retrievals,
        least_gain=settings.relevance_gain,
    )
    return {**turn, "ended": end}


# --- edges ------------------------------------------------------------------------------------------------------------


def still_searching(state: TrialState) -> list[Side]:
    """The sides whose progressive retrieval has not ended.

    Args:
        state: the debate in court.
    """
    over = {turn["side"] for turn in state["turns"] if turn.get("ended")}
    return [side for side in SIDES if side not in over]


def to_discovery(to: str, state: TrialState, settings: Any) -> list[Send]:
    """Every side that still searches looks for what it misses.

    Args:
        to: the node.
        state: the debate in court.
        settings: with the sources.
    """
    said, record = statements(state["turns"], RECENT), on_record(state["evidence"])
    return to_sides(
        to,
        state,
        "discover",
        still_searching(state),
        speaker=lambda side: searcher(counsel_for(side, state["phase"]), settings) | {"need": need(state, side)},
        evidence=lambda side: record,
        heard=lambda side: said,
    )


def need(state: TrialState, side: Side) -> str | None:
    """What a side's last reflection found missing."""
    reflections = said_in(state["turns"], this_round(state) - 1, "reflect")
    return next((turn["discovery_need"] for turn in reflections if turn["side"] == side), None)
