"""The outcomes of the rows of a batch."""

from __future__ import annotations

from typing import Any

Outcome = dict[str, Any]
"""A debate's outcome as plain JSON; see `moot.cli.batch.work.outcome_of`."""
NOTHING: Outcome = {"status": "failed", **dict.fromkeys(("answer", "confidence", "error", "kind", "outage"))}
"""The outcome of a row without a document, before its error is added."""


def failed_outcome(detail: str, kind: str) -> Outcome:
    """The outcome of a row that failed without a document."""
    return {**NOTHING, "error": detail, "kind": kind}
