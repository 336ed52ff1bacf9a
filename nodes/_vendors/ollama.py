"""Chat models of Ollama, through its own API.

Ollama loads a model with a context (``num_ctx``) that is often much smaller than the model's own, and cuts longer
prompts without a word. So the model is loaded before its first call, and the server is asked with which context.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from moot.core.endpoint import Endpoint, create_once, is_loopback
from moot.core.errors import WorldError
from moot.core.lazy import imported
from moot.core.ollama import client_options, ollama_client, root_of
from moot.core.refusals import explain

LOAD_SECONDS = 600.0
"""How long a model may take to load. Ollama itself gives up after OLLAMA_LOAD_TIMEOUT, by default 5 minutes, without
progress.
"""
USUAL_CONTEXT = 4096
"""Ollama's default for ``num_ctx`` on most machines; it is sent to servers that do not tell a context."""
NUM_CTX = re.compile(r"^num_ctx\s+(\d+)\s*$", re.MULTILINE)


class Loaded(NamedTuple):
    """A loaded model: the ``num_ctx`` that requests must send, if any, the context, if known, and whether it thinks."""

    num_ctx: int | None
    context: int | None
    thinks: bool = False


async def ollama_chat(model: str, endpoint: Endpoint, num_ctx: int | None, **wanted: Any) -> BaseChatModel:
    """LangChain's client of a model, with the ``wanted`` options that are not None."""
    options = await client_options(endpoint)
    given = {name: value for name, value in {**wanted, "num_ctx": num_ctx}.items() if value is not None}

    def make() -> BaseChatModel:
        chat: BaseChatModel = imported("langchain_ollama").ChatOllama(
            model=model,
            base_url=root_of(endpoint),
            client_kwargs={"headers": options["headers"], "trust_env": not is_loopback(endpoint.base_url)},
            async_client_kwargs=options,
            **given,
        )
        return chat

    return await asyncio.to_thread(make)


async def load(model: str, endpoint: Endpoint, num_ctx: int | None, **own: Any) -> Loaded:
    """Loads a model, once per event loop, with a context of ``num_ctx`` tokens or, for None, with the server's.

    ``own``: options of the HTTP client, in place of moot's.
    """
    key = ("ollama", endpoint, model, num_ctx, repr(own))
    return await create_once(key, lambda: _load(model, endpoint, num_ctx, own))


async def load_object(chat: BaseChatModel, endpoint: Endpoint, num_ctx: int | None) -> Loaded:
    """The same as `load`, for a ChatOllama that a program made, with the options of its HTTP client."""
    made: Any = chat
    own = {**(made.client_kwargs or {}), **(made.async_client_kwargs or {})}
    return await load(made.model, endpoint, num_ctx or made.num_ctx, **own)


async def _load(model: str, endpoint: Endpoint, num_ctx: int | None, own: Mapping[str, Any]) -> Loaded:
    client = await ollama_client(endpoint, own)
    try:
        async with asyncio.timeout(LOAD_SECONDS):
            # A request without a prompt only loads the model.
            await client.generate(model=model, options={"num_ctx": num_ctx} if num_ctx else None)
            running = (await client.ps()).models
            context = next((one.context_length for one in running if _is_same(model, one.model or one.name)), None)
            about = await client.show(model)
            if not (context or num_ctx) and (found := NUM_CTX.search(about.parameters or "")):
                context = int(found[1])
    except TimeoutError as error:
        raise WorldError(
            f"{endpoint.display_url} has not loaded ollama:{model} within {LOAD_SECONDS:.0f} s. Load it before the "
            f"debate (ollama run {model}), or choose a smaller model.",
            kind="timeout",
            retryable=True,
        ) from error
    except Exception as error:
        raise explain(error, endpoint, f"ollama:{model}") from error
    thinks = "thinking" in (about.capabilities or ())
    if not (context or num_ctx):  # an old server
        return Loaded(USUAL_CONTEXT, USUAL_CONTEXT, thinks)
    return Loaded(num_ctx, context or num_ctx or USUAL_CONTEXT, thinks)


def _is_same(model: str, listed: str | None) -> bool:
    return bool(listed) and listed in (model, f"{model}:latest")
