"""How a role speaks to its model: one call, its reply read as what was asked for, and a record of what happened."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from moot.core.endpoint import DEFAULT_LIMITS, Endpoint, Limits, explain, limiter, with_retries
from moot.core.errors import MootError, Outcome, ReplyError, UserError
from moot.core.redaction import redact
from moot.nodes.models.chat_models import ChatModel, StructuredOutput
from moot.nodes.runtime.state import Call, Turn, Warned
from moot.nodes.runtime.trace import speaking
from moot.nodes.texts.replies import Reply, reply_schema, tight_schema
from moot.prompts import as_data
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

R = TypeVar("R", bound=Reply)
T = TypeVar("T")

ECHO = 2000
"""Characters of an unusable reply that are shown to the model again."""

OBJECT = re.compile(r"\{\s*\"")
THOUGHT = re.compile(r"\s*<think>(?:.*?</think>|.*)", re.DOTALL)
MOST_OBJECTS = 10_000
"""Places in a reply where an object may begin that are tried."""
MOST_REPLIES = 100
"""Objects in a reply that are read."""

Sending = Callable[[BaseChatModel], Awaitable[BaseMessage]]
"""Sends something to a chat model."""

_chain: ContextVar[int] = ContextVar("chain", default=0)


@dataclass
class Ledger:
    """What happened while a node ran. ``depth`` is the longest chain of calls in which each waited for the last."""

    node: str = ""
    phase: str = "primary"
    round: int = 0
    agent: str | None = None
    number: int | None = None
    calls: list[Call] = field(default_factory=list)
    warnings: list[Warned] = field(default_factory=list)
    depth: int = 0

    def warn(self, kind: str, detail: str, where: str | None = None) -> None:
        """Notes something that went wrong without ending the debate."""
        self.warnings.append({"kind": kind, "where": where or self.place(), "detail": detail})

    def take(self, turn: Turn) -> None:
        """What is written down from now on belongs to this turn."""
        self.phase, self.round, self.agent = turn["phase"], turn["round"], turn["agent"]
        self.number = turn.get("number")

    def place(self) -> str:
        """Where we are, in words."""
        who = f"{self.agent}: " if self.agent else ""
        which = f" {self.number}" if self.number else ""
        phase = "" if self.phase == "primary" else f", {self.phase}"
        counted = self.round or (self.agent and not phase)
        return f"{who}{self.node}{which}{phase}" + (f", round {self.round}" if counted else "")


@dataclass
class Speaker:
    """A role with its model.

    Args:
        role: who speaks.
        model: the model that answers.
        ledger: where calls and warnings are written down.
        structured_output: how structure is asked for.
        limits: how the endpoint may be called.
        tokens_left: where calls have used up so many tokens, nothing is asked again; None for no such bound.
        told: what each prompt's data begins with: what a person said.
    """

    role: str
    model: ChatModel
    ledger: Ledger = field(default_factory=Ledger)
    structured_output: StructuredOutput = "json_schema"
    limits: Limits = DEFAULT_LIMITS
    tokens_left: int | None = None
    told: str = ""

    async def ask(
        self,
        prompt: tuple[str, str],
        reply: type[R],
        evidence_ids: Sequence[str] = (),
        check: Callable[[R], str] | None = None,
    ) -> R:
        """Asks for a structured reply. A reply that cannot be used is asked for again once, with the reason said.

        Args:
            prompt: instructions and data.
            reply: what the reply must be.
            evidence_ids: what the reply may cite; only a tight endpoint's schema uses them.
            check: what is wrong with a reply's quotes, nothing where they will do; one with faults is ``unquoted``.

        Raises:
            UserError, WorldError: the call failed for good.
            ReplyError: neither reply could be used.
        """
        instructions, data = prompt[0], "\n\n".join(filter(None, (self.told, prompt[1])))
        request = self._request(reply, evidence_ids)
        if self.structured_output != "json_schema":
            data = (
                f"{data}\n\nReply with one JSON object and nothing else. Its schema:\n{json.dumps(reply_schema(reply))}"
            )
        messages: list[BaseMessage] = [SystemMessage(instructions), HumanMessage(data)]

        def send(chat: BaseChatModel) -> Awaitable[BaseMessage]:
            return chat.ainvoke(messages, **request)

        for last in (False, True):
            message, call = await self._call(send)
            found, outcome, problem = read_reply(message, reply)
            if found is not None and check is not None and (fault := check(found)):
                found, outcome, problem = None, "unquoted", fault
            call["outcome"] = outcome
            if problem:
                call["detail"] = problem
            self.ledger.calls.append(call)
            if found is not None:
                return found
            kind: Outcome = outcome  # type: ignore[assignment]
            self.ledger.warn(kind, f"{self.role} ({self.model.name}): {problem}")
            if last or self._used_up():
                raise ReplyError(f"{self.model.name} gave no usable reply as {self.role}: {problem}.", kind)
            messages += [AIMessage(text_of(message)[:ECHO] or "(nothing)"), HumanMessage(again(problem))]
        raise AssertionError("unreachable")

    def _used_up(self) -> bool:
        return self.tokens_left is not None and tokens_of(self.ledger.calls) >= self.tokens_left

    def _request(self, reply: type[Reply], evidence_ids: Sequence[str]) -> dict[str, Any]:
        if self.structured_output == "text":
            return {}
        if self.structured_output == "json_object":
            wanted: dict[str, Any] = {"type": "json_object"}
        else:
            tight = self.model.tight
            schema = tight_schema(reply, evidence_ids, self.model.longest_text) if tight else reply_schema(reply)
            wanted = {"type": "json_schema", "json_schema": {"name": reply.__name__, "strict": True, "schema": schema}}
        # In extra_body the client leaves the reply to us; as an argument of its own it would raise on a cut reply.
        return {"extra_body": {"response_format": wanted}}

    async def converse(self, send: Sending) -> AIMessage | None:
        """One reply in a conversation that somebody else keeps, an agent's say; it may call tools.

        Args:
            send: sends the conversation to the chat model that it is given; called anew where a call is tried again.

        Returns:
            The reply. None where it was refused, cut, or empty without a tool call, which is warned of.

        Raises:
            UserError, WorldError: the call failed for good.
        """
        message, call = await self._call(send)
        self.ledger.calls.append(call)
        outcome, problem = fault_of(message)
        if not outcome or (outcome == "empty" and (message.tool_calls or message.invalid_tool_calls)):
            return message
        call |= {"outcome": outcome, "detail": problem}
        self.ledger.warn(outcome, f"{self.role} ({self.model.name}): {problem}")
        return None

    async def _call(self, send: Sending) -> tuple[AIMessage, Call]:
        """One call with its retries."""
        gate = limiter(self.model.endpoint.base_url)
        started = time.perf_counter()
        depth = _chain.get() + 1
        _chain.set(depth)
        self.ledger.depth = max(self.ledger.depth, depth)

        async def attempt() -> AIMessage:
            async with gate.slot(self.limits):
                try:
                    with speaking(self.role, self.model.name, self.ledger):
                        message = await send(self.model.chat)
                except MootError:
                    raise
                except Exception as error:
                    raise explain(error, self.model.endpoint, self.model.name) from error
            return message if isinstance(message, AIMessage) else AIMessage(message.content)

        try:
            message, attempts = await with_retries(attempt, self.limits.attempts)
        except MootError as error:
            error.where = error.where or self.ledger.place()
            self.ledger.calls.append(
                {**self._record(None, started, error.attempts), "outcome": "failed", "detail": error.detail}
            )
            raise
        return message, self._record(message, started, attempts)

    def _record(self, message: AIMessage | None, started: float, attempts: int) -> Call:
        usage = message.usage_metadata if message else None
        record: Call = {
            "node": self.ledger.node,
            "role": self.role,
            "agent": self.ledger.agent,
            "phase": self.ledger.phase,
            "round": self.ledger.round,
            "model": self.model.name,
            "reported_model": message.response_metadata.get("model_name") if message else None,
            "prompt_tokens": usage["input_tokens"] if usage else None,
            "completion_tokens": usage["output_tokens"] if usage else None,
            "seconds": round(time.perf_counter() - started, 4),
            "attempts": attempts,
            "outcome": "ok",
        }
        if self.ledger.number:
            record["number"] = self.ledger.number
        return record


def tokens_of(calls: Sequence[Call]) -> int:
    """Tokens of prompts and replies in these calls, as far as they were counted."""
    return sum((call["prompt_tokens"] or 0) + (call["completion_tokens"] or 0) for call in calls)


def as_speaker(model: Speaker | BaseChatModel, role: str) -> Speaker:
    """A speaker for a role, from one or from any LangChain chat model (that of your own application, say)."""
    if isinstance(model, Speaker):
        return model
    from langchain_openai.chat_models.base import BaseChatOpenAI
    from moot.nodes.models.fake import FakeChatModel

    name = str(getattr(model, "model_name", None) or getattr(model, "model", None) or type(model).__name__)
    structured: StructuredOutput = "json_schema" if isinstance(model, BaseChatOpenAI | FakeChatModel) else "text"
    return Speaker(role, ChatModel(name, model, Endpoint(f"The model {name}", "")), structured_output=structured)


def is_alone(error: MootError) -> bool:
    """Whether an error is of one call: no mistake of the user's that every further call would meet, such as a key."""
    return not isinstance(error, UserError) or error.kind in ("bad_request", "too_long")


def missed(error: MootError, ledger: Ledger) -> str:
    """The outcome of a call that the debate does without; a warning says why, where replies have not said it."""
    if isinstance(error, ReplyError):
        return error.kind
    ledger.warn("call_failed", f"{error.detail} The debate goes on without it.")
    return "failed"


async def all_at_once(calls: Iterable[Awaitable[T]]) -> list[T]:
    """What these give, run at the same time; the chain of dependent calls goes on from the longest of theirs.

    Raises:
        UserError, WorldError: what the first of them that fails raises.
    """

    async def one(call: Awaitable[T]) -> tuple[T, int]:
        return await call, _chain.get()

    done = await asyncio.gather(*(one(call) for call in calls))
    _chain.set(max((depth for _, depth in done), default=_chain.get()))
    return [result for result, _ in done]


def start_chain() -> None:
    """Begins a new chain of dependent calls; a node does so when it starts."""
    _chain.set(0)


def again(problem: str) -> str:
    """What is said to a model whose reply could not be used; the problem may quote the reply."""
    shown = as_data("problem", problem)
    return f"That reply could not be used.\n{shown}\nReply again, briefly, with one JSON object as asked for."


def text_of(message: AIMessage) -> str:
    """A message's text; half a character (a lone surrogate) becomes a question mark, as it could not be sent again."""
    return str(message.text).encode(errors="replace").decode()


def fault_of(message: AIMessage) -> tuple[str, str]:
    """Why a message cannot be read at all (``refused``, ``cut``, ``empty``), and in words; empty texts if it can."""
    finish = message.response_metadata.get("finish_reason")
    refusal = message.additional_kwargs.get("refusal")
    if refusal or finish == "content_filter":
        return "refused", f"it was refused{f' ({redact(str(refusal))[:200]})' if refusal else ''}"
    if finish == "length":
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
            read = reply.model_validate(value)
            read.model_dump_json()
            found += [] if read in found else [read]
        except PydanticSerializationError:
            problems.append("it holds half a character (a lone surrogate)")
        except ValidationError as error:
            problems.append("; ".join(_problem(e) for e in error.errors()[:3]))
    if len(found) == 1:
        return found[0], "ok", ""
    return None, "unparsed", "it holds several replies that differ" if found else problems[-1]


def _problem(error: Any) -> str:
    place = ".".join(str(part) for part in error["loc"])
    return f"`{place}` {str(error['msg']).removeprefix('Value error, ')}"[:300]


def find_objects(text: str) -> list[dict[str, Any]]:
    """The complete JSON objects with anything in them, bare, fenced or amid prose, in order; none inside another.

    Nothing is repaired: half an object is none, nor is what stands inside it. What a model thinks before it answers
    (between ``<think>`` tags) is not read. One call takes little time, whatever the text.
    """
    decoder = json.JSONDecoder()
    found: list[dict[str, Any]] = []
    thought = THOUGHT.match(text)
    end = thought.end() if thought else 0
    for begin in islice(OBJECT.finditer(text), MOST_OBJECTS):
        if begin.start() < end:
            continue
        try:
            value, end = decoder.raw_decode(text, begin.start())
        except json.JSONDecodeError as error:
            end = error.pos  # up to there it was an object, so what begins before stands inside it
            if error.msg.startswith("Unterminated"):
                break
            continue
        except (RecursionError, ValueError):
            break  # nested so deeply, or a number so long, that every further start would take as long
        found.append(value)
    return found[:MOST_REPLIES]
