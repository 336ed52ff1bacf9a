"""What came of a row of a batch."""

from __future__ import annotations

from typing import Any

Outcome = dict[str, Any]
"""What came of a debate, as plain JSON; see `moot.cli.batch.work.outcome_of`."""
NOTHING: Outcome = {"status": "failed", "answer": None, "confidence": None, "error": None, "kind": None}
"""That of a row that has no document."""


def fault(detail: str, kind: str) -> Outcome:
    """What came of a row that has no document."""
    return {**NOTHING, "error": detail, "kind": kind}
