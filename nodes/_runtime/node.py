"""A step of a debate as a node of a graph, and the context of a running node."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

from langgraph.runtime import Runtime
from moot.core.endpoint import Limits, replaying
from moot.core.errors import MootError, UserError, error_from_record
from moot.nodes._models.budget import Budget
from moot.nodes._models.call.around import instructing, marking
from moot.nodes._models.chat_models import ModelChoice, missing_model_error, open_chat_model
from moot.nodes._models.objects import is_object
from moot.nodes._models.parallel import start_chain
from moot.nodes._models.rehearsal import current_rehearsal
from moot.nodes._models.reply_limits import REPLY_TOKENS
from moot.nodes._models.seeds import derived_seed
from moot.nodes._models.session import Session, current_budget, current_session
from moot.nodes._models.speaker import Speaker
from moot.nodes._models.step_record import StepRecord, tokens_of
from moot.nodes._models.stored_sources import StoredSource, open_stored_corpus
from moot.nodes._records.entries import PERSON
from moot.nodes._runtime.ceilings import Decision, uncounted_error
from moot.nodes._runtime.nesting import is_nested
from moot.nodes._runtime.settings import Settings, debate_part, with_usual_model
from moot.retrievers import Retriever, open_encoder, open_retriever
from moot.retrievers._encoders import Encoder, embeddings
from moot.retrievers._langchain_source import identity_of, source_of
from moot.retrievers._retractions import RetractionNotices
from moot.retrievers._search import CORPUS_SOURCES, resolve
from moot.retrievers._sites import ALL_SITES, Sites
from moot.retrievers._tampering import current_tampering
from moot.retrievers._wikipedia import WikipediaRetriever


@dataclass
class NodeContext:
    """One run of one node: its settings, record, session and ceilings, and access to models, sources and an encoder."""

    settings: Any
    record: StepRecord
    session: Session = field(default_factory=current_session)
    budget: Budget = field(default_factory=current_budget)

    async def speaker(
        self,
        role: str,
        own: str | ModelChoice | dict[str, Any] | None = None,
        seed: int | None = None,
        *,
        sample: int = 1,
    ) -> Speaker:
        """The speaker of a role; its model comes from the setting ``models``, else from ``own``, else from ``model``.

        The seeds of its calls are derived from the setting ``seed`` and from the speaker's own seed: the seed of its
        model choice, else the argument ``seed``.
        """
        settings: Settings = self.settings
        choice = choose_model(settings, role, own)
        most = choice.max_tokens or settings.max_tokens
        model = await open_chat_model(
            settings.objects().get(name, name) if is_object(name := choice.name) else name,
            temperature=choice.temperature
            if "temperature" in choice.model_fields_set
            else settings.temperature_of(role),
            max_tokens=most or (REPLY_TOKENS if self.budget.counts_tokens else None),
            timeout=settings.timeout,
            context_tokens=choice.context_tokens or settings.context_tokens,
        )
        if self.budget.counts_tokens and not most:
            model = replace(model, is_capped=True)
        return Speaker(
            role,
            model,
            self.record,
            limits_of(settings),
            structured_output=choice.structured_output or settings.structured_output,
            prompts=settings.edited(),
            context_tokens=choice.context_tokens or settings.context_tokens,
            session=self.session,
            budget=self.budget,
            sample=("", sample),
            seed=seed_of(settings.seed, seed if choice.seed is None else choice.seed),
            around=(marking,) if getattr(settings, "datamarking", False) else (),
        )

    async def speaker_of(self, debater: Mapping[str, Any]) -> Speaker:
        """The speaker for a debater in the settings, with the debater's own options."""
        model, sample = debater.get("model"), debater.get("sample", 1)
        speaker = await self.speaker(debater["name"], model, debater.get("seed"), sample=sample)
        own = {"tokens_left": debater.get("tokens_left"), "remarks": debater.get("told", "")}
        attack = current_tampering()
        lies = (instructing(attack.instructions),) if attack.liar == debater["name"] else ()
        return replace(speaker, **own, sample=(debater["name"], sample), around=(*lies, *speaker.around))

    async def retriever(self, name: str, *, recent: bool = True, claim: str = "") -> Retriever:
        """The source with this name, for a claim. ``recent``: whether a corpus's cached state may be used (see
        `open_retriever`).
        """
        settings: Settings = self.settings
        before = day.isoformat() if (day := getattr(settings, "published_before", None)) else None
        sites = sites_of(settings)
        options: dict[str, Any] = {
            "corpus": settings.corpus,
            "encoder": settings.embedder,
            "reranker": getattr(settings, "reranker", None),
        }
        open_source = partial(
            open_retriever,
            name,
            **options,
            limits=limits_of(settings),
            published_before=before,
            sites=sites,
            recent=recent,
            claim=claim,
        )
        if rehearsal := current_rehearsal():
            return await rehearsal.source(name, settings, open_source)
        replies = self.session.replies
        if is_object(name) and (known := settings.objects().get(name)) is not None:
            own = source_of(name, known.held, limits_of(settings))
            parts: dict[str, Any] = {"object": identity_of(known.held)}
            return StoredSource(own, replies, parts, {"name": name}, free=False) if replies else own
        if replies is None:
            return await open_source()
        if resolve(name, settings.corpus)[0] not in CORPUS_SOURCES:
            source = await open_source()
            parts = {"published_before": before} | ({} if sites == ALL_SITES else {"sites": sites.as_operators()})
            if isinstance(source, WikipediaRetriever):
                parts["language"] = source.source.language
            return StoredSource(source, replies, parts, {"name": source.name}, free=False)
        return await open_stored_corpus(open_source, replies, {"source": name, **options})

    def retraction_notices(self) -> Retriever:
        """Crossref's notices of retraction, as a source that DOIs are asked of."""
        notices, replies = RetractionNotices(limits_of(self.settings)), self.session.replies
        return StoredSource(notices, replies, {}, {"name": notices.name}, free=False) if replies else notices

    async def encoder(self) -> Encoder:
        """The debate's text encoder."""
        settings: Settings = self.settings
        return await open_encoder(settings.embedder, limits_of(settings))


def seed_of(run: int | None, own: int | None) -> int | None:
    """The seed from which the seeds of a role's calls are derived: from the run's seed, the role's own, or both."""
    if run is None or own is None:
        return own if run is None else run
    return derived_seed(run, own)


def sites_of(settings: Any) -> Sites:
    """The sites from which a debate's web results may come."""
    return Sites(getattr(settings, "sites_only", ()), getattr(settings, "sites_never", ()))


def limits_of(settings: Settings) -> Limits:
    """The limits for calls to endpoints in a debate."""
    s = settings
    return Limits(s.attempts, s.timeout, s.max_concurrency, s.requests_per_minute, s.max_wait)


def choose_model(settings: Settings, role: str, own: str | ModelChoice | dict[str, Any] | None = None) -> ModelChoice:
    """The model of a role: from the setting ``models``, else ``own`` (a debater's model), else ``model``."""
    choice = settings.models.get(role, own) or settings.model
    if choice is None:
        raise missing_model_error(role)
    if isinstance(choice, dict):
        return ModelChoice.model_validate(choice)
    return _model_choice(choice) if isinstance(choice, str) else choice


def check_named(settings: Settings, roles: Mapping[str, str | ModelChoice | None]) -> None:
    """Raises a `UserError` that names the roles without a model of their own, of ``models``, and of ``model``."""
    if lacking := [role for role, own in roles.items() if not (settings.models.get(role, own) or settings.model)]:
        raise missing_model_error(*lacking)


@lru_cache(maxsize=256)
def _model_choice(model: str) -> ModelChoice:
    return ModelChoice(model=model)


@dataclass(frozen=True)
class Node:
    """A step as a LangGraph node: an async callable of state and runtime.

    The node adds the step's calls, warnings and depth to the step's writes. A `MootError` of the step is raised; in a
    `DebateGraph` it becomes the state's ``error`` instead, so that a failed debate keeps its results so far. If tokens
    or cost are bounded, a successful call without token counts is also an error. If the
    state has an error, the node does nothing, unless ``always`` is set. With ``stream_mode="custom"`` the node's start
    and end are streamed as events: see docs/reference/http.md.

    Args:
        step: takes the state and the node's context; returns its writes.
        name: the node's name, as in records of calls.
        settings: the node's own settings. By default, they are the graph's context.
        always: whether the node runs even if the state has an error.
        keeps_errors: whether an error becomes the state's ``error``; the state must then have this key.
        prompts: the names of the node's prompts.
        opens: the system whose debates this node opens; empty for other nodes.
        reads: converts a state with other keys to the step's input. By default, the state is the input.
        writes: converts the node's writes to an update of the state with other keys. By default, they are not changed.
        moment: the moment at which the node waits for a person; empty for other nodes.
        idle: takes the state and the settings; returns whether the node does nothing and streams no events. By
            default, the step always runs.
        decides: takes the settings; returns the smallest call of each role that decides in this node, by role. A node
            in which agents answer has their smallest call under the key None.
    """

    step: Callable[[Any, NodeContext], Awaitable[dict[str, Any]]]
    name: str = ""
    settings: Settings | None = None
    always: bool = False
    keeps_errors: bool = False
    prompts: tuple[str, ...] = ()
    opens: str = ""
    reads: Callable[[Any], Mapping[str, Any]] | None = None
    writes: Callable[[dict[str, Any]], Mapping[str, Any]] | None = None
    moment: str = ""
    idle: Callable[[Any, Any], bool] | None = None
    decides: Callable[[Any], Mapping[str | None, Decision]] | None = None

    async def __call__(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any]:
        """Runs the step.

        Raises:
            UserError: the settings are missing. Without ``keeps_errors`` also: the step raised
                it, the state lacks a key, the settings lack a field, or a call has no token counts although tokens or
                cost are bounded.
            WorldError: the step raised it, and ``keeps_errors`` is false.
        """
        if self.reads:
            state = as_mapping(self.reads(state), "reads", self.called)
        if state.get("error") and not self.always:
            return {}
        settings = self._settings(runtime)
        if self.idle and self.idle(state, settings):
            return {}
        record = StepRecord(node=self.name, **turn_location(state))
        place = begin_event(record)
        runtime.stream_writer(place)
        started = time.perf_counter()
        start_chain()
        run = NodeContext(settings, record)
        embeddings.set(run.session.replies)
        replaying.set(run.session.use.mode == "replay")
        try:
            update = await self._run_step(state, run)
            fault: MootError | None = uncounted_error(record.calls, run.budget)
        except MootError as error:
            update, fault = {}, error
        if fault:
            update = {"error": fault.record(record.place())} | update
        runtime.stream_writer(place | step_event(record, update, time.perf_counter() - started))
        if update.get("error") and not (self.keeps_errors and self._can_keep(update["error"], settings)):
            run.session.note_writes(recorded_update(record, state) | update)
            raise fault or error_from_record(update["error"])
        update = recorded_update(record, state) | update
        run.session.note_writes(update)
        return as_mapping(self.writes(update), "writes", self.called) if self.writes else update

    def _can_keep(self, error: Mapping[str, Any], settings: Settings) -> bool:
        """Whether an error becomes the state's ``error``: the state around a nested graph may have no such key."""
        return settings.on_failure == "document" and not (
            self.opens and error["kind"] == "missing_model" and is_nested()
        )

    @property
    def called(self) -> str:
        """The name of the node in errors: its name, else the name of the function that made the node."""
        return self.name or getattr(self.step, "__qualname__", type(self.step).__name__).partition(".<locals>")[0]

    def _settings(self, runtime: Runtime[Any]) -> Settings:
        settings = self.settings or debate_part(runtime.context)
        if not isinstance(settings, Settings):
            raise missing_settings_error(self.called)
        return with_usual_model(settings)

    async def _run_step(self, state: Any, run: NodeContext) -> dict[str, Any]:
        """Runs the step; a missing field of the settings, or key of the state, is an error that names the remedy."""
        try:
            return await self.step(state if self.keeps_errors else StateKeys(state, self.called), run)
        except AttributeError as error:
            if error.obj is not run.settings:
                raise
            raise missing_setting_error(self.called, error.name, run.settings) from error

    def __str__(self) -> str:
        """In LangGraph's error about a node's update: a factory that was added as a node returns its node."""
        return f"the node {self.called} of moot: call its factory, as in add_node(name, judge_node())"

    def with_settings(self, settings: Settings, name: str = "", *, keeps_errors: bool = False) -> Node:
        """The same node with its own settings, for graphs whose context is not moot's settings.

        Args:
            settings: the node's settings, whatever the graph's context is.
            name: the node's name, as in calls and errors.
            keeps_errors: whether a `MootError` becomes the state's ``error`` instead of being raised. The state must
                declare this key, because LangGraph drops unknown keys.

        Raises:
            UserError: ``settings`` are no settings.
        """
        if not isinstance(settings, Settings):
            raise UserError(
                f"with_settings takes settings such as Settings(model=...), not {settings!r:.100}.",
                kind="invalid_setting",
            )
        return replace(self, settings=settings, name=name or self.name, keeps_errors=keeps_errors)

    def with_keys(
        self, reads: Callable[[Any], Mapping[str, Any]], writes: Callable[[dict[str, Any]], Mapping[str, Any]]
    ) -> Node:
        """The same node for a state with other keys.

        Args:
            reads: takes your state; returns a state with the keys that the node reads (see its factory's docstring).
            writes: takes the node's writes; returns the update of your state. The writes include ``calls``,
                ``warnings`` and ``depth`` if the node made a call or warned.
        """
        return replace(self, reads=reads, writes=writes)


# Otherwise LangGraph would take a node that a factory, added as a node itself, returns for an update of the state.
Node.__annotations__ = {}


def as_mapping(value: Any, function: str, node: str) -> dict[str, Any]:
    """The value that a function of `Node.with_keys` has returned, as a dict; UserError if it is no mapping."""
    if not isinstance(value, Mapping):
        raise UserError(
            f"The function {function} of with_keys, at the node {node}, must return a dict, and returned "
            f"{type(value).__name__}.",
            kind="missing_state",
        )
    return dict(value)


def turn_location(state: Any) -> dict[str, Any]:
    """The position of a node in a debate, as fields of `StepRecord`: of its single turn, else the round and phase."""
    turns = state.get("turns") or []
    if "rounds" not in state and sum(turn.get("agent") != PERSON for turn in turns) == 1:
        return {key: turns[0].get(key) for key in ("phase", "round", "agent", "number")}
    if "phase" in state:
        # Plus 1, because a trial's ``rounds`` counts only rounds that have ended.
        return {"round": state["rounds"] + 1 if "rounds" in state else 0, "phase": state["phase"]}
    return {"round": state.get("rounds") or 0}


def recorded_update(record: StepRecord, state: Any) -> dict[str, Any]:
    """The state update with a node's calls, warnings and depth; empty if the node made no call and did not warn."""
    if not record.calls and not record.warnings:
        return {}
    depth = (state.get("depth") or 0) + record.depth
    return {"calls": record.calls, "warnings": record.warnings, "depth": depth}


def begin_event(record: StepRecord) -> dict[str, Any]:
    """The event at a node's start: ``event`` (``"begin"``), ``node``, ``agent``, ``round``, ``phase``."""
    place = {"node": record.node, "agent": record.agent, "round": record.round, "phase": record.phase}
    return {"event": "begin", **place}


def step_event(record: StepRecord, update: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Fields of the event at a node's end; ``tokens`` are the endpoint's counts, ``error`` the error's kind or null."""
    error = (update.get("error") or {}).get("kind")
    spent = {"calls": len(record.calls), "tokens": tokens_of(record.calls)}
    return {"event": "step", "seconds": round(seconds, 3), **spent, "error": error}


class StateKeys(dict[str, Any]):
    """A state in which access to a missing key (``state[key]``) raises a `UserError` that names the remedy."""

    def __init__(self, state: Mapping[str, Any], node: str) -> None:
        super().__init__(state)
        self._node = node

    def __missing__(self, key: str) -> Any:
        raise UserError(
            f"The node {self._node} reads the state's key {key!r}, which is missing. The docstring of the node's "
            "factory lists the keys; .with_keys(reads, writes) converts from your keys.",
            kind="missing_state",
        )


def missing_settings_error(node: str) -> UserError:
    """The error of a node that has no settings."""
    return UserError(
        f"The node {node} has no settings: call the graph with context=Settings(...), give its own context a key "
        "'debate' with such settings, or set the node's settings with .with_settings(Settings(...)).",
        kind="missing_settings",
    )


def missing_setting_error(node: str, name: str | None, settings: Any) -> UserError:
    """The error of a node whose settings lack a field that the node reads."""
    return UserError(
        f"The node {node} reads the setting {name!r}, which {type(settings).__name__} does not have. Use settings of a "
        "graph that has this node, or of your own class with that field.",
        kind="missing_settings",
    )
