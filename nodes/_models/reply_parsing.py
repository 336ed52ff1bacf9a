"""Parses a model's message into a structured reply."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Sequence
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

DECODER = json.JSONDecoder(strict=False)
"""It also reads control characters in strings, such as a line break: they can mean nothing else there."""
ANSWER_IN_JSON = re.compile(r'"(?:answer|verdict)"\s*:\s*"(?P<answer>(?:[^"\\]|\\.)+)"')
"""Pattern of an answer in the text of a reply."""
LONE_SURROGATE = re.compile("[\ud800-\udfff]")
MOST_LEVELS = 5
"""Maximum depth of lists and objects to which the texts of a reply are cleaned; no valid reply is deeper."""
MOST_PLACES = 10_000
"""Maximum number of matches of `OBJECT` in a reply that are examined."""
MOST_OBJECTS = 100
"""Maximum number of objects that `find_objects` returns."""


def text_of(message: AIMessage, *, thoughts: bool = False) -> str:
    """A message's text, without the model's thoughts unless ``thoughts`` is set."""
    # A lone surrogate becomes a question mark, because no request can contain it.
    text = str(message.text).encode(errors="replace").decode()
    return text if thoughts else without_thoughts(text)


FROM_ENDPOINT = ("content", "tool_calls", "invalid_tool_calls", "additional_kwargs", "response_metadata")
"""The parts of a message that come from the endpoint."""


def without_environment_keys(message: BaseMessage, keys: Keys) -> AIMessage:
    """A model's reply in which the API keys of the environment are hidden, because some endpoints repeat them."""
    reply = message if isinstance(message, AIMessage) else AIMessage(message.content)
    if not keys:
        return reply
    fields = {name: getattr(reply, name) for name in FROM_ENDPOINT}
    hidden = hide_environment_keys(fields, keys)
    return reply if hidden == fields else reply.model_copy(update=hidden)


def is_broken_off(message: BaseMessage, *, is_ollama: bool = False) -> bool:
    """Whether a streamed reply of `ChatOpenAI` or Ollama lacks its end: SDKs take the end of a connection for it."""
    found = message.response_metadata
    if is_ollama:
        return not found.get("done")
    # Replies of the Responses API have a status instead of a finish reason.
    return found.get("model_provider") == "openai" and not {"finish_reason", "status"} & found.keys()


def without_invalid_metadata(message: AIMessage) -> AIMessage:
    """A reply without its token counts if one is no number of tokens, and without a model's name that is not a text."""
    usage, found = message.usage_metadata, message.response_metadata
    sent = found.get("token_usage")  # as the endpoint wrote it; a streamed reply has none

    def is_count(count: Any, name: str) -> bool:
        # langchain-openai writes a missing count as 0.
        is_known_zero = isinstance(sent, dict) and sent.get(name) == 0
        return type(count) is int and 0 <= count < 2**53 and (count > 0 or is_known_zero)

    changed: dict[str, Any] = {}
    if usage and not (
        is_count(usage["input_tokens"], "prompt_tokens") and is_count(usage["output_tokens"], "completion_tokens")
    ):
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
    "recitation",
    "blocklist",
    "spii",
    "image_safety",
    "language",
    "sensitive",
    "model_armor",
    "guardrail_intervened",
    "error_toxic",
}
"""The providers' finish reasons for a reply that was refused."""
CUT_REASONS = {"length", "max_tokens", "model_length", "model_context_window_exceeded"}
"""The providers' finish reasons for a reply that was cut off."""


def finish_reason(message: BaseMessage) -> str:
    """Why a reply ended, in lower case and without details after a colon; empty if the provider does not say."""
    ended = message.response_metadata
    found = ended.get("finish_reason") or ended.get("stop_reason") or ended.get("stopReason")
    found = found or ended.get("done_reason") or ""
    return str(found).lower().partition(":")[0]


def found_no_room(message: AIMessage) -> bool:
    """Whether a reply was cut off at its beginning, because the prompt fills the context."""
    finish, usage = finish_reason(message), message.usage_metadata
    is_full = finish == "model_context_window_exceeded" or (usage is not None and usage["output_tokens"] == 0)
    return finish in CUT_REASONS and is_full and not message.text.strip()


def fault_of(message: AIMessage) -> tuple[str, str]:
    """The fault of a message (``refused``, ``cut`` or ``empty``) and its description; both empty without a fault."""
    finish = finish_reason(message)
    refusal = message.additional_kwargs.get("refusal")
    if refusal or finish in REFUSAL_REASONS:
        ended = message.response_metadata.get("finish_reason") or finish
        said = str(refusal or (ended if ended != "content_filter" else ""))
        return "refused", f"it was refused{f' ({redact(said)[:200]})' if said else ''}"
    if finish in CUT_REASONS:
        return "cut", "it was cut off at the limit of its length"
    return ("", "") if message.text.strip() else ("empty", "it was empty")


def answer_probability(message: AIMessage) -> float | None:
    """The product of the probabilities of the tokens of a reply's ``answer`` or ``verdict``, from log-probabilities as
    OpenAI-compatible endpoints give them; None if there are none, or if they do not have the form of that.

    >>> tokens = [("{\"answer\": \"", 0.0), ("YES", -0.5), ("\"}", 0.0)]
    >>> found = {"content": [{"token": token, "logprob": value} for token, value in tokens]}
    >>> round(answer_probability(AIMessage("", response_metadata={"logprobs": found})), 3)
    0.607
    """
    found = message.response_metadata.get("logprobs")
    tokens = found.get("content") if isinstance(found, dict) else None
    if not isinstance(tokens, list) or not all(map(_is_token, tokens)):
        return None
    answers = [*ANSWER_IN_JSON.finditer("".join(one["token"] for one in tokens))]
    if not answers:
        return None
    start, end = answers[-1].span("answer")
    total, place = 0.0, 0
    for one in tokens:
        if place < end and start < place + len(one["token"]):
            total += one["logprob"]
        place += len(one["token"])
    return math.exp(total)


def _is_token(found: Any) -> bool:
    if not isinstance(found, dict) or not isinstance(found.get("token"), str):
        return False
    value = found.get("logprob")
    return isinstance(value, int | float) and -math.inf < value <= 0


def read_reply(message: AIMessage, reply: type[R], *, plain: bool = False) -> tuple[R | None, str, str]:
    """A message as a reply (None if it has a fault), the outcome (``ok`` or the fault), and the fault in words.

    ``plain``: whether an answer in plain words is a reply (`Reply.from_plain_text`).
    """
    outcome, problem = fault_of(message)
    if outcome:
        return None, outcome, problem
    text = text_of(message)
    values = find_objects(text) or find_objects(unquoted(text)) or reply.from_text(text)
    if not values and plain:
        values = reply.from_plain_text(text)
    if not values:
        return None, "unparsed", "it holds no complete JSON object" if text.strip() else "it holds only thoughts"
    # Objects without the schema are ignored if one has it. Different replies are a problem; equal ones are not.
    found, problems = valid_replies(values, reply)
    if not found:
        found, _ = valid_replies([inner for value in values if (inner := unwrapped(value))], reply)
    if len(found) == 1:
        return found[0], "ok", ""
    return None, "unparsed", "it holds several replies that differ" if found else problems[-1]


def valid_replies(values: Sequence[dict[str, Any]], reply: type[R]) -> tuple[list[R], list[str]]:
    """The different replies among some values, and the problems of the values that are none."""
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
    return found, problems


WRAPPERS = {"$schema", "additionalProperties", "description", "name", "required", "strict", "title", "type"}
"""Fields of JSON schemas and of calls of tools, which may stand beside the object that they wrap."""


def unwrapped(value: dict[str, Any]) -> dict[str, Any] | None:
    """The object inside an object that has nothing else to say; None if there is not exactly one."""
    inner = [item for name, item in value.items() if name not in WRAPPERS]
    if len(inner) == 1 and isinstance(inner[0], str):  # the arguments of a call of a tool, for example
        with contextlib.suppress(ValueError, RecursionError):
            inner = [json.loads(inner[0], strict=False)]
    return inner[0] if len(inner) == 1 and isinstance(inner[0], dict) else None


def unquoted(text: str) -> str:
    """The text in a JSON string, if that is the whole text; else an empty text."""
    try:
        value = json.loads(text, strict=False) if text.lstrip().startswith('"') else ""
    except (ValueError, RecursionError):
        return ""
    return value if isinstance(value, str) else ""


def clean_texts(value: Any, levels: int = MOST_LEVELS) -> Any:
    """A reply's value whose texts (down to a nesting of ``levels``) have no invisible characters and no thoughts."""
    if isinstance(value, str):
        # A text with a lone surrogate is not changed, so that `read_reply` refuses it.
        return value if LONE_SURROGATE.search(value) else field_without_thoughts(clean(value))
    if isinstance(value, list) and levels:
        return [clean_texts(item, levels - 1) for item in value]
    return {k: clean_texts(v, levels - 1) for k, v in value.items()} if isinstance(value, dict) and levels else value


def _problem_in_words(error: Any) -> str:
    place = ".".join(str(part) for part in error["loc"])
    problem = str(error["msg"]).removeprefix("Value error, ")
    return (f"`{place}` {problem}" if place else problem)[:300]


LAST_COMMA = re.compile(r'"(?:[^"\\]|\\.)*+"|(,)(?=\s*+[}\]])', re.DOTALL)
"""A string, or a comma before the end of an object or list."""


def without_last_commas(text: str) -> str:
    """A text in which spaces replace the commas before the end of an object or list, except in strings."""
    begin = OBJECT.search(text)
    if begin is None:
        return text
    # From the first object on, because quotation marks in prose may be unpaired.
    rest = LAST_COMMA.sub(lambda found: " " if found[1] else found[0], text[begin.start() :])
    return text[: begin.start()] + rest


def find_objects(text: str) -> list[dict[str, Any]]:
    """The first `MOST_OBJECTS` JSON objects in a text, in order, without empty ones and those inside other objects."""
    # A comma too many at the end of an object or list is dropped. Nothing else is repaired, and the time is bounded for
    # any text.
    text = without_last_commas(text)
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
