"""What the callers of a server may name. They are not its operator, so the operator lists what they may name.

Without the lists, a name that a caller chooses could make the server import code, read a file, download a model, call
an address inside the network, or spend at a provider. A process says with `serving_callers` that it is a server. In all
other processes, on the command line and in Python, the user is the operator and may name anything.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from moot.core.endpoint import PROVIDERS
from moot.core.errors import UserError

CALLED_MODELS = "MOOT_MODELS"
"""The environment variable with the list of models behind endpoints: provider:name, or provider:* for all."""
MODELS = "MOOT_EMBEDDERS"
"""The environment variable with the list of models of this machine."""
OBJECTS = "MOOT_LANGCHAIN_SOURCES"
"""The environment variable with the list of LangChain objects: sources and models."""
SHIPPED = ("all-MiniLM-L6-v2", "cross-encoder/stsb-roberta-base")
"""Models of this machine that settings name by default; every server opens them."""
SERVERS = {"langgraph_api", "aegra_api"}
"""Packages of servers. A process that has imported one of them is a server, even if it does not run moot's app."""
CALIBRATION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}(?:\.json)?")
"""The id of a calibration: the name of its file, with or without ``.json``."""


@dataclass(frozen=True)
class _Serving:
    """What callers may name besides the lists: names in the operator's default settings, perhaps all models."""

    usual: frozenset[str] = frozenset()
    any_model: bool = False


_serving: _Serving | None = None


@contextmanager
def serving_callers(usual: Mapping[str, Any], *, any_model: bool = False) -> Iterator[None]:
    """A context in which this process is a server, whose callers may name only what the operator lists."""
    global _serving
    # With ``any_model``, only the operator reaches the server: it has neither a token nor users.
    before, _serving = (
        _serving,
        _Serving(frozenset(str(usual[name]) for name in ("model", "embedder") if name in usual), any_model),
    )
    try:
        yield
    finally:
        _serving = before


def serves_callers() -> bool:
    """Whether this process is a server, whose callers are not its operator."""
    return _serving is not None or not SERVERS.isdisjoint(sys.modules)


def names_in_variable(variable: str) -> Collection[str]:
    """The names, without blank ones, in an environment variable with a comma-separated list."""
    return [name for part in os.environ.get(variable, "").split(",") if (name := part.strip())]


def check_model(name: str, setting: str) -> None:
    """Refuses a model of this machine that a server lists neither in `SHIPPED` nor in ``MOOT_EMBEDDERS``."""
    allowed = (*SHIPPED, *names_in_variable(MODELS))
    if not serves_callers() or name in allowed or (_serving and name in _serving.usual):
        return
    raise UserError(
        f"{setting}: this server does not load {name!r} for its callers. It loads {', '.join(allowed)}, and uses its "
        f"own endpoints (openai:NAME, ollama:NAME, vllm:NAME) for embeddings. Its operator can list other "
        f"models in {MODELS}.",
        kind="invalid_setting",
    )


def check_called_model(name: str, variables: Collection[str], setting: str = "model") -> None:
    """Refuses a model (``provider:name``) that a server does not list or, without a list, has no provider set up
    for.
    """
    provider, listed = name.partition(":")[0], names_in_variable(CALLED_MODELS)
    own = _serving or _Serving()
    if not serves_callers() or name in own.usual or {name, f"{provider}:*"} & {*listed}:
        return
    # ``variables`` is empty for providers that need a key: without it, they cannot be called anyway.
    is_set_up = not variables or any(os.environ.get(one, "").strip() for one in variables)
    if not listed and (own.any_model or is_set_up):
        return
    why = f"It calls only {', '.join(listed)}" if listed else f"{provider} is not set up"
    raise UserError(
        f"{setting}: this server does not call {name!r} for its callers. {why}. Its operator can list models in "
        f"{CALLED_MODELS}.",
        kind="invalid_setting",
    )


MAXIMA = "MOOT_MAXIMA"
"""The environment variable with maxima of settings for callers: ``samples=20,timeout=600``."""
USUAL_MAXIMA: Mapping[str, float] = {
    "samples": 40,
    "max_concurrency": 32,
    "timeout": 600,
    "max_wait": 3600,
    "agents": 12,
    "debaters": 12,
    "judges": 12,
    "rounds": 10,
    "max_rounds": 10,
    "min_rounds": 10,
    "switched_rounds": 10,
    "k": 20,
    "seed_k": 20,
    "max_retrievals": 20,
    "max_tool_calls": 20,
    "max_premises": 20,
    "max_origins": 20,
    "robustness_calls": 50,
    "panel_tokens": 200_000,
    "max_evidence_tokens": 20_000,
}
"""The maxima of settings that multiply calls, searches or waits. That of a list is its length."""


def maxima() -> Mapping[str, float]:
    """The maxima of settings for the callers of this process; empty if it is no server."""
    if not serves_callers():
        return {}
    are_operators = _serving is not None and _serving.any_model
    found: dict[str, float] = {} if are_operators else {**USUAL_MAXIMA}
    for one in names_in_variable(MAXIMA):
        name, _, value = (part.strip() for part in one.partition("="))
        if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", value):
            text = f"{MAXIMA}: {one[:60]!r} is not a setting with its maximum, such as samples=20."
            raise UserError(text, kind="invalid_environment")
        found[name] = float(value)
    return found


def check_maxima(changed: Mapping[str, Any]) -> None:
    """Refuses settings (those that differ from the defaults) that are larger than this process allows its callers."""
    for name, most in maxima().items():
        value = changed.get(name)
        size = len(value) if isinstance(value, list | tuple) else value
        if isinstance(size, int | float) and size > most:
            raise UserError(
                f"{name}: this server allows at most {most:g}, not {size:,}. Its operator can change that in {MAXIMA}.",
                kind="invalid_setting",
            )


def check_embedder(name: str) -> None:
    """Refuses a text encoder that the server does not list."""
    provider, colon, given = name.partition(":")
    if provider == "langchain":
        check_listed_object(given, "encoder")
    elif colon and provider in PROVIDERS:
        check_called_model(name, variables_of(provider), "embedder")
    else:
        check_model(name, "embedder")


def variables_of(provider: str) -> tuple[str, ...]:
    """For `check_called_model`: the variables of a provider in `PROVIDERS`; none for ``openai``, which needs a key."""
    found = PROVIDERS[provider]
    return () if provider == "openai" else (found.base_url_variable, found.key_variable)


def check_listed_object(given: str, noun: str) -> None:
    """Refuses a LangChain object (``MODULE:ATTRIBUTE``) that is not in a server's ``MOOT_LANGCHAIN_SOURCES``.

    ``noun`` is the word for the object in the error: ``retriever``, ``model`` or ``encoder``.
    """
    if serves_callers() and given not in names_in_variable(OBJECTS):
        raise UserError(
            f"The {noun} {f'langchain:{given}'!r} is not listed by this server. Add it to the server's {OBJECTS}.",
            kind=f"unknown_{noun}",
        )


PROGRAMS = ("langchain:", "mcp:")
"""The beginnings of names of models and sources that import or start a program."""


def program_in(settings: Any) -> str:
    """The first name in settings that would import or start a program, which settings from outside must not do."""
    if isinstance(settings, str):
        return settings if settings.startswith(PROGRAMS) else ""
    if isinstance(settings, Mapping):
        settings = [*settings.values()]
    return next(filter(None, map(program_in, settings)), "") if isinstance(settings, list | tuple) else ""


def check_calibration(name: str) -> None:
    """Refuses a path of a calibration's file on a server, where callers name a calibration by its id."""
    if serves_callers() and not CALIBRATION.fullmatch(name):
        raise UserError(
            "calibration: this server reads no path. Name the id of a calibration: the name of a file that its "
            "operator has put into the folder calibrations of MOOT_HOME.",
            kind="invalid_setting",
        )
