"""A local collector that receives OTLP over HTTP, as an OpenTelemetry collector does."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


def value_of(value: Any) -> Any:
    """The value of an attribute."""
    return getattr(value, value.WhichOneof("value"))


def attributes_of(thing: Any) -> dict[str, Any]:
    """The attributes of a span, a point or a resource."""
    return {pair.key: value_of(pair.value) for pair in thing.attributes}


class Receiver(ThreadingHTTPServer):
    """Stores the bytes (``raw``), spans and resources of all uploads, and the last ``points`` of each process.

    Of each span, it keeps the name and the attributes.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.raw = b""
        self.spans: list[tuple[str, dict[str, Any]]] = []
        self.resources: list[dict[str, Any]] = []
        self.points: dict[tuple[Any, ...], float] = {}
        self.received = threading.Condition()

    @property
    def environment(self) -> dict[str, str]:
        """The variables that make a process send its telemetry here."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.server_address[1]}"}

    def take(self, path: str, body: bytes) -> None:
        """Store one upload of spans or metrics."""
        with self.received:
            self.raw += body
            if path == "/v1/traces":
                for uploaded in ExportTraceServiceRequest.FromString(body).resource_spans:
                    self.resources.append(attributes_of(uploaded.resource))
                    self.spans += [(span.name, attributes_of(span)) for s in uploaded.scope_spans for span in s.spans]
            else:
                for uploaded in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                    self.resources.append(attributes_of(uploaded.resource))
                    process = attributes_of(uploaded.resource)["service.instance.id"]
                    for metric in (metric for scope in uploaded.scope_metrics for metric in scope.metrics):
                        self._keep(process, metric)
            self.received.notify_all()

    def _keep(self, process: str, metric: Any) -> None:
        kind = metric.WhichOneof("data")
        for point in getattr(metric, kind).data_points:
            value = point.count if kind == "histogram" else getattr(point, point.WhichOneof("value"))
            self.points[process, metric.name, *sorted(attributes_of(point).items())] = value

    def total(self, metric: str, **wanted: Any) -> float:
        """The sum of a metric's points with these attributes; for a histogram, the number of its values.

        In the name of an attribute, two underscores stand for a dot.
        """
        asked = {(name.replace("__", "."), value) for name, value in wanted.items()}
        return sum(
            value for (_, name, *attributes), value in self.points.items() if name == metric and asked <= {*attributes}
        )

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until the received data satisfies a condition; fail after 120 seconds."""
        with self.received:
            assert self.received.wait_for(condition, timeout=120), self.points


class Handler(BaseHTTPRequestHandler):
    """Handles uploads to the routes ``/v1/traces`` and ``/v1/metrics``."""

    server: Receiver

    def do_POST(self) -> None:
        """Receive an upload."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.take(self.path, gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Log no requests."""


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Run a receiver in a thread, and stop it afterwards."""
    with Receiver() as receiver:
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        try:
            yield receiver
        finally:
            receiver.shutdown()
