"""``/metrics``: the server's metrics for Prometheus. `moot.web.login` decides who may read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from moot.core.telemetry import begin_telemetry, show_queue
from moot.web.batches.running import BATCHES
from prometheus_client import make_asgi_app
from starlette.types import ASGIApp, Receive, Scope, Send

METRICS = "/metrics"


class Metrics:
    """Middleware that answers ``/metrics``. It passes requests for JSON on to LangGraph's own route.

    LangGraph's route ignores the server's ``Auth`` object. So `moot.web.login` checks the token of each request for
    ``/metrics``.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.metrics = make_asgi_app()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request for metrics that is not for JSON; passes all other requests on."""
        ours = scope["type"] == "http" and scope["path"] == METRICS and b"format=json" not in scope["query_string"]
        await (self.metrics if ours else self.app)(scope, receive, send)


def begin_server_telemetry() -> None:
    """Turns on the telemetry that the environment requests for a server. Blocking."""
    begin_telemetry(page=True)
    show_queue("page", batch_claim_counts)


def batch_claim_counts() -> Mapping[str, int]:
    """The number of waiting claims and of running claims in the page's batches.

    The remaining claims of a stopped batch do not count as waiting.
    """
    found = Counter(waiting=0, running=0)
    for running, task in [*BATCHES.running.values()]:
        if not task.done():
            stopped = bool(running.batch.stopped)
            found += Counter(waiting=0 if stopped else len(running.left), running=len(running.active))
    return found
