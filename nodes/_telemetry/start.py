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
    """Turns on metrics, spans and JSON logs for one of moot's programs, if the environment requests them; blocking."""
    if logs:
        log_json()
    instruments = turn_on(page=page, port=port)
    if instruments is not None:
        _prepare_instruments(instruments)
    return instruments


async def watch(graph: str, id: str = "") -> DebateWatch | None:
    """The recorder for a run that starts now, of a new debate or of the one with this id; None if telemetry is off."""
    instruments = telemetry()
    if instruments is None:
        # The user's program may have set a provider of OpenTelemetry.
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
