"""Debates in a conversation: the claim comes from its messages, and the verdict becomes its next message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, TypeAlias
from uuid import uuid4

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    MessageLikeRepresentation,
    convert_to_messages,
)
from moot.core.errors import UserError
from pydantic import Field
from typing_extensions import TypedDict


class ChatMessage(TypedDict):
    """One message of a conversation, in any form that LangChain accepts; moot's messages have ``type`` and ``id``."""

    content: Annotated[
        str | list[Any], Field(description="The message's text, or a list of parts; only parts with `text` are read.")
    ]
    type: NotRequired[
        Annotated[str, Field(description="Who wrote it, in LangChain's words.", examples=["human", "ai"])]
    ]
    role: NotRequired[Annotated[str, Field(description="Its author, in OpenAI's words.", examples=["user"])]]
    id: NotRequired[Annotated[str | None, Field(description="Of messages with the same id only the last one counts.")]]


if TYPE_CHECKING:
    # A type checker accepts messages in every form; the schema for servers describes the usual one.
    ChatMessages: TypeAlias = Sequence[MessageLikeRepresentation]
else:
    ChatMessages = list[ChatMessage]


def merge_messages(old: list[Any], new: Any) -> list[Any]:
    """The reducer of ``messages``: appends a message or a list of messages; None adds nothing."""
    return [*old, *(new if isinstance(new, list) else [] if new is None else [new])]


def read_messages(messages: Any) -> list[BaseMessage]:
    """Reads messages in any form that LangChain accepts; a message replaces an earlier message with the same id."""
    found: dict[str, BaseMessage] = {}
    for message in messages or ():
        try:
            [read] = convert_to_messages([message])
        except (ValueError, TypeError, LookupError, NotImplementedError) as error:
            raise UserError(
                '`messages` cannot be read: each is an object such as {"role": "user", "content": "The claim."}.',
                kind="invalid_claim",
            ) from error
        name = str(read.id or uuid4())
        others = dict(read.additional_kwargs)
        # LangChain reads this field from messages, but not from their JSON values.
        usage = {"usage_metadata": others.pop("usage_metadata")} if "usage_metadata" in others else {}
        found[name] = read.model_copy(update={"id": name, "additional_kwargs": others, **usage})
    return list(found.values())


def as_plain_values(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """Messages as JSON values, from which `read_messages` restores the same messages."""
    return [message.model_dump(mode="json", exclude_defaults=True) | {"type": message.type} for message in messages]


def unanswered_question(messages: Sequence[BaseMessage]) -> str | None:
    """The text of a person's last message, if no message of a model follows it; else None."""
    spoken = [message for message in messages if isinstance(message, HumanMessage | AIMessage)]
    return str(spoken[-1].text) if spoken and isinstance(spoken[-1], HumanMessage) else None


def claim_of(state: Mapping[str, Any], messages: Sequence[BaseMessage]) -> Any:
    """The claim of a debate: the claim in the state or, if it is empty, the unanswered question in the messages."""
    question, claim = unanswered_question(messages), state.get("claim")
    # If an earlier debate ran on the same thread, the state still has its claim, which equals ``opened``.
    return question if question is not None and claim in (None, "", state.get("opened")) else claim


def conversation_update(messages: Any, text: str) -> list[dict[str, Any]]:
    """A list with ``text`` as a model's message, to append to a conversation; empty without an unanswered question."""
    asked = unanswered_question(read_messages(messages)) is not None
    return as_plain_values([AIMessage(text, id=str(uuid4()))]) if asked else []
