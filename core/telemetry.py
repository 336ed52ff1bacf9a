"""What a process tells about its debates: counts for OpenTelemetry, and lines of the log.

OpenTelemetry's own environment variables turn the counts on. While no provider of metrics is set, they do nothing. The
traces of debates are LangSmith's, which can also send them to OpenTelemetry: see docs/howto/tracing.md.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.metadata import entry_points, version
from typing import Any
from urllib.parse import urlsplit

from moot.core.errors import MootError, UserError
from moot.core.lazy import imported, missing_package
from moot.core.redaction import redact
from opentelemetry import metrics, trace

log = logging.getLogger("moot.debates")

_meter = metrics.get_meter("moot", version("moot"))
_debates = _meter.create_counter("moot.debates", "{debate}", "Runs of debates that ended, by system and status.")
_tokens = _meter.create_counter("moot.tokens", "{token}", "Tokens of prompts (input) and of replies (output).")
_usd = _meter.create_counter("moot.cost.usd", "{USD}", "Cost of calls to models, by list prices.")
_unpriced = _meter.create_counter("moot.calls.unpriced", "{call}", "Calls that moot.cost.usd leaves out.")
_refusals = _meter.create_counter("moot.refusals", "{request}", "Requests that failed, by endpoint and kind of error.")

OTLP_SECONDS = "3"
"""The time limit for an upload, unless ``OTEL_EXPORTER_OTLP_TIMEOUT`` is set: a process waits for its last upload."""
PROTOCOLS = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}
"""OTLP's protocols, each with the name of its exporter."""

# --- counts -----------------------------------------------------------------------------------------------------------


def is_on() -> bool:
    """Whether this process has a provider of metrics: moot's, or one that the user's program has set."""
    return hasattr(metrics.get_meter_provider(), "force_flush")  # OpenTelemetry's placeholders have no such method


def count_call(model: str, prompt_tokens: int | None, completion_tokens: int | None, usd: float | None) -> None:
    """Counts the tokens and the cost of a call; None: unknown."""
    for kind, tokens in (("input", prompt_tokens), ("output", completion_tokens)):
        _tokens.add(tokens or 0, {"gen_ai.request.model": model, "gen_ai.token.type": kind})
    counter = _unpriced if usd is None else _usd
    counter.add(1 if usd is None else usd, {"gen_ai.request.model": model})


def count_refusal(address: str, kind: str) -> None:
    """Counts a request that failed at the endpoint with this address; ``kind`` is that of the `MootError`."""
    server = urlsplit(address).netloc.rpartition("@")[2] or address
    _refusals.add(1, {"server.address": server, "error.type": kind})


def show_queue(queue: str, lengths: Callable[[], Mapping[str, int]]) -> None:
    """Adds a gauge of the rows of a queue by state; ``lengths`` is called in the thread that exports metrics."""

    def read(_: metrics.CallbackOptions) -> list[metrics.Observation]:
        return [
            metrics.Observation(count, {"moot.queue": queue, "moot.state": state}) for state, count in lengths().items()
        ]

    _meter.create_observable_gauge("moot.queue.length", [read], "{row}", "Rows of batches that wait or run.")


# --- debates ----------------------------------------------------------------------------------------------------------


def log_begin(id: str, graph: str, *, resumed: bool) -> None:
    """Logs that a run of a debate begins."""
    log.info("debate goes on" if resumed else "debate begun", extra={"debate": id, "graph": graph})


def log_end(
    id: str, graph: str, status: str, seconds: float, document: Mapping[str, Any] | None, error: BaseException | None
) -> None:
    """Counts a run of a debate that ended, and logs it, without text of the debate: at WARNING if it failed."""
    _debates.add(1, {"moot.system": graph, "moot.status": status})
    level = logging.WARNING if status == "failed" else logging.INFO
    # Without handlers, as in a command, Python would print the message without its fields.
    if not (log.isEnabledFor(level) and log.hasHandlers()):
        return
    fields: dict[str, Any] = {"debate": id, "graph": graph, "status": status, "seconds": round(seconds, 3)}
    if document:
        used, fault = document["usage"], document["error"]
        fields |= {"stop_reason": document["stop_reason"], "rounds": document["rounds"], "calls": used["calls"]}
        fields |= {"input_tokens": used["prompt_tokens"], "output_tokens": used["completion_tokens"]}
        fields |= {"error": fault["kind"]} if fault else {}
    elif error is not None:
        fields["error"] = error.kind if isinstance(error, MootError) else type(error).__name__
    log.log(level, "debate ended", extra=fields)


# --- the environment --------------------------------------------------------------------------------------------------


def begin_telemetry(
    *,
    page: bool = False,  # whether this process is a server, which has its own log, and serves metrics at ``/metrics``
    port: bool = True,  # whether this process may open the port of the exporter ``prometheus``
) -> None:
    """Sets the provider of metrics and the log that the environment requests for one of moot's programs; blocking."""
    for name in ("httpx", "httpx2"):  # openai may use either; both would log the address of each request
        logging.getLogger(name).setLevel(logging.WARNING)
    if not page:
        _log_json()
    variable = os.environ.get("OTEL_METRICS_EXPORTER", "").strip()
    addresses = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
    if not variable and any(os.environ.get(name, "").strip() for name in addresses):
        variable = "otlp"
    names = [name for part in variable.split(",") if (name := part.strip())]
    off = names == ["none"] or os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    names = [name for name in names if port or name != "prometheus"]
    if off or is_on() or not (names or page):
        return
    os.environ.setdefault("OTEL_EXPORTER_OTLP_TIMEOUT", OTLP_SECONDS)
    if "service.name=" not in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        os.environ.setdefault("OTEL_SERVICE_NAME", "moot")
    try:
        sdk, export = imported("opentelemetry.sdk.metrics"), imported("opentelemetry.sdk.metrics.export")
        resources = imported("opentelemetry.sdk.resources")
        readers = [_exporter(name) for name in names]
        if page and "prometheus" not in names:
            # No target info, because the reader of LangGraph's server already exports it in the same registry.
            prometheus = imported("opentelemetry.exporter.prometheus").PrometheusMetricReader
            readers.append(prometheus(disable_target_info=True, scope_info_enabled=False))
    except ModuleNotFoundError as error:
        raise missing_package(error, "telemetry", "Telemetry", "Or unset the OTEL_ variables.") from error
    readers = [
        one if isinstance(one, export.MetricReader) else export.PeriodicExportingMetricReader(one) for one in readers
    ]
    metrics.set_meter_provider(sdk.MeterProvider(readers, resources.Resource.create()))


def finish_telemetry() -> None:
    """Sends the remaining metrics and spans, which ``os._exit`` would not do; blocking."""
    for provider in (metrics.get_meter_provider(), trace.get_tracer_provider()):
        if hasattr(provider, "shutdown"):
            provider.shutdown()


def _exporter(name: str) -> Any:
    """Creates an exporter of metrics that is named in the environment."""
    if name == "otlp":
        variables = ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
        protocol = next((found for one in variables if (found := os.environ.get(one, "").strip())), "http/protobuf")
        name = PROTOCOLS.get(protocol, protocol)
    point = next(iter(entry_points(group="opentelemetry_metrics_exporter", name=name)), None)
    if point is None:
        known = sorted({"otlp", "none", *entry_points(group="opentelemetry_metrics_exporter").names})
        raise UserError(
            f"OpenTelemetry's variables name the exporter {name!r}, which is not installed. OTEL_METRICS_EXPORTER may "
            f"be {', '.join(known)}; OTEL_EXPORTER_OTLP_PROTOCOL may be {' or '.join(PROTOCOLS)}.",
            kind="invalid_environment",
        )
    try:
        return point.load()()
    except (OSError, ValueError) as error:
        raise UserError(
            f"The exporter {name!r} of metrics cannot start ({error}). Check OpenTelemetry's variables.",
            kind="invalid_environment",
        ) from error


# --- the log ----------------------------------------------------------------------------------------------------------


def _log_json() -> None:
    """Makes this process log lines of JSON to standard error, if the variable ``LOG_JSON`` is on."""
    if os.environ.get("LOG_JSON", "").strip().lower() not in ("1", "true", "yes", "on"):
        return
    level = os.environ.get("LOG_LEVEL", "").strip().upper() or "INFO"
    if level not in logging.getLevelNamesMapping():
        raise UserError(f"LOG_LEVEL is {level!r}; use DEBUG, INFO, WARNING or ERROR.", kind="invalid_environment")
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level, handlers=[handler], force=True)


USUAL_FIELDS = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
"""The fields that each log record has."""


class JsonLines(logging.Formatter):
    """Formats a log record as a line of JSON with its extra fields; values of the environment's API keys are hidden."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line = {"event": record.getMessage(), "logger": record.name, "level": record.levelname.lower()}
        line |= {"timestamp": datetime.fromtimestamp(record.created, UTC).isoformat()}
        line |= {name: value for name, value in vars(record).items() if name not in USUAL_FIELDS}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(
            {name: redact(one) if isinstance(one, str) else one for name, one in line.items()}, default=str
        )
