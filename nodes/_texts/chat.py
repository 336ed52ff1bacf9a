"""Debates in a conversation: the claim comes from its messages, and the verdict becomes its next message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NotRequired
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, convert_to_messages
from moot.core.errors import UserError
from pydantic import Field
from typing_extensions import TypedDict


class ChatMessage(TypedDict):
    """One message of a conversation, in any of the forms that LangChain takes; `moot` writes ``type`` and ``id``."""

    content: Annotated[str | list[Any], Field(description="Its text, or parts of which those with `text` are read.")]
    type: NotRequired[Annotated[str, Field(description="Whose it is.", examples=["human", "ai"])]]
    role: NotRequired[Annotated[str, Field(description="Whose it is, as others say it.", examples=["user"])]]
    id: NotRequired[Annotated[str | None, Field(description="One that comes again takes the place of the first.")]]


def merge_messages(old: list[Any], new: Any) -> list[Any]:
    """Joins two lists of messages; None adds nothing."""
    return [*old, *(new if isinstance(new, list) else [] if new is None else [new])]


def read_messages(messages: Any) -> list[BaseMessage]:
    """Messages in any of LangChain's forms; of messages with the same id the last replaces the first.

    Raises:
        UserError: something that is no message.
    """
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
        found[name] = read.model_copy(update={"id": name})
    return list(found.values())


def plain(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """Messages as plain values, from which the same messages can be built again."""
    return [message.model_dump(mode="json", exclude_defaults=True) | {"type": message.type} for message in messages]


def question_of(messages: Sequence[BaseMessage]) -> str | None:
    """The text of the last message, if a person wrote it and it has no answer yet; None if there is none."""
    spoken = [message for message in messages if isinstance(message, HumanMessage | AIMessage)]
    return str(spoken[-1].text) if spoken and isinstance(spoken[-1], HumanMessage) else None


def claim_of(state: Mapping[str, Any], messages: Sequence[BaseMessage]) -> Any:
    """The claim of a debate: the given one, else the question of the messages.

    The claim of the debate before on the thread (``opened``), which is still in the state, is not given.
    """
    question, claim = question_of(messages), state.get("claim")
    return question if question is not None and claim in (None, "", state.get("opened")) else claim


def conversation_update(messages: Any, text: str) -> list[dict[str, Any]]:
    """The update of the conversation by a debate; empty if the debate was not started in one."""
    asked = question_of(read_messages(messages)) is not None
    return plain([AIMessage(text, id=str(uuid4()))]) if asked else []
