"""Replies that the ledger has kept: as plain values, and as a chat model that gives one of them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from functools import lru_cache
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.base import LangSmithParams
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from moot.core.endpoint import without_user
from moot.core.errors import UserError
from moot.core.ledger.records import hashes_of
from moot.nodes.models.chat_models import ChatModel
from pydantic import ValidationError
from pydantic_core import to_jsonable_python

FIELDS = ("content", "tool_calls", "invalid_tool_calls", "usage_metadata", "response_metadata", "additional_kwargs")
"""What is kept of a message; its id belongs to the run that made it."""
FROM_LEDGER = "from_ledger"
"""Metadata of a kept reply's run: that it cost nothing."""
PARAMETERS = ("temperature", "max_tokens", "seed")
"""What of a chat model its replies depend on, beside its name and its endpoint."""


class KeptChatModel(BaseChatModel):
    """A chat model that gives one message, however it is asked; to callbacks it is the model that gave it first.

    Args:
        message: what it gives.
        first: the model that gave it.
    """

    message: AIMessage
    first: BaseChatModel

    @property
    def _llm_type(self) -> str:
        return self.first._llm_type

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        return self.first._get_ls_params(stop, **kwargs)

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        """The model with tools, as its callbacks show them."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools])

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.message.model_copy())])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return self._generate(messages)  # without a thread

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        kept = {field: getattr(self.message, field) for field in FIELDS}
        del kept["tool_calls"], kept["invalid_tool_calls"]
        calls = [
            tool_call_chunk(name=c["name"], args=_written(c["args"]), id=c["id"], index=index)
            for index, c in enumerate([*self.message.tool_calls, *self.message.invalid_tool_calls])
        ]
        yield ChatGenerationChunk(message=AIMessageChunk(**kept, tool_call_chunks=calls, chunk_position="last"))


def kept_model(message: AIMessage, first: BaseChatModel) -> KeptChatModel:
    """The model that gives a message which another one gave first."""
    return KeptChatModel(
        message=message, first=first, tags=first.tags, metadata={**(first.metadata or {}), FROM_LEDGER: True}
    )


def _written(arguments: Any) -> str | None:
    return arguments if isinstance(arguments, str | None) else json.dumps(arguments)


def value_of(message: AIMessage, *, whole: bool = True) -> dict[str, Any]:
    """A message as JSON values; what is empty is left out.

    Args:
        message: the message.
        whole: whether it is kept; else only how it ended.
    """
    fields = {field: held for field in FIELDS if (held := getattr(message, field))}
    if not whole:
        fields = {"response_metadata": {"finish_reason": message.response_metadata.get("finish_reason")}}
    value: dict[str, Any] = to_jsonable_python(fields, fallback=str)
    return value


def message_of(value: Any) -> AIMessage:
    """The message that `value_of` gave.

    Raises:
        UserError: it is none.
    """
    try:
        return AIMessage(**{"content": "", **{field: value[field] for field in FIELDS if field in value}})
    except (TypeError, ValidationError) as error:
        raise UserError(
            "The ledger holds a reply that is no message. Remove its debate (`moot ledger`), or say `--ledger off`.",
            kind="damaged_ledger",
        ) from error


def key_messages(messages: Sequence[BaseMessage]) -> list[Any]:
    """Messages as a key holds them: what a model is sent of them, without ids of runs."""
    return [_sent(message) for message in messages]


def _sent(message: BaseMessage) -> Any:
    if isinstance(message, ToolMessage):
        return [message.type, message.content, [], message.tool_call_id]
    if isinstance(message, AIMessage) and message.tool_calls:
        calls = [[c["name"], c["args"], c["id"]] for c in message.tool_calls]
        return [message.type, message.content, calls, None]
    return [message.type, message.content]


def model_hashes(model: ChatModel) -> dict[str, str]:
    """Parts of a key: the model, its endpoint, and what of its parameters replies depend on."""
    parameters = [getattr(model.chat, name, None) for name in PARAMETERS]
    return _model_hashes(model.name, model.endpoint.base_url, *parameters)


@lru_cache(maxsize=256, typed=True)
def _model_hashes(name: str, base_url: str, *parameters: Any) -> dict[str, str]:
    provider, _, model = name.partition(":")
    named = dict(zip(PARAMETERS, parameters, strict=True))
    endpoint = without_user(base_url)
    return hashes_of({"provider": provider, "model": model, "endpoint": endpoint, "parameters": named})
