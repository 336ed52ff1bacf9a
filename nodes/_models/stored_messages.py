"""Messages as the store has them, the parts of keys for messages and models, and a model that says a stored reply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.base import LangSmithParams
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from moot.core.endpoint import without_user
from moot.core.errors import UserError
from moot.nodes._models.chat_models import ChatModel
from pydantic import ValidationError
from pydantic_core import to_jsonable_python

FIELDS = ("content", "tool_calls", "invalid_tool_calls", "usage_metadata", "response_metadata", "additional_kwargs")
"""The stored fields of a message. Its id is not stored, because it belongs to the run that made the message."""
FROM_STORE = "from_store"
"""The key in a LangSmith run's metadata that marks a stored reply; the trace shows no cost for this reply."""
PARAMETERS = ("temperature", "max_tokens", "seed")
"""Parameters of a chat model that its replies depend on, besides its name and endpoint."""


class StoredChatModel(BaseChatModel):
    """A chat model that returns ``message`` for any prompt; callbacks see ``author``, the model that wrote it."""

    message: AIMessage
    author: BaseChatModel

    @property
    def _llm_type(self) -> str:
        return self.author._llm_type

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        return self.author._get_ls_params(stop, **kwargs)

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        """Binds tools, so that callbacks see them; the reply does not depend on them."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools])

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.message.model_copy())])


def stored_model(message: AIMessage, author: BaseChatModel) -> StoredChatModel:
    """A chat model that returns ``message``; callbacks see it as ``author``, the model that wrote the message."""
    return StoredChatModel(
        message=message, author=author, tags=author.tags, metadata={**(author.metadata or {}), FROM_STORE: True}
    )


def value_of(message: AIMessage, *, whole: bool = True) -> dict[str, Any]:
    """A message as a JSON value without empty fields, with all `FIELDS` if ``whole``, else only the finish reason."""
    fields = {field: content for field in FIELDS if (content := getattr(message, field))}
    if not whole:
        fields = {"response_metadata": {"finish_reason": message.response_metadata.get("finish_reason")}}
    value: dict[str, Any] = to_jsonable_python(fields, fallback=str)
    return value


def message_of(value: Any) -> AIMessage:
    """The message from a value that `value_of` returned; UserError if it is damaged."""
    try:
        return AIMessage(**{"content": "", **{field: value[field] for field in FIELDS if field in value}})
    except (TypeError, ValidationError) as error:
        raise UserError(
            "A stored reply is not a message. Remove its debate (`moot delete`), or use `--replies off`.",
            kind="damaged_store",
        ) from error


def key_messages(messages: Sequence[BaseMessage]) -> list[Any]:
    """The part of a key for messages: their fields that are sent to a model, so without the messages' ids."""
    return [_key_message(message) for message in messages]


def _key_message(message: BaseMessage) -> Any:
    if isinstance(message, ToolMessage):
        return [message.type, message.content, [], message.tool_call_id]
    if isinstance(message, AIMessage) and message.tool_calls:
        calls = [[c["name"], c["args"], c["id"]] for c in message.tool_calls]
        return [message.type, message.content, calls, None]
    return [message.type, message.content]


def key_model(model: ChatModel) -> list[Any]:
    """The part of a key for a model: its name with the provider, its endpoint, and its `PARAMETERS`."""
    left_out = ("max_tokens",) if model.is_capped else ()
    parameters = [None if name in left_out else getattr(model.chat, name, None) for name in PARAMETERS]
    if hasattr(model.chat, "num_predict"):  # how Ollama calls ``max_tokens``
        parameters[1] = None if left_out else model.chat.num_predict
    identity = [model.identity] if model.identity else []
    return [model.name, without_user(model.endpoint.base_url), *parameters, *identity]
