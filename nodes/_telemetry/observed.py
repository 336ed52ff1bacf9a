"""Metrics and spans of a run of a debate, of its nodes, and of their calls and searches.

This module is imported only if telemetry is on. It uses the names of OpenTelemetry's GenAI
conventions, and moot's own names.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import lru_cache
from types import TracebackType
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.errors import GraphBubbleUp
from moot.core.errors import MootError
from moot.core.limiter import limiters
from moot.core.redaction import hide_secrets
from moot.core.telemetry.instruments import Telemetry, provider_and_model, server_of
from moot.core.telemetry.switch import telemetry
from moot.nodes._models.call.request import Asker, Attempt, Request, Way
from moot.nodes._models.chat_models import ChatModel
from moot.nodes._models.ledger import Ledger
from moot.nodes._models.prices import Price, costs_of, price_of, read_prices
from moot.nodes._models.session import Session
from moot.retrievers import Evidence, Retriever
from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

ROLES = {"human": "user", "ai": "assistant"}
"""The roles of OpenTelemetry's conventions, by LangChain's message type, if the two names differ."""

_inside: ContextVar[DebateWatch | None] = ContextVar("inside", default=None)
"""The watch of the running node's debate. The debate's span is the current span, or encloses it."""


@lru_cache(maxsize=1)
def prices() -> dict[str, Price]:
    """The prices of models, for the cost of calls; they are read only once; blocking."""
    return read_prices()


def show_endpoints(instruments: Telemetry) -> None:
    """Adds a gauge of the calls that run and the calls that wait, for each endpoint."""

    def calls() -> Iterator[tuple[float, Mapping[str, Any]]]:
        counts = Counter[tuple[str, str]]()
        for gate in limiters():
            for state, count in (("running", gate.running), ("waiting", gate.waiting)):
                counts[gate.address, state] += count
        for (address, state), count in counts.items():
            yield count, {**server_of(address), "moot.state": state}

    instruments.add_gauge("moot.endpoint.calls", "{call}", "Running and waiting calls to an endpoint.", calls)


# --- debates ----------------------------------------------------------------------------------------------------------


class DebateWatch:
    """Records the metrics and the span of a run of a debate."""

    def __init__(self, instruments: Telemetry, graph: str) -> None:
        self._instruments = instruments
        self._started = time.perf_counter()
        self._metric_attributes = {"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": graph}
        self.span = instruments.tracer.start_span(f"invoke_workflow {graph}", attributes=self._metric_attributes)
        instruments.running.add(1, self._metric_attributes)

    def begun(self, id: str) -> None:
        """Records the debate's id."""
        self.span.set_attribute("gen_ai.conversation.id", id)

    def ended(self, status: str, document: Mapping[str, Any] | None, error: BaseException | None) -> None:
        """Records the end of the run; ``error`` is the error or cancellation that ended it early."""
        facts: dict[str, Any] = {"moot.status": status}
        if document and document["stop_reason"]:
            facts["moot.stop_reason"] = document["stop_reason"]
        if status == "failed":
            facts["error.type"] = document["error"]["kind"] if document else kind_of(error)
            self.span.set_status(Status(StatusCode.ERROR))
        self._instruments.running.add(-1, self._metric_attributes)
        self._instruments.debates.record(time.perf_counter() - self._started, self._metric_attributes | facts)
        if document and self.span.is_recording():
            used = document["usage"]
            facts |= {"moot.rounds": document["rounds"], "moot.calls": used["calls"]}
            facts["gen_ai.usage.input_tokens"] = used["prompt_tokens"]
            facts["gen_ai.usage.output_tokens"] = used["completion_tokens"]
        self.span.set_attributes(facts)
        self.span.end()

    @contextmanager
    def node(self, place: Ledger) -> Iterator[None]:
        """A context that records the span of a node of the debate, which encloses the spans of the node's calls."""
        around = None if _inside.get() is self else trace.set_span_in_context(self.span)
        entered = _inside.set(self)
        try:
            with self._instruments.tracer.start_as_current_span(
                place.node or "node",
                around,
                attributes=place_attributes(place),
                record_exception=False,
                set_status_on_exception=False,
            ) as span:
                try:
                    yield
                # An interrupt of LangGraph, or a cancellation, is no failure.
                except GraphBubbleUp:
                    raise
                except Exception as error:
                    mark_failed(span, kind_of(error))
                    raise
        finally:
            _inside.reset(entered)


def kind_of(error: BaseException | None) -> str:
    """The kind of a `MootError`; for another error, the name of its class; for None, ``NoneType``."""
    return error.kind if isinstance(error, MootError) else type(error).__name__


def mark_failed(span: Span, kind: str) -> None:
    """Marks a span as failed with the error's kind; the error's text is left out, because it may quote a model."""
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR))


def place_attributes(place: Ledger) -> dict[str, Any]:
    """The position of a node in a debate, as attributes of a span; unknown values are left out."""
    facts = {"gen_ai.agent.name": place.agent, "moot.node": place.node, "moot.round": place.round}
    facts |= {"moot.phase": place.phase}
    return {name: value for name, value in facts.items() if value is not None}


# --- calls ------------------------------------------------------------------------------------------------------------


def observing(below: Way, speaker: Asker) -> Way:
    """A layer: records the metrics and the span of each call, while telemetry is on."""

    async def observe(request: Request) -> AIMessage:
        seen = telemetry()
        assert seen is not None
        args = (speaker.role, speaker.model, speaker.ledger, speaker.session, request.messages)
        with CallWatch(seen, *args) as watch:
            return await below(replace(request, watches=(watch.watching, *request.watches)))

    return observe


class CallWatch:
    """Context manager that records the metrics and the span of a call to a model, with all requests of the call."""

    def __init__(
        self,
        instruments: Telemetry,
        role: str,
        model: ChatModel,
        place: Ledger,
        session: Session,
        messages: Sequence[BaseMessage],
    ) -> None:
        self._instruments = instruments
        self._model = model
        self._session = session
        labels: dict[str, Any] = {"gen_ai.operation.name": "chat", **server_of(model.endpoint.base_url)}
        self._attributes = labels | provider_and_model(model.name) | place_attributes(place) | {"moot.role": role}
        if session.id:
            self._attributes["gen_ai.conversation.id"] = session.id
        self._metric_attributes = labels | instruments.model_attributes(model.name)
        self._messages = messages
        self._requests = 0
        self._first = 0.0

    def __enter__(self) -> CallWatch:
        self._entered = time.perf_counter()
        name = f"chat {self._attributes['gen_ai.request.model']}"
        self._around = self._instruments.tracer.start_as_current_span(
            name,
            kind=SpanKind.CLIENT,
            attributes=self._attributes,
            record_exception=False,
            set_status_on_exception=False,
        )
        self._span = self._around.__enter__()
        return self

    def watching(self, attempt: Attempt) -> Attempt:
        """Wraps a function that makes a request of this call, so that the request is recorded."""

        async def watched() -> AIMessage:
            if not self._requests:
                self._first = time.perf_counter()
                self._instruments.wait.record(self._first - self._entered, self._metric_attributes)
            self._requests += 1
            try:
                message = await attempt()
            except MootError as error:
                self._span.add_event("moot.request.failed", {"error.type": error.kind, "moot.request": self._requests})
                raise
            self._record_reply(message)
            return message

        return watched

    def _record_reply(self, message: AIMessage) -> None:
        usage, instruments = message.usage_metadata, self._instruments
        if usage:
            for kind, count in (("input", usage["input_tokens"]), ("output", usage["output_tokens"])):
                instruments.tokens.record(count, self._metric_attributes | {"gen_ai.token.type": kind})
        price = price_of(self._model.name, prices())
        usd = sum(costs_of(usage["input_tokens"], usage["output_tokens"], price)) if usage and price else None
        if usd is None:
            instruments.unpriced.add(1, self._metric_attributes)
        else:
            instruments.usd.add(usd, self._metric_attributes)
        if self._span.is_recording():
            self._describe(message, usd)

    def _describe(self, message: AIMessage, usd: float | None) -> None:
        usage, ended = message.usage_metadata, message.response_metadata
        finish = ended.get("finish_reason") or ended.get("stop_reason")
        attributes = {
            "gen_ai.response.model": short_text(ended.get("model_name")),
            "gen_ai.response.id": short_text(ended.get("id")),
            "gen_ai.response.finish_reasons": [short_text(finish)] if finish else None,
            "gen_ai.usage.input_tokens": usage["input_tokens"] if usage else None,
            "gen_ai.usage.output_tokens": usage["output_tokens"] if usage else None,
            "gen_ai.request.temperature": getattr(self._model.chat, "temperature", None),
            "gen_ai.request.max_tokens": getattr(self._model.chat, "max_tokens", None),
            "moot.cost.usd": usd,
        }
        if self._instruments.content:
            attributes["gen_ai.output.messages"] = self._messages_json(
                [{**message_record(message), "finish_reason": str(finish or "")}]
            )
        self._span.set_attributes({name: value for name, value in attributes.items() if value is not None})

    def _messages_json(self, messages: list[dict[str, Any]]) -> str:
        return json.dumps(hide_secrets(messages, self._session.keys))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        now = time.perf_counter()
        if self._span.is_recording():
            self._span.set_attribute("moot.requests", self._requests)
            if self._instruments.content and self._messages:
                self._span.set_attribute(
                    "gen_ai.input.messages", self._messages_json([*map(message_record, self._messages)])
                )
        named: dict[str, Any] = {}
        if error is not None:
            named = {"error.type": kind_of(error)}
            mark_failed(self._span, named["error.type"])
        if self._requests:
            self._instruments.operation.record(now - self._first, self._metric_attributes | named)
        self._around.__exit__(None, None, None)


def short_text(text: Any) -> str | None:
    """The first 200 characters of a text from an endpoint, with "?" for lone surrogates, which cannot be exported."""
    return str(text)[:200].encode(errors="replace").decode() if text else None


def message_record(message: BaseMessage) -> dict[str, Any]:
    """A message in the form of OpenTelemetry's GenAI conventions."""
    if isinstance(message, ToolMessage):
        part = {"type": "tool_call_response", "id": message.tool_call_id, "response": message.text}
        return {"role": "tool", "parts": [part]}
    parts: list[dict[str, Any]] = [{"type": "text", "content": str(message.text)}] if message.text else []
    if isinstance(message, AIMessage):
        calls = message.tool_calls
        parts += [{"type": "tool_call", "id": c["id"], "name": c["name"], "arguments": c["args"]} for c in calls]
    return {"role": ROLES.get(message.type, message.type), "parts": parts}


# --- searches ---------------------------------------------------------------------------------------------------------


class WatchedRetriever:
    """A source of evidence whose searches are recorded in metrics and spans."""

    def __init__(self, instruments: Telemetry, source: Retriever) -> None:
        self.name = source.name
        self._instruments = instruments
        self._source = source

    async def search(self, query: str, k: int) -> list[Evidence]:
        """Calls the source's `search`, and records the search."""
        labels = {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.data_source.id": self._instruments.bounded_name(self.name),
        }
        started, named = time.perf_counter(), {}
        with self._instruments.tracer.start_as_current_span(
            f"retrieval {self.name}",
            kind=SpanKind.CLIENT,
            attributes=labels,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                found = await self._source.search(query, k)
            except BaseException as error:
                named = {"error.type": kind_of(error)}
                mark_failed(span, kind_of(error))
                raise
            finally:
                self._instruments.operation.record(time.perf_counter() - started, labels | named)
            span.set_attribute("moot.found", len(found))
            if self._instruments.content:
                span.set_attribute("gen_ai.retrieval.query.text", hide_secrets(query))
            return found
