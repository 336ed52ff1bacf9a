"""Makes the calls of a role to its model: shortens prompts, reserves budget, sets seeds, retries and records."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables.config import var_child_runnable_config
from moot.core.endpoint import DEFAULT_LIMITS, Limits
from moot.core.errors import BudgetExhausted, MootError, UserError
from moot.core.lazy import imported
from moot.core.limiter import limiter, with_retries
from moot.core.refusals import explain, unreadable
from moot.core.telemetry.switch import telemetry
from moot.nodes._models.ceilings import TOO_LATE, Ceilings, Reservation
from moot.nodes._models.chat_models import ChatModel, StructuredOutput
from moot.nodes._models.contexts import count_prompt, learn_from_refusal
from moot.nodes._models.fitting import fit_messages, max_reply_tokens
from moot.nodes._models.ledger import Ledger, branch, tokens_of
from moot.nodes._models.reply_parsing import is_broken_off, without_environment_keys, without_invalid_metadata
from moot.nodes._models.seeds import CallSeeds, with_seed
from moot.nodes._models.session import Session
from moot.nodes._models.spend import NOTHING, REPLY_TOKENS, PlannedCall, Spend, spent_by
from moot.nodes._records.entries import Call, LeftOut
from moot.nodes._runtime.trace import named_runs

if TYPE_CHECKING:
    from moot.nodes._telemetry.observed import CallWatch

T = TypeVar("T")

Sending = Callable[[BaseChatModel], Awaitable[BaseMessage]]
"""Sends a request to a chat model."""
SendingMessages = Callable[[BaseChatModel, Sequence[BaseMessage]], Awaitable[BaseMessage]]
"""Sends messages to a chat model."""

MOST_REFUSALS = 4
"""Maximum number of times that a prompt is shortened because the endpoint refused it as too long."""

NO_CONTEXT: AbstractContextManager[None] = nullcontext()
chain: ContextVar[int] = ContextVar("chain", default=0)
"""The length of the longest chain of calls on which the next call of the running coroutine depends."""

NOT_REPEATED = "The call failed and was not repeated: the time of `max_seconds` was used up."
NOTHING_LEFT = "{error} The lost reply may be charged for, and the ceilings do not allow another request. {why}"
NOT_AWAITED = (
    "The call was sent, but its reply did not arrive before the time of `max_seconds` was used up. The endpoint may "
    "charge for the call; ceilings count the {tokens:,.0f} tokens reserved for it."
)


class Requests:
    """The requests of one call under a ceiling.

    An endpoint may charge for a request whose reply was lost, for example if the request timed out or the connection
    broke. The whole reservation of such a request counts as spent. So the next request needs a reservation of its own.

    Args:
        ceilings: the ceilings.
        planned: the call.
        reservation: the reservation for the first request.
        record_sent: records the cost of the lost replies so far plus the maximum cost of the next request. It is called
            before the first request, and before the request that follows a lost reply. None: nothing is recorded.
    """

    def __init__(
        self,
        ceilings: Ceilings,
        planned: PlannedCall,
        reservation: Reservation,
        record_sent: Callable[[Spend], Awaitable[None]] | None,
    ) -> None:
        self._ceilings = ceilings
        self._planned = planned
        self._record_sent = record_sent
        self.reservation = reservation
        """The reservation for the current request."""
        self.counted = NOTHING
        """The cost of the lost replies, which the ceilings count as spent."""
        self.sent = 0
        """The number of requests that were sent."""
        self.unanswered = False
        """Whether the last request got neither a reply nor an error."""
        self.lost = (0, 0)
        """The tokens of prompts and of replies that were reserved for the requests whose replies were lost."""

    async def send(self, request: Callable[[], Awaitable[T]]) -> T:
        """Sends a request, and notes whether an endpoint may charge for it although its reply was lost."""
        self.sent += 1
        self.unanswered = True
        try:
            reply = await request()
        except MootError as error:
            self.unanswered = False
            if error.may_cost:
                self._count_lost_reply()
            raise
        self.unanswered = False
        return reply

    def _count_lost_reply(self) -> None:
        (prompts, replies), reply = self.lost, self._planned.reply
        self.lost = prompts + int(self.reservation.spend.tokens) - reply, replies + reply

    async def record_sent(self) -> None:
        """Records the cost of the lost replies so far plus the maximum cost of the next request.

        Does nothing without a ledger, or if only time is bounded.
        """
        if self._record_sent and self._ceilings.counted:
            await self._record_sent(self.counted.plus(self.reservation.spend))

    async def before_repeat(self, error: MootError) -> None:
        """If the last reply was lost, counts its request as spent, and reserves budget for the next request.

        Raises:
            BudgetExhausted: too little budget or time is left for the next request.
        """
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
        """Counts the last request as lost if it is unanswered; returns whether it is unanswered."""
        if self.unanswered:
            self._count_lost_reply()
        return self.unanswered


@dataclass
class Caller:
    """A role with its model. Makes calls that fit the model's context and the ceilings, and retries and records them.

    `moot.nodes._models.speaker.Speaker` describes the fields.
    """

    role: str
    model: ChatModel
    ledger: Ledger = field(default_factory=Ledger)
    structured_output: StructuredOutput = "json_schema"
    limits: Limits = DEFAULT_LIMITS
    tokens_left: int | None = None
    remarks: str = ""
    prompts: Mapping[str, str] = field(default_factory=dict)
    context_tokens: int | None = None
    not_shown: set[str] = field(default_factory=set)
    session: Session = field(default_factory=Session)
    sample: tuple[str, int] = ("", 1)
    ceilings: Ceilings = None  # type: ignore[assignment]
    seed: int | None = None
    datamarking: bool = False
    _seeds: CallSeeds | None = None
    _record_sent: Callable[[Spend], Awaitable[None]] | None = None
    """Records the maximum cost of a call in the ledger; see `Requests`."""
    _store_unusable: Callable[[AIMessage, Call], Awaitable[None]] | None = None
    """Stores an unusable reply in the ledger; called before the second request."""
    _unusable: tuple[AIMessage, Call] | None = None
    """The unusable first reply, if an earlier run received it and was interrupted before the second reply."""

    def __post_init__(self) -> None:
        if self.ceilings is None:
            self.ceilings = self.session.ceilings

    def _tokens_used_up(self) -> bool:
        return self.tokens_left is not None and tokens_of(self.ledger.calls) >= self.tokens_left

    def _with_seeds(self, messages: Sequence[BaseMessage]) -> Self:
        """A copy of the caller with the seeds for a request of these messages; without a seed, the caller itself."""
        if self.seed is None:
            return self
        ledger, (agent, sample) = self.ledger, self.sample
        question = (self.role, ledger.round, sample, agent, ledger.node, ledger.phase, ledger.number)
        seeds = CallSeeds(self.seed, question, messages)
        asker = (seeds.first_seed, branch.get()[1::2])
        repeated, ledger.times_made[asker] = ledger.times_made[asker], ledger.times_made[asker] + 1
        run = run_metadata()
        # With a ledger, equal calls of one superstep share a reply, and so they share the seed.
        shared = self.session.debate_ledger is not None
        where = (run.get("langgraph_step"),) if shared else (run.get("langgraph_checkpoint_ns"), ledger.agent, asker)
        earlier = self.session.count_earlier_places(seeds.first_seed, (*question, *where, repeated))
        return replace(self, _seeds=replace(seeds, earlier=earlier) if earlier else seeds)

    def _seeded_chat(self, chat: BaseChatModel, messages: Sequence[BaseMessage]) -> BaseChatModel:
        return chat if self._seeds is None else with_seed(chat, self._seeds.seed_of(messages))

    async def _shorten_and_call(
        self,
        messages: Sequence[BaseMessage],
        send: SendingMessages,
        ranks: Mapping[str, int] | None = None,
        prompt: str = "",
        more: Any = None,
    ) -> tuple[AIMessage, Call]:
        """Shortens the messages to the model's context and makes a call.

        If the endpoint refuses the messages as too long, they are shortened further, and the call is made again.

        The prompt of a role that decides is also shortened to the budget that the ceilings leave. ``more`` (a schema
        or tools) takes part of this budget.

        Raises:
            UserError, WorldError: the call failed for good; UserError also if the shortened prompt is still too long.
            BudgetExhausted: a ceiling left too little for the call, or ended it.
        """
        extra_bytes = len(json.dumps(more)) if more and self.ceilings.bounded else 0
        name, address, before = self.model.name, self.model.endpoint.base_url, 0
        for refusals in range(MOST_REFUSALS + 1):
            room = self._prompt_limit(prompt, extra_bytes)
            fit = fit_messages(messages, self.model, self.role, self.context_tokens, ranks, room)
            self._set_not_shown(fit.left_out)
            planned = self._planned_call(prompt, fit.size + extra_bytes)
            try:
                message, call = await self._call_within_ceilings(
                    lambda chat, some=fit.messages: send(self._seeded_chat(chat, some), some),  # type: ignore[misc]
                    planned,
                    fit.messages,
                )
            except UserError as error:
                if error.kind != "too_long" or refusals == MOST_REFUSALS or fit.size == before:
                    raise
                learn_from_refusal(name, address, error.detail, fit.size, max_reply_tokens(self.model))
                before = fit.size
                continue
            count_prompt(name, fit.size, call["prompt_tokens"])
            if fit.left_out:
                call["left_out"] = fit.left_out
            return message, call
        raise AssertionError("unreachable")

    def _set_not_shown(self, left: LeftOut | None) -> None:
        self.not_shown.clear()
        self.not_shown.update(left["ids"] if left else ())

    def _planned_call(self, prompt: str, size: int) -> PlannedCall:
        return PlannedCall(self.role, prompt, self.model.name, size, max_reply_tokens(self.model) or REPLY_TOKENS)

    def _prompt_limit(self, prompt: str, extra_bytes: int) -> int | None:
        """The maximum bytes of a deciding call's prompt, less ``extra_bytes``; None if no ceiling limits the prompt."""
        ceilings = self.ceilings
        most = ceilings.prompt_bytes(self._planned_call(prompt, 0)) if ceilings.decides(self.role, prompt) else None
        return None if most is None else most - extra_bytes

    async def _call_within_ceilings(
        self, send: Sending, planned: PlannedCall, messages: Sequence[BaseMessage] = ()
    ) -> tuple[AIMessage, Call]:
        """Makes a call within the debate's ceilings.

        Reserves the maximum cost of the call first, and records the real cost at the end. Telemetry uses ``messages``.

        Raises:
            UserError, WorldError: the call failed for good.
            BudgetExhausted: a ceiling leaves too little for the call or for its repetition, or the time of
                `max_seconds` ends before its reply arrives.
        """
        ceilings = self.ceilings
        if not ceilings.bounded:
            return await self._call(send, messages)
        reservation, started = await ceilings.reserve(planned), time.perf_counter()
        requests = Requests(ceilings, planned, reservation, self._record_sent)
        spent: Spend | None = None
        try:
            await requests.record_sent()
            async with asyncio.timeout_at(reservation.until):
                message, call = await self._call(send, messages, requests)
            spent = ceilings.real_cost(call)
        except MootError as error:
            spent = ceilings.cost_of_failed(self.model.name, *requests.lost)
            if isinstance(error, BudgetExhausted):
                ceilings.count_skipped(self.role, awaited=False)
            raise
        except TimeoutError as error:
            cut = self._records_of_cut_call(requests, started)
            spent = spent_by(cut, ceilings.prices)
            for one in cut:
                self.ledger.add_call(one)
            ceilings.count_skipped(self.role, awaited=not cut)
            detail = cut[0]["detail"] if cut else TOO_LATE
            raise BudgetExhausted(f"{self.role} ({self.model.name}): {detail}") from error
        finally:
            held = requests.reservation
            # If the real cost is unknown, e.g. after a cancellation, the whole reservation counts as spent.
            rest = held.spend if spent is None else spent.minus(requests.counted)
            ceilings.release_reservation(held, rest, time.perf_counter() - started)
        return message, call

    def _records_of_cut_call(self, requests: Requests, started: float) -> list[Call]:
        """A list with the record of a call that `max_seconds` ended; an empty list if no request was sent."""
        if not requests.sent:
            return []
        awaited = not requests.count_unanswered()
        call = self._call_record(None, started, requests.sent, requests)
        detail = NOT_REPEATED if awaited else NOT_AWAITED.format(tokens=sum(requests.lost))
        return [{**call, "outcome": "failed", "detail": detail}]

    def _count_outcome(self, outcome: str) -> None:
        if seen := telemetry():
            seen.count_reply(outcome, self.model.name)

    def _call_watch(self, messages: Sequence[BaseMessage]) -> AbstractContextManager[CallWatch | None]:
        """A context manager that yields telemetry's recorder of the call, or None if telemetry is off."""
        if (seen := telemetry()) is None:
            return NO_CONTEXT
        kind: type[CallWatch] = imported("moot.nodes._telemetry.observed").CallWatch
        return kind(seen, self.role, self.model, self.ledger, self.session, messages)

    async def _call(
        self, send: Sending, messages: Sequence[BaseMessage] = (), requests: Requests | None = None
    ) -> tuple[AIMessage, Call]:
        """Makes a call, with retries and telemetry; ``requests`` counts the call's requests, if there is a ceiling."""
        with self._call_watch(messages) as watch:
            return await self._call_with_retries(send, watch, requests)

    async def _call_with_retries(
        self, send: Sending, watch: CallWatch | None, requests: Requests | None
    ) -> tuple[AIMessage, Call]:
        gate = limiter(self.model.endpoint.base_url)
        started = time.perf_counter()
        depth = chain.get() + 1
        chain.set(depth)
        self.ledger.depth = max(self.ledger.depth, depth)

        async def attempt() -> AIMessage:
            try:
                with named_runs(self.role, self.model.name, self.ledger):
                    async with asyncio.timeout(self.limits.timeout):
                        message = await send(self.model.chat)
            except MootError:
                raise
            except Exception as error:
                raise explain(error, self.model.endpoint, self.model.name) from error
            if is_broken_off(message):
                raise unreadable(self.model.endpoint, self.model.name, "it ended early")
            return without_invalid_metadata(without_environment_keys(message, self.session.keys))

        request = watch.watching(attempt) if watch else attempt
        counted = partial(requests.send, request) if requests else request
        repeat = requests.before_repeat if requests else None
        try:
            message, attempts = await with_retries(counted, self.limits, gate, self.model.name, repeat)
        except MootError as error:
            error.where = error.where or self.ledger.place()
            record = self._call_record(None, started, error.attempts, requests)
            self.ledger.add_call({**record, "outcome": "failed", "detail": error.detail})
            raise
        return message, self._call_record(message, started, attempts, requests)

    def _call_record(self, message: AIMessage | None, started: float, attempts: int, requests: Requests | None) -> Call:
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
        if requests and any(requests.lost):
            record["reserved"] = {"prompt_tokens": requests.lost[0], "completion_tokens": requests.lost[1]}
        return record


def run_metadata() -> Mapping[str, Any]:
    """LangGraph's metadata of the running step; empty outside of a graph."""
    return (var_child_runnable_config.get() or {}).get("metadata") or {}


async def all_at_once(calls: Iterable[Awaitable[T]]) -> list[T]:
    """Makes calls in parallel, and returns their results in order. Sets `chain` to the largest value among the calls.

    Raises:
        Exception: the error of the first call that fails; the other calls run on.
    """

    here = branch.get()

    async def run_branch(number: int, call: Awaitable[T]) -> tuple[T, int]:
        branch.set((*here, number, 0))
        return await call, chain.get()

    done = await asyncio.gather(*(run_branch(number, call) for number, call in enumerate(calls)))
    branch.set((*here[:-1], here[-1] + 1))
    chain.set(max((depth for _, depth in done), default=chain.get()))
    return [result for result, _ in done]


def start_chain() -> None:
    """Starts a new chain of dependent calls; every node does this when it starts."""
    chain.set(0)
    branch.set((0,))
