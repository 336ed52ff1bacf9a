"""The negotiation of evidence before the debates of a trial (PROClaim, sections 2.1 to 2.3)."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langgraph.types import Send
from moot.core.errors import ReplyError, WorldError
from moot.nodes._models.speaker import Speaker
from moot.nodes._records.entries import Task, Turn
from moot.nodes._runtime.budget import stopped_by_ceiling
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.state import TrialState
from moot.nodes._runtime.turns import new_turn
from moot.nodes._steps.compare import common_outcome
from moot.nodes._texts.show import show_evidence
from moot.nodes._trial.admissibility import evidence_weight, ruling
from moot.nodes._trial.counsel import (
    OPPOSITE,
    SIDES,
    common_values,
    exhibits_of,
    premises_of,
    send_to_speaker,
    side_of,
    trial_subject,
    turn_starter,
    turns_in_round,
)
from moot.nodes._trial.replies import AdmissibilityReply, ChallengesReply, PremisesReply, StanceQueriesReply
from moot.nodes._trial.step import Step, with_parameters
from moot.prompts import as_data
from moot.retrievers import Evidence
from moot.retrievers._evidence import GIVEN, active_evidence, given_evidence

# --- steps ------------------------------------------------------------------------------------------------------------


PREMISES = Step("proclaim/premises", PremisesReply, "miner")
QUERIES = Step("proclaim/stance_queries", StanceQueriesReply, "negotiator")
CHALLENGE = Step("proclaim/challenge", ChallengesReply)
WEIGH = Step("proclaim/weigh", AdmissibilityReply, "arbiter")
ONE_CHALLENGE = "A challenge to this evidence. Check whether it is right, and weigh the evidence accordingly:"
SEVERAL_CHALLENGES = (
    "Challenges to this evidence. Check whether each of them is right, and weigh the evidence accordingly:"
)


@with_parameters()
async def mine_premises(
    claim: str, task: Task, model: Speaker | BaseChatModel, *, prompt: str = PREMISES.prompt
) -> PremisesReply:
    """The premises of a claim, each of which can be checked alone (PROClaim, section 2.1)."""
    return await PREMISES.ask(model, common_values(claim, task), prompt)


@with_parameters()
async def stance_queries(
    claim: str, task: Task, model: Speaker | BaseChatModel, *, prompt: str = QUERIES.prompt
) -> StanceQueriesReply:
    """A query for evidence that supports a claim, and one for evidence that challenges it (PROClaim, section 2.3)."""
    return await QUERIES.ask(model, common_values(claim, task), prompt)


@with_parameters(evidence="the evidence that the other side found or that was given with the claim.")
async def challenge(
    claim: str,
    task: Task,
    premises: Sequence[str],
    evidence: Sequence[Evidence],
    model: Speaker | BaseChatModel,
    *,
    side: str,
    prompt: str = CHALLENGE.prompt,
) -> ChallengesReply:
    """One side's challenges to evidence that it did not find itself (PROClaim, section 2.3)."""
    ids = [piece["id"] for piece in evidence]
    return await CHALLENGE.ask(
        model, common_values(claim, task, premises, evidence), prompt, side=side, evidence_ids=ids
    )


@with_parameters(piece="the piece of evidence.", challenges="the reasons of the challenges to this piece.")
async def weigh_evidence(
    claim: str,
    task: Task,
    premises: Sequence[str],
    piece: Evidence,
    model: Speaker | BaseChatModel,
    *,
    challenges: Sequence[str] = (),
    prompt: str = WEIGH.prompt,
) -> AdmissibilityReply:
    """The relevance and credibility of one piece of evidence, each from 0 to 1 (PROClaim, section 2.3)."""
    against = "\n".join(as_data("challenge", reason) for reason in challenges)
    shown = {
        "evidence": show_evidence([piece]),
        "challenges": f"{SEVERAL_CHALLENGES if len(challenges) > 1 else ONE_CHALLENGE}\n{against}" if against else "",
    }
    return await WEIGH.ask(model, common_values(claim, task, premises) | shown, prompt)


# --- nodes ------------------------------------------------------------------------------------------------------------


def premises_node() -> Node:
    """Adds the miner's turn with the premises. Reads: claim, task and, if present, debater, rounds."""
    return PREMISES.node(
        lambda state, speaker, settings: mine_premises(state["claim"], state["task"], speaker),
        turn_starter(PREMISES.role, "premises", "negotiation"),
    )


def stance_queries_node() -> Node:
    """Adds the negotiator's turn with a query for each side. Reads: claim, task and, if present, debater, rounds."""
    return QUERIES.node(
        lambda state, speaker, settings: stance_queries(state["claim"], state["task"], speaker),
        turn_starter(QUERIES.role, "stance_queries", "negotiation"),
    )


def disclose_node() -> Node:
    """Marks each given or found piece of evidence with the first pool that contains it, and with the status ``seed``.

    Reads: turns, evidence. In a trial with sources, there is a warning if there are more premises than `max_premises`.
    """

    async def step(state: TrialState, run: NodeContext) -> dict[str, Any]:
        pools = {piece["id"]: GIVEN for piece in given_evidence(state["evidence"])}
        for turn in state["turns"]:
            for id in turn.get("evidence_ids", []) if "pool" in turn else ():
                pools.setdefault(id, turn["pool"])
        pieces: list[Evidence] = [
            {**piece, "pool": pools[piece["id"]], "status": "seed"}
            for piece in state["evidence"]
            if piece["id"] in pools
        ]
        premises = premises_of(state["turns"])
        if run.settings.sources and (over := len(premises) - run.settings.max_premises) > 0:
            run.ledger.warn(
                "premises_not_searched", f"No search for {over} of {len(premises)} premises: `max_premises` is reached."
            )
        return {"evidence": pieces}

    return Node(step)


def challenge_node() -> Node:
    """Writes a counsel's challenges into the counsel's turn.

    They challenge evidence that the other side found, or that was given with the claim. Reads: claim, task, evidence,
    turns and, if present, premises and debater.
    """
    return CHALLENGE.node(
        lambda state, speaker, settings: challenge(
            *trial_subject(state), state["evidence"], speaker, side=side_of(state)
        ),
        shown=exhibits_of,
    )


def weigh_exhibit_node() -> Node:
    """Writes the relevance, credibility and weight of one piece of evidence into the arbiter's turn.

    Reads: claim, task, evidence, heard, turns and, if present, premises and debater.
    """

    def ask(state: TrialState, speaker: Speaker, settings: Any) -> Awaitable[AdmissibilityReply]:
        (piece,) = state["evidence"]
        return weigh_evidence(
            *trial_subject(state), piece, speaker, challenges=challenges_to(piece["id"], state["heard"])
        )

    return WEIGH.node(
        ask, shown=exhibits_of, scores=lambda reply: {"weight": evidence_weight(reply.relevance, reply.credibility)}
    )


def rule_node() -> Node:
    """Rules on every piece of evidence with a weight; a piece without a weight is not admitted, with a warning.

    Reads: turns, evidence. There is also a warning if no piece is admitted. If there is evidence, but no piece could be
    weighed, the trial fails, unless a ceiling prevented a call.
    """

    async def step(state: TrialState, run: NodeContext) -> dict[str, Any]:
        known = {piece["id"]: piece for piece in state["evidence"]}
        weighed = [turn for turn in state["turns"] if turn["step"] == "weigh"]
        if weighed and not any(turn["scores"] or stopped_by_ceiling(turn) for turn in weighed):
            raise nothing_weighed_error(weighed)
        ruled: list[Evidence] = []
        for turn in weighed:
            (exhibit,) = turn["evidence_ids"]
            if (weight := turn["scores"].get("weight")) is None:
                run.ledger.warn("not_weighed", f"{exhibit} could not be weighed, so it is not admitted.")
                continue
            found = ruling(weight, admitted=run.settings.admitted_above, disputed=run.settings.disputed_above)
            ruled.append({**known[exhibit], **_ratings(turn), "weight": weight, "status": found})
        if not any(piece["status"] == "admitted" for piece in ruled):
            run.ledger.warn("nothing_admitted", "No evidence was admitted: the debates start without any exhibit.")
        return {"evidence": ruled}

    return Node(step)


def nothing_weighed_error(turns: Sequence[Turn]) -> WorldError:
    """The error that ends a trial if no evidence could be weighed."""
    if all(turn.get("outcome") == "failed" for turn in turns):
        detail = "The arbiter could not be reached for any piece of evidence. See the warnings for the reasons."
        return WorldError(detail, kind="nothing_weighed", retryable=True)
    detail = "The arbiter gave no usable reply on any piece of evidence. Try another model in `models.arbiter`."
    return ReplyError(detail, common_outcome(turns))


def _ratings(turn: Turn) -> Any:
    return {"relevance": turn["relevance"], "credibility": turn["credibility"]}


# --- edges ------------------------------------------------------------------------------------------------------------


def to_seed_search(to: str, state: TrialState, settings: Any) -> Send:
    """Builds the `Send` that starts the first search, for the claim itself, with `seed_k` results from each source.

    Args:
        to: the node.
        state: the state of the negotiation.
        settings: the trial's settings.
    """
    turn: Turn = {**new_turn(0, "retrieval", "retrieve_seed", phase="negotiation"), "pool": "seed"}
    speaker = searcher("retrieval", settings) | {"k": settings.seed_k}
    return send_to_speaker(to, state, speaker, turn, found=state["evidence"])


def to_pool_searches(to: str, state: TrialState, settings: Any) -> list[Send]:
    """Builds the `Send`s of two kinds of searches: for the first `max_premises` premises, and with each side's query.

    A side without a query does not search.

    Args:
        to: the node.
        state: the state of the negotiation.
        settings: the trial's settings.
    """
    sends = []
    for number, premise in enumerate(premises_of(state["turns"])[: settings.max_premises], 1):
        turn = new_turn(0, "retrieval", "retrieve_premise", number, phase="negotiation")
        sends.append(
            send_to_speaker(to, state, searcher("retrieval", settings), {**turn, "query": premise, "pool": "premises"})
        )
    (queries,) = turns_in_round(state["turns"], 0, "stance_queries")
    for side, query in zip(SIDES, (queries["supporting_query"], queries["challenging_query"]), strict=True):
        if query is not None:
            turn = new_turn(0, side, "retrieve", phase="negotiation", side=side)
            sends.append(send_to_speaker(to, state, searcher(side, settings), {**turn, "query": query, "pool": side}))
    return sends


def searcher(name: str, settings: Any) -> dict[str, Any]:
    """The declaration of a speaker that searches the trial's sources."""
    return {"name": name, "retriever": list(settings.sources), "fallback": list(settings.fallback)}


def to_challengers(to: str, state: TrialState) -> list[Send]:
    """Builds the `Send`s that make each side challenge the evidence that the other side found, and the given texts.

    There is no `Send` for a side that has nothing to challenge.

    Args:
        to: the node.
        state: the state of the negotiation.
    """
    sends = []
    for side in SIDES:
        theirs = {i for turn in state["turns"] if turn.get("pool") == OPPOSITE[side] for i in turn["evidence_ids"]}
        theirs |= {piece["id"] for piece in given_evidence(state["evidence"])}
        turn = new_turn(0, side, "challenge", phase="negotiation", side=side)
        evidence = [piece for piece in active_evidence(state["evidence"]) if piece["id"] in theirs]
        if evidence:
            sends.append(send_to_speaker(to, state, {"name": side}, turn, evidence=evidence))
    return sends


def to_arbiter(to: str, state: TrialState) -> list[Send]:
    """Builds the `Send`s that make the arbiter weigh evidence, each with one piece and all turns with challenges.

    Args:
        to: the node.
        state: the state of the negotiation.
    """
    heard = [turn for turn in state["turns"] if turn["step"] == "challenge"]
    return [
        send_to_speaker(
            to,
            state,
            {"name": "arbiter"},
            new_turn(0, "arbiter", "weigh", number, phase="negotiation"),
            evidence=[piece],
            heard=heard,
        )
        for number, piece in enumerate(active_evidence(state["evidence"]), 1)
    ]


def challenges_to(evidence_id: str, turns: Sequence[Turn]) -> list[str]:
    """The reasons of the challenges to a piece of evidence, by sides that were shown this piece."""
    challenges: list[Mapping[str, str]] = [
        c for turn in turns if evidence_id in turn["evidence_ids"] for c in turn.get("challenges") or []
    ]
    return [c["reason"] for c in challenges if c["evidence_id"] == evidence_id]
