"""Sources as tools, and the parsing of tool calls in a model's message."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any, Literal, NotRequired, TypeVar, cast

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, convert_to_messages
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import invalid_tool_call, tool_call
from moot.core.endpoint import ArgumentsAsObjects, causes_of
from moot.nodes._models.reply_parsing import text_of
from moot.nodes._models.step_record import StepRecord
from moot.nodes._records.entries import Turn
from moot.nodes._runtime.turns import Known, Said, Search, Started, new_turn, numbered, tells
from moot.nodes._speakers.single import AGENT
from moot.nodes._steps.responding import tell_thought
from moot.nodes._steps.retrieving import tell_search
from moot.nodes._texts.thoughts import field_without_thoughts
from moot.retrievers._evidence import clean
from moot.retrievers._search import about_source
from pydantic import ValidationError

M = TypeVar("M", bound=BaseMessage)
ACT = "act"
"""The step of a turn that calls a tool."""
UNSAFE = re.compile(r"[^a-zA-Z0-9_-]")
LONGEST_NAME = 60
"""Maximum number of characters of a tool's name before a number is added; endpoints accept 64 characters in total."""


class ToolCall(Started):
    """An agent's call of a tool."""

    step: Literal["act"]
    number: int
    thought: str
    tool: str
    retrieval: NotRequired[Search]
    outcome: NotRequired[str]


@tells(ToolCall)
def tell_tool_call(turn: Turn, known: Known) -> Iterator[Said]:
    """The agent's text, the call, and the results."""
    yield from tell_thought(turn)
    yield Said("tool", numbered("asks", turn), f"{turn['tool']}: {turn['query'] or '(not carried out)'}")
    yield from tell_search(turn, known)


def sources_by_tool(sources: Iterable[str]) -> dict[str, str]:
    """The sources by the names of their tools; if two would have the same name, the later one gets a number."""
    tools: dict[str, str] = {}
    for source in sources:
        base = safe_name(f"search_{source}")
        names = (f"{base}_{number}" for number in count(2))
        tools[base if base not in tools else next(name for name in names if name not in tools)] = source
    return tools


def safe_name(name: str | None) -> str:
    """A name that endpoints accept for a function, made from any name; ``unknown`` if the name is empty or None."""
    return UNSAFE.sub("_", name or "")[:LONGEST_NAME] or "unknown"


def as_tool(name: str, source: str, corpus: str | None = None) -> dict[str, Any]:
    """A source as a tool in OpenAI's format: a function with the parameter ``query``."""
    query = {"type": "string", "description": "What to search for, in a few words."}
    parameters = {
        "type": "object",
        "properties": {"query": query},
        "required": ["query"],
        "additionalProperties": False,
    }
    about = f"Looks for evidence with {about_source(source, corpus)}."
    return {"type": "function", "function": {"name": name, "description": about, "parameters": parameters}}


def has_tool_calls(message: AIMessage) -> bool:
    """Whether a message has tool calls, valid or not."""
    return bool(message.tool_calls or message.invalid_tool_calls)


def parse_tool_calls(
    message: AIMessage, tools: Mapping[str, str], calls_made: int, max_calls: int, record: StepRecord
) -> dict[str, Any]:
    """Parses a message with tool calls into messages for the conversation, and a turn for each allowed call."""
    thought = text_of(message, thoughts=True).strip()
    turns: list[Turn] = []
    errors: list[BaseMessage] = []
    calls = []
    for number, asked in enumerate([*message.tool_calls, *message.invalid_tool_calls], calls_made + 1):
        # Endpoints may refuse a name of a tool, and return no ids of calls, or the same id twice.
        name, query = safe_name(asked["name"]), query_of(asked["args"])
        calls.append(tool_call(name=name, args={"query": query}, id=call_id(number)))
        fault = (
            "No calls are left, so this one was not carried out."
            if number > max_calls
            else _call_fault(name, query, tools)
        )
        if fault:
            errors.append(ToolMessage(fault, name=name, tool_call_id=call_id(number), status="error"))
        if number > max_calls:
            continue
        turn = new_turn(1, AGENT, ACT, number=number) | {"thought": thought, "tool": name}
        turns.append(turn | ({"outcome": "unparsed"} if fault else {"query": query}))
        if fault:
            record.warn("unusable_tool_call", f"{name}: {fault}")
    if dropped := len(calls) - len(turns):
        record.warn("tool_calls_dropped", f"{dropped} of {len(calls)} tool calls exceeded the limit of {max_calls}.")
    return {"messages": [AIMessage(thought, tool_calls=calls), *errors], "turns": turns}


def _call_fault(name: str, query: str, tools: Mapping[str, str]) -> str:
    if name not in tools:
        return f"There is no tool of this name. There are: {', '.join(tools)}."
    return "" if query else "The arguments must be a JSON object with a text `query` that is not empty."


def query_of(arguments: Any) -> str:
    """The query in a call's arguments without thoughts; empty if there is no usable query."""
    query = arguments.get("query") if isinstance(arguments, dict) else None
    return field_without_thoughts(clean(query)) if isinstance(query, str) else ""


def call_id(number: int) -> str:
    """The id of the call with this number, in nine letters and digits, as some endpoints require."""
    return f"call{number:05d}"


def with_search_number(message: M, max_calls: int) -> M:
    """A tool's result with the number of its call, so that the model knows how many searches are left."""
    if not isinstance(message, ToolMessage):
        return message
    text = f"{message.text}\n\n(This was search {number_of(message.tool_call_id)} of {max_calls}.)"
    return message.model_copy(update={"content": text})


def number_of(id: str | None) -> int:
    """The number of the call with this id, which `call_id` made."""
    return int((id or "").removeprefix("call"))


def readable_message(error: Exception) -> AIMessage | None:
    """The message of a reply whose tool calls LangChain could not parse; None for any other exception."""
    if found := next((one for one in causes_of(error) if isinstance(one, ArgumentsAsObjects)), None):
        return message_with_calls(found.body)
    faults = error.errors() if isinstance(error, ValidationError) else []
    if not any(fault["loc"][:1] in (("tool_calls",), ("invalid_tool_calls",)) for fault in faults):
        return None
    return AIMessage("", invalid_tool_calls=[invalid_tool_call(error="its arguments are not a JSON object")])


def message_with_calls(body: Mapping[str, Any]) -> AIMessage:
    """The message in the answer of an OpenAI-compatible endpoint, with its counts."""
    choice, counts = body["choices"][0], body.get("usage") or {}
    said = {**choice["message"], "role": "assistant", "content": choice["message"].get("content") or ""}
    message = cast(AIMessage, convert_to_messages([said])[0])
    metadata = {"finish_reason": choice.get("finish_reason"), "model_name": body.get("model"), "token_usage": counts}
    message.response_metadata = {**metadata, "model_provider": "openai"}
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    if all(type(counts.get(name)) is int for name in names):
        read, written, total = (counts[name] for name in names)
        message.usage_metadata = UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=total)
    return message
