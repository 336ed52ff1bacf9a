"""Events of the stream mode ``custom``, with which clients follow a running debate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moot.nodes._models.step_record import StepRecord, tokens_of


def begin_event(record: StepRecord) -> dict[str, Any]:
    """The event at a node's start: ``event`` (``"begin"``), ``node``, ``agent``, ``round``, ``phase``."""
    place = {"node": record.node, "agent": record.agent, "round": record.round, "phase": record.phase}
    return {"event": "begin", **place}


def step_event(record: StepRecord, update: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Fields of the event at a node's end; ``tokens`` are the endpoint's counts, ``error`` the error's kind or null."""
    error = (update.get("error") or {}).get("kind")
    spent = {"calls": len(record.calls), "tokens": tokens_of(record.calls)}
    return {"event": "step", "seconds": round(seconds, 3), **spent, "error": error}
