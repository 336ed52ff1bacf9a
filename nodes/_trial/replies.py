"""The replies of a trial's roles (PROClaim). Stored runs and scripted endpoints depend on the field names."""

from __future__ import annotations

from typing import Annotated, Any

from moot.nodes._texts.answers import read_answer
from moot.nodes._texts.labels import fold_label
from moot.nodes._texts.replies import Quote, Reply, Text
from moot.nodes._texts.task import make_task
from moot.nodes._trial.confidence import VERDICTS, Verdict
from pydantic import AfterValidator, BeforeValidator, Field, model_validator


def _unique_texts(texts: list[str]) -> list[str]:
    """The texts without blank texts and without repetitions (compared with `fold_label`)."""
    found: dict[str, str] = {}
    for text in texts:
        if text.strip():
            found.setdefault(fold_label(text), text.strip())
    return list(found.values())


Texts = Annotated[list[str], AfterValidator(_unique_texts), Field(json_schema_extra={"minItems": 0})]
"""A list of texts without blank texts and repetitions. It may be empty."""
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
"""A number from 0 to 1."""
Ten = Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)]
"""A number from 0 to 10."""


class PremisesReply(Reply):
    """The premises of a claim."""

    premises: Annotated[list[str], AfterValidator(_unique_texts), Field(min_length=1)]


class StanceQueriesReply(Reply):
    """A query for evidence that speaks for a claim, and one for evidence that speaks against it."""

    supporting_query: Text
    challenging_query: Text


class Challenge(Reply):
    """A challenge to a piece of evidence."""

    evidence_id: str
    reason: Text


class ChallengesReply(Reply):
    """One side's challenges to pieces of evidence."""

    challenges: Annotated[list[Challenge], Field(json_schema_extra={"minItems": 0})]


class AdmissibilityReply(Reply):
    """How relevant and credible a piece of evidence is."""

    reason: str
    relevance: Share
    credibility: Share


class GapReply(Reply):
    """The evidence that a side lacks."""

    gap: Text


class ArgumentReply(Reply):
    """A counsel's argument."""

    argument: Text
    citations: list[Quote]


class ExpertRequestReply(Reply):
    """Whether a side wants an expert to testify, on what, and why."""

    reason: str
    needed: bool
    expertise: str

    @model_validator(mode="after")
    def _check_expertise(self) -> ExpertRequestReply:
        if self.needed and not self.expertise.strip():
            raise ValueError("`expertise` is empty, though an expert is `needed`")
        return self


class ExpertRulingReply(Reply):
    """Whether the court hears an expert."""

    reason: str
    granted: bool


class TestimonyReply(Reply):
    """An expert's testimony."""

    __test__ = False  # pytest must not collect it as a test

    testimony: Text
    citations: list[Quote]


class ReflectionReply(Reply):
    """A counsel's assessment of its own side's case."""

    flaws: Texts
    logic: Share
    novelty: Share
    rebuttal: Share
    discovery_need: str
    refined_stance: str


class SideScores(Reply):
    """How well one side did in a round."""

    reason: str
    logic: Share
    evidence: Share
    rebuttal: Share


class Recommendations(Reply):
    """Advice for each side, and queries that might help."""

    plaintiff: Texts
    defense: Texts
    queries: Texts


class CritiqueReply(Reply):
    """A critic's view of a round."""

    plaintiff: SideScores
    defense: SideScores
    unresolved_premises: Texts
    recommendations: Recommendations
    debate_resolved: bool


class ClosingReply(Reply):
    """Whether the court closes the debate."""

    reason: str
    close: bool


class ConsistencyReply(Reply):
    """How consistently each counsel argued when the sides were switched, from 0 to 10."""

    contradictions: Texts
    plaintiff_counsel: Ten
    defense_counsel: Ten
    overall: Ten


_VERDICT_TASK = make_task(labels=VERDICTS)


def _normalise_verdict(value: Any) -> Any:
    """A verdict in the spelling of `VERDICTS`; other values are returned unchanged."""
    return (isinstance(value, str) and read_answer(_VERDICT_TASK, value)) or value


class JudgementReply(Reply):
    """One judge's findings, scores from 0 to 10, and verdict."""

    reason: Text
    evidence_strength: Ten
    argument_validity: Ten
    scientific_reliability: Ten
    verdict: Annotated[Verdict, BeforeValidator(_normalise_verdict)]
