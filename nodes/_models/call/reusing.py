"""Answers a request from the ledger, or stores its reply there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from langchain_core.messages import AIMessage
from langchain_core.runnables.config import var_child_runnable_config
from moot.core.errors import BudgetExhausted, MootError, ReplyError, copy_error, error_from_record
from moot.core.ledger import Key, key_of
from moot.core.ledger.records import PAID, SENT, hashes_of
from moot.nodes._models.call.fitting import planned_call, weight_of_all
from moot.nodes._models.call.request import Asker, Request, Way
from moot.nodes._models.contexts import count_prompt
from moot.nodes._models.debate_ledger import DebateLedger
from moot.nodes._models.ledger_messages import key_messages, ledger_model, message_of, model_hashes, value_of
from moot.nodes._models.parallel import branch
from moot.nodes._models.seeds import with_seed
from moot.nodes._models.spend import Spend, spent_by
from moot.nodes._records.entries import Call
from moot.nodes._runtime.trace import named_runs

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
    """A layer: equal requests of one step share a reply, and a reply in the ledger is not paid for again."""
    ledger, own = speaker.session.debate_ledger, speaker.ledger
    assert ledger is not None

    async def reuse(request: Request) -> AIMessage:
        key = request_key(request, speaker, ledger)
        result, shared = await ledger.once(key.hash, lambda: stored_or_new(below, speaker, request, ledger, key))
        speaker.set_not_shown(result.calls[-1].get("left_out") if result.calls else None)
        place: dict[str, Any] = {"node": own.node, "role": speaker.role, "agent": own.agent}
        place |= {"phase": own.phase, "round": own.round} | ({"number": own.number} if own.number else {})
        unpaid = {"shared": True, "prompt_tokens": 0, "completion_tokens": 0} if shared else {}
        for call in result.calls:
            request.add_call(cast(Call, {**call, **place, **unpaid}))
        for kind, detail in result.warnings:
            request.warn(kind, detail)
        if result.error is not None:
            ledger.forget(key.hash)
            raise copy_error(result.error) if shared else result.error
        return result.message

    return reuse


def request_key(request: Request, speaker: Asker, ledger: DebateLedger) -> Key:
    """The ledger's key of a request: what its reply depends on, and how many equal requests came before it."""
    parts: dict[str, Any] = {"messages": key_messages(request.messages), "sample": speaker.sample, **request.parts}
    if request.seeds is not None:
        parts["seed"] = request.seeds.first_seed
    hashes, own = {**model_hashes(speaker.model), **hashes_of(parts)}, speaker.ledger
    asker = (*hashes.values(), branch.get()[1::2])
    repeated, own.times_made[asker] = own.times_made[asker], own.times_made[asker] + 1
    superstep = ((var_child_runnable_config.get() or {}).get("metadata") or {}).get("langgraph_step")
    place = (own.node, own.phase, own.round, own.number, superstep, repeated)
    return key_of("chat", {"ordinal": ledger.ordinal(tuple(hashes.values()), place)}, hashes)


async def stored_or_new(below: Way, speaker: Asker, request: Request, ledger: DebateLedger, key: Key) -> Result:
    """The result in the ledger for a key, or that of the layers below, which is then stored in the ledger."""
    found = await ledger.find(key, f"a call of {speaker.role} ({speaker.ledger.place()})")
    if found is not None:
        return await stored_result(speaker, request, found.value)
    result = Result(NO_REPLY, [], [])
    entry = LedgerEntry(speaker, request, ledger, key, result.calls)
    try:
        result.message = await below(
            replace(request, entry=entry, record=None, calls=result.calls, warnings=result.warnings)
        )
    except MootError as error:
        result.error = error
    await entry.store(result, usable=result.error is None and not request.fault(result.message)[1])
    return result


async def stored_result(speaker: Asker, request: Request, value: Mapping[str, Any]) -> Result:
    """The result that the ledger has for a request; callbacks, such as a trace, see the reply as if it came now."""
    message, chat = message_of(value["message"]), speaker.model.chat
    if not value["error"]:
        seeded = with_seed(chat, request.seeds.first_seed) if request.seeds else chat
        with named_runs(speaker.role, speaker.model.name, speaker.ledger):
            message = cast(AIMessage, await request.send(ledger_model(message, seeded), request.messages))
    calls = [cast(Call, {**call, "from_ledger": True}) for call in value["calls"]]
    warnings = [(kind, detail) for kind, detail in value["warnings"]]
    error = error_from_record(value["error"]) if value["error"] else None
    skipped = value.get("left_out", isinstance(error, BudgetExhausted))
    count_paid_calls(speaker, request, calls, skipped=skipped)
    return Result(message, calls, warnings, error)


def count_paid_calls(speaker: Asker, request: Request, calls: list[Call], *, skipped: bool) -> None:
    """Counts stored calls in the ceilings, and updates the bytes per token, as if this run had made the calls."""
    if calls and "left_out" not in calls[0]:
        count_prompt(speaker.model.name, weight_of_all(request.messages), calls[0]["prompt_tokens"])
    speaker.ceilings.count_paid_calls(planned_call(speaker, request), calls, skipped=skipped)


class LedgerEntry:
    """A request's entry in the ledger, from before its first call to its result."""

    # ``calls`` grows with the calls of this run.
    def __init__(self, speaker: Asker, request: Request, ledger: DebateLedger, key: Key, calls: list[Call]) -> None:
        self._ledger, self._key, self._calls, self._ceilings = ledger, key, calls, speaker.ceilings
        self._unusable_key = partial(key_of, "chat", {"unusable": True}, key.parts)
        self._about: dict[str, Any] = {
            "role": speaker.role,
            "node": speaker.ledger.place(),
            "model": speaker.model.name,
        }
        self._lost = ledger.cost_of_lost_calls(key)
        self.unusable: tuple[AIMessage, Call] | None = None
        if ledger.has_stored_entries and (found := ledger.find_own(self._unusable_key())) is not None:
            call = cast(Call, {**found.value["call"], "from_ledger": True})
            self.unusable = message_of(found.value["message"]), call
            if any(self._lost):  # it includes this call's cost, and the run has already counted it as spent
                self._lost = ledger.subtract_found_call(self._lost, spent_by([call], self._ceilings.prices))
            else:
                count_paid_calls(speaker, request, [call], skipped=False)

    async def keep_unusable(self, message: AIMessage, call: Call) -> None:
        self.unusable = message, call
        value = {"message": value_of(message), "call": call}
        await self._ledger.store_result(self._unusable_key(), value, self._about)

    async def record_sent(self, most: Spend) -> None:
        paid = spent_by(self._calls, self._ceilings.prices)
        await self._ledger.record_sent(self._key, self._lost.plus(paid).plus(most), self._about)

    async def store(self, result: Result, *, usable: bool) -> None:
        """Stores the result; a later run uses it if it is usable, and otherwise repeats the request."""
        ledger, error, lost, about = self._ledger, result.error, self._lost, dict(self._about)
        spent = spent_by(result.calls, self._ceilings.prices)
        if usable:
            about[PAID] = [*spent]
        elif self._ceilings.counts_amounts:
            lost = lost.plus(spent)
        if self.unusable and isinstance(error, ReplyError):
            message, call = self.unusable  # stored as a failure, so that a later run repeats both requests
            failure = {"message": value_of(message), "call": call}
            await ledger.store_failure(self._unusable_key(), failure, self._about)
        if any(lost):
            about[SENT] = [*lost]
        value = {
            "message": value_of(result.message, whole=usable),
            "calls": result.calls,
            "warnings": result.warnings,
            "error": error and error.record(""),
            "left_out": BudgetExhausted in (type(error), type(error and error.__cause__)),
        }
        await (ledger.store_result if usable else ledger.store_failure)(self._key, value, about)
