"""The settings that graphs share. Each graph has a class that inherits them; Studio shows its fields as a form."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeGuard, TypeVar, get_args

from moot.core.callers import check_maxima
from moot.core.config import AUTO, AUTO_IS_TYPED, operators_model
from moot.core.errors import UserError, did_you_mean
from moot.nodes._models.chat_models import EMBEDDED, ModelChoice, StructuredOutput
from moot.nodes._models.objects import (
    NameOrObject,
    embedder_or_name,
    model_or_name,
    names_in,
    source_or_name,
)
from moot.nodes._vendors.catalogue import meant_model
from moot.prompts._files import shipped
from moot.retrievers._encoders import DEFAULT_ENCODER
from moot.retrievers._langchain_source import ObjectName, identity_of
from moot.retrievers._normalise import MOST_TOKENS, WEB_SEARCHES
from moot.retrievers._sites import ClaimPage, site_of
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    StringConstraints,
    ValidationError,
    WrapValidator,
    model_validator,
)

MODELS = ["openai:gpt-4o-mini", "ollama:qwen3:8b", "vllm:meta-llama/Llama-3.3-70B-Instruct", EMBEDDED, "fake:1"]
"""Examples of names of models."""
ModelName = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z_]+:.+$", max_length=200),
    Field(examples=MODELS),
]
"""The type of a field with the name of a model."""
NamedModel = Annotated[
    NameOrObject,
    StringConstraints(pattern=r"^[a-z_]+:.+$", max_length=200),
    Field(examples=MODELS),
    WrapValidator(model_or_name),
]
"""The same, but a chat model of LangChain becomes its name."""
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,31}$")]
Source = Annotated[
    NameOrObject,
    StringConstraints(min_length=1, max_length=200),
    Field(
        examples=[
            *("chroma", "bm25", "hybrid", "web", *WEB_SEARCHES),
            *("wikipedia", "openalex", "pubmed", "arxiv", "fact_checks"),
        ],
    ),
    WrapValidator(source_or_name),
]
"""The type of a field with the name of a source; a LangChain object that can be searched becomes its name."""
Embedder = Annotated[NameOrObject, WrapValidator(embedder_or_name)]
"""The type of a field with the name of an embedder; an embedding model of LangChain becomes its name."""
SOURCES = (
    "chroma, bm25 or hybrid (each also with :CORPUS; without a corpus Wikipedia), web (the first of the next five that "
    "is set up; without one bm25 if a corpus is set, else Wikipedia), searxng, ddgs, tavily, serper, brave, wikipedia, "
    "openalex, pubmed, arxiv, fact_checks, langchain:MODULE:ATTRIBUTE, mcp:SERVER/TOOL, or the name of a source of an "
    "installed package"
)
"""The names of sources, for the descriptions of settings."""


def _site(text: str) -> str:
    """A site in its normal form (`site_of`); ValueError if the text names none."""
    try:
        return site_of(text)
    except UserError as error:
        raise ValueError(error.detail) from error


def _by_site(labels: Mapping[str, str]) -> dict[str, str]:
    return {_site(site): label for site, label in labels.items()}


SiteNames = tuple[Annotated[str, StringConstraints(min_length=1, max_length=300), AfterValidator(_site)], ...]
SiteLabel = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=100, pattern=r'^[^"<>\n]+$')
]
"""A user's label of a site, in words that fit into a tag of a prompt."""

DEMONSTRATION = ("embedded", "fake")
"""Providers of demonstration models, whose verdicts have no meaning."""

REPORTER = "reporter"
"""The role that writes the summary for readers (`reader_summary`)."""

PLANNER = "planner"
"""The role that writes the plan before the first search (`PlanSettings`)."""

Moment = Literal["queries", "premises", "evidence", "remark", "verdict"]
"""Moments at which a debate may wait for a person. Most systems support only some of them."""


PRESETS = "presets"
"""The key of a field's extra schema: its default under each preset."""


def by_preset(description: str, *, paper: Any, practical: Any, **more: Any) -> Any:
    """Makes a field whose default depends on the setting ``preset``; null stands for that default.

    The field's type is without None, because null is replaced before the value is checked.

    Args:
        description: the setting's description, without its default.
        paper: the default under the preset ``paper``.
        practical: the default under the preset ``practical``.
        more: further arguments of Pydantic's ``Field``, such as ``ge``.
    """
    defaults = {"paper": paper, "practical": practical}
    text = f"{description} Null: {json.dumps(paper)} under the preset paper, {json.dumps(practical)} under practical."
    return Field(default=None, description=text, json_schema_extra={PRESETS: defaults}, **more)


def ask_person() -> Any:
    """Makes the field ``ask_person`` of a settings class: the moments at which a debate waits for a person."""
    return Field(
        default=(),
        max_length=5,
        description="When the debate waits for a person: to review queries, premises or evidence before they are "
        "used, to make a remark before another round, or to question the draft of the verdict.",
    )


Preset = Literal["paper", "practical"]
"""A set of defaults: the source's, or those that moot recommends."""


def waits_for_person(settings: Any, moment: Moment) -> bool:
    """Whether a debate with these settings waits for a person at a moment; false if they have no ``ask_person``."""
    return moment in getattr(settings, "ask_person", ())


if TYPE_CHECKING:
    InWords = BaseModel
else:

    class _InWords(type(BaseModel)):
        def __call__(cls, *unnamed: Any, **values: Any) -> Any:
            if unnamed:
                raise UserError(
                    f"{cls.__name__} takes values by name: {cls.__name__}({next(iter(cls.model_fields))}=...).",
                    kind="invalid_setting",
                )
            try:
                return super().__call__(**values)
            except ValidationError as error:
                raise UserError(f"{problems_of(cls, error)}.", kind="invalid_setting") from error

    class InWords(BaseModel, metaclass=_InWords):
        """A model whose constructor raises a `UserError` in words, with near matches, instead of Pydantic's error."""


class Settings(InWords):
    """Settings of every debate.

    Raises:
        UserError: a value is wrong, or there is no such setting.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    prompts: ClassVar[Mapping[str, str]] = {}
    """The fields that contain prompts, each with the prompt's name; see `with_prompts`."""
    without: ClassVar[frozenset[str]] = frozenset()
    """Fields that a graph does not use. The JSON schema leaves them out, and only their default values are accepted."""
    why_without: ClassVar[str] = ""
    """The reason why the graph does not use the fields in ``without``; error messages begin with it."""

    preset: Preset = Field(
        default="paper",
        description="The defaults of those settings that depend on it. paper: as the system's source; practical: as "
        "moot recommends for checks, with which the commands and the page begin.",
    )
    model: NamedModel | None = Field(
        default=None,
        examples=MODELS,
        description="Model of all roles that have none of their own, as provider:name (openai, ollama, vllm, "
        "anthropic, google_genai, embedded, fake ...). Null: the model of the environment variable MOOT_MODEL; without "
        "it, each role needs a model of its own.",
    )
    models: dict[str, NamedModel | ModelChoice] = Field(
        default={},
        description="Models of single roles: for each role provider:name, or an object with model, temperature, "
        "max_tokens, context_tokens, structured_output, seed.",
    )
    temperature: float | None = Field(
        default=0.0, ge=0, le=2, description="Sampling temperature; null leaves it to the endpoint."
    )
    max_tokens: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="Maximum number of tokens in a reply; null: the endpoint's default.",
    )
    context_tokens: int | None = Field(
        default=None,
        ge=256,
        le=100_000_000,
        description="Maximum number of tokens of a prompt and its reply together. From longer prompts, moot leaves out "
        "evidence, then the oldest rounds. Null: the maximum in moot's tables or in the endpoint's refusal.",
    )
    seed: int | None = Field(
        default=None,
        ge=0,
        le=2**31 - 1,
        description="Sampling seed, if the endpoint accepts one; each call's own seed is derived from it.",
    )
    structured_output: StructuredOutput = Field(
        default="json_schema",
        description="How structured output is requested: by JSON schema, by JSON mode, or only in the prompt.",
    )
    verified_quotes: bool = Field(
        default=False,
        description="On: an answer needs a quote from the evidence that it names. If the quote is missing, the model "
        "is called once more; if it is still missing, the answer is recorded as unquoted. If the prompt contains no "
        "evidence, the answer needs no quote.",
    )
    label_rules: bool = by_preset(
        paper=False,
        practical=True,
        description="On: prompts for a label say how to judge a claim of which evidence covers only a part, one that "
        "reports what somebody said, gives a rough figure, names no place or group, or concludes something from a "
        "fact, and what common knowledge may add.",
    )
    embedder: Embedder = Field(
        default=DEFAULT_ENCODER,
        min_length=1,
        max_length=300,
        description="Text encoder: all-MiniLM-L6-v2, another sentence-transformers name or folder, openai:NAME, or "
        "langchain:MODULE:ATTRIBUTE.",
        examples=[DEFAULT_ENCODER, "openai:text-embedding-3-small"],
    )
    corpus: str | None = Field(
        default=None,
        min_length=1,
        max_length=63,
        description="Corpus of the sources whose names contain none. Null: these sources read Wikipedia instead, with "
        "a warning. The demo corpora are only for trying moot out.",
        examples=["demo-encyclopaedia", "demo-news"],
    )
    budget: int | None = Field(
        default=None,
        ge=1,
        le=10_000_000,
        description="Maximum number of tokens of prompts and replies. Before each call, its prompt and its longest "
        "reply (`max_tokens`, else 512 or, for long lists, 1,536, and more if the model thinks) are reserved; calls "
        "that do not fit are not made. Tokens for the roles that decide are reserved from the start, so that these "
        "roles can end the debate (budget_exhausted). Null: no bound.",
    )
    max_cost: float | None = Field(
        default=None,
        gt=0,
        le=10_000,
        description="The same as `budget`, in USD, by the models' list prices; a model without a known price is "
        "refused. The costs of encoders and searches are not counted.",
    )
    max_calls: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="The same as `budget`, in calls to models; a call with its retries counts once.",
    )
    max_seconds: float | None = Field(
        default=None,
        gt=0,
        le=1_000_000,
        description="The same as `budget`, in seconds: running calls and searches are cut off, and time to decide is "
        "reserved. After a wait for a person, the time is counted from zero again.",
    )
    reader_summary: bool = by_preset(
        paper=False,
        practical=True,
        description="On: after the verdict, the role reporter summarises the debate for readers of the report: about "
        "three sentences with citations, the answer that each quote supports, the evidence that was not found, and "
        "what would change the verdict. This takes one more call. A demonstration model writes none.",
    )
    calibration: str | None = Field(
        default=None,
        min_length=1,
        max_length=1000,
        description="A file of `moot calibrate`, fitted on labelled debates with the same settings; a file for other "
        "settings is refused. A server reads only files of its folder calibrations (in MOOT_HOME): name the file "
        "without a path. The document then has a prediction set, and says whether to act on the verdict or to "
        "escalate it.",
    )
    on_failure: Literal["document", "raise"] = Field(
        default="document",
        description="How a debate fails: it ends with its document, which has the error; or the node raises the error, "
        "so that the run fails in LangGraph, for its retry policies, on a server and in LangSmith.",
    )
    timeout: float = Field(default=120.0, gt=0, le=3600, description="Seconds that one request may take.")
    attempts: int = Field(
        default=3,
        ge=1,
        le=10,
        description="Maximum number of requests per call; requests refused with HTTP 429 do not count.",
    )
    max_concurrency: int = Field(
        default=16, ge=1, le=1000, description="Maximum number of parallel calls to one endpoint."
    )
    requests_per_minute: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="Maximum number of requests to one endpoint per minute; null: no limit.",
    )
    max_wait: float = Field(
        default=600.0,
        ge=0,
        le=86400,
        description="Seconds that a call may wait while its endpoint refuses it (HTTP 429).",
    )

    def edited(self) -> dict[str, str]:
        """The texts of the prompts that differ from the shipped prompts, by the prompts' names."""
        texts = {name: getattr(self, field) for field, name in self.prompts.items()}
        return {name: text for name, text in texts.items() if text != shipped(name)}

    def recorded(self) -> dict[str, Any]:
        """All settings of the debate itself as plain values. Prompts that were not edited are left out."""
        changed = self.edited()
        unchanged = {field for field, name in self.prompts.items() if name not in changed}
        return self.model_dump(mode="json", exclude={*unchanged, "on_failure"})

    def with_document(self) -> Settings:
        """The same settings for a command, which needs the document of a debate that fails."""
        return self.model_copy(update={"on_failure": "document"})

    @property
    def own_model(self) -> bool:
        """Whether any role has a model of the user: one that is neither the embedded model nor a fake model."""
        return any(name.partition(":")[0] not in DEMONSTRATION for name in self.models_named())

    def models_named(self) -> set[str]:
        """The names of all models: that of all roles, and those of single roles and speakers."""
        speakers = [one for field in vars(self).values() if isinstance(field, tuple) for one in field]
        chosen = [self.model, *self.models.values(), *(getattr(one, "model", None) for one in speakers)]
        return {one.model if isinstance(one, ModelChoice) else one for one in chosen if one}

    def objects(self) -> dict[str, ObjectName]:
        """The names of the LangChain objects that the settings hold, by the same names as texts."""
        return {str(name): name for name in names_in(self)}

    def inner_settings(self) -> Settings | None:
        """The settings of the inner debate; None if a debate with these settings runs no inner debate."""
        return None

    def temperature_of(self, role: str) -> float | None:
        """The sampling temperature of a role whose model has no temperature of its own; None for the endpoint's."""
        return self.temperature

    def roles(self) -> set[str] | None:
        """The roles that `models` may name besides `REPORTER`; None if a graph's roles are unknown."""
        return None

    @classmethod
    def defaults(cls, preset: Preset) -> dict[str, Any]:
        """The defaults of those settings that depend on the preset."""
        extras = {name: field.json_schema_extra for name, field in cls.model_fields.items()}
        return {name: extra[PRESETS][preset] for name, extra in extras.items() if _has_presets(extra)}

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, values: Any) -> Any:
        if not isinstance(values, Mapping) or values.get("preset", "paper") not in get_args(Preset):
            return values
        defaults = cls.defaults(values.get("preset", "paper"))
        return {**values, **{name: value for name, value in defaults.items() if values.get(name) is None}}

    @model_validator(mode="after")
    def _check_roles(self) -> Settings:
        roles = self.roles()
        added = set() if "reader_summary" in self.without else {REPORTER}
        known = added if roles is None else roles | added
        unknown = sorted(set(self.models) - known) if roles is not None else []
        if unknown:
            raise ValueError(f"models: there is no role {unknown[0]!r}; known are {', '.join(sorted(known))}")
        return self

    @model_validator(mode="after")
    def _check_objects(self) -> Settings:
        found: dict[str, ObjectName] = {}
        for name in names_in(self):
            other = found.setdefault(name, name)
            if other.held is not name.held and identity_of(other.held) != identity_of(name.held):
                kind = type(name.held).__name__
                raise ValueError(
                    f"two different objects are named {name}. Give each a name of its own, which documents then show: "
                    f'{kind}(..., name="NAME")'
                )
        return self

    @model_validator(mode="after")
    def _check_unused_fields(self) -> Settings:
        usual = self.usual()
        # Only changed values are refused, because recorded settings also contain the unused fields.
        if changed := sorted(name for name in self.without if getattr(self, name) != usual[name]):
            raise ValueError(f"{self.why_without}: leave out {', '.join(changed)}")
        return self

    @model_validator(mode="after")
    def _check_maxima(self) -> Settings:
        usual = self.usual()
        check_maxima({name: value for name, value in vars(self).items() if value != usual[name]})
        return self

    def usual(self) -> dict[str, Any]:
        """The default of each field, under the preset of these settings."""
        fixed = {name: field.default for name, field in type(self).model_fields.items()}
        return {**fixed, **self.defaults(self.preset)}

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        found = handler.resolve_ref_schema(handler(core_schema))
        for name in cls.without:
            found["properties"].pop(name, None)
        for name in cls.defaults("paper").keys() - cls.without:
            found["properties"][name] = _or_null(found["properties"][name])
        return found


def _or_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a field that depends on the preset: null is allowed, too."""
    about = {key: schema[key] for key in ("title", "description", "default", PRESETS, "examples") if key in schema}
    return {"anyOf": [{key: schema[key] for key in schema if key not in about}, {"type": "null"}], **about}


def _has_presets(extra: Any) -> TypeGuard[dict[str, Any]]:
    """Whether a field's extra schema has defaults by preset."""
    return isinstance(extra, dict) and PRESETS in extra


S = TypeVar("S", bound=Settings)


class EvidenceSettings(Settings):
    """Settings of debates that search for evidence."""

    k: int = Field(default=3, ge=1, le=50, description="Documents per query, from each source.")
    max_per_host: int = by_preset(
        paper=50,
        practical=2,
        ge=1,
        le=50,
        description="Maximum number of documents per website in a web search; 50, the most that `k` can be: no limit.",
    )
    max_origin_share: float = by_preset(
        paper=1.0,
        practical=0.5,
        gt=0,
        le=1,
        description="Largest share of the `k` documents of a search that may be near-duplicates of one another (two "
        "are always allowed): other results take the places of the rest, if the search found any. A larger share of a "
        "debate's evidence gives a warning. Only documents with a web address are compared. 1: no limit.",
    )
    datamarking: bool = Field(
        default=False,
        description="On: in prompts the words of evidence are joined by a mark, so that models can tell instructions "
        "in evidence from the instructions of the prompt. The mark makes evidence longer and harder to read.",
    )
    robustness: bool = Field(
        default=False,
        description="On: after the verdict, the decision is repeated without each origin in turn, "
        "without two origins that quote the same fact, with the evidence in reversed order, and without evidence.",
    )
    robustness_calls: int = Field(
        default=20, ge=1, le=1000, description="Maximum number of calls that `robustness` makes."
    )
    assess: bool = by_preset(
        paper=False,
        practical=True,
        description="On: the role scorer reads each answer that decides, once, and says which of its statements follow "
        "from the evidence, and whether each checked quote bears the answer out, speaks against it, or neither. A "
        "verdict that no quote bears out gets a warning. One call for each of these answers.",
    )
    require_warrant: bool = Field(
        default=False,
        description="On: a verdict that no checked quote bears out, according to `assess`, is withheld: it becomes "
        "the label for not enough evidence, or none. Not for tasks of reasoning, such as multiple choice.",
    )
    second_opinion: bool = Field(
        default=False,
        description="On: after the verdict, the role reviewer reads the claim and all evidence, but not the debate, "
        "and says how likely each label is. It never replaces the verdict. One call; only for tasks with labels. Give "
        "the role a model of another maker.",
    )
    doubt_below: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="A verdict to which `second_opinion` gives a probability below this is flagged as doubted; null: "
        "none is. `moot calibrate` finds the value, from at least 100 labelled claims.",
    )
    published_before: date | None = Field(
        default=None,
        description="A date, e.g. 2020-10-25: evidence published on this day or later is left out; evidence "
        "without a date stays, with a warning.",
    )
    sites_only: SiteNames = Field(
        default=(),
        max_length=1000,
        description="Sites, such as who.int: web results of other sites are left out. A site includes all hosts below "
        "it. Evidence without a web address stays.",
        examples=[["who.int", "gov.uk"]],
    )
    sites_never: SiteNames = Field(
        default=(), max_length=1000, description="Sites whose web results are left out.", examples=[["example.com"]]
    )
    site_labels: Annotated[dict[str, SiteLabel], AfterValidator(_by_site)] = Field(
        default={},
        max_length=10_000,
        description="Your own label or weight for sites, which agents and readers see beside the evidence.",
        examples=[{"example.org": "a party's own site"}],
    )
    claim_page: ClaimPage = Field(
        default="left_out",
        description="Results from the page and the site on which the claim appeared (`appeared_at`), and near-copies. "
        "left_out: they are no evidence; marked: agents are told that they show only what was said; evidence: they are "
        "as all others.",
    )
    fact_checks_decide: bool = Field(
        default=False,
        description="Off: a verdict whose checked quotes are all from fact checks by others (source fact_checks) is "
        "withheld: it becomes the label for not enough evidence, or none. On: they count as other evidence does.",
    )
    check_retractions: bool = by_preset(
        paper=False,
        practical=True,
        description="On: Crossref is asked whether works with a DOI were retracted. OpenAlex and PubMed always say so.",
    )
    read_pages: bool = by_preset(
        paper=False,
        practical=True,
        description="On: the pages that a web search finds are fetched, and agents read their passages nearest to the "
        "claim and the query instead of the search engine's snippets. Websites then learn of the debate's address. "
        "Pages that cannot be read keep their snippets, with a warning.",
    )
    respect_robots: bool = Field(
        default=True, description="Whether `read_pages` reads only pages that the website's robots.txt allows."
    )
    archive: Literal["off", "find", "save"] = Field(
        default="off",
        description="Copies in the Wayback Machine of those pages that `read_pages` read and answers cite. find names "
        "the nearest copy; save asks for a new one, which everybody can then read, and needs WAYBACK_KEY.",
    )
    max_evidence_tokens: int = Field(
        default=MOST_TOKENS,
        ge=16,
        le=100_000,
        description="Approximate maximum number of tokens of a document's text in a prompt. Of longer texts, the "
        "beginning and the sentences nearest to the query are shown; quotes are checked against the whole text.",
    )
    reranker: str | None = Field(
        default=None,
        min_length=1,
        max_length=300,
        description="CrossEncoder (sentence-transformers, by name or folder) that ranks the results of hybrid "
        "searches; null for none.",
        examples=["cross-encoder/ms-marco-MiniLM-L6-v2"],
    )
    source_summaries: str = Field(
        default="model",
        min_length=1,
        max_length=300,
        description="How abstracts from OpenAlex are summarised. model: by the role source_summariser; none: not at "
        "all; any other value: by this summarisation model (transformers, by name or folder).",
        examples=["model", "none"],
    )

    @model_validator(mode="after")
    def _check_warrants(self) -> EvidenceSettings:
        if self.require_warrant and not self.assess:
            raise ValueError("require_warrant needs assess: set assess to true, or preset to practical")
        if self.doubt_below is not None and not self.second_opinion:
            raise ValueError("doubt_below needs second_opinion: set second_opinion to true")
        return self


class PlanSettings(EvidenceSettings):
    """Settings of systems that may plan their first search."""

    plan: bool = by_preset(
        paper=False,
        practical=True,
        description="On: before the first search, one call of the role planner writes whom and what the claim is "
        "about, its premises, and two queries: for what would support it, and for what would refute or qualify it. "
        "Every source is searched for the claim and for both, and the best `k` results of each are fused; a web "
        "search that charges for each search is asked once, for the claim and the first query. In later rounds, a "
        "debater may write two queries. Off: the first search is for the claim or for each debater's own query.",
    )

    @property
    def searches(self) -> bool:
        """Whether the debate begins with a search."""
        return True

    @property
    def plans(self) -> bool:
        """Whether a plan is written: the setting is on, and the debate begins with a search."""
        return self.plan and self.searches


class SourcesSettings(EvidenceSettings):
    """Settings of systems whose speakers share a list of sources."""

    sources: tuple[Source, ...] = Field(
        default=("chroma", "web"),
        max_length=10,
        description=f"Sources of evidence: {SOURCES}.",
    )
    fallback: tuple[Source, ...] = Field(
        default=(), max_length=10, description="Sources that replace failed ones, in this order."
    )

    def sources_to_open(self) -> tuple[Source, ...]:
        """The sources and their fallbacks; empty without sources."""
        return (*self.sources, *self.fallback) if self.sources else ()


class PoolSettings(SourcesSettings, PlanSettings):
    """Settings of systems that search their sources at most once, for the claim, before the first answer."""

    retrieval: Literal["once", "none"] = Field(
        default="once",
        description="once: the sources are searched before the first answer; none: there is no search, and the only "
        "evidence is the texts given with the claim.",
    )

    @property
    def searches(self) -> bool:
        """Whether there is a search: there are sources, and ``retrieval`` is ``once``."""
        return bool(self.sources) and self.retrieval == "once"

    def sources_to_open(self) -> tuple[Source, ...]:
        """The sources and their fallbacks; empty if ``retrieval`` is ``none``."""
        return super().sources_to_open() if self.retrieval == "once" else ()


DEBATE = "debate"
"""The key or attribute of another graph's context that holds the settings of a debate in that graph."""


def debate_part(context: Any) -> Any:
    """The settings that the context of another graph holds for a debate (see `DEBATE`), else the context itself."""
    if isinstance(context, Settings):
        return context
    held = context.get(DEBATE) if isinstance(context, Mapping) else getattr(context, DEBATE, None)
    return held if isinstance(held, (Settings, Mapping)) else context  # `gated` has a setting of this name, a text


def checked_settings(kind: type[S], values: Mapping[str, Any], graph: str = "") -> S:
    """Checks values, and returns them as settings; a UserError names the command that lists those of ``graph``."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        problems = problems_of(kind, error)
        see = f" See: moot settings {graph}" if graph else ""
        raise UserError(f"{problems}.{see}", kind="invalid_setting") from error


def with_usual_model(settings: S) -> S:
    """The settings with the model of MOOT_MODEL, if they name no model of all roles and the variable is set."""
    if settings.model is not None or (usual := operators_model()) is None:
        return settings
    try:
        named = checked_settings(Settings, {"model": usual}).model
    except UserError as error:
        detail = f"The environment variable MOOT_MODEL cannot be used. {error.detail}"
        raise UserError(detail, kind="invalid_environment") from error
    return settings.model_copy(update={"model": named})


def problems_of(kind: type[BaseModel], error: ValidationError) -> str:
    """The first of Pydantic's errors in words, without a full stop."""
    errors = error.errors()
    wrong = {e["loc"][:-1] for e in errors}  # Pydantic counts only right items, and finds such a list too short
    errors = [e for e in errors if e["type"] != "too_short" or e["loc"] not in wrong]
    return "; ".join(dict.fromkeys(problem_of(kind, e) for e in errors[:5]))


def problem_of(kind: type[BaseModel], error: Any, noun: str = "setting") -> str:
    """One of Pydantic's errors in words, without a full stop; ``noun`` is the word for a field of the class."""
    # Parts such as `function-wrap[model_or_name()]` are Pydantic's names of what a setting may be.
    place = ".".join(part for part in map(str, error["loc"]) if not re.match(r"(function-\w+|tuple)\[", part))
    if error["type"] == "missing":
        return f"{place}: this is missing"
    if error["type"] == "extra_forbidden" and len(error["loc"]) > 1:
        return f"{'.'.join(map(str, error['loc'][:-1]))}: there is no field {error['loc'][-1]!r}"
    if error["type"] == "extra_forbidden":
        names = sorted(set(kind.model_fields) - getattr(kind, "without", frozenset()))
        known, meant = ", ".join(names), did_you_mean(place, names)
        return f"There is no {noun} {place!r}{f'. {meant}Known' if meant else '; known'} are {known}"
    if error["type"] == "string_pattern_mismatch" and "model" in place:
        hint = f" ({AUTO_IS_TYPED.rstrip('.')})" if error["input"] == AUTO else ""
        field = re.split(r"\.constrained-", place)[0]
        example = meant_model(error["input"]) or "openai:gpt-5-mini"
        return (
            f"{field}: name a model as provider:name, for example {example}, not "
            f"{json.dumps(error['input'])[:80]}{hint}"
        )
    problem = error["msg"].removeprefix("Value error, ").replace(" after validation", "")
    problem = problem.replace("Tuple", "The list").replace("a valid tuple", "a list")
    if not place:
        return str(problem)
    try:
        given = json.dumps(error["input"], default=str)
    except TypeError:  # a mapping has keys that JSON does not allow
        given = repr(error["input"])
    return f"{place}: {problem} (given: {given[:80]})"
