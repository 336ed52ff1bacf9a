"""The turns of a trial (PROClaim): which step has which fields; see `moot.nodes._runtime.turns`."""

from __future__ import annotations

from typing import Any

from moot.nodes._runtime.turns import (
    START_FIELDS,
    CitationFields,
    Kind,
    NumberField,
    Outcome,
    Premises,
    Reason,
    SearchOutcome,
)
from typing_extensions import TypedDict


class Pool(TypedDict, total=False):
    """The pool that evidence was searched for."""

    pool: str


class Stances(TypedDict, total=False):
    """A query for evidence that supports a claim, and one for evidence that challenges it."""

    supporting_query: str | None
    challenging_query: str | None


class Challenges(TypedDict, total=False):
    """Challenges to evidence."""

    challenges: list[dict[str, str]] | None


class Weighed(TypedDict, total=False):
    """The weight of a piece of evidence."""

    relevance: float | None
    credibility: float | None


class Gap(TypedDict, total=False):
    """The evidence that a side misses."""

    gap: str | None


class Formulated(TypedDict, total=False):
    """A query before the court refined it."""

    formulated: str | None


class Admitted(TypedDict, total=False):
    """The results that joined the record, and why the side's search ended there; null if it continues."""

    joined: list[str]
    ended: str | None


class Argued(TypedDict, total=False):
    """A counsel's argument."""

    argument: str | None


class Needed(TypedDict, total=False):
    """Whether an expert is wanted."""

    needed: bool | None


class Expertise(TypedDict, total=False):
    """The required expertise of an expert."""

    expertise: str | None


class Granted(TypedDict, total=False):
    """Whether an expert is heard."""

    granted: bool | None


class Testified(TypedDict, total=False):
    """An expert's testimony."""

    testimony: str | None


class Reflected(TypedDict, total=False):
    """A counsel's assessment of its own side's case."""

    flaws: list[str] | None
    logic: float | None
    novelty: float | None
    rebuttal: float | None
    discovery_need: str | None
    refined_stance: str | None


class Criticised(TypedDict, total=False):
    """A critic's view of both sides."""

    plaintiff: dict[str, Any] | None
    defense: dict[str, Any] | None
    unresolved_premises: list[str] | None
    recommendations: dict[str, list[str]] | None
    debate_resolved: bool | None


class Closed(TypedDict, total=False):
    """Whether the court closes the debate."""

    close: bool | None


class Analysed(TypedDict, total=False):
    """How consistently each counsel argued."""

    contradictions: list[str] | None
    plaintiff_counsel: float | None
    defense_counsel: float | None
    overall: float | None


class Found(TypedDict, total=False):
    """One judge's scores and verdict."""

    evidence_strength: float | None
    argument_validity: float | None
    scientific_reliability: float | None
    verdict: str | None


class TrialFields(
    Pool,
    Stances,
    Challenges,
    Weighed,
    Gap,
    Formulated,
    Admitted,
    Argued,
    Needed,
    Expertise,
    Granted,
    Testified,
    Reflected,
    Criticised,
    Closed,
    Analysed,
    Found,
    total=False,
):
    """The fields of a trial's own steps."""


HEARD = (*START_FIELDS, Outcome)
POOLED = (*START_FIELDS, SearchOutcome, Pool)
DISCOVERED = (Gap, Outcome, Formulated, SearchOutcome)

KINDS = (
    Kind("Premises", "premises", "The premises of the claim.", (*HEARD, Premises)),
    Kind("StanceQueries", "stance_queries", "A query for each side.", (*HEARD, Stances)),
    Kind("SeedRetrieval", "retrieve_seed", "A search for the claim.", POOLED),
    Kind("PremiseRetrieval", "retrieve_premise", "A search for a premise.", (*POOLED, NumberField)),
    Kind("SideRetrieval", "retrieve", "A search with a side's query.", POOLED),
    Kind("Challenge", "challenge", "A side's challenges to evidence.", (*HEARD, Challenges)),
    Kind("Weighing", "weigh", "The weight of a piece of evidence.", (*HEARD, NumberField, Reason, Weighed)),
    Kind("Discovery", "discover", "A side's search in a round.", (*START_FIELDS, *DISCOVERED, Admitted)),
    Kind("DiscoveryBegun", "discover", "A pending search of a side.", START_FIELDS, DISCOVERED),
    Kind("Argument", "argue", "A counsel's argument.", (*HEARD, Argued, CitationFields)),
    Kind("ExpertRequest", "request_expert", "Whether a side wants an expert.", (*HEARD, Reason, Needed, Expertise)),
    Kind("ExpertRequestBegun", "request_expert", "A pending request.", START_FIELDS),
    Kind("ExpertRuling", "rule_on_expert", "Whether an expert is heard.", (*HEARD, NumberField, Reason, Granted)),
    Kind("Testimony", "testify", "An expert's testimony.", (*HEARD, NumberField, Expertise, Testified, CitationFields)),
    Kind("Reflection", "reflect", "A counsel's assessment of its side's case.", (*HEARD, Reflected)),
    Kind("Critique", "critique", "A critic's view of a round.", (*HEARD, Criticised)),
    Kind("Closing", "close", "Whether the court closes the debate.", (*HEARD, Reason, Closed)),
    Kind("Consistency", "analyse", "How consistently the counsel argued.", (*HEARD, Analysed)),
    Kind("PanelVote", "judge", "A judge of the panel.", (*HEARD, Reason, Found)),
)
"""The steps of a trial."""
