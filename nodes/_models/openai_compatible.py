"""LangChain's client for OpenAI-compatible endpoints, with moot's own transport.

Do not import this module directly, but call `moot.nodes._models.chat_models.chat_class`. The import is slow, and it may
raise any error if langchain-openai has changed.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Mapping
from functools import lru_cache
from typing import Any, get_args

from langchain_core.callbacks import AsyncCallbackManager
from langchain_core.globals import get_llm_cache
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.utils.uuid import uuid7
from langchain_openai import ChatOpenAI
from moot.core.transport import Connection
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import BaseModel, PrivateAttr

Base: Any = ChatOpenAI

FOR_CALLBACKS = ("ls_structured_output_format", "structured_output_format")
"""Options of a call that only callbacks read."""

SDK_ONLY = frozenset({"response_format", "extra_headers", "extra_query", "timeout"})
"""Arguments that the openai SDK handles in its own way; a request with one of them is sent by the SDK."""


class OpenAICompatible(Base):  # type: ignore[misc]
    """`ChatOpenAI` whose asynchronous requests are sent by moot's own transport (`Connection`).

    The openai SDK sends synchronous requests, and those for which `_own_connection` returns None.
    """

    _connection: Connection | None = PrivateAttr(None)  # None in a copy made by langchain-core

    async def ainvoke(self, input: Any, config: Any = None, *, stop: Any = None, **options: Any) -> Any:
        """The same as LangChain's method, but faster for messages of text.

        If there are callbacks, a cache or a rate limiter, LangChain's method is called.
        """
        manager = AsyncCallbackManager.configure(callbacks_in(config), self.callbacks, self.verbose)
        given = isinstance(input, list) and all(isinstance(message, BaseMessage) for message in input)
        messages = input if given else self._convert_input(input).to_messages()
        plain = not (manager.handlers or self.cache or self.rate_limiter or get_llm_cache())
        if not plain or not all(isinstance(message.content, str) for message in messages):
            return await super().ainvoke(input, config, stop=stop, **options)
        # Without callbacks, the following lines are all that is needed of langchain-core's method.
        options = {name: value for name, value in options.items() if name not in FOR_CALLBACKS}
        result = await self._agenerate(messages, stop=stop, **options)
        generation = result.generations[0]
        message, more = generation.message, generation.generation_info or {}
        message.response_metadata = {**(result.llm_output or {}), **more, **message.response_metadata}
        message.id = message.id or f"lc_run--{uuid7()}-0"
        return message

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> Any:
        payload = self._get_request_payload(messages, stop=stop, **options)
        connection = self._own_connection(payload)
        if connection is None:
            return await super()._agenerate(messages, stop, run_manager, **options)
        reply = await connection.post("/chat/completions", request_of(payload))
        result = self._create_chat_result(with_missing_fields(without_invalid_values(reply), ChatCompletion))
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
        connection = self._own_connection(payload)
        if connection is None:
            async for chunk in super()._astream(messages, stop, run_manager, stream_usage=stream_usage, **options):
                yield chunk
            return
        kind: Any = AIMessageChunk
        async for event in connection.stream("/chat/completions", request_of(payload)):
            whole = with_missing_fields(without_invalid_values(event), ChatCompletionChunk)
            chunk = self._convert_chunk_to_generation_chunk(whole, kind, {})
            if chunk is None:
                continue
            kind = type(chunk.message)
            if run_manager:
                logprobs = (chunk.generation_info or {}).get("logprobs")
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk, logprobs=logprobs)
            yield chunk

    def _dict_for_compat(self) -> dict[str, Any]:
        # langchain-core calls this twice per request, and its own method switches warnings off and on for all threads.
        described: dict[str, Any] = self.asdict()
        return described

    def _own_connection(self, payload: Mapping[str, Any]) -> Connection | None:
        """Moot's connection for a request; None if the openai SDK must send the request."""
        needs_sdk = (
            not SDK_ONLY.isdisjoint(payload)
            or "messages" not in payload
            or self.include_response_headers
            or getattr(self, "_uses_gateway", False)
        )
        return None if needs_sdk else self._connection


# langchain-core reads the signature at each call. Computing it takes a tenth of a call's time, so it is computed once.
generate: Any = OpenAICompatible._agenerate
generate.__signature__ = inspect.signature(generate)


def callbacks_in(config: RunnableConfig | None) -> Any:
    """The callbacks in a call's config. If the config has none, the callbacks of the calling node, or None."""
    found = (one.get("callbacks") for one in (config, var_child_runnable_config.get()) if one)
    return next((callbacks for callbacks in found if callbacks is not None), None)


def request_of(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a request, built from langchain-openai's arguments for the openai SDK."""
    body = {**payload, **(payload.get("extra_body") or {})}
    body.pop("extra_body", None)
    return body


MOST_TOKENS = 2**53
"""Token counts of this size or above are invalid."""


def without_invalid_values(reply: Any) -> Any:
    """Replaces invalid values of ``id``, ``model`` and ``usage`` by None, and converts counts as in `usage_of`.

    The reply is changed in place and returned. A reply that is not an object stays as it is.
    """
    if isinstance(reply, dict):
        for name in ("id", "model"):
            if not isinstance(reply.get(name, ""), str):
                reply[name] = None
        if reply.get("usage") is not None:
            reply["usage"] = usage_of(reply["usage"])
    return reply


def usage_of(usage: Any) -> dict[str, Any] | None:
    """The usage that an endpoint reports, with counts as integers.

    The result is None if the number of tokens of the prompt or of the reply is missing or invalid. A missing or invalid
    total is computed.
    """
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
    """A number of tokens from an integer, a float without a fraction, or a text of at most 15 digits.

    None for any other value, for numbers below zero, and for `MOST_TOKENS` or more.
    """
    written = isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 16
    if written or (isinstance(value, float) and value.is_integer()):
        value = int(value)
    return value if type(value) is int and 0 <= value < MOST_TOKENS else None


def with_missing_fields(value: Any, kind: Any) -> Any:
    """Adds the fields of ``kind`` that the endpoint left out, with the value None, as the openai SDK does.

    ``value`` is JSON. It is changed in place and returned.
    """
    if isinstance(value, list):
        for one in value:
            with_missing_fields(one, kind)
    elif isinstance(value, dict):
        for name, inner in fields_of(kind).items():
            if value.setdefault(name, None) and inner:
                with_missing_fields(value[name], inner)
    return value


@lru_cache
def fields_of(kind: Any) -> dict[str, Any]:
    """The fields of a Pydantic model by name, each with the model of its nested object or of its list's items.

    The value is None if the type of a field contains no model, or several.
    """

    def models(annotation: Any) -> set[Any]:
        if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
            return {annotation}
        return {model for part in get_args(annotation) for model in models(part)}

    inner = {name: models(field.annotation) for name, field in kind.model_fields.items()}
    return {name: next(iter(found)) if len(found) == 1 else None for name, found in inner.items()}
