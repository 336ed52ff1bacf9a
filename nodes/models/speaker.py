"""How a role speaks to its model: one call, its reply read as what was asked for, and a record of what happened."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables.config import var_child_runnable_config
from moot.core.endpoint import DEFAULT_LIMITS, Endpoint, Limits
from moot.core.errors import BudgetExhausted, MootError, Outcome, ReplyError, UserError, copied, error_of
from moot.core.lazy import imported
from moot.core.ledger import Key, key_of
from moot.core.ledger.records import hashes_of
from moot.core.limiter import limiter, with_retries
from moot.core.refusals import explain
from moot.core.telemetry.switch import telemetry
from moot.nodes.models.ceilings import REPLY, Asked, Ceilings, Spend
from moot.nodes.models.chat_models import ChatModel, StructuredOutput
from moot.nodes.models.contexts import bytes_of, count_prompt, learn_refusal
from moot.nodes.models.fitting import fitted, most_tokens
from moot.nodes.models.kept import kept_model, key_messages, message_of, model_hashes, value_of
from moot.nodes.models.ledger import Ledger, branch, tokens_of
from moot.nodes.models.reply_parsing import fault_of, read_reply, repeating_no_key, text_of
from moot.nodes.models.seeds import CallSeeds, with_seed
from moot.nodes.models.session import Session
from moot.nodes.runtime.state import Call, LeftOut
from moot.nodes.runtime.trace import speaking
from moot.nodes.texts.datamarking import datamarked, unmarked, unmarked_message
from moot.nodes.texts.replies import Reply, reply_schema, tight_schema
from moot.nodes.vendors.clients import asked_for
from moot.prompts import as_data, fill, load
from moot.retrievers.tampering import current_tampering

if TYPE_CHECKING:
    from moot.nodes.telemetry.observed import CallWatch

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

UNSEEN: AbstractContextManager[None] = nullcontext()
NOTHING = AIMessage("")
"""The message of a call that failed."""
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
        context_tokens: the most tokens that the model takes, the reply included; None for what moot knows of it.
        not_shown: ids of evidence that the last prompt left out, as it would have been too long.
        session: the debate's.
        sample: the agent who speaks, if it is one, and which of its samples this is: these are never the same call.
        ceilings: the debate's; by default those of the session.
        seed: the run's, from which each call has its own (`moot.nodes.models.seeds`); None for no seeds.
        datamarking: whether evidence is marked in prompts (`moot.nodes.texts.datamarking`).
    """

    role: str
    model: ChatModel
    ledger: Ledger = field(default_factory=Ledger)
    structured_output: StructuredOutput = "json_schema"
    limits: Limits = DEFAULT_LIMITS
    tokens_left: int | None = None
    told: str = ""
    prompts: Mapping[str, str] = field(default_factory=dict)
    context_tokens: int | None = None
    not_shown: set[str] = field(default_factory=set)
    session: Session = field(default_factory=Session)
    sample: tuple[str, int] = ("", 1)
    ceilings: Ceilings = None  # type: ignore[assignment]
    seed: int | None = None
    datamarking: bool = False
    _seeds: CallSeeds | None = None

    def __post_init__(self) -> None:
        if self.ceilings is None:
            self.ceilings = self.session.ceilings

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
            UserError, WorldError: the call failed for good.
            ReplyError: neither reply could be used.
            BudgetExhausted: a ceiling leaves too little for the call.
        """
        instructions, data = self.filled(prompt, values)
        data = "\n\n".join(filter(None, (self.told, data)))
        request = self._request(reply, evidence_ids)
        if self.structured_output != "json_schema" or self.model.structure == "words":
            data = (
                f"{data}\n\nReply with one JSON object and nothing else. Its schema:\n{json.dumps(reply_schema(reply))}"
            )
        messages = self._as_sent([SystemMessage(instructions + self._lie()), HumanMessage(data)])

        def send(chat: BaseChatModel) -> Awaitable[BaseMessage]:
            return chat.ainvoke(messages, **request)

        ranks = {id: rank for value in values.values() for id, rank in getattr(value, "ranks", {}).items()}

        last: tuple[AIMessage, tuple[R | None, str, str]] | None = None

        def read(message: AIMessage) -> tuple[R | None, str, str]:
            nonlocal last
            if last is None or last[0] is not message:
                found, outcome, problem = read_reply(message, reply)
                found = unmarked(found) if self.datamarking and found is not None else found
                if found is not None and check is not None and (fault := check(found)):
                    found, outcome, problem = None, "unquoted", fault
                last = message, (found, outcome, problem)
            return last[1]

        async def asked(speaker: Speaker) -> AIMessage:
            def citable() -> dict[str, Any]:
                hidden = speaker.not_shown
                return self._request(reply, [id for id in evidence_ids if id not in hidden]) if hidden else request

            return await speaker._until_usable(messages, citable, read, ranks, prompt)

        parts = {"schema": request, "structured_output": self.structured_output}
        message = await self._kept(messages, parts, asked, send, lambda message: read(message)[0] is not None)
        found = read(message)[0]
        if found is None:
            raise UserError(
                f"The ledger has a reply of {self.role} that cannot be used any more. Say `--ledger record`.",
                kind="damaged_ledger",
            )
        return found

    async def _until_usable(
        self,
        messages: Sequence[BaseMessage],
        request: Callable[[], Mapping[str, Any]],
        read: Callable[[AIMessage], tuple[Any, str, str]],
        ranks: Mapping[str, int],
        prompt: str,
    ) -> AIMessage:
        """The first message, or the second after what is wrong with the first was said, that can be used."""
        sent = list(messages)

        def send(chat: BaseChatModel, fitting: Sequence[BaseMessage]) -> Awaitable[BaseMessage]:
            return chat.ainvoke(list(fitting), **request())

        unusable: ReplyError | None = None
        for last in (False, True):
            try:
                message, call = await self._fitting_call(sent, send, ranks, prompt, request())
            except BudgetExhausted:
                if unusable:
                    raise unusable from None
                raise
            found, outcome, problem = read(message)
            self._came_to(outcome)
            call["outcome"] = outcome
            if problem:
                call["detail"] = problem
            self.ledger.note(call)
            if found is not None:
                return message
            kind: Outcome = outcome  # type: ignore[assignment]
            self.ledger.warn(kind, f"{self.role} ({self.model.name}): {problem}")
            unusable = ReplyError(f"{self.model.name} gave no usable reply as {self.role}: {problem}.", kind)
            if last or self._used_up():
                raise unusable
            sent += [AIMessage(text_of(message)[:ECHO] or "(nothing)"), HumanMessage(again(problem))]
        raise AssertionError("unreachable")

    def _as_sent(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        return datamarked(messages) if self.datamarking else list(messages)

    def _as_read(self, message: AIMessage) -> AIMessage:
        return unmarked_message(message) if self.datamarking else message

    def _lie(self) -> str:
        attack = current_tampering()
        return f"\n\n{attack.told}" if attack.liar and attack.liar == self.sample[0] else ""

    def _used_up(self) -> bool:
        return self.tokens_left is not None and tokens_of(self.ledger.calls) >= self.tokens_left

    def _request(self, reply: type[Reply], evidence_ids: Sequence[str]) -> dict[str, Any]:
        if self.structured_output == "text":
            return {}
        if self.structured_output == "json_object":
            if not self.model.json_mode:
                raise UserError(
                    f"{self.model.name} cannot be asked for JSON without a schema: set `structured_output` to "
                    "json_schema or text.",
                    kind="invalid_setting",
                )
            wanted: dict[str, Any] = {"type": "json_object"}
        elif self.model.tight:
            wanted = response_format(reply, tight_schema(reply, evidence_ids, self.model.longest_text))
        else:
            wanted = own_response_format(reply)
        return asked_for(self.model.structure, wanted)

    async def converse(
        self,
        send: Sending | SendingMessages,
        messages: Sequence[BaseMessage] = (),
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> AIMessage | None:
        """One reply in a conversation that somebody else keeps, an agent's say; it may call tools.

        Args:
            send: sends the conversation to the chat model that it is given; called anew where a call is tried again.
            messages: the conversation; ``send`` is then given as much of it as the model takes, too. Without it the
                ledger is not used.
            tools: the tools that are offered, as JSON values.

        Returns:
            The reply. None where it was refused, cut, or empty without a tool call, which is warned of.

        Raises:
            UserError, WorldError: the call failed for good.
            BudgetExhausted: a ceiling leaves too little for the call.
        """

        messages = self._as_sent(messages)

        async def asked(speaker: Speaker) -> AIMessage:
            if messages:
                message, call = await speaker._fitting_call(messages, cast(SendingMessages, send), more=tools)
            else:
                message, call = await speaker._bounded(
                    lambda chat: cast(Sending, send)(speaker._seeded(chat, messages)), speaker._asked("", 0)
                )
            outcome, problem = conversation_fault(message)
            speaker._came_to(outcome or "ok")
            speaker.ledger.note(call)
            if outcome:
                call |= {"outcome": outcome, "detail": problem}
                speaker.ledger.warn(outcome, f"{speaker.role} ({speaker.model.name}): {problem}")
            return message

        def usable(message: AIMessage) -> bool:
            return not conversation_fault(message)[0]

        if messages:
            message = await self._kept(
                messages,
                {"tools": list(tools)},
                asked,
                lambda chat: cast(SendingMessages, send)(chat, messages),
                usable,
            )
        else:
            message = await asked(self._seeding(messages))
        return self._as_read(message) if usable(message) else None

    async def _kept(
        self,
        messages: Sequence[BaseMessage],
        parts: Mapping[str, Any],
        asked: Callable[[Speaker], Awaitable[AIMessage]],
        send: Sending,
        usable: Callable[[AIMessage], bool],
    ) -> AIMessage:
        """The message that the ledger has, or that is asked for and kept; without a ledger, what is asked for.

        Args:
            messages: what is sent.
            parts: further parts of the key, beside the seed.
            asked: asks as the speaker that it is given.
            send: sends the messages to a chat model.
            usable: whether a message is kept.
        """
        if self.seed is not None and self._seeds is None:
            return await self._seeding(messages)._kept(messages, parts, asked, send, usable)
        keeping = self.session.keeping
        if keeping is None:
            return await asked(self)
        if self._seeds is not None:
            parts = {**parts, "seed": self._seeds.first}
        at = self.ledger
        hashes = model_hashes(self.model) | hashes_of(
            {"messages": key_messages(messages), "sample": self.sample, **parts}
        )
        asker = (*hashes.values(), branch.get()[1::2])
        repeated, at.asked[asker] = at.asked[asker], at.asked[asker] + 1
        place = (at.node, at.phase, at.round, at.number, run_metadata().get("langgraph_step"), repeated)
        key = key_of("chat", {"ordinal": keeping.ordinal(tuple(hashes.values()), place)}, hashes)
        said, shared = await keeping.once(key.hash, lambda: self._said(key, messages, parts, asked, send, usable))
        _chain.set(_chain.get() + said.depth)
        at.depth = max(at.depth, _chain.get())
        own = {"node": at.node, "role": self.role, "agent": at.agent, "phase": at.phase, "round": at.round}
        own |= {"number": at.number} if at.number else {}
        unpaid = {"shared": True, "prompt_tokens": 0, "completion_tokens": 0} if shared else {}
        self._leave_out(said.calls[-1].get("left_out") if said.calls else None)
        for call in said.calls:
            at.note({**call, **own, **unpaid})  # type: ignore[typeddict-item]
        for kind, detail in said.warnings:
            at.warn(kind, detail)
        if said.error is not None:
            keeping.forget(key.hash)
            raise copied(said.error) if shared else said.error
        return said.message

    def _seeding(self, messages: Sequence[BaseMessage]) -> Speaker:
        """The same speaker with the seeds for one question, if it has any."""
        if self.seed is None:
            return self
        at, (agent, sample) = self.ledger, self.sample
        asks = (self.role, at.round, sample, agent, at.node, at.phase, at.number)
        seeds = CallSeeds(self.seed, asks, messages)
        asker = (seeds.first, branch.get()[1::2])
        repeated, at.asked[asker] = at.asked[asker], at.asked[asker] + 1
        # With a ledger, those who ask the same in one step share a reply, and so they share the seed.
        run = run_metadata()
        shared = self.session.keeping is not None
        where = (run.get("langgraph_step"),) if shared else (run.get("langgraph_checkpoint_ns"), at.agent, asker)
        earlier = self.session.earlier(seeds.first, (*asks, *where, repeated))
        return replace(self, _seeds=replace(seeds, earlier=earlier) if earlier else seeds)

    def _seeded(self, chat: BaseChatModel, messages: Sequence[BaseMessage]) -> BaseChatModel:
        return chat if self._seeds is None else with_seed(chat, self._seeds.of(messages))

    async def _said(
        self,
        key: Key,
        messages: Sequence[BaseMessage],
        parts: Mapping[str, Any],
        asked: Callable[[Speaker], Awaitable[AIMessage]],
        send: Sending,
        usable: Callable[[AIMessage], bool],
    ) -> Said:
        """What the ledger has for a key, else what is asked for, once it is kept."""
        keeping = self.session.keeping
        assert keeping is not None
        kept = await keeping.find(key, f"a call of {self.role} ({self.ledger.place()})")
        if kept is not None:
            value = kept.value
            message = message_of(value["message"])
            if not value["error"]:
                with speaking(self.role, self.model.name, self.ledger):
                    message = cast(AIMessage, await send(kept_model(message, self._seeded(self.model.chat, messages))))
            calls = [cast(Call, {**call, "from_ledger": True}) for call in value["calls"]]
            warnings = [(kind, detail) for kind, detail in value["warnings"]]
            error = error_of(value["error"]) if value["error"] else None
            self._take_up(messages, parts, calls, left_out=isinstance(error, BudgetExhausted))
            return Said(message, calls, warnings, value["depth"], error)
        left = None if self.tokens_left is None else self.tokens_left - tokens_of(self.ledger.calls)
        part, before = self.ledger.part(), _chain.get()
        said = Said(NOTHING, part.calls, [], 0)
        try:
            said.message = await asked(replace(self, ledger=part, tokens_left=left))
        except MootError as error:
            said.error = error
        said.depth = _chain.get() - before
        _chain.set(before)
        said.warnings = [(warned["kind"], warned["detail"]) for warned in part.warnings]
        good = said.error is None and usable(said.message)
        value = {
            "message": value_of(said.message, whole=good),
            "calls": said.calls,
            "warnings": said.warnings,
            "depth": said.depth,
            "error": said.error and said.error.record(""),
        }
        about = {"role": self.role, "node": self.ledger.place(), "model": self.model.name}
        await (keeping.keep if good else keeping.keep_failure)(key, value, about)
        return said

    def _take_up(
        self, messages: Sequence[BaseMessage], parts: Mapping[str, Any], calls: Sequence[Call], *, left_out: bool
    ) -> None:
        """Learns of an ask that the ledger has what was learned as it was made, so that ceilings decide alike."""
        size = sum(bytes_of(str(message.content)) for message in messages)
        if calls and "left_out" not in calls[0]:
            count_prompt(self.model.name, size, calls[0]["prompt_tokens"])
        beside = parts.get("schema") or parts.get("tools")
        asked = self._asked("", size + (len(json.dumps(beside)) if beside and self.ceilings.bounded else 0))
        self.ceilings.paid(asked, calls, left_out=left_out)

    async def _fitting_call(
        self,
        messages: Sequence[BaseMessage],
        send: SendingMessages,
        ranks: Mapping[str, int] | None = None,
        prompt: str = "",
        more: Any = None,
    ) -> tuple[AIMessage, Call]:
        """A call with as much of its messages as the model takes; one that it finds too long all the same is shortened.

        The prompt of whoever decides is brought within the debate's ceilings, too; ``more`` is sent beside it.

        Raises:
            UserError: even the least that can be sent is too long.
            BudgetExhausted: a ceiling leaves too little for it.
        """
        beside = len(json.dumps(more)) if more and self.ceilings.bounded else 0
        name, address, before = self.model.name, self.model.endpoint.base_url, 0
        for refusals in range(REFUSALS + 1):
            room = self._room(prompt, beside)
            fit = fitted(messages, self.model, self.role, self.context_tokens, ranks, room)
            self._leave_out(fit.left_out)
            asked = self._asked(prompt, fit.size + beside)
            try:
                message, call = await self._bounded(
                    lambda chat, some=fit.messages: send(self._seeded(chat, some), some),  # type: ignore[misc]
                    asked,
                    fit.messages,
                )
            except UserError as error:
                if error.kind != "too_long" or refusals == REFUSALS or fit.size == before:
                    raise
                learn_refusal(name, address, error.detail, fit.size, most_tokens(self.model))
                before = fit.size
                continue
            count_prompt(name, fit.size, call["prompt_tokens"])
            if fit.left_out:
                call["left_out"] = fit.left_out
            return message, call
        raise AssertionError("unreachable")

    def _leave_out(self, left: LeftOut | None) -> None:
        self.not_shown.clear()
        self.not_shown.update(left["ids"] if left else ())

    def _asked(self, prompt: str, size: int) -> Asked:
        return Asked(self.role, prompt, self.model.name, size, most_tokens(self.model) or REPLY)

    def _room(self, prompt: str, beside: int) -> int | None:
        """The bytes that the ceilings leave to the prompt of somebody who decides; None for anybody else."""
        ceilings = self.ceilings
        most = ceilings.prompt_bytes(self._asked(prompt, 0)) if ceilings.decides(self.role, prompt) else None
        return None if most is None else most - beside

    async def _bounded(
        self, send: Sending, asked: Asked, messages: Sequence[BaseMessage] = ()
    ) -> tuple[AIMessage, Call]:
        """One call within the debate's ceilings: reserved before it is made, settled after it.

        Telemetry may show the messages, if they are known.

        Raises:
            BudgetExhausted: a ceiling leaves too little for it.
        """
        ceilings = self.ceilings
        if not ceilings.bounded:
            return await self._call(send, messages)
        held, started = await ceilings.reserve(asked), time.perf_counter()
        spent = held.spend  # nobody knows what a call took that is broken off
        try:
            async with asyncio.timeout_at(held.until):
                message, call = await self._call(send, messages)
            spent = ceilings.came_to(held, call)
        except MootError:
            spent = Spend(calls=1)
            raise
        except TimeoutError as error:
            detail = "It took longer than `max_seconds` leaves time for."
            self.ledger.note({**self._record(None, started, 1), "outcome": "failed", "detail": detail})
            ceilings.left_out[self.role] += 1
            raise BudgetExhausted(f"{self.role} ({self.model.name}): {detail}") from error
        finally:
            ceilings.settle(held, spent, time.perf_counter() - started)
        return message, call

    def _came_to(self, outcome: str) -> None:
        if seen := telemetry():
            seen.replied(outcome, self.model.name)

    def _watched(self, messages: Sequence[BaseMessage]) -> AbstractContextManager[CallWatch | None]:
        """What telemetry sees of a call; None if it is off."""
        if (seen := telemetry()) is None:
            return UNSEEN
        watch: CallWatch = imported("moot.nodes.telemetry.observed").CallWatch(
            seen, self.role, self.model, self.ledger, self.session, messages
        )
        return watch

    async def _call(self, send: Sending, messages: Sequence[BaseMessage] = ()) -> tuple[AIMessage, Call]:
        """One call with its retries."""
        with self._watched(messages) as watch:
            return await self._tried(send, watch)

    async def _tried(self, send: Sending, watch: CallWatch | None) -> tuple[AIMessage, Call]:
        gate = limiter(self.model.endpoint.base_url)
        started = time.perf_counter()
        depth = _chain.get() + 1
        _chain.set(depth)
        self.ledger.depth = max(self.ledger.depth, depth)

        async def attempt() -> AIMessage:
            try:
                with speaking(self.role, self.model.name, self.ledger):
                    message = await send(self.model.chat)
            except MootError:
                raise
            except Exception as error:
                raise explain(error, self.model.endpoint, self.model.name) from error
            return repeating_no_key(message, self.session.keys)

        request = watch.watching(attempt) if watch else attempt
        try:
            message, attempts = await with_retries(request, self.limits, gate, self.model.name)
        except MootError as error:
            error.where = error.where or self.ledger.place()
            self.ledger.note(
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


@dataclass
class Said:
    """What came of asking: a message with its calls and warnings (kind, detail), or an error with those before it."""

    message: AIMessage
    calls: list[Call]
    warnings: list[tuple[str, str]]
    depth: int
    error: MootError | None = None


def run_metadata() -> Mapping[str, Any]:
    """What LangGraph says of the step that runs."""
    return (var_child_runnable_config.get() or {}).get("metadata") or {}


def conversation_fault(message: AIMessage) -> tuple[str, str]:
    """As `fault_of`; a message that calls tools need say nothing."""
    outcome, problem = fault_of(message)
    calls = message.tool_calls or message.invalid_tool_calls
    return ("", "") if outcome == "empty" and calls else (outcome, problem)


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

    here = branch.get()

    async def one(number: int, call: Awaitable[T]) -> tuple[T, int]:
        branch.set((*here, number, 0))
        return await call, _chain.get()

    done = await asyncio.gather(*(one(number, call) for number, call in enumerate(calls)))
    branch.set((*here[:-1], here[-1] + 1))
    _chain.set(max((depth for _, depth in done), default=_chain.get()))
    return [result for result, _ in done]


def start_chain() -> None:
    """Begins a new chain of dependent calls; a node does so when it starts."""
    _chain.set(0)
    branch.set((0,))


def again(problem: str) -> str:
    """What is said to a model whose reply could not be used; the problem may quote the reply."""
    shown = as_data("problem", problem)
    return f"That reply could not be used.\n{shown}\nReply again, briefly, with one JSON object as asked for."
