"""What telemetry is recorded with: the instruments of OpenTelemetry's GenAI conventions (1.41), and moot's own.

docs/howto/observability.md lists the names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from importlib.metadata import version
from urllib.parse import urlsplit

from moot.core.errors import UserError
from opentelemetry import metrics, trace
from opentelemetry.metrics import CallbackOptions, Observation

SCHEMA = "https://opentelemetry.io/schemas/1.41.0"
"""The last conventions before GenAI's moved into a repository of their own, which most backends know."""
CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
CAPTURED = {
    **dict.fromkeys(("", "false", "no_content"), False),
    **dict.fromkeys(("true", "span_only", "span_and_event"), True),
}
"""What the variable may say: whether spans hold what models are sent and what they reply."""
OTHER = "_OTHER"
"""What stands for names beyond `MOST_NAMES`."""
MOST_NAMES = 100
"""Names of models that metrics tell apart: callers may name any, and each is a time series."""

PROVIDERS = {
    "azure_openai": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "bedrock_converse": "aws.bedrock",
    "google_genai": "gcp.gemini",
    "google_vertexai": "gcp.vertex_ai",
    "mistralai": "mistral_ai",
    "xai": "x_ai",
}
"""Providers that the conventions call otherwise than settings do."""

OPERATION_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""Bounds of the buckets, as the conventions have them."""
TOKENS = tuple(4.0**power for power in range(14))
"""As `OPERATION_SECONDS`."""
WAIT_SECONDS = (0.01, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
DEBATE_SECONDS = (1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600)

Attributes = Mapping[str, str | int | float | bool]
Seen = Callable[[], Iterable[tuple[float, Attributes]]]
"""What a gauge shows now: values, each with its attributes."""


class Telemetry:
    """What telemetry is recorded with.

    Args:
        tracers: makes spans; by default the process's provider.
        meters: makes instruments; by default the process's provider.

    Raises:
        UserError: `CAPTURE` says something that it may not.
    """

    def __init__(
        self, tracers: trace.TracerProvider | None = None, meters: metrics.MeterProvider | None = None
    ) -> None:
        self.content = captures_content()
        """Whether spans hold what models are sent and what they reply."""
        self.tracer = trace.get_tracer("moot", version("moot"), tracers, SCHEMA)
        meter = self._meter = metrics.get_meter("moot", version("moot"), meters, SCHEMA)
        self._names: set[str] = set()
        self.operation = meter.create_histogram(
            "gen_ai.client.operation.duration",
            "s",
            "Time of a call to a model or a search, from its first request on, with further requests.",
            explicit_bucket_boundaries_advisory=OPERATION_SECONDS,
        )
        self.tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Tokens of a prompt (input) or of a reply (output), as the endpoint counts them.",
            explicit_bucket_boundaries_advisory=TOKENS,
        )
        self.wait = meter.create_histogram(
            "moot.call.wait",
            "s",
            "Time that a call waits for its turn before its first request.",
            explicit_bucket_boundaries_advisory=WAIT_SECONDS,
        )
        self.usd = meter.create_counter("moot.cost.usd", "{USD}", "What calls cost, by list prices.")
        self.unpriced = meter.create_counter(
            "moot.calls.unpriced", "{call}", "Calls whose tokens or price are not known: moot.cost.usd lacks them."
        )
        self.replies = meter.create_counter("moot.replies", "{reply}", "Replies of models, by what came of them.")
        self.refusals = meter.create_counter(
            "moot.endpoint.refusals", "{request}", "Requests that an endpoint refused as one too many (HTTP 429)."
        )
        self.debates = meter.create_histogram(
            "moot.debate.duration",
            "s",
            "Time of a run of a debate, by how it ended.",
            explicit_bucket_boundaries_advisory=DEBATE_SECONDS,
        )
        self.running = meter.create_up_down_counter("moot.debates.running", "{debate}", "Debates under way.")

    def gauge(self, name: str, unit: str, description: str, seen: Seen) -> None:
        """Shows what is so whenever metrics are read, in the thread that reads them.

        Args:
            name: the metric's.
            unit: its unit.
            description: what it counts.
            seen: gives what is so now.
        """

        def observe(_: CallbackOptions) -> list[Observation]:
            return [Observation(value, attributes) for value, attributes in seen()]

        self._meter.create_observable_gauge(name, [observe], unit, description)

    def show_queue(self, seen: Seen) -> None:
        """Shows how long a queue is; as `gauge`."""
        self.gauge("moot.queue.length", "{row}", "Rows of batches (claims, parts of a corpus) that wait and run.", seen)

    def refused(self, address: str, asked: str) -> None:
        """An endpoint refused a request as one too many.

        Args:
            address: the endpoint's.
            asked: the model or source that was asked.
        """
        self.refusals.add(1, {**server_of(address), "moot.asked": self.bounded(asked)})

    def replied(self, outcome: str, model: str) -> None:
        """A model has replied.

        Args:
            outcome: what came of the reply, as calls record it.
            model: as settings name it.
        """
        self.replies.add(1, {"moot.outcome": outcome, **self.named(model)})

    def named(self, model: str) -> dict[str, str]:
        """A model's provider and name, from what settings call it, as attributes of a metric."""
        of = provider_and_model(model)
        return of | {"gen_ai.request.model": self.bounded(of["gen_ai.request.model"])}

    def bounded(self, name: str) -> str:
        """A name for a metric, which tells only so many apart."""
        if name not in self._names:
            if len(self._names) >= MOST_NAMES:
                return OTHER
            self._names.add(name)
        return name


def captures_content() -> bool:
    """Whether the environment wants spans to hold what models are sent and what they reply.

    Raises:
        UserError: it says something else.
    """
    said = os.environ.get(CAPTURE, "").strip()
    if said.lower() not in CAPTURED:
        raise UserError(
            f"{CAPTURE} is {said!r}; it may be true, span_only or false. moot writes no events.",
            kind="invalid_environment",
        )
    return CAPTURED[said.lower()]


def provider_and_model(name: str) -> dict[str, str]:
    """A model's provider and name as attributes, from what settings call it."""
    provider, _, model = name.partition(":")
    if not model:
        provider, model = OTHER, name
    return {"gen_ai.provider.name": PROVIDERS.get(provider, provider), "gen_ai.request.model": model}


@lru_cache(maxsize=256)
def server_of(address: str) -> dict[str, str | int]:
    """An endpoint's host and port, as attributes; without a user's name and password."""
    parts = urlsplit(address)
    if not parts.hostname:
        return {"server.address": address}
    return {"server.address": parts.hostname} | ({"server.port": parts.port} if parts.port else {})
