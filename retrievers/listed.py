"""What a server opens for whoever calls it: models of its own machine, and code, only as it lists them.

A name that a caller chooses would otherwise be a folder that is read, a download, or an import.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection

from moot.core.errors import UserError

MODELS = "MOOT_EMBEDDERS"
SOURCES = "MOOT_LANGCHAIN_SOURCES"
SHIPPED = ("all-MiniLM-L6-v2", "cross-encoder/stsb-roberta-base")
"""Models that settings name by default; every server opens them."""
ENDPOINTS = ("openai:", "ollama:", "vllm:")
"""What is asked at an address that the environment names; callers choose among its models as for debaters."""


def is_server() -> bool:
    """Whether this process is a LangGraph server, which others call."""
    return "langgraph_api" in sys.modules


def listed(variable: str) -> Collection[str]:
    """The names in an environment variable, between commas."""
    return [name for part in os.environ.get(variable, "").split(",") if (name := part.strip())]


def may_load(name: str) -> bool:
    """Whether a caller may name a model of this machine: an encoder, a cross-encoder, a summariser."""
    return not is_server() or name in SHIPPED or name in listed(MODELS)


def check_model(name: str, setting: str) -> None:
    """Refuses a model of this machine that a server does not list.

    Args:
        name: the model, or the folder that holds it.
        setting: the setting that named it, or those that could have.

    Raises:
        UserError: it is not listed.
    """
    if may_load(name):
        return
    allowed = ", ".join((*SHIPPED, *listed(MODELS)))
    raise UserError(
        f"{setting}: this server does not load {name!r} for those who call it. It loads {allowed}, and asks its own "
        f"endpoints (openai:NAME, ollama:NAME, vllm:NAME) for embeddings. Whoever runs it lists others in {MODELS}.",
        kind="invalid_setting",
    )


def check_source(given: str) -> None:
    """Refuses the ``MODULE:ATTRIBUTE`` of a LangChain retriever that a server does not list.

    Raises:
        UserError: it is not listed.
    """
    if is_server() and given not in listed(SOURCES):
        raise UserError(
            f"The retriever {f'langchain:{given}'!r} is not listed by this server. List it in the server's {SOURCES}.",
            kind="unknown_retriever",
        )
