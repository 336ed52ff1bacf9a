"""Answers a request from the store of replies, or stores its reply there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import AIMessage
from langchain_core.runnables.config import var_child_runnable_config
from moot.core.errors import BudgetExhausted, MootError, copy_error, error_from_record
from moot.core.fingerprints import key_of
from moot.nodes._models.call.fitting import planned_call, weight_of_all
from moot.nodes._models.call.request import Asker, Request, Way
from moot.nodes._models.contexts import count_prompt
from moot.nodes._models.parallel import branch
from moot.nodes._models.prices import MILLION, Price, price_of
from moot.nodes._models.replies import DebateReplies, replay_miss
from moot.nodes._models.seeds import with_seed
from moot.nodes._models.spend import NOTHING, Spend, spent_by
from moot.nodes._models.stored_messages import key_messages, key_model, message_of, stored_model, value_of
from moot.nodes._records.entries import Call
from moot.nodes._runtime.trace import named_runs

if TYPE_CHECKING:
    from moot.core.store import Reply

NO_REPLY = AIMessage("")
"""The message of a request that failed."""


@dataclass
class Result:
    """What a request came to: its message, calls and warnings, or its error."""

    message: AIMessage
    calls: list[Call]
    warnings: list[tuple[str, str]]
    error: MootError | None = None


def reusing(below: Way, speaker: Asker) -> Way:
    """A layer: equal requests of one step share a reply, and a stored reply is not paid for again."""
    replies, own = speaker.session.replies, speaker.record
    assert replies is not None

    async def reuse(request: Request) -> AIMessage:
        key = request_key(request, speaker, replies)
        result, shared = await replies.once(key, lambda: stored_or_new(below, speaker, request, replies, key))
        speaker.set_not_shown(result.calls[-1].get("left_out") if result.calls else None)
        place: dict[str, Any] = {"node": own.node, "role": speaker.role, "agent": own.agent}
        place |= {"phase": own.phase, "round": own.round} | ({"number": own.number} if own.number else {})
        unpaid = {"shared": True, "prompt_tokens": 0, "completion_tokens": 0} if shared else {}
        for call in result.calls:
            request.add_call(cast(Call, {**call, **place, **unpaid}))
        for kind, detail in result.warnings:
            request.warn(kind, detail)
        if result.error is not None:
            replies.forget(key)
            raise copy_error(result.error) if shared else result.error
        return result.message

    return reuse


def request_key(request: Request, speaker: Asker, replies: DebateReplies) -> str:
    """The key of a request: what its reply depends on, its place in the debate, and how many came before it there."""
    own, run = speaker.record, (var_child_runnable_config.get() or {}).get("metadata") or {}
    # The names of the nodes around the call's own graph; their ids differ from run to run.
    around = [name.partition(":")[0] for name in str(run.get("langgraph_checkpoint_ns") or "").split("|")[:-1]]
    parts: dict[str, Any] = {"model": key_model(speaker.model), "messages": key_messages(request.messages)}
    parts |= {"asked": request.parts, "sample": speaker.sample, "seed": request.seeds and request.seeds.first_seed}
    place = [around, own.node, own.phase, own.round, own.number, replies.answered]
    equal = key_of("chat", parts | {"place": place})
    asker = (equal, branch.get()[1::2])
    repeated, own.times_made[asker] = own.times_made[asker], own.times_made[asker] + 1
    # Each debate within a debate has its own budget.
    moment = (speaker.budget, run.get("langgraph_step"), repeated)
    return key_of("chat", {"equal": equal, "earlier": replies.number(equal, moment)})


async def stored_or_new(below: Way, speaker: Asker, request: Request, replies: DebateReplies, key: str) -> Result:
    """The stored result for a key, or that of the layers below, which is then stored."""
    what = f"a call of {speaker.role} ({speaker.record.place()})"
    if found := (await replies.find([key], what)).get(key):
        if "message" not in found.value:  # the debate was killed before the second reply
            raise replay_miss(what)
        return await stored_result(speaker, request, found.value)
    result = Result(NO_REPLY, [], [])
    entry = StoredEntry(speaker, request, replies, key, result.calls)
    try:
        result.message = await below(
            replace(request, entry=entry, record=None, calls=result.calls, warnings=result.warnings)
        )
    except MootError as error:
        result.error = error
    await entry.keep_result(result, usable=result.error is None and not request.fault(result.message)[1])
    return result


async def stored_result(speaker: Asker, request: Request, value: Mapping[str, Any]) -> Result:
    """The result that is stored for a request; callbacks, such as a trace, see the reply as if it came now."""
    message, chat = message_of(value["message"]), speaker.model.chat
    if not value["error"]:
        seeded = with_seed(chat, request.seeds.first_seed) if request.seeds else chat
        with named_runs(speaker.role, speaker.model.name, speaker.record):
            message = cast(AIMessage, await request.send(stored_model(message, seeded), request.messages))
    calls = [cast(Call, {**call, "from_store": True}) for call in value["calls"]]
    warnings = [(kind, detail) for kind, detail in value["warnings"]]
    count_paid_calls(speaker, request, calls, skipped=value["left_out"])
    return Result(message, calls, warnings, error_from_record(value["error"]) if value["error"] else None)


def stored_usd(stored: Iterable[Reply], prices: Mapping[str, Price]) -> tuple[float, float]:
    """The USD of a run's replies: of calls that were answered, and at most of the requests whose replies were lost."""
    paid = lost = 0.0
    for reply in stored:
        value = (reply.kind == "chat" and reply.value) or {}
        answered = spent_by(value.get("calls") or ([value["call"]] if "call" in value else []), prices)
        paid += answered.usd
        if price := price_of(reply.about.get("model", ""), prices):
            tokens = max(0.0, reply.paid[0] + reply.sent[0] - answered.tokens)
            lost += tokens * max(price["input"], price["output"]) / MILLION
    return paid, lost


def count_paid_calls(speaker: Asker, request: Request, calls: list[Call], *, skipped: bool) -> None:
    """Counts the calls of a stored reply in the ceilings and in the bytes per token, as if this run had made them."""
    if calls and "left_out" not in calls[0]:
        count_prompt(speaker.model.name, weight_of_all(request.messages), calls[0]["prompt_tokens"])
    speaker.budget.count_paid_calls(planned_call(speaker, request), calls, skipped=skipped)


class StoredEntry:
    """A request's entry in the store, from before its first call to its result; see `request.Entry`."""

    # ``calls`` grows with the calls of this run.
    def __init__(self, speaker: Asker, request: Request, replies: DebateReplies, key: str, calls: list[Call]) -> None:
        self._replies, self._key, self._calls, self._budget = replies, key, calls, speaker.budget
        self._about = {"role": speaker.role, "node": speaker.record.place(), "model": speaker.model.name}
        self._lost, self._value = NOTHING, cast(dict[str, Any] | None, None)
        self.unusable: tuple[AIMessage, Call] | None = None
        if earlier := replies.earlier.get(key):
            self._lost = Spend(*earlier.sent)
            value = earlier.value or {}
            if "unusable" in value and "message" not in value:
                self._value, call = value, cast(Call, {**value["call"], "from_store": True})
                self.unusable = message_of(value["unusable"]), call
                count_paid_calls(speaker, request, [call], skipped=False)

    async def keep_unusable(self, message: AIMessage, call: Call) -> None:
        self.unusable = message, call
        self._value = {"unusable": value_of(message), "call": call}
        await self.record_sent(NOTHING)

    async def record_sent(self, most: Spend) -> None:
        spent = spent_by(self._calls, self._budget.prices)
        paid = spent_by([self.unusable[1]], self._budget.prices) if self.unusable else NOTHING
        await self._keep(failed=True, paid=paid, sent=self._lost.plus(spent.minus(paid)).plus(most))

    async def keep_result(self, result: Result, *, usable: bool) -> None:
        """Stores the result; a later run uses it if it is usable, and otherwise repeats the request."""
        error, spent = result.error, spent_by(result.calls, self._budget.prices)
        self._value = {
            **(self._value or {}),
            "message": value_of(result.message, whole=usable),
            "calls": result.calls,
            "warnings": result.warnings,
            "error": error and error.record(""),
            "left_out": BudgetExhausted in (type(error), type(error and error.__cause__)),
        }
        if usable:
            await self._keep(failed=False, paid=spent, sent=self._lost)
        else:
            sent = self._lost.plus(spent) if self._budget.counts_amounts else self._lost
            await self._keep(failed=True, paid=NOTHING, sent=sent)

    async def _keep(self, *, failed: bool, paid: Spend, sent: Spend) -> None:
        await self._replies.keep("chat", {self._key: self._value}, self._about, failed=failed, paid=paid, sent=sent)
