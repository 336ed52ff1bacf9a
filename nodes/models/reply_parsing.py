"""A model's message, read as the reply that was asked for."""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Any, TypeVar

from langchain_core.messages import AIMessage, BaseMessage
from moot.core.redaction import Keys, redact, without_keys
from moot.nodes.texts.replies import Reply
from moot.retrievers.evidence import clean
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

R = TypeVar("R", bound=Reply)

OBJECT = re.compile(r"\{\s*\"")
THOUGHT = re.compile(r"\s*<think>(?:.*?</think>|.*)", re.DOTALL)
DECODER = json.JSONDecoder()
HALF = re.compile("[\ud800-\udfff]")
DEEPEST = 5
"""Levels of lists and objects in the texts of a reply that are looked for; no reply has as many."""
MOST_OBJECTS = 10_000
"""Places in a reply where an object may begin that are tried."""
MOST_REPLIES = 100
"""Objects in a reply that are read."""


def text_of(message: AIMessage) -> str:
    """A message's text; half a character (a lone surrogate) becomes a question mark, as it could not be sent again."""
    return str(message.text).encode(errors="replace").decode()


SAID = ("content", "tool_calls", "invalid_tool_calls", "additional_kwargs", "response_metadata")
"""Parts of a message that an endpoint writes."""


def repeating_no_key(message: BaseMessage, keys: Keys) -> AIMessage:
    """What a model said without the keys of the environment, which endpoints like to repeat.

    Args:
        message: what it said.
        keys: as `held_keys` gives them.
    """
    said = message if isinstance(message, AIMessage) else AIMessage(message.content)
    if not keys:
        return said
    fields = {name: getattr(said, name) for name in SAID}
    shown = without_keys(fields, keys)
    return said if shown == fields else said.model_copy(update=shown)


REFUSED = {"content_filter", "content_filtered", "refusal", "safety", "prohibited_content", "guardrail_intervened"}
CUT = {"length", "max_tokens", "model_length", "model_context_window_exceeded"}
"""Why providers say that a reply ended."""


def fault_of(message: AIMessage) -> tuple[str, str]:
    """Why a message cannot be read at all (``refused``, ``cut``, ``empty``), and in words; empty texts if it can."""
    ended = message.response_metadata
    finish = str(ended.get("finish_reason") or ended.get("stop_reason") or ended.get("stopReason") or "").lower()
    refusal = message.additional_kwargs.get("refusal")
    if refusal or finish in REFUSED:
        return "refused", f"it was refused{f' ({redact(str(refusal))[:200]})' if refusal else ''}"
    if finish in CUT:
        return "cut", "it was cut off at the limit of its length"
    return ("", "") if text_of(message).strip() else ("empty", "it was empty")


def read_reply(message: AIMessage, reply: type[R]) -> tuple[R | None, str, str]:
    """A message as the reply that was asked for.

    Returns:
        The reply or None; its outcome (``ok``, ``refused``, ``cut``, ``empty``, ``unparsed``); what is wrong with it.
    """
    outcome, problem = fault_of(message)
    if outcome:
        return None, outcome, problem
    text = text_of(message)
    values = find_objects(text) or reply.from_text(THOUGHT.sub("", text, count=1))
    if not values:
        return None, "unparsed", "it holds no complete JSON object"
    found: list[R] = []
    problems: list[str] = []
    for value in values:
        try:
            read = reply.model_validate(cleaned(value))
            read.model_dump_json()
            found += [] if read in found else [read]
        except PydanticSerializationError:
            problems.append("it holds half a character (a lone surrogate)")
        except ValidationError as error:
            problems.append("; ".join(_problem(e) for e in error.errors()[:3]))
    if len(found) == 1:
        return found[0], "ok", ""
    return None, "unparsed", "it holds several replies that differ" if found else problems[-1]


def cleaned(value: Any, levels: int = DEEPEST) -> Any:
    """A reply's texts without invisible and control characters, as evidence is; half a character stays, to be refused.

    Args:
        value: what a reply holds.
        levels: how deep it is looked into.
    """
    if isinstance(value, str):
        return value if HALF.search(value) else clean(value)
    if isinstance(value, list) and levels:
        return [cleaned(item, levels - 1) for item in value]
    return {k: cleaned(v, levels - 1) for k, v in value.items()} if isinstance(value, dict) and levels else value


def _problem(error: Any) -> str:
    place = ".".join(str(part) for part in error["loc"])
    return f"`{place}` {str(error['msg']).removeprefix('Value error, ')}"[:300]


def find_objects(text: str) -> list[dict[str, Any]]:
    """The complete JSON objects with anything in them, bare, fenced or amid prose, in order; none inside another.

    Nothing is repaired: half an object is none, nor is what stands inside it. What a model thinks before it answers
    (between ``<think>`` tags) is not read. One call takes little time, whatever the text.
    """
    found: list[dict[str, Any]] = []
    thought = THOUGHT.match(text)
    end = thought.end() if thought else 0
    for begin in islice(OBJECT.finditer(text), MOST_OBJECTS):
        if begin.start() < end:
            continue
        try:
            value, end = DECODER.raw_decode(text, begin.start())
        except json.JSONDecodeError as error:
            end = error.pos  # up to there it was an object, so what begins before stands inside it
            if error.msg.startswith("Unterminated"):
                break
            continue
        except (RecursionError, ValueError):
            break  # nested so deeply, or a number so long, that every further start would take as long
        found.append(value)
    return found[:MOST_REPLIES]
