"""How a role speaks to its model: one call, its reply read as what was asked for, and a record of what happened."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from moot.core.endpoint import DEFAULT_LIMITS, Endpoint, Limits, explain, limiter, with_retries
from moot.core.errors import BudgetExhausted, MootError, Outcome, ReplyError, UserError
from moot.nodes.models.ceilings import REPLY, Asked, Spend
from moot.nodes.models.chat_models import ChatModel, StructuredOutput
from moot.nodes.models.contexts import (
    MARGIN,
    bytes_of,
    bytes_per_token,
    context_of,
    count_prompt,
    learn_refusal,
    reply_room,
)
from moot.nodes.models.ledger import Ledger, tokens_of
from moot.nodes.models.reply_parsing import fault_of, read_reply, text_of
from moot.nodes.models.session import Session
from moot.nodes.runtime.state import Call, LeftOut
from moot.nodes.runtime.trace import speaking
from moot.nodes.texts.replies import Reply, reply_schema, tight_schema
from moot.nodes.texts.shorten import bared, shorten
from moot.prompts import as_data, fill, load

R = TypeVar("R", bound=Reply)
T = TypeVar("T")

ECHO = 2000
"""Characters of an unusable reply that are shown to the model again."""

Sending = Callable[[BaseChatModel], Awaitable[BaseMessage]]
"""Sends something to a chat model."""
SendingMessages = Callable[[BaseChatModel, Sequence[BaseMessage]], Awaitable[BaseMessage]]
"""Sends messages to a chat model."""

REFUSALS = 4
"""How often a prompt is shortened that an endpoint finds too long."""

_chain: ContextVar[int] = ContextVar("chain", default=0)


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
        prompts: by name, texts that take the place of shipped prompts.
        session: the debate's.
        context_tokens: the most tokens that the model takes, the reply included; None for what moot knows of it.
        not_shown: ids of evidence that the last prompt left out, as it would have been too long.
    """

    role: str
    model: ChatModel
    ledger: Ledger = field(default_factory=Ledger)
    structured_output: StructuredOutput = "json_schema"
    limits: Limits = DEFAULT_LIMITS
    tokens_left: int | None = None
    told: str = ""
    prompts: Mapping[str, str] = field(default_factory=dict)
    session: Session = field(default_factory=Session)
    context_tokens: int | None = None
    not_shown: frozenset[str] = frozenset()

    def filled(self, prompt: str, values: Mapping[str, str]) -> tuple[str, str]:
        """A prompt's instructions and data, as this speaker has its text.

        Args:
            prompt: the prompt's name.
            values: what fills its placeholders.

        Raises:
            ValueError: as `fill`.
        """
        return fill(self.prompts.get(prompt) or load(prompt), values)

    async def ask(
        self,
        prompt: str,
        values: Mapping[str, str],
        reply: type[R],
        evidence_ids: Sequence[str] = (),
        check: Callable[[R], str] | None = None,
    ) -> R:
        """Asks for a structured reply. A reply that cannot be used is asked for again once, with the reason said.

        A prompt that is too long for the model leaves out evidence, then the oldest rounds (`shorten`).

        Args:
            prompt: the prompt's name.
            values: what fills its placeholders.
            reply: what the reply must be.
            evidence_ids: what the reply may cite; only a tight endpoint's schema uses them.
            check: what is wrong with a reply's quotes, nothing where they will do; one with faults is ``unquoted``.

        Raises:
            UserError, WorldError: the call failed for good, or even the least prompt is too long.
            ReplyError: neither reply could be used.
            BudgetExhausted: a ceiling leaves too little for the call.
        """
        instructions, data = self.filled(prompt, values)
        data = "\n\n".join(filter(None, (self.told, data)))
        request = self._request(reply, evidence_ids)
        if self.structured_output != "json_schema":
            data = (
                f"{data}\n\nReply with one JSON object and nothing else. Its schema:\n{json.dumps(reply_schema(reply))}"
            )
        messages: list[BaseMessage] = [SystemMessage(instructions), HumanMessage(data)]

        ranks = {id: rank for value in values.values() for id, rank in getattr(value, "ranks", {}).items()}

        def send(chat: BaseChatModel, fitted: Sequence[BaseMessage]) -> Awaitable[BaseMessage]:
            return chat.ainvoke(list(fitted), **request)

        schema = self._schema_bytes(request)
        unusable: ReplyError | None = None
        for last in (False, True):
            try:
                message, call = await self._fitting_call(messages, send, ranks, prompt, schema)
            except BudgetExhausted:
                if unusable:
                    raise unusable from None
                raise
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
            unusable = ReplyError(f"{self.model.name} gave no usable reply as {self.role}: {problem}.", kind)
            if last or self._used_up():
                raise unusable
            messages += [AIMessage(text_of(message)[:ECHO] or "(nothing)"), HumanMessage(again(problem))]
        raise AssertionError("unreachable")

    def _used_up(self) -> bool:
        return self.tokens_left is not None and tokens_of(self.ledger.calls) >= self.tokens_left

    def _request(self, reply: type[Reply], evidence_ids: Sequence[str]) -> dict[str, Any]:
        if self.structured_output == "text":
            return {}
        if self.structured_output == "json_object":
            wanted: dict[str, Any] = {"type": "json_object"}
        elif self.model.tight:
            wanted = response_format(reply, tight_schema(reply, evidence_ids, self.model.longest_text))
        else:
            wanted = own_response_format(reply)
        # In extra_body the client leaves the reply to us; as an argument of its own it would raise on a cut reply.
        return {"extra_body": {"response_format": wanted}}

    def _schema_bytes(self, request: Mapping[str, Any]) -> int:
        return len(json.dumps(request["extra_body"])) if self.session.ceilings.bounded and request else 0

    async def converse(
        self, send: Sending | SendingMessages, messages: Sequence[BaseMessage] = (), more: int = 0
    ) -> AIMessage | None:
        """One reply in a conversation that somebody else keeps, an agent's say; it may call tools.

        Args:
            send: sends the conversation to the chat model that it is given; called anew where a call is tried again.
            messages: the conversation. If it is given, ``send`` is also given as much of it as the model can take.
            more: bytes that are sent beside them, such as tools; ceilings reserve them, too.

        Returns:
            The reply. None where it was refused, cut, or empty without a tool call, which is warned of.

        Raises:
            UserError, WorldError: the call failed for good, or even the least conversation is too long.
            BudgetExhausted: a ceiling leaves too little for the call.
        """
        if messages:
            message, call = await self._fitting_call(messages, send, more=more)  # type: ignore[arg-type]
        else:
            message, call = await self._bounded(send, self._asked("", more))  # type: ignore[arg-type]
        self.ledger.calls.append(call)
        outcome, problem = fault_of(message)
        if not outcome or (outcome == "empty" and (message.tool_calls or message.invalid_tool_calls)):
            return message
        call |= {"outcome": outcome, "detail": problem}
        self.ledger.warn(outcome, f"{self.role} ({self.model.name}): {problem}")
        return None

    async def _fitting_call(
        self,
        messages: Sequence[BaseMessage],
        send: SendingMessages,
        ranks: Mapping[str, int] | None = None,
        prompt: str = "",
        more: int = 0,
    ) -> tuple[AIMessage, Call]:
        """A call with as much of its messages as the model takes; one that it finds too long all the same is shortened.

        That of whoever decides is brought within the debate's ceilings, too.

        Raises:
            UserError: even the least that can be sent is too long.
            BudgetExhausted: a ceiling leaves too little for it.
        """
        name, address = self.model.name, self.model.endpoint.base_url
        sent = 0
        for refusals in range(REFUSALS + 1):
            fitted, size, left = self._fitted(messages, ranks, self._room(prompt, more))
            try:
                asked = self._asked(prompt, size + more)
                message, call = await self._bounded(lambda chat: send(chat, fitted), asked)  # noqa: B023
            except UserError as error:
                if error.kind != "too_long" or refusals == REFUSALS or size == sent:
                    raise
                learn_refusal(name, address, error.detail, size, self._max_tokens)
                sent = size
                continue
            count_prompt(name, size, call["prompt_tokens"])
            self.not_shown = frozenset(left["ids"] if left else ())
            return message, call | {"left_out": left} if left else call
        raise AssertionError("unreachable")

    @property
    def _max_tokens(self) -> int | None:
        return getattr(self.model.chat, "max_tokens", None)

    def _asked(self, prompt: str, size: int) -> Asked:
        return Asked(self.role, prompt, self.model.name, size, self._max_tokens or REPLY)

    def _room(self, prompt: str, more: int) -> int | None:
        """The bytes that the ceilings leave to the prompt of somebody who decides; None for anybody else."""
        ceilings = self.session.ceilings
        most = ceilings.prompt_bytes(self._asked(prompt, 0)) if ceilings.decides(self.role, prompt) else None
        return None if most is None else most - more

    async def _bounded(self, send: Sending, asked: Asked) -> tuple[AIMessage, Call]:
        """One call within the debate's ceilings: reserved before it is made, settled after it.

        Raises:
            BudgetExhausted: a ceiling leaves too little for it.
        """
        ceilings = self.session.ceilings
        if not ceilings.bounded:
            return await self._call(send)
        held, started = await ceilings.reserve(asked), time.perf_counter()
        spent = held.spend  # nobody knows what a call took that is broken off
        try:
            async with asyncio.timeout_at(held.until):
                message, call = await self._call(send)
            spent = ceilings.came_to(held, call)
        except MootError:
            spent = Spend(calls=1)
            raise
        except TimeoutError as error:
            detail = "It took longer than `max_seconds` leaves time for."
            self.ledger.calls.append({**self._record(None, started, 1), "outcome": "failed", "detail": detail})
            ceilings.left_out[self.role] += 1
            raise BudgetExhausted(f"{self.role} ({self.model.name}): {detail}") from error
        finally:
            ceilings.settle(held, spent, time.perf_counter() - started)
        return message, call

    def _fitted(
        self, messages: Sequence[BaseMessage], ranks: Mapping[str, int] | None, room: int | None
    ) -> tuple[Sequence[BaseMessage], int, LeftOut | None]:
        """As much of the messages as the model takes, its bytes, and what is left out; of the data alone."""
        name = self.model.name
        size = sum(bytes_of(str(message.content)) for message in messages)
        context = context_of(name, self.model.endpoint.base_url, self.context_tokens)
        if context is None and (room is None or size <= room):
            return messages, size, None
        reply = reply_room(context, self._max_tokens) if context else self._max_tokens or REPLY
        most = int(MARGIN * (context - reply) * bytes_per_token(name)) if context else size
        if room is not None and room < min(size, most):
            most, context = room, reply + max(0, math.ceil(room / bytes_per_token(name)))
        elif size <= most:
            return messages, size, None
        places = [at for at, message in enumerate(messages) if isinstance(message, HumanMessage | ToolMessage)]
        data = [str(messages[at].content) for at in places]
        fixed = size - sum(map(bytes_of, data))
        made = shorten(data, most - fixed, ranks)
        if most == room and fixed + made.size > most:
            made = bared(made, most - fixed)
        if fixed + made.size > most and most != room:
            least = math.ceil((fixed + made.size) / bytes_per_token(name))
            raise UserError(
                f"The prompt for {name} as {self.role} does not fit: the model takes {context:,} tokens, of which "
                f"{reply:,} are kept for the reply, and with all evidence and all rounds but the last left out the "
                f"prompt still has about {least:,}. Use a model that takes more, fewer agents, a shorter claim, or, if "
                "the model takes more than that, set `context_tokens`.",
                kind="too_long",
            )
        texts = dict(zip(places, made.texts, strict=True))
        fitted = [
            message.model_copy(update={"content": texts[at]}) if at in texts else message
            for at, message in enumerate(messages)
        ]
        left: LeftOut = {
            "context": context,
            "evidence": made.evidence,
            "in_part": made.in_part,
            "of_evidence": made.of_evidence,
            "ids": made.ids,
            "rounds": made.rounds,
            "of_rounds": made.of_rounds,
            "said": made.said,
        }
        return fitted, fixed + made.size, left

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


def response_format(reply: type[Reply], schema: dict[str, Any]) -> dict[str, Any]:
    """What asks an endpoint for a reply by its JSON schema."""
    return {"type": "json_schema", "json_schema": {"name": reply.__name__, "strict": True, "schema": schema}}


@lru_cache(maxsize=256)
def own_response_format(reply: type[Reply]) -> dict[str, Any]:
    """The same with the reply's own schema; all calls share it, so nobody may change it."""
    return response_format(reply, reply_schema(reply))


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
