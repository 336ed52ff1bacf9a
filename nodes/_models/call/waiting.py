"""Waits for the endpoint, repeats requests that failed, and records the call."""

from __future__ import annotations

import asyncio
import time
from functools import partial

from langchain_core.messages import AIMessage
from moot.core.errors import MootError
from moot.core.limiter import limiter, with_retries
from moot.core.telemetry import count_call, is_on
from moot.nodes._models.call.request import Asker, Attempt, Request, Way
from moot.nodes._models.prices import cost_of, read_prices
from moot.nodes._records.entries import Call


def waiting(below: Way, speaker: Asker) -> Way:
    """A layer: each attempt waits for the endpoint's limiter; the call's record says how it went."""

    async def wait(request: Request) -> AIMessage:
        attempt: Attempt = partial(below, request)
        for watch in request.watches:
            attempt = watch(attempt)
        gate, started = limiter(speaker.model.endpoint.base_url), time.perf_counter()
        try:
            message, attempts = await with_retries(
                attempt, speaker.limits, gate, speaker.model.name, request.before_repeat
            )
        except MootError as error:
            error.where = error.where or speaker.record.place()
            call = call_record(speaker, None, started, error.attempts)
            outcome = "refused" if error.kind == "refused" else "failed"
            request.add_call({**call, "outcome": outcome, "detail": error.detail})
            raise
        call = call_record(speaker, message, started, attempts)
        request.add_call(call)
        if is_on():
            usd = cost_of([call], await asyncio.to_thread(read_prices))
            count_call(call["model"], call["prompt_tokens"], call["completion_tokens"], usd)
        return message

    return wait


def call_record(speaker: Asker, message: AIMessage | None, started: float, attempts: int) -> Call:
    """The record of a call; ``started`` is the begin of its first attempt (`time.perf_counter`)."""
    usage = message.usage_metadata if message else None
    record: Call = {
        "node": speaker.record.node,
        "role": speaker.role,
        "agent": speaker.record.agent,
        "phase": speaker.record.phase,
        "round": speaker.record.round,
        "model": speaker.model.name,
        "reported_model": message.response_metadata.get("model_name") if message else None,
        "prompt_tokens": usage["input_tokens"] if usage else None,
        "completion_tokens": usage["output_tokens"] if usage else None,
        "seconds": round(time.perf_counter() - started, 4),
        "attempts": attempts,
        "outcome": "ok",
    }
    if message and (cached := cached_tokens(message)):
        record["cached_tokens"] = cached
    if speaker.record.number:
        record["number"] = speaker.record.number
    return record


def cached_tokens(message: AIMessage) -> int:
    """The tokens of a prompt that the endpoint had in its cache; 0 if it does not say so."""
    usage = message.usage_metadata
    known = usage.get("input_token_details", {}).get("cache_read") if usage else None
    # DeepSeek, and Moonshot, have fields of their own, which LangChain does not read.
    own = message.response_metadata.get("token_usage")
    others = [own.get(name) for name in ("prompt_cache_hit_tokens", "cached_tokens")] if isinstance(own, dict) else []
    return next((count for count in (known, *others) if type(count) is int and count > 0), 0)
