"""The settings of a run of a graph. They are found once, where the run starts, and are then LangGraph's context."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import set_config_context, var_child_runnable_config
from langgraph.runtime import Runtime, get_runtime
from moot.core.config import operators_model
from moot.core.errors import UserError
from moot.nodes._runtime.settings import DEBATE, Preset, Settings, checked_settings, debate_part, with_usual_model
from pydantic import BaseModel

OF_LANGCHAIN = RunnableConfig.__annotations__.keys()
"""The keys of a config."""


def check_config(config: Any) -> None:
    """Refuses a config that is no dict, such as settings in its place."""
    if config is not None and not isinstance(config, Mapping):
        raise UserError(
            f"The config is of the type {type(config).__name__}; it must be a dict, and settings belong into the "
            "context: ainvoke(..., context=...).",
            kind="invalid_setting",
        )


def settings_of_run(graph: Any, config: RunnableConfig | None, context: Any) -> Settings:
    """The settings of a run of a compiled `DebateGraph`: its own context or, without one, that of the graph around."""
    checked: type[Settings] = graph.builder.context_schema
    if stray := [key for key in config or () if key == "context" or key in checked.model_fields.keys() - OF_LANGCHAIN]:
        raise UserError(
            f"The config has the key {stray[0]!r}, but settings belong into the context: "
            'ainvoke(..., context={"model": ...}).',
            kind="invalid_setting",
        )
    settings = settings_from(context or context_around(config), checked)
    # A server passes the context in both places. ``configurable`` of a graph around may have names of other things.
    around = _configurable(var_child_runnable_config.get())
    named = {
        name: value
        for name, value in (_configurable(graph.config) | _configurable(config)).items()
        if name in checked.model_fields and around.get(name, graph) != value
    }
    if named:
        wanted = checked_settings(checked, {**vars(settings), **named})
        for name in named:
            if getattr(settings, name, None) != getattr(wanted, name):
                raise UserError(
                    f"`configurable` names the setting {name!r}, but settings belong into the context: "
                    f'ainvoke(..., context={{"{name}": ...}}).',
                    kind="invalid_setting",
                )
    return settings


def _configurable(config: RunnableConfig | None) -> dict[str, Any]:
    return (config or {}).get("configurable") or {}


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


def settings_from(context: Any, checked: type[Settings]) -> Settings:
    """The settings that a context gives; None gives the defaults."""
    return with_usual_model(_settings_from(context, checked))


def _settings_from(context: Any, checked: type[Settings]) -> Settings:
    (kind,) = checked.__bases__
    context = debate_part(context)
    if isinstance(context, kind):
        return cast(Settings, context)
    if context is None:
        return checked_settings(checked, {})
    try:
        return checked_settings(checked, _fields_of(context, kind))
    except UserError as error:
        raise UserError(
            f"The context ({type(context).__name__}) cannot be used as settings of this debate, which takes "
            f"{kind.__name__}(...), or an object or a dict with only fields of it. {error.detail} If the context "
            f"belongs to a graph of your own, give it a key {DEBATE!r} with the debate's settings, or add the debate "
            f"with its own settings: graph_node(graph).with_settings({kind.__name__}(...)).",
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
    if not begun or vars(settings) != vars(_default(type(settings))) | {"model": operators_model()}:
        return settings
    usual = _default(type(settings), begun["preset"]).recorded() | {"preset": None}
    kind = checked if issubclass(checked, type(settings)) else type(settings)
    return checked_settings(kind, {name: value for name, value in begun.items() if value != usual.get(name, begun)})


def check_resumed(settings: Settings, state: Mapping[str, Any], checked: type[Settings]) -> None:
    """Refuses to resume a debate in a node of another graph if the settings with which it began are not passed on."""
    begun = resumed_settings(settings, state, checked)
    if changed := [name for name, value in vars(begun).items() if getattr(settings, name, value) != value]:
        raise UserError(
            f"A debate in this graph began with other settings ({', '.join(changed)}). Resume the graph with the "
            "context with which it was started.",
            kind="missing_settings",
        )


@lru_cache(maxsize=100)
def _default(kind: type[Settings], preset: Preset = "paper") -> Settings:
    return kind(preset=preset)
