"""Checks a server's allow lists: the local models and the LangChain sources that its callers may name.

Without these lists, a name that a caller chooses could make the server read a folder, download a model, or import code.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection

from moot.core.errors import UserError

MODELS = "MOOT_EMBEDDERS"
"""The environment variable with the list of models."""
SOURCES = "MOOT_LANGCHAIN_SOURCES"
"""The environment variable with the list of LangChain sources."""
SHIPPED = ("all-MiniLM-L6-v2", "cross-encoder/stsb-roberta-base")
"""Models that settings name by default; every server opens them."""
ENDPOINTS = ("openai:", "ollama:", "vllm:")
"""Prefixes of models behind the endpoints that the environment sets. Callers may name any model with such a prefix."""


def is_server() -> bool:
    """Whether this process is a LangGraph server, whose callers are not its operator."""
    return "langgraph_api" in sys.modules


def names_in_variable(variable: str) -> Collection[str]:
    """The names in an environment variable with a comma-separated list. Blank names are left out."""
    return [name for part in os.environ.get(variable, "").split(",") if (name := part.strip())]


def may_load(name: str) -> bool:
    """Whether a caller may use a local encoder, cross-encoder or summariser. Always true outside a server."""
    return not is_server() or name in SHIPPED or name in names_in_variable(MODELS)


def check_model(name: str, setting: str) -> None:
    """Raises an error for a local model that `may_load` does not allow.

    Args:
        name: the model, or its folder.
        setting: the setting that names the model, for the error.

    Raises:
        UserError: this process is a server, and the model is neither in `SHIPPED` nor in ``MOOT_EMBEDDERS``.
    """
    if may_load(name):
        return
    allowed = ", ".join((*SHIPPED, *names_in_variable(MODELS)))
    raise UserError(
        f"{setting}: this server does not load {name!r} for its callers. It loads {allowed}, and uses its own "
        f"endpoints (openai:NAME, ollama:NAME, vllm:NAME) for embeddings. Its operator can list other "
        f"models in {MODELS}.",
        kind="invalid_setting",
    )


def check_source(given: str) -> None:
    """Raises an error for the ``MODULE:ATTRIBUTE`` of a LangChain retriever that the server does not list.

    Raises:
        UserError: this process is a server, and ``MOOT_LANGCHAIN_SOURCES`` does not list the object.
    """
    if is_server() and given not in names_in_variable(SOURCES):
        raise UserError(
            f"The retriever {f'langchain:{given}'!r} is not listed by this server. Add it to the server's {SOURCES}.",
            kind="unknown_retriever",
        )
