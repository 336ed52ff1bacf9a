"""Keeps a call within the debate's ceilings."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

from langchain_core.messages import AIMessage
from moot.core.errors import BudgetExhausted, MootError
from moot.nodes._models.call.fitting import planned_call
from moot.nodes._models.call.request import Asker, Attempt, Request, Way
from moot.nodes._models.call.waiting import call_record
from moot.nodes._models.ceilings import TOO_LATE, Ceilings, Reservation
from moot.nodes._models.spend import NOTHING, PlannedCall, Spend, spent_by
from moot.nodes._records.entries import Call

NOT_REPEATED = "The call failed and was not repeated: the time of `max_seconds` was used up."
NOTHING_LEFT = "{error} The lost reply may be charged for, and the ceilings do not allow another request. {why}"
NOT_AWAITED = (
    "The call was sent, but its reply did not arrive before the time of `max_seconds` was used up. The endpoint may "
    "charge for the call; ceilings count the {tokens:,.0f} tokens reserved for it."
)


def reserving(below: Way, speaker: Asker) -> Way:
    """A layer: reserves the maximum cost of a call before it is made, and counts the real cost afterwards."""
    ceilings = speaker.ceilings

    async def reserve(request: Request) -> AIMessage:
        planned = planned_call(speaker, request)
        reservation, started = await ceilings.reserve(planned), time.perf_counter()
        attempts = Attempts(ceilings, planned, reservation, request.entry.record_sent if request.entry else None)
        watched = replace(request, watches=(*request.watches, attempts.counting), before_repeat=attempts.reserve_repeat)
        calls, before = request.calls, len(request.calls)
        spent: Spend | None = None
        try:
            await attempts.record_sent()
            async with asyncio.timeout_at(reservation.until):
                message = await below(watched)
            spent = ceilings.real_cost(attempts.marked(calls[-1]))
        except MootError as error:
            for call in calls[before:]:
                attempts.marked(call)
            spent = ceilings.cost_of_failed(speaker.model.name, *attempts.lost)
            if isinstance(error, BudgetExhausted):
                ceilings.count_skipped(speaker.role, awaited=False)
            raise
        except TimeoutError as error:
            detail = TOO_LATE
            if attempts.sent:
                detail = NOT_AWAITED if attempts.count_unanswered() else NOT_REPEATED
                detail = detail.format(tokens=sum(attempts.lost))
                call = call_record(speaker, None, started, attempts.sent)
                request.add_call(attempts.marked({**call, "outcome": "failed", "detail": detail}))
            spent = spent_by(calls[before:], ceilings.prices)
            ceilings.count_skipped(speaker.role, awaited=not attempts.sent)
            raise BudgetExhausted(f"{speaker.role} ({speaker.model.name}): {detail}") from error
        finally:
            held = attempts.reservation
            # If the real cost is unknown, e.g. after a cancellation, the whole reservation counts as spent.
            rest = held.spend if spent is None else spent.minus(attempts.counted)
            ceilings.release_reservation(held, rest, time.perf_counter() - started)
        return message

    return reserve


class Attempts:
    """The attempts of one call under a ceiling; the whole reservation of a lost reply counts as spent."""

    def __init__(
        self,
        ceilings: Ceilings,
        planned: PlannedCall,
        reservation: Reservation,
        record: Callable[[Spend], Awaitable[None]] | None,  # stores a cost; None: there is no store
    ) -> None:
        self._ceilings = ceilings
        self._planned = planned
        self._record = record
        self.reservation = reservation
        """The reservation for the current attempt."""
        self.counted = NOTHING
        """The cost of the lost replies, which the ceilings count as spent."""
        self.sent = 0
        """The number of attempts that were sent."""
        self.lost = (0, 0)
        """The tokens of prompts and of replies that were reserved for the attempts whose replies were lost."""
        self._unanswered = False

    def counting(self, attempt: Attempt) -> Attempt:
        """Wraps an attempt: notes that it is sent, and whether an endpoint may charge for it without a reply."""

        async def counted() -> AIMessage:
            self.sent += 1
            self._unanswered = True
            try:
                reply = await attempt()
            except MootError as error:
                self._unanswered = False
                if error.may_cost:
                    self._count_lost_reply()
                raise
            self._unanswered = False
            return reply

        return counted

    def _count_lost_reply(self) -> None:
        (prompts, replies), reply = self.lost, self._planned.reply
        self.lost = prompts + int(self.reservation.spend.tokens) - reply, replies + reply

    async def record_sent(self) -> None:
        """Stores the cost of the lost replies so far plus the maximum cost of the next attempt."""
        if self._record and self._ceilings.counted:
            await self._record(self.counted.plus(self.reservation.spend))

    async def reserve_repeat(self, error: MootError) -> None:
        """If the last reply was lost, reserves budget for the next attempt, or raises BudgetExhausted."""
        if not error.may_cost:
            return
        before = self.reservation
        self.reservation = self._ceilings.count_lost_request(before)
        self.counted = self.counted.plus(before.spend).minus(self.reservation.spend)
        try:
            self.reservation = await self._ceilings.reserve_repeat(self._planned, self.reservation)
        except BudgetExhausted as refused:
            exhausted = BudgetExhausted(NOTHING_LEFT.format(error=error.detail, why=refused.detail))
            exhausted.attempts = error.attempts
            raise exhausted from error
        await self.record_sent()

    def count_unanswered(self) -> bool:
        """Counts the last attempt as lost if it is unanswered; returns whether it is unanswered."""
        if self._unanswered:
            self._count_lost_reply()
        return self._unanswered

    def marked(self, call: Call) -> Call:
        """The record of the call, with the tokens that were reserved for lost replies, if any were lost."""
        if any(self.lost):
            call["reserved"] = {"prompt_tokens": self.lost[0], "completion_tokens": self.lost[1]}
        return call
