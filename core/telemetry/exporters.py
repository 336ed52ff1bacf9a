"""Creates OpenTelemetry's providers and exporters, as OpenTelemetry's environment variables configure them.

OpenTelemetry's SDK itself reads the variables for the sampler, the resource, batches, intervals, addresses and headers.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Iterable
from importlib.metadata import entry_points, version
from typing import Any

from moot.core.errors import UserError
from moot.core.telemetry.switch import is_set
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

log = logging.getLogger(__name__)

SHUTDOWN_WAIT = 3.0
"""Maximum wait for unsent data at the end of the process, in seconds; `finish` names a case without this maximum."""
PROTOCOLS = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}
"""OTLP's protocols, each with the name of its exporter."""


def install(traces: Iterable[str], metric_exporters: Iterable[str], *, page: bool) -> None:
    """Creates the process's providers that are not set yet; ``page``: this process serves metrics at ``/metrics``."""
    resource = _resource()
    if is_set(trace.get_tracer_provider()):
        traces = ()
    if is_set(metrics.get_meter_provider()):
        metric_exporters, page = (), False
    if processors := [BatchSpanProcessor(_create_exporter("traces", name)) for name in traces]:
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        for processor in processors:
            provider.add_span_processor(processor)
        trace.set_tracer_provider(provider)
        _providers.append(provider)
    readers = [_metric_reader(_create_exporter("metrics", name)) for name in metric_exporters]
    if page and not any(_is_prometheus(reader) for reader in readers):
        readers.append(_page_reader())
    if readers:
        meters = MeterProvider(readers, resource=resource, shutdown_on_exit=False)
        metrics.set_meter_provider(meters)
        _providers.append(meters)
    atexit.register(finish)


_providers: list[TracerProvider | MeterProvider] = []


def finish() -> None:
    """Sends all remaining data and shuts the providers down, in at most `SHUTDOWN_WAIT` seconds; blocking."""
    ending = []
    while _providers:
        provider = _providers.pop(0)
        thread = threading.Thread(target=provider.shutdown, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # Python 3.12 starts no thread while it shuts down
            # Only the provider's own time limits apply here.
            provider.shutdown()
        else:
            ending.append(thread)
    until = time.monotonic() + SHUTDOWN_WAIT
    for thread in ending:
        thread.join(max(0, until - time.monotonic()))
    if any(thread.is_alive() for thread in ending):
        log.error("moot: some telemetry could not be sent before the process ended.")


def _resource() -> Resource:
    """The resource: the attributes of this process, over which attributes in the environment take precedence."""
    variable = os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    named = {part.partition("=")[0].strip() for part in variable.split(",")}
    own = {SERVICE_NAME: "moot", SERVICE_VERSION: version("moot")}
    if os.environ.get("OTEL_SERVICE_NAME"):
        del own[SERVICE_NAME]
    return Resource.create({name: value for name, value in own.items() if name not in named})


def _create_exporter(signal: str, name: str) -> Any:
    """Creates an exporter of ``traces`` or ``metrics`` (the signal)."""
    variable = f"OTEL_{signal.upper()}_EXPORTER"
    if name == "otlp":
        name = _otlp_exporter_name(signal)
    group = f"opentelemetry_{signal}_exporter"
    found = [*entry_points(group=group, name=name)]
    if not found:
        known = sorted({"otlp", "none", *(point.name for point in entry_points(group=group))})
        raise UserError(
            f"{variable} needs the exporter {name!r}, which is not installed. Known values: {', '.join(known)}.",
            kind="invalid_environment",
        )
    try:
        return found[0].load()()
    except (OSError, ValueError) as error:
        raise UserError(
            f"The exporter {name!r} of {variable} cannot start ({error}). Check OpenTelemetry's variables.",
            kind="invalid_environment",
        ) from error


def _otlp_exporter_name(signal: str) -> str:
    """The name of the OTLP exporter for the protocol in the environment (by default, ``http/protobuf``)."""
    variables = (f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    named = ((name, os.environ.get(name, "").strip()) for name in variables)
    variable, protocol = next((pair for pair in named if pair[1]), ("", "http/protobuf"))
    if protocol not in PROTOCOLS:
        raise UserError(
            f"{variable} is {protocol!r}; it may be {' or '.join(PROTOCOLS)}.",
            kind="invalid_environment",
        )
    return PROTOCOLS[protocol]


def _metric_reader(exporter: Any) -> MetricReader:
    return exporter if isinstance(exporter, MetricReader) else PeriodicExportingMetricReader(exporter)


def _is_prometheus(reader: MetricReader) -> bool:
    return any(kind.__name__ == "PrometheusMetricReader" for kind in type(reader).__mro__)


def _page_reader() -> MetricReader:
    from opentelemetry.exporter.prometheus import PrometheusMetricReader

    # No target info, because the reader of LangGraph's server already exports it in the same registry.
    return PrometheusMetricReader(disable_target_info=True, scope_info_enabled=False)
