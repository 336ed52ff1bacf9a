"""What is streamed as ``custom`` while a debate runs, so that others can follow it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moot.nodes.models.ledger import Ledger, tokens_of


def progress(ledger: Ledger) -> dict[str, Any]:
    """What is streamed when a node begins: ``{"event": "begin", "node", "agent", "round", "phase"}``."""
    place = {"node": ledger.node, "agent": ledger.agent, "round": ledger.round, "phase": ledger.phase}
    return {"event": "begin", **place}


def came_of(ledger: Ledger, update: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """What is streamed beside its place when a node ends: ``{"event": "step", "seconds", "calls", "tokens", "error"}``.

    Tokens are those that the endpoint counted; the error is its kind, null where there is none.
    """
    error = (update.get("error") or {}).get("kind")
    spent = {"calls": len(ledger.calls), "tokens": tokens_of(ledger.calls)}
    return {"event": "step", "seconds": round(seconds, 3), **spent, "error": error}
