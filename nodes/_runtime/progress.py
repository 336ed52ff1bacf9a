"""Events of the stream mode ``custom``, with which clients follow a running debate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moot.nodes._models.ledger import Ledger, tokens_of


def begin_event(ledger: Ledger) -> dict[str, Any]:
    """The event at a node's start: ``event`` (``"begin"``), ``node``, ``agent``, ``round``, ``phase``."""
    place = {"node": ledger.node, "agent": ledger.agent, "round": ledger.round, "phase": ledger.phase}
    return {"event": "begin", **place}


def step_event(ledger: Ledger, update: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Fields of the event at a node's end; ``tokens`` are the endpoint's counts, ``error`` the error's kind or null."""
    error = (update.get("error") or {}).get("kind")
    spent = {"calls": len(ledger.calls), "tokens": tokens_of(ledger.calls)}
    return {"event": "step", "seconds": round(seconds, 3), **spent, "error": error}
