"""The settings of a run of a graph. They are found once, where the run starts, and are then LangGraph's context."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import set_config_context, var_child_runnable_config
from langgraph.runtime import Runtime, get_runtime
from moot.core.config import operators_model
from moot.core.errors import UserError
from moot.nodes._runtime.settings import Settings, checked_settings, with_usual_model
from pydantic import BaseModel


def settings_of_run(graph: Any, config: RunnableConfig | None, context: Any) -> Settings:
    """The settings of a run of a compiled `DebateGraph`, from its context and ``configurable``."""
    checked: type[Settings] = graph.builder.context_schema

    def configured(given: Any) -> dict[str, Any]:
        found = (given or {}).get("configurable") or {}
        return {key: value for key, value in found.items() if key in checked.model_fields}

    # LangGraph formerly expected settings in ``configurable``. The run's own context counts first, then its own
    # ``configurable``, then the context of the graph around it, then that graph's ``configurable``.
    parent = var_child_runnable_config.get()
    inherited = configured(parent)
    passed = {key: value for key, value in configured(config).items() if inherited.get(key, graph) != value}
    own = configured(graph.config) | passed
    if not context:
        return settings_from(context_around(config), checked, weaker=inherited, stronger=own)
    settings = settings_from(context, checked, weaker=own)
    if isinstance(context, Settings) and own:
        _check_same(settings, settings_from(context, checked, stronger=own), own)
    return settings


def context_around(config: RunnableConfig | None) -> Any:
    """The context of the graph around a run; None if there is none."""
    # LangGraph passes a subgraph its parent's config, but while events are streamed, this is not the current config.
    for place in (config, var_child_runnable_config.get()):
        if place and place.get("configurable"):
            with set_config_context(place) as here:
                runtime: Runtime[Any] | None = here.run(lambda: get_runtime())
            if runtime and runtime.context:
                return runtime.context
    return None


def _check_same(settings: Settings, configured: Settings, names: Iterable[str]) -> None:
    for name in names:
        if getattr(settings, name) != getattr(configured, name):
            raise UserError(
                f"The context and `configurable` name different values of the setting {name!r}. Name it only once.",
                kind="invalid_setting",
            )


def settings_from(
    context: Any,
    checked: type[Settings],
    weaker: Mapping[str, Any] = MappingProxyType({}),
    stronger: Mapping[str, Any] = MappingProxyType({}),
) -> Settings:
    """The settings that a context gives, with ``weaker`` and ``stronger`` values; None gives the defaults."""
    return with_usual_model(_settings_from(context, checked, weaker, stronger))


def _settings_from(
    context: Any, checked: type[Settings], weaker: Mapping[str, Any], stronger: Mapping[str, Any]
) -> Settings:
    (kind,) = checked.__bases__
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


# --- a debate that is resumed -----------------------------------------------------------------------------------------


def resumed_settings(settings: Settings, state: Mapping[str, Any], checked: type[Settings]) -> Settings:
    """The run's own settings or, if these are the defaults, those in the state of the debate that goes on."""
    # A debate that is resumed without settings must not continue with the defaults, for example with another model.
    begun = state.get("settings")
    default = _default(type(settings))
    if not begun or vars(settings) != vars(default) | {"model": operators_model()}:
        return settings
    usual = default.recorded()
    return checked_settings(
        _class_for(settings, checked), {name: value for name, value in begun.items() if value != usual.get(name, begun)}
    )


def own_copy(settings: Settings, checked: type[Settings]) -> Settings:
    """A copy of a run's settings, of the class that `resumed_settings` returns."""
    kind = _class_for(settings, checked)
    return kind.model_construct(settings.model_fields_set, **{**vars(_default(kind)), **vars(settings)})


def _class_for(settings: Settings, checked: type[Settings]) -> type[Settings]:
    return checked if issubclass(checked, type(settings)) else type(settings)


@lru_cache(maxsize=100)
def _default(kind: type[Settings]) -> Settings:
    return kind()
