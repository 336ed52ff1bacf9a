"""The fields of a trial's turns (PROClaim), by step. `moot.nodes._runtime.turns` has the fields of other turns."""

from __future__ import annotations

from typing import Any

from moot.nodes._runtime.turns import (
    START_FIELDS,
    CitationFields,
    NumberField,
    Outcome,
    Premises,
    Reason,
    SearchOutcome,
    TurnKind,
)
from typing_extensions import TypedDict


class Pool(TypedDict, total=False):
    """The pool of evidence that a search fills."""

    pool: str


class StanceQueryFields(TypedDict, total=False):
    """A query for supporting evidence, and a query for challenging evidence."""

    supporting_query: str | None
    challenging_query: str | None


class Challenges(TypedDict, total=False):
    """A side's challenges to evidence."""

    challenges: list[dict[str, str]] | None


class AdmissibilityFields(TypedDict, total=False):
    """The relevance and credibility of a piece of evidence."""

    relevance: float | None
    credibility: float | None


class Gap(TypedDict, total=False):
    """The evidence that a side needs most."""

    gap: str | None


class FormulatedQuery(TypedDict, total=False):
    """A side's query before the court refined it; null if the claim itself was the query."""

    formulated: str | None


class DiscoveryResult(TypedDict, total=False):
    """The ids of the results that joined the record, and the reason why the side does not search again.

    The reason, ``ended``, is null if the side may search again.
    """

    joined: list[str]
    ended: str | None


class ArgumentField(TypedDict, total=False):
    """A counsel's argument."""

    argument: str | None


class ExpertNeeded(TypedDict, total=False):
    """Whether a side requests an expert."""

    needed: bool | None


class Expertise(TypedDict, total=False):
    """The subject that the requested expert should know."""

    expertise: str | None


class ExpertGranted(TypedDict, total=False):
    """Whether the court hears an expert."""

    granted: bool | None


class TestimonyField(TypedDict, total=False):
    """An expert's testimony."""

    testimony: str | None


class ReflectionFields(TypedDict, total=False):
    """A counsel's assessment of its own side's case."""

    flaws: list[str] | None
    logic: float | None
    novelty: float | None
    rebuttal: float | None
    discovery_need: str | None
    refined_stance: str | None


class CritiqueFields(TypedDict, total=False):
    """A critic's view of both sides."""

    plaintiff: dict[str, Any] | None
    defense: dict[str, Any] | None
    unresolved_premises: list[str] | None
    recommendations: dict[str, list[str]] | None
    debate_resolved: bool | None


class ClosingField(TypedDict, total=False):
    """Whether the court closes the debate."""

    close: bool | None


class ConsistencyFields(TypedDict, total=False):
    """How consistently each counsel argued, and how consistently both argued overall."""

    contradictions: list[str] | None
    plaintiff_counsel: float | None
    defense_counsel: float | None
    overall: float | None


class JudgementFields(TypedDict, total=False):
    """One judge's scores and verdict."""

    evidence_strength: float | None
    argument_validity: float | None
    scientific_reliability: float | None
    verdict: str | None


class TrialFields(
    Pool,
    StanceQueryFields,
    Challenges,
    AdmissibilityFields,
    Gap,
    FormulatedQuery,
    DiscoveryResult,
    ArgumentField,
    ExpertNeeded,
    Expertise,
    ExpertGranted,
    TestimonyField,
    ReflectionFields,
    CritiqueFields,
    ClosingField,
    ConsistencyFields,
    JudgementFields,
    total=False,
):
    """The fields that only turns of trials have."""


WITH_OUTCOME = (*START_FIELDS, Outcome)
POOL_SEARCH = (*START_FIELDS, SearchOutcome, Pool)
DISCOVERY_FIELDS = (Gap, Outcome, FormulatedQuery, SearchOutcome)

KINDS = (
    TurnKind("Premises", "premises", "The premises of the claim.", (*WITH_OUTCOME, Premises)),
    TurnKind("StanceQueries", "stance_queries", "A query for each side.", (*WITH_OUTCOME, StanceQueryFields)),
    TurnKind("SeedRetrieval", "retrieve_seed", "A search for the claim.", POOL_SEARCH),
    TurnKind("PremiseRetrieval", "retrieve_premise", "A search for a premise.", (*POOL_SEARCH, NumberField)),
    TurnKind("SideRetrieval", "retrieve", "A search with a side's query.", POOL_SEARCH),
    TurnKind("Challenge", "challenge", "A side's challenges to evidence.", (*WITH_OUTCOME, Challenges)),
    TurnKind(
        "Weighing",
        "weigh",
        "The weight of a piece of evidence.",
        (*WITH_OUTCOME, NumberField, Reason, AdmissibilityFields),
    ),
    TurnKind(
        "Discovery", "discover", "A side's search in a round.", (*START_FIELDS, *DISCOVERY_FIELDS, DiscoveryResult)
    ),
    TurnKind("DiscoveryBegun", "discover", "A pending search of a side.", START_FIELDS, DISCOVERY_FIELDS),
    TurnKind("Argument", "argue", "A counsel's argument.", (*WITH_OUTCOME, ArgumentField, CitationFields)),
    TurnKind(
        "ExpertRequest",
        "request_expert",
        "Whether a side wants an expert.",
        (*WITH_OUTCOME, Reason, ExpertNeeded, Expertise),
    ),
    TurnKind("ExpertRequestBegun", "request_expert", "A pending request.", START_FIELDS),
    TurnKind(
        "ExpertRuling",
        "rule_on_expert",
        "Whether an expert is heard.",
        (*WITH_OUTCOME, NumberField, Reason, ExpertGranted),
    ),
    TurnKind(
        "Testimony",
        "testify",
        "An expert's testimony.",
        (*WITH_OUTCOME, NumberField, Expertise, TestimonyField, CitationFields),
    ),
    TurnKind("Reflection", "reflect", "A counsel's assessment of its side's case.", (*WITH_OUTCOME, ReflectionFields)),
    TurnKind("Critique", "critique", "A critic's view of a round.", (*WITH_OUTCOME, CritiqueFields)),
    TurnKind("Closing", "close", "Whether the court closes the debate.", (*WITH_OUTCOME, Reason, ClosingField)),
    TurnKind("Consistency", "analyse", "How consistently the counsel argued.", (*WITH_OUTCOME, ConsistencyFields)),
    TurnKind("PanelVote", "judge", "A panel judge's scores and verdict.", (*WITH_OUTCOME, Reason, JudgementFields)),
)
"""The kinds of turns that only trials have."""
