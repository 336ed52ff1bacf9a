"""The negotiation of evidence before the debates of a trial (PROClaim, sections 2.1 to 2.3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from langgraph.types import Send
from moot.core.errors import ReplyError, WorldError
from moot.nodes._records.entries import OPPOSITE, Turn
from moot.nodes._records.pieces import Pieces
from moot.nodes._runtime.ceilings import stopped_by_ceiling
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.state import TrialState
from moot.nodes._runtime.turns import Known, Said, Search, Started, new_turn, outcome_of, piece_in_words, tells
from moot.nodes._steps.compare import common_outcome
from moot.nodes._steps.retrieving import tell_empty_search
from moot.nodes._texts.replies import Reply, Text
from moot.nodes._texts.show import show_evidence
from moot.nodes._trial.courtroom import (
    NO_EXHIBIT,
    SCORE_DECIMALS,
    SIDES,
    Share,
    all_exhibits,
    case_of,
    is_above,
    premises_of,
    side_of,
    speaker_node,
    to_speaker,
    turn_starter,
    turns_in_round,
    unique_texts,
)
from moot.nodes._trial.trial_settings import TrialSettings
from moot.prompts import as_data
from moot.retrievers import Evidence
from moot.retrievers._evidence import GIVEN, Standing, active_evidence, given_evidence
from pydantic import AfterValidator, Field

# --- premises and queries ---------------------------------------------------------------------------------------------

POOLS = {
    "seed": "for the {subject}",
    "premises": "for the premises",
    "plaintiff": "to support it",
    "defense": "to challenge it",
}
"""The purpose of the search behind each pool."""


class PremisesReply(Reply):
    """The premises of a claim."""

    premises: Annotated[list[str], AfterValidator(unique_texts), Field(min_length=1)]


class Premises(Started):
    """The premises of the claim."""

    step: Literal["premises"]
    premises: list[str] | None
    outcome: str


@tells(Premises)
def tell_premises(turn: Turn, known: Known) -> Iterator[Said]:
    """A line for each premise."""
    if turn["premises"] is None:
        yield Said("premises", "finds", outcome=outcome_of(turn))
    for number, premise in enumerate(turn["premises"] or [], 1):
        yield Said("premises", f"premise {number}", premise)


def premises_node() -> Node:
    """Adds the miner's turn with the premises. Reads: claim, task and, if present, premises, debater, rounds."""
    return speaker_node(
        "proclaim/premises",
        PremisesReply,
        lambda state, settings: case_of(state),
        turn_starter("miner", "premises", "negotiation"),
    )


class StanceQueriesReply(Reply):
    """A query for evidence that speaks for a claim, and one for evidence that speaks against it."""

    supporting_query: Text
    challenging_query: Text


class StanceQueries(Started):
    """A query for each side."""

    step: Literal["stance_queries"]
    supporting_query: str | None
    challenging_query: str | None
    outcome: str


@tells(StanceQueries)
def tell_stance_queries(turn: Turn, known: Known) -> Iterator[Said]:
    """The query for supporting evidence, and the query for challenging evidence."""
    if turn["supporting_query"] is None:
        yield Said("supporting_query", "asks", outcome=outcome_of(turn))
        return
    yield Said("supporting_query", "asks", f"{POOLS['plaintiff']}: {turn['supporting_query']}")
    yield Said("supporting_query", "asks", f"{POOLS['defense']}: {turn['challenging_query']}")


def stance_queries_node() -> Node:
    """Adds the negotiator's turn with a query for each side.

    Reads: claim, task and, if present, premises, debater, rounds.
    """
    return speaker_node(
        "proclaim/stance_queries",
        StanceQueriesReply,
        lambda state, settings: case_of(state),
        turn_starter("negotiator", "stance_queries", "negotiation"),
    )


# --- searches ---------------------------------------------------------------------------------------------------------


class SeedRetrieval(Started):
    """A search for the claim."""

    step: Literal["retrieve_seed"]
    retrieval: Search
    pool: str


class PremiseRetrieval(Started):
    """A search for a premise."""

    step: Literal["retrieve_premise"]
    number: int
    retrieval: Search
    pool: str


class SideRetrieval(Started):
    """A search with a side's query."""

    step: Literal["retrieve"]
    retrieval: Search
    pool: str


@tells(SeedRetrieval, PremiseRetrieval, SideRetrieval)
def tell_pool_search(turn: Turn, known: Known) -> Iterator[Said]:
    """A search that found nothing. What the other searches found is told once for each pool."""
    what = POOLS[turn["pool"]].format(subject=known.task["subject"] if known.task else "claim")
    what = f"for premise {turn['number']}" if "number" in turn else what
    return tell_empty_search(turn, known, what=f"{what}: ")


def searcher(name: str, settings: TrialSettings) -> dict[str, Any]:
    """The declaration of a speaker that searches the trial's sources."""
    return {"name": name, "retriever": list(settings.sources), "fallback": list(settings.fallback)}


def to_seed_search(to: str, state: TrialState, settings: Any) -> Send:
    """Builds the `Send` that starts the first search, for the claim itself, with `seed_k` results from each source.

    Args:
        to: the node.
        state: the state of the negotiation.
        settings: the trial's settings.
    """
    turn: Turn = {**new_turn(0, "retrieval", "retrieve_seed", phase="negotiation"), "pool": "seed"}
    speaker = searcher("retrieval", settings) | {"k": settings.seed_k}
    return to_speaker(to, state, speaker, turn, found=state["evidence"])


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
        turn |= {"query": premise, "pool": "premises"}
        sends.append(to_speaker(to, state, searcher("retrieval", settings), turn))
    (queries,) = turns_in_round(state["turns"], 0, "stance_queries")
    for side, query in zip(SIDES, (queries["supporting_query"], queries["challenging_query"]), strict=True):
        if query is not None:
            turn = new_turn(0, side, "retrieve", phase="negotiation", side=side) | {"query": query, "pool": side}
            sends.append(to_speaker(to, state, searcher(side, settings), turn))
    return sends


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
            run.record.warn(
                "premises_not_searched", f"No search for {over} of {len(premises)} premises: `max_premises` is reached."
            )
        return {"evidence": pieces}

    return Node(step)


# --- challenges -------------------------------------------------------------------------------------------------------


class Challenge(Reply):
    """A challenge to a piece of evidence."""

    evidence_id: str
    reason: Text


class ChallengesReply(Reply):
    """One side's challenges to pieces of evidence."""

    challenges: Annotated[list[Challenge], Field(json_schema_extra={"minItems": 0})]


class Challenges(Started):
    """A side's challenges to evidence."""

    step: Literal["challenge"]
    challenges: list[dict[str, str]] | None
    outcome: str


@tells(Challenges)
def tell_challenges(turn: Turn, known: Known) -> Iterator[Said]:
    """A line for each challenged piece, with the reason."""
    if turn["challenges"] is None:
        yield Said("challenges", "challenges", outcome=outcome_of(turn))
    elif not turn["challenges"]:
        yield Said("challenges", "challenges", "nothing")
    for one in turn["challenges"] or []:
        piece = piece_in_words(one["evidence_id"], known, shown=one["evidence_id"] in turn["evidence_ids"])
        yield Said("challenges", "challenges", piece, one["reason"])


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
            sends.append(to_speaker(to, state, {"name": side}, turn, evidence=evidence))
    return sends


def challenge_node() -> Node:
    """Writes a counsel's challenges into the counsel's turn.

    They challenge evidence that the other side found, or that was given with the claim. Reads: claim, task, evidence,
    turns and, if present, premises and debater.
    """
    return speaker_node(
        "proclaim/challenge",
        ChallengesReply,
        lambda state, settings: (
            case_of(state) | side_of(state) | {"exhibits": show_evidence(state["evidence"], NO_EXHIBIT)}
        ),
        shown=all_exhibits,
    )


def challenges_to(evidence_id: str, turns: Sequence[Turn]) -> list[str]:
    """The reasons of the challenges to a piece of evidence, by sides that were shown this piece."""
    challenges: list[Mapping[str, str]] = [
        c for turn in turns if evidence_id in turn["evidence_ids"] for c in turn.get("challenges") or []
    ]
    return [c["reason"] for c in challenges if c["evidence_id"] == evidence_id]


# --- admission --------------------------------------------------------------------------------------------------------

ONE_CHALLENGE = "A challenge to this evidence. Check whether it is right, and weigh the evidence accordingly:"
SEVERAL_CHALLENGES = (
    "Challenges to this evidence. Check whether each of them is right, and weigh the evidence accordingly:"
)


def evidence_weight(relevance: float, credibility: float) -> float:
    """The weight of a piece of evidence: relevance x credibility (PROClaim, Eq. 6), in [0, 1]."""
    if not (0 <= relevance <= 1 and 0 <= credibility <= 1):
        raise ValueError(f"relevance and credibility must be from 0 to 1, not {relevance} and {credibility}")
    return round(relevance * credibility, SCORE_DECIMALS) + 0.0  # never -0.0


def ruling(weight: float, *, admitted: float = 0.5, disputed: float = 0.1) -> Standing:
    """The ruling on a piece of evidence by its weight: admitted, disputed or discarded (PROClaim, section 2.3)."""
    if is_above(weight, admitted):
        return "admitted"
    return "disputed" if is_above(weight, disputed) else "discarded"


class AdmissibilityReply(Reply):
    """How relevant and credible a piece of evidence is."""

    reason: str
    relevance: Share
    credibility: Share


class Weighing(Started):
    """The weight of a piece of evidence."""

    step: Literal["weigh"]
    number: int
    relevance: float | None
    credibility: float | None
    reason: str | None
    outcome: str


@tells(Weighing)
def tell_weighing(turn: Turn, known: Known) -> Iterator[Said]:
    """A piece that could not be weighed. The weights of the others are told with the rulings."""
    if turn["relevance"] is None:
        yield Said("relevance", "weighs", ", ".join(known.titles(turn["evidence_ids"])), outcome=outcome_of(turn))


def to_arbiter(to: str, state: TrialState) -> list[Send]:
    """Builds the `Send`s that make the arbiter weigh evidence, each with one piece and all turns with challenges.

    Args:
        to: the node.
        state: the state of the negotiation.
    """
    heard = [turn for turn in state["turns"] if turn["step"] == "challenge"]
    return [
        to_speaker(
            to,
            state,
            {"name": "arbiter"},
            new_turn(0, "arbiter", "weigh", number, phase="negotiation"),
            evidence=[piece],
            heard=heard,
        )
        for number, piece in enumerate(active_evidence(state["evidence"]), 1)
    ]


def weigh_exhibit_node() -> Node:
    """Writes the relevance, credibility and weight of one piece of evidence into the arbiter's turn.

    Reads: claim, task, evidence, heard, turns and, if present, premises and debater.
    """

    def values(state: TrialState, settings: TrialSettings) -> dict[str, str]:
        (piece,) = state["evidence"]
        reasons = challenges_to(piece["id"], state["heard"])
        heading = SEVERAL_CHALLENGES if len(reasons) > 1 else ONE_CHALLENGE
        against = "\n".join(as_data("challenge", reason) for reason in reasons)
        return case_of(state) | {
            "evidence": show_evidence([piece]),
            "challenges": f"{heading}\n{against}" if against else "",
        }

    return speaker_node(
        "proclaim/weigh",
        AdmissibilityReply,
        values,
        shown=all_exhibits,
        scores=lambda reply: {"weight": evidence_weight(reply.relevance, reply.credibility)},
    )


def rule_node() -> Node:
    """Rules on every piece of evidence with a weight; a piece without a weight is not admitted, with a warning.

    Reads: turns, evidence. There is also a warning if no piece is admitted. If there is evidence, but no piece could be
    weighed, the trial fails, unless a ceiling prevented a call.
    """

    async def step(state: TrialState, run: NodeContext) -> dict[str, Any]:
        known = Pieces(state["evidence"])
        weighed = [turn for turn in state["turns"] if turn["step"] == "weigh"]
        if weighed and not any(turn["scores"] or stopped_by_ceiling(turn) for turn in weighed):
            raise nothing_weighed_error(weighed)
        ruled: list[Evidence] = []
        for turn in weighed:
            (exhibit,) = turn["evidence_ids"]
            if (weight := turn["scores"].get("weight")) is None:
                run.record.warn("not_weighed", f"{exhibit} could not be weighed, so it is not admitted.")
                continue
            ratings: Any = {"relevance": turn["relevance"], "credibility": turn["credibility"], "weight": weight}
            found = ruling(weight, admitted=run.settings.admitted_above, disputed=run.settings.disputed_above)
            ruled.append({**known[exhibit], **ratings, "status": found})
        if not any(piece["status"] == "admitted" for piece in ruled):
            run.record.warn("nothing_admitted", "No evidence was admitted: the debates start without any exhibit.")
        return {"evidence": ruled}

    return Node(step)


def nothing_weighed_error(turns: Sequence[Turn]) -> WorldError:
    """The error that ends a trial if no evidence could be weighed."""
    if all(turn.get("outcome") == "failed" for turn in turns):
        detail = "The arbiter could not be reached for any piece of evidence. See the warnings for the reasons."
        return WorldError(detail, kind="nothing_weighed", retryable=True)
    detail = "The arbiter gave no usable reply on any piece of evidence. Try another model in `models.arbiter`."
    return ReplyError(detail, common_outcome(turns))
