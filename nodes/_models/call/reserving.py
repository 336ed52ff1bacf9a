"""Keeps a call within the debate's ceilings: it is reserved, sent, and settled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

from langchain_core.messages import AIMessage
from moot.core.errors import BudgetExhausted, MootError
from moot.nodes._models.budget import TOO_LATE, Budget, Reservation
from moot.nodes._models.call.fitting import planned_call
from moot.nodes._models.call.request import Asker, Attempt, Entry, Request, Way
from moot.nodes._models.call.waiting import call_record
from moot.nodes._models.prices import is_counted
from moot.nodes._models.spend import NOTHING, ONE_CALL, Spend, spent_by
from moot.nodes._records.entries import Call

NOT_REPEATED = "The call failed and was not repeated: the time of `max_seconds` was used up."
NOTHING_LEFT = "{error} The lost reply may be charged for, and the ceilings do not allow another request. {why}"
NOT_AWAITED = (
    "The call was sent, but its reply did not arrive before the time of `max_seconds` was used up. The endpoint may "
    "charge for the call; ceilings count the {tokens:,.0f} tokens reserved for it."
)


def reserving(below: Way, speaker: Asker) -> Way:
    """A layer: reserves the most that a call can take, sends it, and counts what it took."""
    budget = speaker.budget

    async def reserve(request: Request) -> AIMessage:
        reservation = await budget.reserve(planned_call(speaker, request))
        started, calls, before = time.perf_counter(), request.calls, len(request.calls)
        attempts = Attempts(budget, reservation, request.entry)
        cost: Spend | None = None  # unknown, e.g. after a cancellation
        try:
            await attempts.record_sent()
            async with asyncio.timeout_at(reservation.until):
                message = await below(
                    replace(request, watches=(*request.watches, attempts.watched), before_repeat=attempts.reserve_again)
                )
            cost = spent_by([calls[-1]], budget.prices) if is_counted(calls[-1]) else None
        except MootError as error:
            cost = ONE_CALL
            if isinstance(error, BudgetExhausted):
                budget.cut[speaker.role] += 1
            raise
        except TimeoutError as error:
            detail, cost = attempts.fault_at_deadline()
            if attempts.sent:
                call = call_record(speaker, None, started, attempts.sent)
                request.add_call({**call, "outcome": "failed", "detail": detail})
            (budget.cut if attempts.sent else budget.skipped)[speaker.role] += 1
            raise BudgetExhausted(f"{speaker.role} ({speaker.model.name}): {detail}") from error
        finally:
            mark_losses(calls[before:], reservation)
            budget.settle(reservation, cost, time.perf_counter() - started)
        return message

    return reserve


class Attempts:
    """The attempts of one call under a ceiling; what was reserved for a lost reply counts as spent."""

    def __init__(self, budget: Budget, reservation: Reservation, entry: Entry | None) -> None:
        self._budget = budget
        self._reservation = reservation
        self._entry = entry
        self.sent = 0
        """The number of attempts that were sent."""
        self._is_unanswered = False

    def watched(self, attempt: Attempt) -> Attempt:
        """Wraps an attempt: notes that it is sent, and whether an endpoint may charge for it without a reply."""

        async def watch() -> AIMessage:
            self.sent += 1
            self._is_unanswered = True
            try:
                reply = await attempt()
            except MootError as error:
                self._is_unanswered = False
                if error.may_cost:
                    self._budget.lose(self._reservation)
                raise
            self._is_unanswered = False
            return reply

        return watch

    async def record_sent(self) -> None:
        """Stores the cost of the lost replies so far plus the most that the next attempt can take."""
        if self._entry and self._budget.counts_amounts:
            await self._entry.record_sent(self._reservation.lost.plus(self._reservation.amount))

    async def reserve_again(self, error: MootError) -> None:
        """If the last reply was lost, reserves budget for the next attempt, or raises BudgetExhausted."""
        if not error.may_cost:
            return
        try:
            await self._budget.reserve_again(self._reservation)
        except BudgetExhausted as refused:
            exhausted = BudgetExhausted(NOTHING_LEFT.format(error=error.detail, why=refused.detail))
            exhausted.attempts = error.attempts
            raise exhausted from error
        await self.record_sent()

    def fault_at_deadline(self) -> tuple[str, Spend]:
        """What became of the call when its time was over, and what it has taken besides its lost replies."""
        if not self.sent:
            return TOO_LATE, NOTHING
        if not self._is_unanswered:
            return NOT_REPEATED, ONE_CALL
        self._budget.lose(self._reservation)
        return NOT_AWAITED.format(tokens=self._reservation.lost.tokens), ONE_CALL


def mark_losses(calls: Sequence[Call], reservation: Reservation) -> None:
    """Notes in a call's record the tokens that were reserved for its lost replies, if any were lost."""
    replies = reservation.losses * reservation.planned.reply_tokens
    for call in calls if reservation.losses else ():
        call["reserved"] = {"prompt_tokens": int(reservation.lost.tokens) - replies, "completion_tokens": replies}
