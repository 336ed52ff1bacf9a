"""Starts telemetry in one of moot's programs, or for a debate in your own program."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from moot.core.lazy import imported
from moot.core.telemetry.switch import find_telemetry, telemetry, turn_on
from moot.nodes._telemetry.logs import log_json

if TYPE_CHECKING:
    from moot.core.telemetry.instruments import Telemetry
    from moot.nodes._telemetry.observed import DebateWatch


def begin_telemetry(*, page: bool = False, port: bool = True, logs: bool = True) -> Telemetry | None:
    """Turns on metrics, spans and JSON logs for one of moot's programs, if the environment requests them. Blocking.

    Args:
        page: whether this process serves metrics at ``/metrics``; ignored if ``OTEL_METRICS_EXPORTER`` is ``none``.
        port: whether this process may open a port for metrics.
        logs: whether to configure the logs; a server configures its logs itself.

    Returns:
        The telemetry of this process; None if it is off.

    Raises:
        UserError: a variable has an invalid value, a package is missing, an exporter cannot start, or the prices cannot
            be read.
    """
    if logs:
        log_json()
    instruments = turn_on(page=page, port=port)
    if instruments is not None:
        _prepare_instruments(instruments)
    return instruments


async def watch(graph: str, id: str = "") -> DebateWatch | None:
    """The recorder for a run of a debate that starts now; None if telemetry is off.

    If your own program has set a provider of OpenTelemetry, telemetry is turned on here.

    Args:
        graph: the system's name.
        id: the debate's id if the debate is resumed, else empty.

    Raises:
        UserError: a variable has an invalid value, or the prices cannot be read.
    """
    instruments = telemetry()
    if instruments is None:
        if (instruments := find_telemetry()) is None:
            return None
        await asyncio.to_thread(_prepare_instruments, instruments)
    watch_of_run: DebateWatch = imported("moot.nodes._telemetry.observed").DebateWatch(instruments, graph)
    if id:
        watch_of_run.begun(id)
    return watch_of_run


def _prepare_instruments(instruments: Telemetry) -> None:
    observed = imported("moot.nodes._telemetry.observed")
    observed.prices()
    observed.show_endpoints(instruments)
