"""Turns telemetry on. OpenTelemetry is imported only if telemetry is on, because most processes do not need it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from moot.core.errors import UserError
from moot.core.lazy import imported, missing_package

if TYPE_CHECKING:
    from moot.core.telemetry.instruments import Telemetry

_current: Telemetry | None = None


def telemetry() -> Telemetry | None:
    """The telemetry of this process; None if it is off."""
    return _current


def turn_on(*, page: bool = False, port: bool = True) -> Telemetry | None:
    """Turns telemetry on for one of moot's programs, if OpenTelemetry's variables or ``page`` request it; blocking."""
    global _current
    if _current is not None or is_disabled():
        return _current
    traces, metrics = requested_exporters("traces"), requested_exporters("metrics")
    page = page and os.environ.get("OTEL_METRICS_EXPORTER", "").strip() != "none"
    # Only one of several cooperating processes may open the port.
    if not port:
        metrics = [name for name in metrics if name != "prometheus"]
    if traces or metrics or page:
        _install(traces, metrics, page=page)
        _current = _create_telemetry()
    return find_telemetry()


def find_telemetry() -> Telemetry | None:
    """The same as `telemetry`, but turns telemetry on if the program has set a provider of OpenTelemetry."""
    global _current
    if _current is None and "opentelemetry.sdk" in sys.modules and not is_disabled():
        trace, metrics = imported("opentelemetry.trace"), imported("opentelemetry.metrics")
        if is_set(trace.get_tracer_provider()) or is_set(metrics.get_meter_provider()):
            _current = _create_telemetry()
    return _current


def finish() -> None:
    """Sends the remaining data of `turn_on`'s providers and shuts them down, which ``os._exit`` would not do;
    blocking.
    """
    if (exporters := sys.modules.get("moot.core.telemetry.exporters")) is not None:
        exporters.finish()


def is_disabled() -> bool:
    """Whether ``OTEL_SDK_DISABLED`` switches OpenTelemetry off."""
    return os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def requested_exporters(signal: str) -> list[str]:
    """The exporters that the environment names for ``traces`` or ``metrics``, or OTLP if it only has an address."""
    if value := os.environ.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip():
        return [] if value == "none" else [name.strip() for name in value.split(",") if name.strip()]
    addresses = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT")
    # Without an address there is none, although OpenTelemetry's default would be OTLP.
    return ["otlp"] if any(os.environ.get(name, "").strip() for name in addresses) else []


def missing_telemetry_package(error: ModuleNotFoundError) -> UserError:
    """The error if a package of the extra ``telemetry`` is not installed."""
    return missing_package(error, "telemetry", "Telemetry", "Or unset the OTEL_ variables and LOG_JSON.")


def _install(traces: list[str], metrics: list[str], *, page: bool) -> None:
    try:
        imported("moot.core.telemetry.exporters").install(traces, metrics, page=page)
    except ModuleNotFoundError as error:
        raise missing_telemetry_package(error) from error


def _create_telemetry() -> Telemetry:
    made: Telemetry = imported("moot.core.telemetry.instruments").Telemetry()
    return made


def is_set(provider: object) -> bool:
    """Whether a provider has been set; otherwise it is a placeholder, whose class is in OpenTelemetry's API."""
    return not type(provider).__module__.startswith(("opentelemetry.trace", "opentelemetry.metrics"))
