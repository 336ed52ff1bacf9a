"""The settings of a run of a graph. They are found once, where the run starts, and are then LangGraph's context."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import set_config_context, var_child_runnable_config
from langgraph.runtime import get_runtime
from moot.core.config import operators_model
from moot.core.errors import UserError
from moot.nodes._runtime.settings import Settings, checked_settings, with_usual_model
from pydantic import BaseModel

S = TypeVar("S", bound=Settings)


def settings_of_run(graph: Any, config: Any, context: Any) -> Settings:
    """The settings of a run.

    They come from the run's own context and the settings in its own ``configurable``, where LangGraph formerly
    expected them; the context counts if both name a setting. Without an own context, they come from its own
    ``configurable``, then the context of the graph around it, then that graph's ``configurable``. Other keys of
    ``configurable`` do not count.

    Args:
        graph: a compiled `DebateGraph`.
        config: the run's config.
        context: the run's own context.

    Raises:
        UserError: the context cannot be used as settings; or it is a `Settings` object, and ``configurable`` has
            another value.
    """
    builder = graph.builder
    names = builder.context_schema.model_fields

    def configured(given: Any) -> dict[str, Any]:
        found = (given or {}).get("configurable") or {}
        return {key: value for key, value in found.items() if key in names}

    parent = var_child_runnable_config.get()
    inherited = configured(parent)
    passed = {key: value for key, value in configured(config).items() if inherited.get(key, graph) != value}
    own = configured(graph.config) | passed
    if context:
        settings: Settings = builder.settings_from(context, weaker=own)
        if isinstance(context, Settings) and own:
            check_same(settings, builder.settings_from(context, stronger=own), own)
        return settings
    around: Settings = builder.settings_from(context_around(config), weaker=inherited, stronger=own)
    return around


def context_around(config: RunnableConfig | None) -> Any:
    """The context of the graph around a run; None if there is none.

    LangGraph passes a subgraph its parent's config, but while events are streamed, this is not the current config.
    """
    for place in (config, var_child_runnable_config.get()):
        if place and place.get("configurable"):
            with set_config_context(place) as here:
                if (runtime := here.run(get_runtime)) and runtime.context:
                    return runtime.context
    return None


def check_same(settings: Settings, configured: Settings, names: Iterable[str]) -> None:
    """Checks that a context and ``configurable`` name the same values of settings."""
    for name in names:
        if getattr(settings, name) != getattr(configured, name):
            raise UserError(
                f"The context and `configurable` name different values of the setting {name!r}. Name it only once.",
                kind="invalid_setting",
            )


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
        return checked_settings(checked, {**weaker, **stronger})
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


def is_default(settings: Settings) -> bool:
    """Whether settings are the defaults of their class, or differ only by the model of MOOT_MODEL."""
    return vars(settings) == vars(_default(type(settings))) | {"model": operators_model()}


@lru_cache(maxsize=100)
def _default(kind: type[Settings]) -> Settings:
    return kind()
