"""A role's requests to its model: their calls, parsed replies and records, and the use of the ledger."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, TypeVar, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable
from moot.core.endpoint import Endpoint
from moot.core.errors import BudgetExhausted, MootError, Outcome, ReplyError, UserError, copy_error, error_from_record
from moot.core.ledger import Key, key_of
from moot.core.ledger.records import PAID, SENT, hashes_of
from moot.nodes._models.caller import Caller, Sending, SendingMessages, chain, run_metadata
from moot.nodes._models.chat_models import ChatModel, StructuredOutput
from moot.nodes._models.contexts import count_prompt
from moot.nodes._models.fitting import weight_of_all
from moot.nodes._models.ledger import branch, tokens_of
from moot.nodes._models.ledger_messages import key_messages, ledger_model, message_of, model_hashes, value_of
from moot.nodes._models.reply_parsing import fault_of, read_reply, text_of
from moot.nodes._models.spend import Spend, spent_by
from moot.nodes._records.entries import Call
from moot.nodes._runtime.trace import named_runs
from moot.nodes._texts.datamarking import datamarked, unmarked_message
from moot.nodes._texts.replies import Reply, reply_schema, tight_schema
from moot.nodes._vendors.catalogue import Structure
from moot.nodes._vendors.clients import reply_options
from moot.prompts import as_data, fill, load
from moot.retrievers._tampering import current_tampering

R = TypeVar("R", bound=Reply)

LONGEST_ECHO = 2000
"""Maximum number of characters of an unusable reply that the second try shows to the model."""

NOTHING = AIMessage("")
"""The message of a call that failed."""


@dataclass
class Speaker(Caller):
    """A role with its model.

    Args:
        role: the name of the role.
        model: its chat model.
        ledger: the record of calls and warnings.
        structured_output: how a reply with a schema is requested.
        limits: the limits for calls to the endpoint.
        tokens_left: once the node's calls have used this many tokens, there is no second try; None for no bound.
        remarks: a person's remarks, at the start of each prompt's data.
        prompts: texts that replace shipped prompts, by the prompts' names.
        context_tokens: maximum number of tokens in a prompt and its reply; None to look it up.
        not_shown: ids of evidence that the last prompt left out to fit.
        session: the debate's session.
        sample: the agent's name (may be empty) and the number of its sample; different samples never share a call.
        ceilings: the debate's ceilings; by default those of the session.
        seed: the seed from which each call's seed is derived (`moot.nodes._models.seeds`); None for no seeds.
        datamarking: whether evidence is marked in prompts (`moot.nodes._texts.datamarking`).
    """

    def filled(self, prompt: str, values: Mapping[str, str]) -> tuple[str, str]:
        """The instructions and the data of a prompt, from the text in ``prompts`` or, by default, the shipped text.

        Args:
            prompt: the prompt's name.
            values: the values of its placeholders.

        Raises:
            ValueError: see `fill`.
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
        """Requests a structured reply. If the reply is unusable, a second request states the reason.

        There is no second request once ``tokens_left`` are used. If a prompt is too long, it is shortened (`shorten`).

        Args:
            prompt: the prompt's name.
            values: the values of its placeholders.
            reply: the schema of the reply.
            evidence_ids: ids that the reply may cite; used only if each call has its own schema (`ChatModel.tight`).
            check: returns the fault of a reply's quotes, or an empty text; a reply with a fault is not usable.

        Raises:
            UserError, WorldError: the call failed for good, a setting is invalid, or the ledger cannot be used.
            ReplyError: no reply was usable.
            BudgetExhausted: a ceiling left too little for the call, or ended it.
        """
        instructions, data = self.filled(prompt, values)
        data = "\n\n".join(filter(None, (self.remarks, data)))
        request = self._request_options(reply, evidence_ids)
        if self.structured_output != "json_schema" or self.model.structure == "words":
            data = (
                f"{data}\n\nReply with one JSON object and nothing else. Its schema:\n{json.dumps(reply_schema(reply))}"
            )
        messages = self._with_marks([SystemMessage(instructions + self._attack_text()), HumanMessage(data)])

        def send(chat: BaseChatModel) -> Awaitable[BaseMessage]:
            return chat.ainvoke(messages, **request)

        ranks = {id: rank for value in values.values() for id, rank in getattr(value, "ranks", {}).items()}
        last: tuple[AIMessage, tuple[R | None, str, str]] | None = None

        def read(message: AIMessage) -> tuple[R | None, str, str]:
            nonlocal last
            if last is None or last[0] is not message:
                found, outcome, problem = read_reply(message, reply, marked=self.datamarking)
                if found is not None and check is not None and (fault := check(found)):
                    found, outcome, problem = None, "unquoted", fault
                last = message, (found, outcome, problem)
            return last[1]

        async def make_call(speaker: Speaker) -> AIMessage:
            def current_options() -> dict[str, Any]:
                hidden = speaker.not_shown
                return (
                    self._request_options(reply, [id for id in evidence_ids if id not in hidden]) if hidden else request
                )

            return await speaker._ask_until_usable(messages, current_options, read, ranks, prompt)

        parts = {"schema": request, "structured_output": self.structured_output}
        shared = self.structured_output == "json_schema" and not self.model.tight
        hashes = own_request_hashes(reply, self.model.structure) if shared else None
        message = await self._from_ledger_or_call(
            messages, parts, make_call, send, lambda message: read(message)[0] is not None, prompt, hashes
        )
        found = read(message)[0]
        if found is None:
            raise UserError(
                f"The ledger has a reply of {self.role} that is no longer usable. Use `--ledger record`.",
                kind="damaged_ledger",
            )
        return found

    async def _ask_until_usable(
        self,
        messages: Sequence[BaseMessage],
        request: Callable[[], Mapping[str, Any]],
        read: Callable[[AIMessage], tuple[Any, str, str]],
        ranks: Mapping[str, int],
        prompt: str,
    ) -> AIMessage:
        """The first usable message of at most two. The second request states why the first message was unusable."""
        sent = list(messages)

        def send(chat: BaseChatModel, fitting: Sequence[BaseMessage]) -> Awaitable[BaseMessage]:
            return chat.ainvoke(list(fitting), **request())

        unusable: ReplyError | None = None
        for last in (False, True):
            earlier = None if last else self._unusable
            try:
                message, call = earlier or await self._shorten_and_call(sent, send, ranks, prompt, request())
            except BudgetExhausted as error:
                if unusable:
                    raise unusable from error
                raise
            found, outcome, problem = read(message)
            self._count_outcome(outcome)
            call["outcome"] = outcome
            if problem:
                call["detail"] = problem
            self.ledger.add_call(call)
            if found is not None:
                return message
            kind: Outcome = outcome  # type: ignore[assignment]
            self.ledger.warn(kind, f"{self.role} ({self.model.name}): {problem}")
            unusable = ReplyError(f"{self.model.name} gave no usable reply as {self.role}: {problem}.", kind)
            if last or self._tokens_used_up():
                raise unusable
            if self._store_unusable and not earlier:
                await self._store_unusable(message, call)
            if earlier:
                chain.set(chain.get() + 1)
                self._set_not_shown(call.get("left_out"))
            sent += [AIMessage(text_of(message)[:LONGEST_ECHO] or "(nothing)"), HumanMessage(repeat_request(problem))]
        raise AssertionError("unreachable")

    def _with_marks(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        return datamarked(messages) if self.datamarking else list(messages)

    def _without_marks(self, message: AIMessage) -> AIMessage:
        return unmarked_message(message) if self.datamarking else message

    def _attack_text(self) -> str:
        """The instructions to lie, if an evaluation of attacks makes this speaker a liar; else empty."""
        attack = current_tampering()
        return f"\n\n{attack.instructions}" if attack.liar and attack.liar == self.sample[0] else ""

    def _request_options(self, reply: type[Reply], evidence_ids: Sequence[str]) -> dict[str, Any]:
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
        return reply_options(self.model.structure, wanted)

    async def converse(
        self,
        send: Sending | SendingMessages,
        messages: Sequence[BaseMessage] = (),
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> AIMessage | None:
        """Requests the next reply of a conversation that the caller keeps. The reply may contain tool calls.

        Args:
            send: sends the conversation to a chat model; called again for each retry.
            messages: the conversation. ``send`` receives them as its second argument, shortened to the context. If
                there are none, ``send`` receives only the chat model, and the ledger is not used.
            tools: the tools that the model may call, as JSON values.

        Returns:
            The reply; None, with a warning, if the reply was refused, was cut, or was empty without a tool call.

        Raises:
            UserError, WorldError: the call failed for good, or the ledger cannot be used.
            BudgetExhausted: a ceiling left too little for the call, or ended it.
        """
        messages = self._with_marks(messages)

        async def make_call(speaker: Speaker) -> AIMessage:
            if messages:
                message, call = await speaker._shorten_and_call(messages, cast(SendingMessages, send), more=tools)
            else:
                message, call = await speaker._call_within_ceilings(
                    lambda chat: cast(Sending, send)(speaker._seeded_chat(chat, messages)), speaker._planned_call("", 0)
                )
            outcome, problem = conversation_fault(message)
            speaker._count_outcome(outcome or "ok")
            speaker.ledger.add_call(call)
            if outcome:
                call |= {"outcome": outcome, "detail": problem}
                speaker.ledger.warn(outcome, f"{speaker.role} ({speaker.model.name}): {problem}")
            return message

        def usable(message: AIMessage) -> bool:
            return not conversation_fault(message)[0]

        if messages:
            message = await self._from_ledger_or_call(
                messages,
                {"tools": list(tools)},
                make_call,
                lambda chat: cast(SendingMessages, send)(chat, messages),
                usable,
            )
        else:
            message = await make_call(self._with_seeds(messages))
        return self._without_marks(message) if usable(message) else None

    async def _from_ledger_or_call(
        self,
        messages: Sequence[BaseMessage],
        parts: Mapping[str, Any],
        make_call: Callable[[Speaker], Awaitable[AIMessage]],
        send: Sending,
        usable: Callable[[AIMessage], bool],
        prompt: str = "",
        parts_hashes: Mapping[str, str] | None = None,
    ) -> AIMessage:
        """The message from the ledger, or the message of a new call, which is then stored in the ledger.

        Without a ledger, the call is always made.

        Args:
            messages: the messages to send.
            parts: further parts of the ledger key, besides the model, the messages, the sample and the seed.
            make_call: makes the call as the given speaker.
            send: sends the messages to a chat model.
            usable: returns whether a message is stored as a reply; any other message is stored as a failure.
            prompt: the prompt's name; empty for a conversation.
            parts_hashes: the hashes of ``parts``, if they are known.
        """
        if self.seed is not None and self._seeds is None:
            return await self._with_seeds(messages)._from_ledger_or_call(
                messages, parts, make_call, send, usable, prompt, parts_hashes
            )
        debate_ledger = self.session.debate_ledger
        if debate_ledger is None:
            return await make_call(self)
        own_parts: dict[str, Any] = {"messages": key_messages(messages), "sample": self.sample}
        if self._seeds is not None:
            own_parts["seed"] = self._seeds.first_seed
        ledger = self.ledger
        hashes = {**model_hashes(self.model), **hashes_of(own_parts), **(parts_hashes or hashes_of(parts))}
        asker = (*hashes.values(), branch.get()[1::2])
        repeated, ledger.times_made[asker] = ledger.times_made[asker], ledger.times_made[asker] + 1
        superstep = run_metadata().get("langgraph_step")
        place = (ledger.node, ledger.phase, ledger.round, ledger.number, superstep, repeated)
        key = key_of("chat", {"ordinal": debate_ledger.ordinal(tuple(hashes.values()), place)}, hashes)
        result, shared = await debate_ledger.once(
            key.hash, lambda: self._stored_or_new_result(key, messages, parts, make_call, send, usable, prompt)
        )
        chain.set(chain.get() + result.depth)
        ledger.depth = max(ledger.depth, chain.get())
        own: dict[str, Any] = {"node": ledger.node, "role": self.role, "agent": ledger.agent}
        own |= {"phase": ledger.phase, "round": ledger.round}
        own |= {"number": ledger.number} if ledger.number else {}
        unpaid = {"shared": True, "prompt_tokens": 0, "completion_tokens": 0} if shared else {}
        self._set_not_shown(result.calls[-1].get("left_out") if result.calls else None)
        for call in result.calls:
            ledger.add_call({**call, **own, **unpaid})  # type: ignore[typeddict-item]
        for kind, detail in result.warnings:
            ledger.warn(kind, detail)
        if result.error is not None:
            debate_ledger.forget(key.hash)
            raise copy_error(result.error) if shared else result.error
        return result.message

    async def _stored_or_new_result(
        self,
        key: Key,
        messages: Sequence[BaseMessage],
        parts: Mapping[str, Any],
        make_call: Callable[[Speaker], Awaitable[AIMessage]],
        send: Sending,
        usable: Callable[[AIMessage], bool],
        prompt: str,
    ) -> RequestResult:
        """The result in the ledger for a key, or the result of a new call, which is then stored in the ledger."""
        debate_ledger = self.session.debate_ledger
        assert debate_ledger is not None
        entry = await debate_ledger.find(key, f"a call of {self.role} ({self.ledger.place()})")
        if entry is not None:
            value = entry.value
            message = message_of(value["message"])
            if not value["error"]:
                with named_runs(self.role, self.model.name, self.ledger):
                    message = cast(
                        AIMessage, await send(ledger_model(message, self._seeded_chat(self.model.chat, messages)))
                    )
            calls = [cast(Call, {**call, "from_ledger": True}) for call in value["calls"]]
            warnings = [(kind, detail) for kind, detail in value["warnings"]]
            error = error_from_record(value["error"]) if value["error"] else None
            skipped = value.get("left_out", isinstance(error, BudgetExhausted))
            self._apply_stored_calls(messages, parts, calls, prompt, skipped=skipped)
            return RequestResult(message, calls, warnings, value["depth"], error)
        left = None if self.tokens_left is None else self.tokens_left - tokens_of(self.ledger.calls)
        own_ledger, before = self.ledger.empty_copy(), chain.get()
        result = RequestResult(NOTHING, own_ledger.calls, [], 0)
        about: dict[str, Any] = {"role": self.role, "node": self.ledger.place(), "model": self.model.name}
        lost, prices = debate_ledger.cost_of_lost_calls(key), self.ceilings.prices
        unusable_key, unusable = partial(key_of, "chat", {"unusable": True}, key.parts), None
        if debate_ledger.has_stored_entries and (entry := debate_ledger.find_own(unusable_key())) is not None:
            call = cast(Call, {**entry.value["call"], "from_ledger": True})
            unusable = message_of(entry.value["message"]), call
            if any(lost):  # ``lost`` includes this call's cost, and the run has already counted ``lost`` as spent
                lost = debate_ledger.subtract_found_call(lost, spent_by([call], prices))
            else:
                self._apply_stored_calls(messages, parts, [call], prompt, skipped=False)

        async def store_unusable(message: AIMessage, call: Call) -> None:
            nonlocal unusable
            unusable = message, call
            await debate_ledger.store_result(unusable_key(), {"message": value_of(message), "call": call}, about)

        async def record_sent(most: Spend) -> None:
            await debate_ledger.record_sent(key, lost.plus(spent_by(own_ledger.calls, prices)).plus(most), about)

        try:
            speaker = copy(self)  # not `dataclasses.replace`, because it takes four times as long
            speaker.ledger, speaker.tokens_left, speaker._unusable = own_ledger, left, unusable
            speaker._record_sent, speaker._store_unusable = record_sent, store_unusable
            result.message = await make_call(speaker)
        except MootError as error:
            result.error = error
        result.depth = chain.get() - before
        chain.set(before)
        result.warnings = [(warned["kind"], warned["detail"]) for warned in own_ledger.warnings]
        good = result.error is None and usable(result.message)
        value = {
            "message": value_of(result.message, whole=good),
            "calls": result.calls,
            "warnings": result.warnings,
            "depth": result.depth,
            "error": result.error and result.error.record(""),
            "left_out": BudgetExhausted in (type(result.error), type(result.error and result.error.__cause__)),
        }
        spent = spent_by(own_ledger.calls, prices)
        if good:
            about |= {PAID: [*spent]}
        elif self.ceilings.counted:
            lost = lost.plus(spent)
        if unusable and isinstance(result.error, ReplyError):
            # Stored as a failure, so that a later run repeats both requests.
            stored = {"message": value_of(unusable[0]), "call": unusable[1]}
            await debate_ledger.store_failure(unusable_key(), stored, about)
        about |= {SENT: [*lost]} if any(lost) else {}
        await (debate_ledger.store_result if good else debate_ledger.store_failure)(key, value, about)
        return result

    def _apply_stored_calls(
        self,
        messages: Sequence[BaseMessage],
        parts: Mapping[str, Any],
        calls: Sequence[Call],
        prompt: str,
        *,
        skipped: bool,
    ) -> None:
        """Counts stored calls in the ceilings, and updates the bytes per token, as if this run had made the calls."""
        size = weight_of_all(messages)
        if calls and "left_out" not in calls[0]:
            count_prompt(self.model.name, size, calls[0]["prompt_tokens"])
        extra = parts.get("schema") or parts.get("tools")
        planned = self._planned_call(prompt, size + (len(json.dumps(extra)) if extra and self.ceilings.bounded else 0))
        self.ceilings.count_paid_calls(planned, calls, skipped=skipped)


@dataclass
class RequestResult:
    """The result of a request. ``warnings`` are pairs (kind, detail); ``depth`` is the length of the chain of calls."""

    message: AIMessage
    calls: list[Call]
    warnings: list[tuple[str, str]]
    depth: int
    error: MootError | None = None


def conversation_fault(message: AIMessage) -> tuple[str, str]:
    """The same as `fault_of`, but a message with tool calls may be without text."""
    outcome, problem = fault_of(message)
    calls = message.tool_calls or message.invalid_tool_calls
    return ("", "") if outcome == "empty" and calls else (outcome, problem)


def response_format(reply: type[Reply], schema: dict[str, Any]) -> dict[str, Any]:
    """The response format that requests a reply by its JSON schema."""
    return {"type": "json_schema", "json_schema": {"name": reply.__name__, "strict": True, "schema": schema}}


@lru_cache(maxsize=256)
def own_response_format(reply: type[Reply]) -> dict[str, Any]:
    """The response format with the unchanged schema of a reply. All calls share it, so callers must not change it."""
    return response_format(reply, reply_schema(reply))


@lru_cache(maxsize=256)
def own_request_hashes(reply: type[Reply], structure: Structure) -> dict[str, str]:
    """The hashes of the parts of a ledger key for requests with the unchanged schema of a reply."""
    request = reply_options(structure, own_response_format(reply))
    return hashes_of({"schema": request, "structured_output": "json_schema"})


def as_speaker(model: Speaker | BaseChatModel, role: str) -> Speaker:
    """A speaker for a role, from any LangChain chat model. A speaker is returned unchanged, with its own role.

    Raises:
        UserError: ``model`` is neither a speaker nor a `Runnable`.
    """
    if isinstance(model, Speaker):
        return model
    if not isinstance(model, Runnable):
        raise UserError(
            f"The model for {role} is of the type {type(model).__name__}; pass a chat model of LangChain, such as "
            'ChatOpenAI(...) or (await open_chat_model("openai:gpt-4o-mini")).chat.',
            kind="unknown_model",
        )
    from langchain_openai.chat_models.base import BaseChatOpenAI
    from moot.nodes._models.fake import FakeChatModel

    name = str(getattr(model, "model_name", None) or getattr(model, "model", None) or type(model).__name__)
    structured: StructuredOutput = "json_schema" if isinstance(model, BaseChatOpenAI | FakeChatModel) else "text"
    return Speaker(role, ChatModel(name, model, Endpoint(f"The model {name}", "")), structured_output=structured)


def affects_only_call(error: MootError) -> bool:
    """Whether an error affects only one call. A user's mistake, such as a wrong key, usually affects all calls."""
    return not isinstance(error, UserError) or error.kind in ("bad_request", "too_long")


def repeat_request(problem: str) -> str:
    """The message to a model whose reply was unusable. The problem may quote the reply, so it is enclosed as data."""
    shown = as_data("problem", problem)
    return f"That reply could not be used.\n{shown}\nReply again, briefly, with one JSON object as asked for."
