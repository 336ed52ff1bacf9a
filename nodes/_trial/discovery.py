"""Progressive retrieval in a trial (PROClaim, section 2.4, appendix I).

In a round, each side that still searches states a gap. A query is made from the gap, and refined by the court. New
results join the record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple, NotRequired

from langgraph.types import Send
from moot.core.errors import BudgetExhausted, MootError
from moot.core.lazy import imported
from moot.core.words import count_with_noun
from moot.nodes._models.speaker import affects_only_call
from moot.nodes._records.entries import Side, Turn
from moot.nodes._records.pieces import Pieces
from moot.nodes._runtime.ceilings import in_time
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.state import TrialState
from moot.nodes._runtime.turns import Known, Said, Search, Started, new_turn, tells
from moot.nodes._steps.retrieving import tell_empty_search
from moot.nodes._steps.score import average, mean_cosine
from moot.nodes._texts.replies import QueryReply, Reply, Text
from moot.nodes._trial.courtroom import (
    SCORE_DECIMALS,
    SIDES,
    all_exhibits,
    case_of,
    counsel_for,
    is_above,
    is_unadmitted,
    last_values,
    names_suffix,
    on_record,
    show_best,
    show_recent,
    show_record,
    show_round,
    side_name,
    side_of,
    speaker_node,
    tell_statement,
    this_round,
    to_counsel,
    to_speaker,
    turns_in_round,
)
from moot.nodes._trial.negotiation import ruling, searcher
from moot.nodes._trial.trial_settings import TrialSettings
from moot.prompts import as_data
from moot.retrievers import Evidence
from moot.retrievers._encoders import Encoder, Vector, vectors_of
from moot.retrievers._excerpts import shown_text

QUERY = "proclaim/query"
REFINE = "proclaim/refine"

# --- novelty, and the end of a side's search (Eq. 1, Table 1, appendix I) ---------------------------------------------

RetrievalEnd = Literal["redundancy", "retrievals", "relevance_gain"]
"""Why a side's search ended: redundant results, the maximum number of retrievals, or too small a gain in relevance."""


def novelty(vector: Sequence[float], pool: Sequence[Sequence[float]]) -> float:
    """The novelty of a candidate: 1 minus its largest cosine with a piece in the pool, in [0, 2] (PROClaim, Eq. 1)."""
    np = imported("numpy")
    if not len(pool):
        return 1.0
    d, p = np.asarray(vector, dtype=float), np.asarray(pool, dtype=float)
    lengths = np.linalg.norm(p, axis=1) * np.linalg.norm(d)
    if not np.all(np.isfinite(lengths) & (lengths > 0)):
        raise ValueError("a vector is zero or not finite, so it has no cosine")
    return round(1 - float(np.max(p @ d / lengths)), SCORE_DECIMALS) + 0.0  # never -0.0


def similarity(vector: Sequence[float], other: Sequence[float]) -> float:
    """The cosine of two vectors, in [-1, 1]."""
    return round(1 - novelty(vector, [other]), SCORE_DECIMALS) + 0.0


class Candidate(NamedTuple):
    """A result of a side's search, before it is compared with the record."""

    vector: Vector
    similarity: float  # to the side's request
    is_barred: bool = False  # known before the debate, but not admitted to it
    was_discarded: bool = False  # after an earlier search


def rate(
    candidates: Iterable[Candidate], record: Sequence[Vector], least_new: float = 0.20, least_similar: float = 0.20
) -> list[tuple[float, bool]]:
    """The novelty of each candidate, and whether it joins the record (PROClaim, section 2.4).

    A candidate joins if it is new and fits its request; later candidates are compared with it, too. A barred one does
    not join, and its novelty is 0. So is that of a discarded one that does not fit this request either.
    """
    known, rated = list(record), []
    for one in candidates:
        is_unfit = is_above(least_similar, one.similarity)
        is_ruled_out = one.is_barred or (is_unfit and one.was_discarded)
        new = 0.0 if is_ruled_out else novelty(one.vector, known)
        joins = not is_ruled_out and not is_unfit and not is_above(least_new, new)
        rated.append((new, joins))
        if joins:
            known.append(one.vector)
    return rated


def redundant_share(novelties: Sequence[float], similarity: float = 0.85) -> float | None:
    """The share of candidates whose similarity (1 - novelty) is above the threshold; None without candidates."""
    if not novelties:
        return None
    return sum(is_above(1 - value, similarity) for value in novelties) / len(novelties)


def retrieval_end(
    share: float | None,
    retrievals: int,
    gain: float | None = None,
    *,
    most_redundant: float = 0.70,
    most_retrievals: int = 10,
    least_gain: float | None = None,
) -> RetrievalEnd | None:
    """The reason why a side's search ends after its last retrieval; None if it goes on (PROClaim, Table 1)."""
    if share is not None and is_above(share, most_redundant):
        return "redundancy"
    if least_gain is not None and gain is not None and is_above(least_gain, gain):
        return "relevance_gain"
    return "retrievals" if retrievals >= most_retrievals else None


def relevance_gain(relevances: Sequence[float | None]) -> float | None:
    """The gain in relevance of the last retrieval over the previous one; None if either relevance is unknown."""
    if len(relevances) < 2 or relevances[-1] is None or relevances[-2] is None:
        return None
    return round(relevances[-1] - relevances[-2], SCORE_DECIMALS)


# --- a side's search --------------------------------------------------------------------------------------------------


class DiscoveryBegun(Started):
    """A pending search of a side."""

    step: Literal["discover"]
    gap: NotRequired[str | None]
    outcome: NotRequired[str]
    formulated: NotRequired[str | None]
    retrieval: NotRequired[Search]


class Discovery(Started):
    """A side's search in a round."""

    # ``gap`` is the evidence that the side needs most. ``formulated`` is its query before the court refined it; null if
    # the claim itself was the query. ``joined`` are the results that joined the record. ``ended`` is the reason why the
    # side does not search again; null if it may.
    step: Literal["discover"]
    gap: str | None
    outcome: str
    formulated: str | None
    retrieval: Search
    joined: list[str]
    ended: str | None


@tells(DiscoveryBegun, Discovery)
def tell_discovery(turn: Turn, known: Known) -> Iterator[Said]:
    """What a side lacks, asks and finds, and why it does not search again."""
    who = side_name(turn)
    if lacks_nothing(turn):
        yield Said("gap", "lacks", "nothing that could still change the outcome", who=who)
    elif "gap" in turn:
        yield from tell_statement(turn, "gap", "lacks", kind="")
    if "retrieval" in turn:
        if "formulated" in turn:
            refined = " (as the court refined it)" if turn["formulated"] != turn["query"] else ""
            how = " (as no query could be formulated)" if turn["formulated"] is None else refined
            yield Said("retrieval", "asks", f"{turn['query']}{how}", who=who)
        yield from tell_empty_search(turn, known, who=who)
    if turn.get("joined") is not None and turn["evidence_ids"]:
        yield Said("joined", "finds", _joined_in_words(turn, known), who=who)
    if turn.get("ended"):
        share, settings = turn["scores"].get("redundancy") or 0.0, known.settings
        why = {
            "redundancy": f"{share:.0%} of the new evidence is redundant (above {settings.redundant_share:.0%})",
            "retrievals": f"it has made all {count_with_noun(settings.max_retrievals, 'retrieval')}",
            "relevance_gain": f"it gained less than {settings.relevance_gain} in relevance",
        }
        yield Said("ended", "searches", f"no more: {why.get(turn['ended'], turn['ended'])}", who=who)


def _joined_in_words(turn: Turn, known: Known) -> str:
    """How many pieces were found, how novel they are, and which of them join the record."""
    found = [known.pieces[id] for id in turn["evidence_ids"] if id in known.pieces]
    joined = known.titles(turn["joined"])
    many = f"{len(joined) or 'none'} {'join' if len(joined) > 1 else 'joins'} the record"
    light = [piece for piece in found if piece.get("pool") == "discovery" and "weight" in piece]
    barred = sum(is_unadmitted(piece) for piece in found if piece not in light)
    how = f"mean novelty {last_values([turn['scores'].get('novelty')], 1)}"
    how += f"; {barred} not admitted before" if barred else ""
    too_light = sum(piece["status"] == "discarded" for piece in light)
    how += f"; {too_light} of too little weight" if too_light else ""
    least = known.settings.min_request_similarity
    dissimilar = sum(r.get("request_similarity", least) < least for p in found for r in p["retrievals"])
    how += f"; {dissimilar} not similar to the request" if dissimilar else ""
    return f"{count_with_noun(len(turn['evidence_ids']), 'piece')}; {many} ({how}){names_suffix(joined)}"


def still_searching(state: TrialState) -> list[Side]:
    """The sides whose search has not ended.

    Args:
        state: the state of the debate in court.
    """
    over = {turn["side"] for turn in state["turns"] if turn.get("ended")}
    return [side for side in SIDES if side not in over]


def to_discovery(to: str, state: TrialState, settings: Any) -> list[Send]:
    """Builds the `Send`s that start the searches of this round: one for each side in `still_searching`.

    Args:
        to: the node.
        state: the state of the debate in court.
        settings: settings with ``sources``.
    """
    sends = []
    for side in still_searching(state):
        known = searcher(counsel_for(side, state["phase"]), settings) | {"need": missing_evidence(state, side)}
        sends.append(to_counsel(to, state, "discover", side, known))
    return sends


def missing_evidence(state: TrialState, side: str | None) -> str | None:
    """The evidence that a side's reflection after the last round found missing; None without such a reflection."""
    reflections = turns_in_round(state["turns"], this_round(state) - 1, "reflect")
    return next((turn["discovery_need"] for turn in reflections if turn["side"] == side), None)


class GapReply(Reply):
    """The evidence that a side lacks."""

    gap: Text


class OpenGapReply(Reply):
    """The evidence that a side lacks; empty if it lacks none."""

    gap: str


WISH = (
    "Which one piece of evidence that is not on record would help your side most? State it as `gap`, in one sentence "
    "that names what it is about."
)
WISH_OR_NONE = (
    "Could evidence that is not on record still change the outcome for your side? If so, say in `gap`, in one "
    "sentence, what it would have to show, and about what. If the record settles the matter, or you would concede, "
    "leave `gap` empty: then nothing is searched for."
)
"""What a side is asked in the full and in the lean procedure."""


def lacks_nothing(turn: Turn) -> bool:
    """Whether a side said in its turn that it lacks no evidence, so that it does not search in this round.

    Args:
        turn: the side's turn.
    """
    gap = turn.get("gap")
    return gap is not None and not gap.strip()


def gap_node() -> Node:
    """Writes a side's gap, the evidence that it needs most, into its turn (appendix I, step 1).

    In the lean procedure, the gap may be empty (`lacks_nothing`).

    Reads: claim, task, phase, evidence, heard, turns and, if present, premises, rounds and debater.
    """

    def values(state: TrialState, settings: TrialSettings) -> dict[str, str]:
        whole = settings.exhibits == "whole"
        of_best = settings.exhibits == "best" and not state["heard"]
        record = show_record(state["evidence"], state["heard"], whole=whole, titles=True)
        return {
            **case_of(state),
            **side_of(state),
            "exhibits": show_best(state["evidence"]) if of_best else record,
            "statements": show_recent(state["heard"]),
            "round": show_round(state, settings),
            "wish": WISH_OR_NONE if settings.procedure == "lean" else WISH,
        }

    return speaker_node("proclaim/gap", GapReply, values, shown=all_exhibits, lean=OpenGapReply)


def discovery_query_node() -> Node:
    """Writes a query for a side's request into the side's turn (appendix I, step 2).

    The request is the side's gap, and the evidence that its last reflection found missing. If only this call fails, or
    its reply is not usable, the claim becomes the query, with a warning.

    Reads: claim, task, heard, turns, debater and, if present, premises.
    """

    async def step(state: TrialState, run: NodeContext) -> dict[str, Any]:
        turn, speaker = state["turns"][0], await run.speaker("retrieval")
        wanted = [text for text in (turn.get("gap"), state["debater"].get("need")) if text]
        request = as_data("request", "\n".join(wanted)) if wanted else "(whatever helps to decide)"
        values = case_of(state) | {"statements": show_recent(state["heard"]), "request": request}
        try:
            reply = await speaker.ask(QUERY, values, QueryReply)
        except MootError as error:
            if not affects_only_call(error):
                raise
            run.record.warn("query_not_formulated", f"{error.detail} The claim itself was used as the query.")
            return {"turns": [{**turn, "formulated": None, "query": state["claim"]}]}
        return {"turns": [{**turn, "formulated": reply.query, "query": reply.query}]}

    return Node(step, prompts=(QUERY,))


def refine_node() -> Node:
    """Replaces the query in a side's turn by the court's refined query (appendix I, step 3).

    If the call fails or has no usable reply, the query stays unchanged, with a warning.

    Reads: claim, task, phase, turns and, if present, premises and rounds.
    """

    async def step(state: TrialState, run: NodeContext) -> dict[str, Any]:
        turn, speaker = state["turns"][0], await run.speaker("court")
        query = as_data("query", str(turn["query"]))
        values = case_of(state) | {"query": query, "round": show_round(state, run.settings)}
        try:
            reply = await speaker.ask(REFINE, values, QueryReply)
        except MootError as error:
            if not affects_only_call(error):
                raise
            run.record.warn("query_not_refined", f"{error.detail} The query was not changed.")
            return {}
        return {"turns": [{**turn, "query": reply.query}]}

    return Node(step, prompts=(REFINE,))


# --- the results of a round's searches --------------------------------------------------------------------------------


def admit_node() -> Node:
    """Adds results of a round's searches to the record, if they are new and fit the request of the side that searched.

    Reads: rounds, turns, evidence.

    The plaintiff's results are compared with the record first, then the defense's. Evidence that was known before
    the debate, but was not admitted to it, does not join, and its novelty is 0. The same holds for evidence that
    was discarded after an earlier search, if it does not fit the request of this search. If a side's search ends with
    this round, the reason is written into the side's turn. If the comparison with the record takes longer than
    `max_seconds` allows, nothing joins, and there is a warning.
    """

    async def step(state: TrialState, run: NodeContext) -> dict[str, Any]:
        # The plaintiff's results are compared with the record first, then the defense's.
        begun = turns_in_round(state["turns"], this_round(state), "discover")
        turns = sorted((turn for turn in begun if not lacks_nothing(turn)), key=_side_index)
        known = Pieces(state["evidence"])
        found = [known[i] for turn in turns for i in turn["evidence_ids"]]
        if not found:
            return {"turns": [_with_end(_with_unknown_scores(turn), state["turns"], run.settings) for turn in turns]}
        encoder, settings = await run.encoder(), run.settings
        pieces, requests = [*found, *on_record(state["evidence"])], [request_of(state, turn) for turn in turns]
        encoding = asyncio.gather(vectors_of(as_shown(pieces), encoder), encoder.embed(requests))
        try:
            vectors, request_vectors = await in_time(encoding, "text encoder")
        except BudgetExhausted as error:
            unjudged = [piece for piece in found if "status" not in piece]
            run.record.warn("not_weighed", f"{error.detail} Not compared with the record: {len(unjudged)} results.")
            ended = [_with_end(_with_unknown_scores(turn), state["turns"], settings) for turn in turns]
            return {"turns": ended, "evidence": [_with_status(piece, joins=False) for piece in unjudged]}
        wanted = [vector for vector, turn in zip(request_vectors, turns, strict=True) for _ in turn["evidence_ids"]]
        candidates = [
            Candidate(vector, similarity(vector, request), is_unadmitted(piece), piece.get("status") == "discarded")
            for piece, vector, request in zip(found, vectors[: len(found)], wanted, strict=True)
        ]
        record = vectors[len(found) :]
        ratings = rate(candidates, record, settings.novelty_threshold, settings.min_request_similarity)
        rated = zip(found, candidates, ratings, strict=True)
        waits = settings.procedure == "lean"  # for the arbiter
        written: list[Turn] = []
        evidence: list[Evidence] = []
        for turn in turns:
            own = [*islice(rated, len(turn["evidence_ids"]))]
            evidence += [
                _with_rating(piece, new, one.similarity, None if joins and waits else joins, turn)
                for piece, one, (new, joins) in own
            ]
            novelties = [new for _, _, (new, _) in own]
            scores = {
                "novelty": average(novelties),
                "redundancy": redundant_share(novelties, settings.redundant_similarity),
                "request_similarity": average([one.similarity for _, one, _ in own]),
                **await _relevance(turn, [piece for piece, _, _ in own], run, encoder),
            }
            joined = [piece["id"] for piece, _, (_, joins) in own if joins]
            written.append(_with_end({**turn, "joined": joined, "scores": scores}, state["turns"], settings))
        return {"turns": written, "evidence": evidence}

    return Node(step)


def to_discovery_arbiter(to: str, state: TrialState) -> list[Send]:
    """Builds the `Send`s that make the arbiter weigh the results of this round's searches that would join the record.

    Empty in the full procedure, in which they join without a weight.

    Args:
        to: the node.
        state: the state of the debate in court.
    """
    known, round = Pieces(state["evidence"]), this_round(state)
    waiting = [
        known[id]
        for turn in turns_in_round(state["turns"], round, "discover")
        for id in turn.get("joined") or ()
        if known[id].get("status") != "discovered"
    ]
    return [
        to_speaker(
            to,
            state,
            {"name": "arbiter"},
            new_turn(round, "arbiter", "weigh", number, phase=state["phase"]),
            evidence=[piece],
        )
        for number, piece in enumerate(waiting, 1)
    ]


def rule_on_discoveries_node() -> Node:
    """Adds the results that the arbiter gave a weight above ``disputed_above`` to the record, and discards the others.

    Reads: rounds, turns, evidence. A piece without a weight does not join, with a warning.
    """

    async def step(state: TrialState, run: NodeContext) -> dict[str, Any]:
        known, round = Pieces(state["evidence"]), this_round(state)
        ruled: list[Evidence] = []
        for turn in turns_in_round(state["turns"], round, "weigh"):
            (exhibit,) = turn["evidence_ids"]
            if (weight := turn["scores"].get("weight")) is None:
                run.record.warn("not_weighed", f"{exhibit} could not be weighed, so it does not join the record.")
                ruled.append(_with_status(known[exhibit], joins=False))
                continue
            ratings: Any = {"relevance": turn["relevance"], "credibility": turn["credibility"], "weight": weight}
            joins = ruling(weight, disputed=run.settings.disputed_above) != "discarded"
            ruled.append(_with_status({**known[exhibit], **ratings}, joins=joins))
        joined = {piece["id"] for piece in ruled if piece["status"] == "discovered"}
        searched = [turn for turn in turns_in_round(state["turns"], round, "discover") if turn.get("joined")]
        return {
            "turns": [{**turn, "joined": [id for id in turn["joined"] if id in joined]} for turn in searched],
            "evidence": ruled,
        }

    return Node(step)


def request_of(state: TrialState, turn: Turn) -> str:
    """A side's request: its gap and the evidence that its last reflection found missing or, without them, its query."""
    return "\n".join(filter(None, (turn.get("gap"), missing_evidence(state, turn["side"])))) or str(turn["query"])


def _with_unknown_scores(turn: Turn) -> Turn:
    return {**turn, "joined": [], "scores": {"novelty": None, "redundancy": None, "request_similarity": None}}


def _side_index(turn: Turn) -> int:
    return SIDES.index(turn["side"])


def _with_rating(piece: Evidence, novelty: float, similarity: float, joins: bool | None, turn: Turn) -> Evidence:
    """A piece with only this search, rated, in ``retrievals``; its status stays, unless it joins the record.

    ``joins`` is None for a piece that waits for the arbiter's weight.
    """
    asked = {"agent": turn["agent"], "round": turn["round"], "query": turn["query"]}
    found = [r for r in piece["retrievals"] if asked.items() <= r.items()]
    rated: Evidence = {
        **piece,
        "retrievals": [{**r, "novelty": novelty, "request_similarity": similarity} for r in found],
    }
    if joins is not None and ("status" not in piece or joins):
        return _with_status(rated, joins=joins)
    return rated


def _with_status(piece: Evidence, *, joins: bool) -> Evidence:
    """A piece in the pool ``discovery``, with the status ``discovered`` if it joins the record, else ``discarded``."""
    return {**piece, "pool": "discovery", "status": "discovered" if joins else "discarded"}


def as_shown(pieces: Sequence[Evidence]) -> list[Evidence]:
    """The pieces with the text that agents read, because an encoder may refuse a page's whole text."""
    return [{**piece, "text": shown_text(piece)} for piece in pieces]


async def _relevance(
    turn: Turn, pieces: Sequence[Evidence], run: NodeContext, encoder: Encoder
) -> dict[str, float | None]:
    """The score ``relevance``: the mean cosine of a query and its results; {} if it is off, or time is used up."""
    if run.settings.relevance_gain is None:
        return {}
    encoding = asyncio.gather(encoder.embed([str(turn["query"])]), vectors_of(as_shown(pieces), encoder))
    try:
        (query,), vectors = await in_time(encoding, "text encoder")
    except BudgetExhausted:
        return {}
    return {"relevance": mean_cosine(query, vectors)}


def _with_end(turn: Turn, turns: Sequence[Turn], settings: Any) -> Turn:
    """The turn of a side's search with ``ended``: why this search is the side's last, or None if the side goes on."""
    own = [t for t in turns if t["step"] == "discover" and t["agent"] == turn["agent"] and not lacks_nothing(t)]
    earlier = [t for t in own if t["round"] < turn["round"]]
    gain = relevance_gain([t["scores"].get("relevance") for t in [*earlier, turn]])
    end = retrieval_end(
        turn["scores"]["redundancy"],
        len(earlier) + 1,
        gain,
        most_redundant=settings.redundant_share,
        most_retrievals=settings.max_retrievals,
        least_gain=settings.relevance_gain,
    )
    return {**turn, "ended": end}
