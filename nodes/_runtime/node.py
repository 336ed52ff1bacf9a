"""A step of a debate as a node of a graph, and the context of a running node."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, TypeVar

from langgraph.runtime import Runtime
from moot.core.config import operators_model
from moot.core.endpoint import Limits, replaying
from moot.core.errors import MootError, UserError, error_from_record
from moot.core.ledger import embeddings
from moot.nodes._models.call.around import instructing, marking
from moot.nodes._models.ceilings import Ceilings
from moot.nodes._models.chat_models import ModelChoice, missing_model_error, open_chat_model
from moot.nodes._models.ledger import Ledger
from moot.nodes._models.ledger_sources import LedgerSource, open_ledger_corpus
from moot.nodes._models.parallel import start_chain
from moot.nodes._models.seeds import derived_seed
from moot.nodes._models.session import Session, current_ceilings, current_session
from moot.nodes._models.speaker import Speaker
from moot.nodes._models.spend import REPLY_TOKENS
from moot.nodes._runtime.budget import Decision, uncounted_error
from moot.nodes._runtime.nesting import is_nested
from moot.nodes._runtime.node_errors import StateKeys, missing_setting_error, missing_settings_error
from moot.nodes._runtime.progress import begin_event, step_event
from moot.nodes._runtime.prompt_settings import PROMPT_SUFFIX, with_prompts
from moot.nodes._runtime.settings import Settings, checked_settings, with_usual_model
from moot.nodes._runtime.trace import has_single_turn, tag_turn
from moot.retrievers import Retriever, open_encoder, open_retriever
from moot.retrievers._encoders import Encoder
from moot.retrievers._search import CORPUS_SOURCES, resolve
from moot.retrievers._tampering import current_tampering
from pydantic import BaseModel


@dataclass
class NodeContext:
    """One run of one node: its settings, ledger, session and ceilings, and access to models, sources and an encoder."""

    settings: Any
    ledger: Ledger
    session: Session = field(default_factory=current_session)
    ceilings: Ceilings = field(default_factory=current_ceilings)

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
            choice.model,
            temperature=choice.temperature
            if "temperature" in choice.model_fields_set
            else settings.temperature_of(role),
            max_tokens=most or (REPLY_TOKENS if self.ceilings.metered else None),
            timeout=settings.timeout,
        )
        if self.ceilings.metered and not most:
            model = replace(model, is_capped=True)
        return Speaker(
            role,
            model,
            self.ledger,
            choice.structured_output or settings.structured_output,
            limits_of(settings),
            prompts=settings.edited(),
            context_tokens=choice.context_tokens or settings.context_tokens,
            session=self.session,
            ceilings=self.ceilings,
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
        return replace(speaker, **own, sample=(debater["name"], sample), around=(*speaker.around, *lies))

    async def retriever(self, name: str, *, recent: bool = True) -> Retriever:
        """The source with this name. ``recent``: whether a corpus's cached state may be used (see `open_retriever`)."""
        settings: Settings = self.settings
        before = day.isoformat() if (day := getattr(settings, "published_before", None)) else None
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
            recent=recent,
        )
        if (debate_ledger := self.session.debate_ledger) is None:
            return await open_source()
        if resolve(name, settings.corpus)[0] not in CORPUS_SOURCES:
            return LedgerSource(await open_source(), debate_ledger, {"published_before": before})
        return await open_ledger_corpus(open_source, debate_ledger, {"source": name, **options})

    async def encoder(self) -> Encoder:
        """The debate's text encoder."""
        settings: Settings = self.settings
        return await open_encoder(settings.embedder, limits_of(settings))


S = TypeVar("S", bound=Settings)


def settings_from(
    context: Any,
    kind: type[S],
    checked: type[S],
    weaker: Mapping[str, Any] = MappingProxyType({}),
    stronger: Mapping[str, Any] = MappingProxyType({}),
) -> S:
    """The settings that a graph's context gives.

    Settings of the class ``kind`` are used as they are. The fields of another context are checked as settings: those
    of a mapping, a dataclass or a Pydantic object, or the fields that were set in settings of a base class of ``kind``.
    If no model is named, the model is that of MOOT_MODEL (`with_usual_model`).

    Args:
        context: the context of the graph, or of the graph around it; None for the default settings.
        kind: the class of the graph's settings.
        checked: this class with the graph's prompts as fields (`with_prompts`).
        weaker: settings for which the context's own values count, if it has any.
        stronger: settings that count instead of the context's.

    Raises:
        UserError: the context cannot be used as settings; the message says what can. Or MOOT_MODEL is needed, but is
            not valid.
    """
    return with_usual_model(_settings_from(context, kind, checked, weaker, stronger))


def _settings_from(
    context: Any, kind: type[S], checked: type[S], weaker: Mapping[str, Any], stronger: Mapping[str, Any]
) -> S:
    is_complete = isinstance(context, kind)
    if is_complete and not weaker and not stronger:
        return context  # type: ignore[no-any-return]
    if context is None:
        return checked_settings(checked if weaker or stronger else kind, {**weaker, **stronger})
    try:
        given = _fields_of(context, type(context) if is_complete else kind)
        wanted = type(context) if is_complete and context.prompts else checked
        return checked_settings(wanted, {**weaker, **given, **stronger})
    except UserError as error:
        raise UserError(
            f"The context ({type(context).__name__}) cannot be used as settings of this debate, which takes "
            f"{kind.__name__}(...), or an object or a dict with only fields of it. {error.detail} If the context "
            "belongs to a graph of your own, add the debate with its own settings: "
            f"graph_node(graph).with_settings({kind.__name__}(...)).",
            kind="invalid_setting",
        ) from error


def _fields_of(context: Any, kind: type[Settings]) -> dict[str, Any]:
    if isinstance(context, Settings):
        given = type(context)
        if not issubclass(kind, (given.__base__ or given) if given.prompts else given):
            raise UserError("They are the settings of another system.", kind="invalid_setting")
        return {name: getattr(context, name) for name in context.model_fields_set}
    if isinstance(context, Mapping):
        return dict(context)
    if is_dataclass(context) and not isinstance(context, type):
        return {one.name: getattr(context, one.name) for one in fields(context)}
    if isinstance(context, BaseModel):
        return dict(context)
    raise UserError("It has no fields.", kind="invalid_setting")


@lru_cache(maxsize=100)
def _default_settings(kind: type[Settings]) -> tuple[Settings, dict[str, Any]]:
    """The default settings of a class, and these settings as a result document records them."""
    default = kind()
    return default, default.recorded()


def resume_settings(settings: Any, state: Mapping[str, Any], prompts: Sequence[str] = ()) -> Any:
    """The settings for a run of a debate.

    They are the run's own settings or, if these are the defaults, the settings with which the debate started.
    So a debate that is resumed without settings does not continue with the defaults, for example with another model.

    Args:
        settings: the run's settings.
        state: the debate's state, which has the settings of the debate's start.
        prompts: names of prompts. The returned settings have their texts at the debate's start, even if the class of
            ``settings`` has no fields for prompts.

    Raises:
        UserError: the settings of the debate's start are not valid in this version of moot.
    """
    begun = state.get("settings")
    if not begun or not isinstance(settings, Settings):
        return settings
    default, recorded = _default_settings(type(settings))
    usual = {"model": operators_model()}
    if vars(settings) != vars(default) | usual or begun == recorded | usual:
        return settings
    kind = type(settings) if settings.prompts else _with_prompts(type(settings), tuple(prompts))
    known = {key: value for key, value in begun.items() if key in kind.model_fields or not key.endswith(PROMPT_SUFFIX)}
    return _checked_settings(kind, json.dumps(known))


@lru_cache(maxsize=64)
def _with_prompts(kind: type[Settings], prompts: tuple[str, ...]) -> type[Settings]:
    return with_prompts(kind, dict.fromkeys(prompts, ()))


@lru_cache(maxsize=64)
def _checked_settings(kind: type[Settings], recorded: str) -> Settings:
    """The settings that a document records. They are cached, because every node of a resumed debate needs them."""
    return checked_settings(kind, json.loads(recorded))


def seed_of(run: int | None, own: int | None) -> int | None:
    """The seed from which the seeds of a role's calls are derived.

    If only one of the two arguments is set, the result is this argument. If neither is set, the result is None.

    Args:
        run: the run's seed.
        own: the role's own seed.
    """
    if run is None or own is None:
        return own if run is None else run
    return derived_seed(run, own)


def limits_of(settings: Settings) -> Limits:
    """The limits for calls to endpoints in a debate."""
    s = settings
    return Limits(s.attempts, s.timeout, s.max_concurrency, s.requests_per_minute, s.max_wait)


def choose_model(settings: Settings, role: str, own: str | ModelChoice | dict[str, Any] | None = None) -> ModelChoice:
    """The model of a role: from the setting ``models``, else ``own`` (a debater's model), else ``model``.

    Raises:
        UserError: none of them names a model.
    """
    choice = settings.models.get(role, own) or settings.model
    if choice is None:
        raise missing_model_error(role)
    if isinstance(choice, dict):
        return ModelChoice.model_validate(choice)
    return _model_choice(choice) if isinstance(choice, str) else choice


def check_named(settings: Settings, roles: Mapping[str, str | ModelChoice | None]) -> None:
    """Checks that each role has a model.

    Args:
        settings: the debate's settings.
        roles: the roles, each with its own model, or with None.

    Raises:
        UserError: roles have no model; the message names them.
    """
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
        defaults: the settings if the graph's context is not an instance of moot's settings.
        always: whether the node runs even if the state has an error.
        keeps_errors: whether an error becomes the state's ``error``; the state must then have this key.
        prompts: the names of the node's prompts.
        opens: the system whose debates this node opens; empty for other nodes.
        reads: converts a state with other keys to the step's input. By default, the state is the input.
        writes: converts the node's writes to an update of the state with other keys. By default, they are not changed.
        moment: the moment at which the node waits for a person; empty for other nodes.
        idle: takes the state and the settings; returns whether the step would do nothing. Edges of a `DebateGraph`
            then lead past the node. By default, the step always runs.
        decides: takes the settings; returns the smallest call of each role that decides in this node, by role. A node
            in which agents answer has their smallest call under the key None.
        reads_context: takes the graph's context and returns the settings. A `DebateGraph` sets it.
    """

    step: Callable[[Any, NodeContext], Awaitable[dict[str, Any]]]
    name: str = ""
    defaults: Settings | None = None
    always: bool = False
    keeps_errors: bool = False
    prompts: tuple[str, ...] = ()
    opens: str = ""
    reads: Callable[[Any], Mapping[str, Any]] | None = None
    writes: Callable[[dict[str, Any]], Mapping[str, Any]] | None = None
    moment: str = ""
    idle: Callable[[Any, Any], bool] | None = None
    decides: Callable[[Any], Mapping[str | None, Decision]] | None = None
    reads_context: Callable[[Any], Settings] | None = None

    async def __call__(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any]:
        """Runs the step.

        Raises:
            UserError: the settings are missing or of the wrong class, or those recorded in the state are not valid.
                Without ``keeps_errors`` also: the step raised it, the state lacks a key, the settings lack a field, or
                a call has no token counts although tokens or cost are bounded.
            WorldError: the step raised it, and ``keeps_errors`` is false.
        """
        if self.reads:
            state = self.reads(state)
        if state.get("error") and not self.always:
            return {}
        settings = self._settings(runtime)
        if self.keeps_errors and not self.opens:
            settings = resume_settings(settings, state, self.prompts)
        ledger = Ledger(node=self.name, **turn_location(state))
        place = begin_event(ledger)
        runtime.stream_writer(place)
        started = time.perf_counter()
        start_chain()
        tag_turn(ledger)
        run = NodeContext(settings, ledger)
        embeddings.set(run.session.debate_ledger)
        replaying.set(run.session.use.mode == "replay")
        try:
            with run.session.watch.node(ledger) if run.session.watch else nullcontext():
                update = await self._run_step(state, run)
            fault: MootError | None = uncounted_error(ledger.calls, run.ceilings)
        except MootError as error:
            update, fault = {}, error
        if fault:
            update = {"error": fault.record(ledger.place())} | update
        runtime.stream_writer(place | step_event(ledger, update, time.perf_counter() - started))
        if update.get("error") and not (self.keeps_errors and self._can_keep(update["error"])):
            raise fault or error_from_record(update["error"])
        update = ledger_update(ledger, state) | update
        current_session().note_writes(update)
        return dict(self.writes(update)) if self.writes else update

    def _can_keep(self, error: Mapping[str, Any]) -> bool:
        """Whether an error can become the state's ``error``: the state around a nested graph may have no such key."""
        return not (self.opens and error["kind"] == "missing_model" and is_nested())

    @property
    def called(self) -> str:
        """The name of the node in errors: its name, else the name of the function that made the node."""
        return self.name or getattr(self.step, "__qualname__", type(self.step).__name__).partition(".<locals>")[0]

    def _settings(self, runtime: Runtime[Any]) -> Settings:
        if self.reads_context:
            return self.reads_context(runtime.context)
        settings = runtime.context if isinstance(runtime.context, Settings) else self.defaults
        if self.defaults is not None and not isinstance(settings, type(self.defaults)):
            raise UserError(
                f"The node {self.called} takes {type(self.defaults).__name__}, not {type(settings).__name__}.",
                kind="missing_settings",
            )
        if settings is None:
            raise missing_settings_error(self.called)
        return with_usual_model(settings)

    async def _run_step(self, state: Any, run: NodeContext) -> dict[str, Any]:
        """Runs the step and returns its writes.

        Raises:
            UserError: the settings lack a field; or, without ``keeps_errors``, the state lacks a key. Errors of the
                step are also raised.
        """
        try:
            return await self.step(state if self.keeps_errors else StateKeys(state, self.called), run)
        except AttributeError as error:
            if error.obj is not run.settings:
                raise
            raise missing_setting_error(self.called, error.name, run.settings) from error

    def with_settings(self, defaults: Settings, name: str = "", *, keeps_errors: bool = False) -> Node:
        """The same node with its own settings, for graphs whose context is not moot's settings.

        Args:
            defaults: the settings if the graph's context is not an instance of moot's settings.
            name: the node's name, as in calls and errors.
            keeps_errors: whether a `MootError` becomes the state's ``error`` instead of being raised. The state must
                declare this key, because LangGraph drops unknown keys.
        """
        return replace(self, defaults=defaults, name=name or self.name, keeps_errors=keeps_errors)

    def with_keys(
        self, reads: Callable[[Any], Mapping[str, Any]], writes: Callable[[dict[str, Any]], Mapping[str, Any]]
    ) -> Node:
        """The same node for a state with other keys.

        Args:
            reads: takes your state; returns a state with the keys that the node reads (see docs/api/nodes.md).
            writes: takes the node's writes; returns the update of your state. The writes include ``calls``,
                ``warnings`` and ``depth`` if the node made a call or warned.
        """
        return replace(self, reads=reads, writes=writes)

    def having(self, defaults: Settings, name: str = "", *, keeps_errors: bool = False) -> Node:
        """The old name of `with_settings`. The next release will not have this name."""
        warnings.warn("Node.having is now Node.with_settings.", DeprecationWarning, stacklevel=2)
        return self.with_settings(defaults, name, keeps_errors=keeps_errors)

    def mapped(
        self, reads: Callable[[Any], Mapping[str, Any]], writes: Callable[[dict[str, Any]], Mapping[str, Any]]
    ) -> Node:
        """The old name of `with_keys`. The next release will not have this name."""
        warnings.warn("Node.mapped is now Node.with_keys.", DeprecationWarning, stacklevel=2)
        return self.with_keys(reads, writes)


def turn_location(state: Any) -> dict[str, Any]:
    """The position of a node in a debate, as fields of the node's `Ledger`.

    If the state is that of one turn (`has_single_turn`), the fields are the turn's phase, round, agent and number.
    Otherwise they are the debate's round and, in a trial, the phase.
    """
    turns = state.get("turns") or []
    if has_single_turn(state):
        return {key: turns[0].get(key) for key in ("phase", "round", "agent", "number")}
    if "phase" in state:
        # Plus 1, because a trial's ``rounds`` counts only rounds that have ended.
        return {"round": state["rounds"] + 1 if "rounds" in state else 0, "phase": state["phase"]}
    return {"round": state.get("rounds") or 0}


def ledger_update(ledger: Ledger, state: Any) -> dict[str, Any]:
    """The state update with a node's calls, warnings and depth; empty if the node made no call and did not warn."""
    if not ledger.calls and not ledger.warnings:
        return {}
    depth = (state.get("depth") or 0) + ledger.depth
    return {"calls": ledger.calls, "warnings": ledger.warnings, "depth": depth}
