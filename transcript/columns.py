"""The columns of a batch's table, in the file that the command line writes and on the web page."""

from __future__ import annotations

ROW_COLUMNS = ("row", "id", "claim", "label", "group")
DEBATE_COLUMNS = (
    "system",
    "status",
    "answer",
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
