"""Record telemetry in the test's process with OpenTelemetry's in-memory exporters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from moot.core.telemetry import switch
from moot.core.telemetry.instruments import Telemetry
from moot.nodes._telemetry import observed
from moot.nodes._telemetry.start import _prepare_instruments
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


@dataclass
class Recorded:
    """The spans and metrics that a test recorded."""

    exporter: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    reader: InMemoryMetricReader = field(default_factory=InMemoryMetricReader)

    def spans(self, name: str = "") -> list[ReadableSpan]:
        """The finished spans whose names start with ``name``, in the order of their start."""
        found = [span for span in self.exporter.get_finished_spans() if span.name.startswith(name)]
        return sorted(found, key=lambda span: span.start_time or 0)

    def points(self, metric: str, **wanted: Any) -> list[Any]:
        """A metric's points with these attributes. In the name of an attribute, two underscores stand for a dot."""
        data: Any = self.reader.get_metrics_data()
        found: list[Any] = [
            one for resource in data.resource_metrics for scope in resource.scope_metrics for one in scope.metrics
        ]
        points = [point for one in found if one.name == metric for point in one.data.data_points]
        asked = {name.replace("__", "."): value for name, value in wanted.items()}
        return [point for point in points if set(asked.items()) <= set(point.attributes.items())]

    def sum(self, metric: str, **wanted: Any) -> float:
        """The sum of the values of a counter, a gauge or a histogram in points with these attributes."""
        return float(sum(p.sum if hasattr(p, "sum") else p.value for p in self.points(metric, **wanted)))

    def count(self, metric: str, **wanted: Any) -> int:
        """The number of values of a histogram in points with these attributes."""
        return sum(point.count for point in self.points(metric, **wanted))

    def text(self) -> str:
        """All recorded spans and metrics as JSON text."""
        data: Any = self.reader.get_metrics_data()
        return "".join([*(span.to_json() for span in self.spans()), str(data.to_json())])


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorded]:
    """Turn telemetry on, and record it in memory."""
    recording = Recorded()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(recording.exporter))
    meters = MeterProvider([recording.reader])
    telemetry = Telemetry(tracers, meters)
    monkeypatch.setattr(switch, "_current", telemetry)
    observed.prices.cache_clear()
    _prepare_instruments(telemetry)
    yield recording
    tracers.shutdown()
    meters.shutdown()
    observed.prices.cache_clear()
