"""Parses a model's message into a structured reply."""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Any, TypeVar

from langchain_core.messages import AIMessage, BaseMessage
from moot.core.redaction import Keys, hide_environment_keys, redact
from moot.nodes._texts.replies import Reply
from moot.nodes._texts.thoughts import OBJECT, field_without_thoughts, without_thoughts
from moot.retrievers._evidence import clean
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

R = TypeVar("R", bound=Reply)

DECODER = json.JSONDecoder()
LONE_SURROGATE = re.compile("[\ud800-\udfff]")
MOST_LEVELS = 5
"""Maximum depth of lists and objects to which the texts of a reply are cleaned; no valid reply is deeper."""
MOST_PLACES = 10_000
"""Maximum number of matches of `OBJECT` in a reply that are examined."""
MOST_OBJECTS = 100
"""Maximum number of objects that `find_objects` returns."""


def text_of(message: AIMessage, *, thoughts: bool = False) -> str:
    """A message's text, without the model's thoughts unless ``thoughts`` is set.

    A lone surrogate becomes a question mark, because no request can contain it.
    """
    text = str(message.text).encode(errors="replace").decode()
    return text if thoughts else without_thoughts(text)


FROM_ENDPOINT = ("content", "tool_calls", "invalid_tool_calls", "additional_kwargs", "response_metadata")
"""The parts of a message that come from the endpoint."""


def without_environment_keys(message: BaseMessage, keys: Keys) -> AIMessage:
    """A model's reply in which the API keys of the environment are hidden, because some endpoints repeat them.

    Args:
        message: the reply.
        keys: from `environment_keys`.
    """
    reply = message if isinstance(message, AIMessage) else AIMessage(message.content)
    if not keys:
        return reply
    fields = {name: getattr(reply, name) for name in FROM_ENDPOINT}
    hidden = hide_environment_keys(fields, keys)
    return reply if hidden == fields else reply.model_copy(update=hidden)


def is_broken_off(message: BaseMessage) -> bool:
    """Whether a streamed reply of `ChatOpenAI` lacks its end. The openai SDK takes the end of a connection for it."""
    found = message.response_metadata
    return found.get("model_provider") == "openai" and "finish_reason" not in found


def without_invalid_metadata(message: AIMessage) -> AIMessage:
    """A reply without its token counts if one is no number of tokens, and without a model's name that is not a text.

    langchain-openai takes both as they come, and writes a missing count as 0.
    """
    usage, found = message.usage_metadata, message.response_metadata
    counts = [usage["input_tokens"], usage["output_tokens"]] if usage else []
    changed: dict[str, Any] = {}
    if not all(type(count) is int and 0 < count < 2**53 for count in counts):
        changed["usage_metadata"] = None
    if not isinstance(found.get("model_name", ""), str):
        changed["response_metadata"] = {**found, "model_name": None}
    return message.model_copy(update=changed) if changed else message


REFUSAL_REASONS = {
    "content_filter",
    "content_filtered",
    "refusal",
    "safety",
    "prohibited_content",
    "guardrail_intervened",
}
"""The providers' finish reasons for a reply that was refused."""
CUT_REASONS = {"length", "max_tokens", "model_length", "model_context_window_exceeded"}
"""The providers' finish reasons for a reply that was cut off."""


def fault_of(message: AIMessage) -> tuple[str, str]:
    """The fault of a message (``refused``, ``cut`` or ``empty``) and its description; both empty without a fault."""
    ended = message.response_metadata
    finish = str(ended.get("finish_reason") or ended.get("stop_reason") or ended.get("stopReason") or "").lower()
    refusal = message.additional_kwargs.get("refusal")
    if refusal or finish in REFUSAL_REASONS:
        return "refused", f"it was refused{f' ({redact(str(refusal))[:200]})' if refusal else ''}"
    if finish in CUT_REASONS:
        return "cut", "it was cut off at the limit of its length"
    return ("", "") if message.text.strip() else ("empty", "it was empty")


def read_reply(message: AIMessage, reply: type[R]) -> tuple[R | None, str, str]:
    """Parses a message as a reply of the expected schema.

    Objects that do not have this schema are ignored if one object has it. Different replies in one message are a
    problem; equal ones are not.

    Args:
        message: the model's message.
        reply: the expected schema.

    Returns:
        The reply, or None if there is a problem. The outcome: ``ok``, ``refused``, ``cut``, ``empty`` or ``unparsed``.
        The problem in words; empty if the outcome is ``ok``.
    """
    outcome, problem = fault_of(message)
    if outcome:
        return None, outcome, problem
    text = text_of(message)
    values = find_objects(text) or reply.from_text(text)
    if not values:
        return None, "unparsed", "it holds no complete JSON object" if text.strip() else "it holds only thoughts"
    found: list[R] = []
    problems: list[str] = []
    for value in values:
        try:
            read = reply.model_validate(clean_texts(value))
            read.model_dump_json()
            found += [] if read in found else [read]
        except RecursionError:
            problems.append("it is nested too deeply")
        except PydanticSerializationError:
            problems.append("it holds half a character (a lone surrogate)")
        except ValidationError as error:
            problems.append("; ".join(_problem_in_words(e) for e in error.errors()[:3]))
    if len(found) == 1:
        return found[0], "ok", ""
    return None, "unparsed", "it holds several replies that differ" if found else problems[-1]


def clean_texts(value: Any, levels: int = MOST_LEVELS) -> Any:
    """A reply's value whose texts have no invisible and control characters, and no thoughts.

    A text with a lone surrogate is not changed, so that `read_reply` refuses it.

    Args:
        value: a value of a reply.
        levels: texts are cleaned down to this depth of nested lists and objects.
    """
    if isinstance(value, str):
        return value if LONE_SURROGATE.search(value) else field_without_thoughts(clean(value))
    if isinstance(value, list) and levels:
        return [clean_texts(item, levels - 1) for item in value]
    return {k: clean_texts(v, levels - 1) for k, v in value.items()} if isinstance(value, dict) and levels else value


def _problem_in_words(error: Any) -> str:
    place = ".".join(str(part) for part in error["loc"])
    problem = str(error["msg"]).removeprefix("Value error, ")
    return (f"`{place}` {problem}" if place else problem)[:300]


def find_objects(text: str) -> list[dict[str, Any]]:
    """The JSON objects in a text, in order, without empty objects and objects inside other objects.

    Prose or a code fence may surround the objects. Invalid objects are not repaired: the text of such an object up to
    the error is ignored, and with it the objects inside. The time is bounded for any text: the search ends early at a
    string without an end quote, at objects that are nested too deeply, and at numbers that are too long. At most
    `MOST_OBJECTS` objects are returned.
    """
    found: list[dict[str, Any]] = []
    end = 0
    for begin in islice(OBJECT.finditer(text), MOST_PLACES):
        if begin.start() < end:
            continue
        try:
            value, end = DECODER.raw_decode(text, begin.start())
        except json.JSONDecodeError as error:
            end = error.pos  # the text is valid up to here, so objects that start before here are inside this object
            if error.msg.startswith("Unterminated"):
                break
            continue
        except (RecursionError, ValueError):
            break  # too deep, or a number is too long; each further attempt would take as long as this one
        found.append(value)
    return found[:MOST_OBJECTS]
