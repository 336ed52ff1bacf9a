"""The columns of a batch's table, which `moot batch` writes and the web page offers as a download."""

from __future__ import annotations

ROW_COLUMNS = ("row", "id", "claim", "label", "group")
DEBATE_COLUMNS = (
    "system",
    "status",
    "answer",
    "evidence",
    "confidence",
    "confidence_rests_on",
    "decision",
    "error",
    "rounds",
    "calls",
    "tokens",
    "usd",
    "seconds",
    "warnings",
    "stop_reason",
)
