"""The settings of a trial, and the resources that it needs (PROClaim)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from moot.nodes._models.chat_models import ModelChoice
from moot.nodes._runtime.opening import Needs
from moot.nodes._runtime.settings import SOURCES, Moment, Source, SourcesSettings, ask_person, by_preset
from moot.nodes._speakers.turns import SHARED_ROLES, Agent, check_unique_names, needs_for, number_speakers
from moot.nodes._trial.confidence import CONSENSUS_WEIGHT, QUALITY_WEIGHT, Verdict
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

ROUNDS_WITHOUT_RETRIEVAL = 3
"""Number of rounds of each debate if `progressive_retrieval` is off (PROClaim, Table 6)."""
TEMPERATURES: dict[str, float | None] = {
    **dict.fromkeys(("plaintiff", "defense", "expert"), 0.5),
    **dict.fromkeys(("court", "arbiter"), 0.2),
    **dict.fromkeys(("critic", "miner", "analyser", "negotiator", "retrieval", "judges"), 0.3),
}
"""The default sampling temperatures of roles (PROClaim, appendix B.3); ``judges`` stands for all judges."""
ROLES = frozenset(TEMPERATURES) - {"judges"}


def _check_judges(judges: tuple[Agent, ...]) -> tuple[Agent, ...]:
    if len(judges) % 2 == 0:
        raise ValueError(f"a panel needs an odd number of judges, not {len(judges)}")
    check_unique_names((judge.name for judge in judges), ROLES | SHARED_ROLES)
    return judges


def _with_default_temperatures(given: Any) -> Any:
    if not isinstance(given, Mapping):
        return given
    if unknown := sorted(set(map(str, given)) - set(TEMPERATURES)):
        raise ValueError(f"there is no role {unknown[0]!r}; known are {', '.join(sorted(TEMPERATURES))}")
    return {**TEMPERATURES, **given}


class TrialSettings(SourcesSettings):
    """Settings of a trial. Most defaults are PROClaim's."""

    judges: Annotated[tuple[Agent, ...], number_speakers("judge"), AfterValidator(_check_judges)] = Field(
        default=tuple(Agent(name=f"judge-{number}") for number in (1, 2, 3)),
        min_length=1,
        max_length=15,
        description="The panel, with an odd number of judges: a list of judges or of their models, or a number. The "
        "first is the chief judge. Each judge should have its own model, different from the counsel's.",
    )
    temperatures: Annotated[
        dict[str, Annotated[float, Field(ge=0, le=2)] | None], BeforeValidator(_with_default_temperatures)
    ] = Field(
        default=TEMPERATURES,
        description="Sampling temperatures of roles (judges: of all judges). A model's own temperature overrides them. "
        "Null leaves the temperature to the endpoint. If only `temperature` is set, it applies to all roles.",
    )
    sources: tuple[Source, ...] = Field(
        default=("chroma",),
        max_length=10,
        description=f"Sources of evidence: {SOURCES}; an empty list for a trial without a search, only with the texts "
        "given with the claim.",
    )
    max_concurrency: int = Field(
        default=32, ge=1, le=1000, description="Maximum number of parallel calls to one endpoint."
    )
    seed_k: int = Field(
        default=5, ge=1, le=50, description="Number of documents from each source in the search for the claim itself."
    )
    max_premises: int = Field(
        default=10,
        ge=1,
        le=50,
        description="Maximum number of premises with a search for evidence; further premises are only shown.",
    )
    admitted_above: float = Field(default=0.5, ge=0, le=1, description="Evidence with a weight above this is admitted.")
    disputed_above: float = Field(
        default=0.1,
        ge=0,
        le=1,
        description="Evidence that is not admitted but has a weight above this is disputed: only the panel reads it.",
    )
    ask_person: tuple[Moment, ...] = ask_person()
    max_rounds: int = Field(default=10, ge=1, le=20, description="Maximum number of rounds of the primary debate.")
    min_rounds: int = Field(default=2, ge=1, le=20, description="The first round after which a debate may stop early.")
    switched_rounds: int = Field(default=2, ge=1, le=20, description="Maximum number of rounds with switched sides.")
    role_switch: bool = Field(default=True, description="Off: no debate with switched sides.")
    switch_same_model: bool = by_preset(
        paper=True,
        practical=False,
        description="Off: if both counsel have the same model, there is no debate with switched sides, which one model "
        "would only repeat.",
    )
    procedure: Literal["full", "lean"] = by_preset(
        paper="full",
        practical="lean",
        description="full: as in the paper. lean: a side may say that it lacks nothing, and may concede; the first "
        "round may then end the debate. The arbiter weighs what a search finds before it joins the record. Experts are "
        "offered only while a premise is open. The court is asked only if no side concedes and a round is left.",
    )
    progressive_retrieval: bool = Field(
        default=True,
        description="Off: no retrieval during the debates, and each debate has exactly "
        f"{ROUNDS_WITHOUT_RETRIEVAL} rounds.",
    )
    self_reflection: bool = Field(default=True, description="Off: no side reflects on its case.")
    novelty_threshold: float = Field(
        default=0.20, ge=0, le=2, description="Minimum novelty of evidence that joins the record."
    )
    redundant_similarity: float = Field(
        default=0.85, ge=-1, le=1, description="Evidence more similar to the record than this is redundant."
    )
    redundant_share: float = Field(
        default=0.70,
        ge=0,
        le=1,
        description="If more than this share of a side's retrieval is redundant, the side's search ends.",
    )
    min_request_similarity: float = by_preset(
        paper=-1.0,
        practical=0.20,
        ge=-1,
        le=1,
        description="Minimum similarity (cosine) to the side's request that evidence needs to join the record; -1: "
        "none, as in the paper.",
    )
    max_retrievals: int = Field(
        default=10, ge=1, le=20, description="Maximum number of retrievals per side in a debate."
    )
    relevance_gain: float | None = Field(
        default=None,
        ge=-2,
        le=2,
        description="Minimum gain in relevance of a side's retrieval over the side's previous retrieval, e.g. 0.05; a "
        "smaller gain ends the side's search. Null: gains do not count.",
    )
    plateau: float = Field(
        default=0.05,
        ge=0,
        le=2,
        description="The debate stops if the sum of both sides' reflection scores changes by less than this in two "
        "rounds in a row.",
    )
    exhaustion: float = Field(
        default=0.10,
        ge=0,
        le=2,
        description="The debate stops if the mean novelty of retrieved evidence is below this in two rounds in a row.",
    )
    exhibits: Literal["cited", "best", "whole"] = by_preset(
        paper="cited",
        practical="best",
        description="Form of exhibits for gaps, testimony, reflections and the critic. cited: the titles and quoted "
        "passages of cited exhibits, and for gaps also the other titles; best: the same, but for the critic and the "
        "first gaps the whole texts of the five exhibits with the greatest weight; whole: the whole texts of all "
        "exhibits. Arguments and judges always have the whole texts.",
    )
    panel_tokens: int = Field(
        default=48_000,
        ge=500,
        le=2_000_000,
        description="Maximum length of the record that a judge reads, in tokens (estimated). To keep this limit, "
        "exhibits are left out, uncited exhibits before cited ones. Statements are always shown.",
    )
    inconclusive: Literal["abstain", "burden_of_refutation"] | None = Field(
        default=None,
        description="The answer for an inconclusive verdict: abstain gives the task's label for it, or no answer; with "
        "burden_of_refutation a claim that was not refuted counts as supported. Null: abstain if the task has such "
        "a label, else burden_of_refutation.",
    )
    consensus_weight: float = Field(
        default=CONSENSUS_WEIGHT,
        ge=0,
        le=1,
        description="In `confidence`, the weight of the share of judges who voted for the verdict.",
    )
    quality_weight: float = Field(
        default=QUALITY_WEIGHT,
        ge=0,
        le=1,
        description="In `confidence`, the weight of the judges' mean scores, which are one number from 0 to 1.",
    )
    verdict_labels: dict[Verdict, str] = Field(
        default={},
        description="The task's labels for SUPPORTED, NOT SUPPORTED and INCONCLUSIVE. For a verdict that is left out, "
        "the label is found by its meaning or spelling.",
    )

    @model_validator(mode="before")
    @classmethod
    def _apply_temperature(cls, given: Any) -> Any:
        """If only `temperature` is set, it applies to all roles."""
        if isinstance(given, Mapping) and "temperature" in given and "temperatures" not in given:
            return {**given, "temperatures": dict.fromkeys(TEMPERATURES, given["temperature"])}
        return given

    @model_validator(mode="after")
    def _check_thresholds(self) -> TrialSettings:
        if self.disputed_above > self.admitted_above:
            raise ValueError("`disputed_above` must not be above `admitted_above`")
        return self

    def roles(self) -> set[str]:
        """The roles that may have a model of their own."""
        return {*ROLES, *(judge.name for judge in self.judges)} | SHARED_ROLES

    def temperature_of(self, role: str) -> float | None:
        """The sampling temperature of a role in the settings. A temperature of the role's model overrides it."""
        judges = any(judge.name == role for judge in self.judges)
        return self.temperatures.get(role, self.temperatures["judges"] if judges else self.temperature)

    @property
    def switches_sides(self) -> bool:
        """Whether there is a debate with switched sides."""
        return self.role_switch and (self.switch_same_model or len({*self.counsel_models().values()}) > 1)

    def counsel_models(self) -> dict[str, str | None]:
        """The name of each counsel's model; None if the settings name none."""
        chosen = {side: self.models.get(side, self.model) for side in ("plaintiff", "defense")}
        return {side: one.model if isinstance(one, ModelChoice) else one for side, one in chosen.items()}

    @property
    def searches_in_debates(self) -> bool:
        """Whether the sides search for more evidence during the debates."""
        return self.progressive_retrieval and bool(self.sources)

    def rounds_of(self, phase: str) -> int:
        """The maximum number of rounds of the debate in this phase."""
        if not self.progressive_retrieval:
            return ROUNDS_WITHOUT_RETRIEVAL
        return self.switched_rounds if phase == "switched" else self.max_rounds


def trial_needs(settings: TrialSettings) -> Needs:
    """The resources that a trial with these settings needs.

    Args:
        settings: the trial's settings.
    """
    roles = set(ROLES) - (set() if settings.switches_sides else {"analyser"})
    speakers = dict.fromkeys(sorted(roles)) | {judge.name: judge.model for judge in settings.judges}
    return needs_for(settings, speakers, settings.sources_to_open(), encoder=settings.searches_in_debates)
