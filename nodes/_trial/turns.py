"""The turns of a trial (PROClaim), and how they are told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NotRequired

from moot.core.words import count_with_noun
from moot.nodes._records.entries import Turn
from moot.nodes._runtime.turns import Citation, Kind, Known, Said, Search, Started, outcome_of, piece_in_words, tells
from moot.nodes._steps.retrieving import tell_empty_search
from moot.nodes._trial.confidence import QUALITIES
from moot.nodes._trial.courtroom import SIDES, is_unadmitted

POOLS = {
    "seed": "for the {subject}",
    "premises": "for the premises",
    "plaintiff": "to support it",
    "defense": "to challenge it",
}
"""The purpose of the search behind each pool."""
MOST_TITLES = 5
"""Maximum number of titles in a list. The other titles are only counted."""

# --- the negotiation --------------------------------------------------------------------------------------------------


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


class Challenge(Started):
    """A side's challenges to evidence."""

    step: Literal["challenge"]
    challenges: list[dict[str, str]] | None
    outcome: str


@tells(Challenge)
def tell_challenges(turn: Turn, known: Known) -> Iterator[Said]:
    """A line for each challenged piece, with the reason."""
    if turn["challenges"] is None:
        yield Said("challenges", "challenges", outcome=outcome_of(turn))
    elif not turn["challenges"]:
        yield Said("challenges", "challenges", "nothing")
    for one in turn["challenges"] or []:
        piece = piece_in_words(one["evidence_id"], known, shown=one["evidence_id"] in turn["evidence_ids"])
        yield Said("challenges", "challenges", piece, one["reason"])


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


# --- a debate in court ------------------------------------------------------------------------------------------------


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
    if "gap" in turn:
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
    barred = sum(map(is_unadmitted, found))
    how = f"mean novelty {last_values([turn['scores'].get('novelty')], 1)}"
    how += f"; {barred} not admitted before" if barred else ""
    least = known.settings.min_request_similarity
    dissimilar = sum(r.get("request_similarity", least) < least for p in found for r in p["retrievals"])
    how += f"; {dissimilar} not similar to the request" if dissimilar else ""
    return f"{count_with_noun(len(turn['evidence_ids']), 'piece')}; {many} ({how}){names_suffix(joined)}"


class Argument(Started):
    """A counsel's argument."""

    step: Literal["argue"]
    argument: str | None
    citations: list[Citation]
    outcome: str


@tells(Argument)
def tell_argument(turn: Turn, known: Known) -> Iterator[Said]:
    """The argument, and the counsel's name if it speaks for the other side."""
    by = "" if turn.get("side") in (turn["agent"], None) else f"(by the {turn['agent']}'s counsel) "
    return tell_statement(turn, "argument", "argues", by)


class ExpertRequestBegun(Started):
    """A pending request."""

    step: Literal["request_expert"]


class ExpertRequest(Started):
    """Whether a side wants an expert."""

    step: Literal["request_expert"]
    needed: bool | None
    expertise: str | None
    reason: str | None
    outcome: str


@tells(ExpertRequestBegun, ExpertRequest)
def tell_expert_request(turn: Turn, known: Known) -> Iterator[Said]:
    """A side's request for an expert, if it has one."""
    if turn.get("needed"):
        yield Said("needed", "wants", f"an expert on {turn['expertise']}", turn["reason"], who=side_name(turn))
    elif "needed" in turn and turn["needed"] is None:
        yield Said("needed", "wants", outcome=outcome_of(turn), who=side_name(turn))


class ExpertRuling(Started):
    """Whether an expert is heard."""

    step: Literal["rule_on_expert"]
    number: int
    granted: bool | None
    reason: str | None
    outcome: str


@tells(ExpertRuling)
def tell_expert_ruling(turn: Turn, known: Known) -> Iterator[Said]:
    """Whether the court hears a side's expert."""
    whose = f"the {turn['side']}'s expert"
    if turn["granted"] is None:
        yield Said("granted", "rules", f"on {whose}", outcome=outcome_of(turn))
    else:
        yield Said("granted", "hears" if turn["granted"] else "refuses", whose, turn["reason"])


class Testimony(Started):
    """An expert's testimony."""

    step: Literal["testify"]
    number: int
    expertise: str | None
    testimony: str | None
    citations: list[Citation]
    outcome: str


@tells(Testimony)
def tell_testimony(turn: Turn, known: Known) -> Iterator[Said]:
    """The testimony, who called the expert, and on what."""
    return tell_statement(turn, "testimony", "testifies", f"(called by the {turn['side']}, on {turn['expertise']}) ")


class Reflection(Started):
    """A counsel's assessment of its side's case."""

    step: Literal["reflect"]
    flaws: list[str] | None
    logic: float | None
    novelty: float | None
    rebuttal: float | None
    discovery_need: str | None
    refined_stance: str | None
    outcome: str


@tells(Reflection)
def tell_reflection(turn: Turn, known: Known) -> Iterator[Said]:
    """The counsel's score of its own case, with its parts and flaws."""
    if (score := turn["scores"].get("reflection")) is None:
        yield Said("logic", "reflects", outcome=outcome_of(turn), who=side_name(turn))
        return
    parts = f"logic {turn['logic']:.2f}, novelty {turn['novelty']:.2f}, rebuttal {turn['rebuttal']:.2f}"
    yield Said("logic", "reflects", f"{score:.2f} ({parts})", " ".join(turn["flaws"] or []), who=side_name(turn))


class Critique(Started):
    """A critic's view of a round."""

    step: Literal["critique"]
    plaintiff: dict[str, Any] | None
    defense: dict[str, Any] | None
    unresolved_premises: list[str] | None
    recommendations: dict[str, list[str]] | None
    debate_resolved: bool | None
    outcome: str


@tells(Critique)
def tell_critique(turn: Turn, known: Known) -> Iterator[Said]:
    """The critic's scores of both sides, whether the debate is resolved, and what is still open."""
    if turn["debate_resolved"] is None:
        yield Said("critique", "scores", outcome=outcome_of(turn))
        return
    for side in SIDES:
        if rating := turn[side]:
            scores = (
                f"logic {rating['logic']:.2f}, evidence {rating['evidence']:.2f}, rebuttal {rating['rebuttal']:.2f}"
            )
            yield Said("critique", "scores", f"{side}: {scores}", rating["reason"])
    if turn["debate_resolved"]:
        yield Said("critique", "finds", f"the debate resolved{_early_note(turn, known)}", kind="finding")
    if still := "; ".join(turn["unresolved_premises"] or []):
        yield Said("critique", "finds", f"still open: {still}")


class Closing(Started):
    """Whether the court closes the debate."""

    step: Literal["close"]
    close: bool | None
    reason: str | None
    outcome: str


@tells(Closing)
def tell_closing(turn: Turn, known: Known) -> Iterator[Said]:
    """Whether the court closes the debate."""
    if turn["close"] is None:
        yield Said("close", "decides", outcome=outcome_of(turn))
        return
    found = f"to close the debate{_early_note(turn, known)}" if turn["close"] else "to go on"
    yield Said("close", "decides", found, turn["reason"], "finding")


def _early_note(turn: Turn, known: Known) -> str:
    """A note if a decision to end the debate has no effect in this round; empty otherwise."""
    if not known.settings.progressive_retrieval:
        return " (which does not end it: without progressive retrieval all rounds take place)"
    least = known.settings.min_rounds
    return f" (which does not end it before round {least})" if turn["round"] < least else ""


# --- the panel --------------------------------------------------------------------------------------------------------


class Consistency(Started):
    """How consistently the counsel argued."""

    step: Literal["analyse"]
    contradictions: list[str] | None
    plaintiff_counsel: float | None
    defense_counsel: float | None
    overall: float | None
    outcome: str


@tells(Consistency)
def tell_consistency(turn: Turn, known: Known) -> Iterator[Said]:
    """How consistently each counsel argued, and their contradictions."""
    if turn["overall"] is None:
        yield Said("overall", "finds", outcome=outcome_of(turn))
        return
    counsel = ", ".join(f"the {side}'s counsel {turn[f'{side}_counsel']:.1f}" for side in SIDES)
    yield Said("overall", "finds", f"consistency {turn['overall']:.1f} of 10 ({counsel})", kind="finding")
    for one in turn["contradictions"] or []:
        yield Said("overall", "finds", f"a contradiction: {one}")


class PanelVote(Started):
    """A panel judge's scores and verdict."""

    step: Literal["judge"]
    evidence_strength: float | None
    argument_validity: float | None
    scientific_reliability: float | None
    verdict: str | None
    reason: str | None
    outcome: str


@tells(PanelVote, late=True)
def tell_panel_vote(turn: Turn, known: Known) -> Iterator[Said]:
    """The judge's verdict and scores."""
    if turn["verdict"] is None:
        yield Said("verdict", "decides", kind="verdict", outcome=outcome_of(turn))
        return
    evidence, arguments, reliability = (round(turn[quality] or 0, 1) for quality in QUALITIES)
    scores = f"evidence {evidence:g}, arguments {arguments:g}, reliability {reliability:g}"
    text = f"{turn['verdict']} ({scores} of 10)"
    yield Said("verdict", "decides", text, turn["reason"], "verdict", answer=turn["verdict"])


# --- words ------------------------------------------------------------------------------------------------------------


def tell_statement(turn: Turn, field: str, verb: str, prefix: str = "", kind: Kind = "statement") -> Iterator[Said]:
    """A statement after its prefix, with its citations, or why there is none."""
    if turn[field] is None:
        yield Said(field, verb, outcome=outcome_of(turn), who=side_name(turn))
        return
    cited = tuple(turn.get("citations") or ())
    yield Said(field, verb, prefix + turn[field], kind=kind, who=side_name(turn), citations=cited)


def side_name(turn: Mapping[str, Any]) -> str:
    """The name of a speaker; for a counsel, the name of the side that the counsel speaks for."""
    return str(turn.get("side") or turn["agent"]) if turn["agent"] in SIDES else str(turn["agent"])


def names_suffix(names: Sequence[str]) -> str:
    """A colon, the first `MOST_TITLES` names and the number of the other names; empty for no names."""
    more = [f"and {len(names) - MOST_TITLES} more"] if len(names) > MOST_TITLES else []
    return f": {'; '.join([*names[:MOST_TITLES], *more])}" if names else ""


def last_values(values: Sequence[float | None], count: int) -> str:
    """The last ``count`` values of a series, as a text."""
    return ", ".join("unknown" if value is None else f"{value:.2f}" for value in values[-count:])
