"""The instruments with which moot records telemetry: those of OpenTelemetry's GenAI conventions (1.41), and moot's own.

docs/howto/observability.md lists their names.
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
"""The address of the schema. 1.41 is the last version before the GenAI conventions moved to a separate repository."""
CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The environment variable that allows prompts and replies in spans."""
CAPTURED = {
    **dict.fromkeys(("", "false", "no_content"), False),
    **dict.fromkeys(("true", "span_only", "span_and_event"), True),
}
"""The values of the variable `CAPTURE` in lower case, each with whether spans then contain prompts and replies."""
OTHER = "_OTHER"
"""The name of an unknown provider. In metrics, also the name of every model or source after the first `MOST_NAMES`."""
MOST_NAMES = 100
"""Maximum number of different names of models and sources in metrics.

Callers may use any name, and each name makes a time series.
"""

PROVIDERS = {
    "azure_openai": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "bedrock_converse": "aws.bedrock",
    "google_genai": "gcp.gemini",
    "google_vertexai": "gcp.vertex_ai",
    "mistralai": "mistral_ai",
    "xai": "x_ai",
}
"""The conventions' names of providers, by the names in settings. Providers with the same name in both are left out."""

OPERATION_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""Bounds of the buckets for the time of an operation, from the conventions."""
TOKENS = tuple(4.0**power for power in range(14))
"""Bounds of the buckets for numbers of tokens, from the conventions."""
WAIT_SECONDS = (0.01, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
DEBATE_SECONDS = (1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600)

Attributes = Mapping[str, str | int | float | bool]
Readings = Callable[[], Iterable[tuple[float, Attributes]]]
"""Reads the current values of a gauge, each with its attributes."""


class Telemetry:
    """The instruments that record telemetry, by default with the process's providers of spans and of metrics."""

    def __init__(
        self, tracers: trace.TracerProvider | None = None, meters: metrics.MeterProvider | None = None
    ) -> None:
        self.content = captures_content()
        """Whether spans contain prompts and replies."""
        self.tracer = trace.get_tracer("moot", version("moot"), tracers, SCHEMA)
        meter = self._meter = metrics.get_meter("moot", version("moot"), meters, SCHEMA)
        self._names: set[str] = set()
        self.operation = meter.create_histogram(
            "gen_ai.client.operation.duration",
            "s",
            "Time of a search, or of a call to a model with its retries.",
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
        self.usd = meter.create_counter("moot.cost.usd", "{USD}", "Cost of calls, by list prices.")
        self.unpriced = meter.create_counter(
            "moot.calls.unpriced", "{call}", "Calls whose tokens or price are unknown: moot.cost.usd leaves them out."
        )
        self.replies = meter.create_counter("moot.replies", "{reply}", "Replies of models, by outcome.")
        self.refusals = meter.create_counter(
            "moot.endpoint.refusals",
            "{request}",
            "Requests that an endpoint refused because of too many requests (HTTP 429).",
        )
        self.debates = meter.create_histogram(
            "moot.debate.duration",
            "s",
            "Time of a debate's run, by status.",
            explicit_bucket_boundaries_advisory=DEBATE_SECONDS,
        )
        self.running = meter.create_up_down_counter("moot.debates.running", "{debate}", "Running debates.")

    def add_gauge(self, name: str, unit: str, description: str, read: Readings) -> None:
        """Adds a gauge, whose values are read whenever metrics are exported, in the thread that exports them."""

        def observe(_: CallbackOptions) -> list[Observation]:
            return [Observation(value, attributes) for value, attributes in read()]

        self._meter.create_observable_gauge(name, [observe], unit, description)

    def add_queue_gauge(self, read: Readings) -> None:
        """Adds a gauge of the length of a queue; see `add_gauge`."""
        self.add_gauge(
            "moot.queue.length", "{row}", "Rows of batches (claims, parts of a corpus) that wait or run.", read
        )

    def count_refusal(self, address: str, name: str) -> None:
        """Counts a request that an endpoint refused because of too many requests."""
        self.refusals.add(1, {**server_of(address), "moot.asked": self.bounded_name(name)})

    def count_reply(self, outcome: str, model: str) -> None:
        self.replies.add(1, {"moot.outcome": outcome, **self.model_attributes(model)})

    def model_attributes(self, model: str) -> dict[str, str]:
        """The provider and the `bounded_name` of a model, from its name in settings, as attributes of a metric."""
        attributes = provider_and_model(model)
        return attributes | {"gen_ai.request.model": self.bounded_name(attributes["gen_ai.request.model"])}

    def bounded_name(self, name: str) -> str:
        """The name itself if it is one of the first `MOST_NAMES`, else `OTHER`, so that metrics have few series."""
        if name not in self._names:
            if len(self._names) >= MOST_NAMES:
                return OTHER
            self._names.add(name)
        return name


def captures_content() -> bool:
    """Whether the environment allows prompts and replies in spans."""
    value = os.environ.get(CAPTURE, "").strip()
    if value.lower() not in CAPTURED:
        raise UserError(
            f"{CAPTURE} is {value!r}; it must be true, false, span_only, span_and_event or no_content. "
            "There is no value for events alone, because moot writes no events.",
            kind="invalid_environment",
        )
    return CAPTURED[value.lower()]


def provider_and_model(name: str) -> dict[str, str]:
    """A model's provider (or `OTHER`) and name as attributes, from its name in settings."""
    provider, _, model = name.partition(":")
    if not model:
        provider, model = OTHER, name
    return {"gen_ai.provider.name": PROVIDERS.get(provider, provider), "gen_ai.request.model": model}


@lru_cache(maxsize=256)
def server_of(address: str) -> dict[str, str | int]:
    """The attributes of an endpoint: its host and its port, or the whole address if it names no host."""
    parts = urlsplit(address)
    if not parts.hostname:
        return {"server.address": address}
    return {"server.address": parts.hostname} | ({"server.port": parts.port} if parts.port else {})
