"""Claims of a text as a table that a person edits and ``moot batch`` reads."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any

from moot.core.files import harmless
from moot.retrievers.evidence import clean

COLUMNS = ("id", "claim", "date", "speaker", "group", "quote", "place", "reason", "score", "filled_in")
MARK = "\ufeff"
"""Without it spreadsheets take UTF-8 for something else."""


def claims_csv(claims: Iterable[Mapping[str, Any]], group: str) -> str:
    """Claims as CSV, in the columns that ``moot batch`` reads and those that help to edit them.

    Args:
        claims: as the graph `find_claims` gives them, or as a person changed them; each has at least ``claim``.
        group: what they share: their text.
    """
    written = io.StringIO(newline="")
    lines = csv.writer(written)
    lines.writerow(COLUMNS)
    for number, one in enumerate(claims, 1):
        cells = {
            "id": one.get("id") or f"c{number}",
            "group": group,
            "place": place_in_words(one),
            "filled_in": "; ".join(filled_words(one)),
        }
        cells = {**one, **cells}
        lines.writerow(harmless(_cell(cells.get(name))) for name in COLUMNS)
    return MARK + written.getvalue()


def _cell(value: Any) -> str:
    return "" if value is None else " ".join(clean(str(value)).split())


def place_in_words(claim: Mapping[str, Any]) -> str:
    """Where a claim stands in its text, as ``page 2, 120-180``; nothing for a person's own."""
    if claim.get("start") is None:
        return ""
    page = f"page {claim['page']}, " if claim.get("page") else ""
    return f"{page}{claim['start']}-{claim['end']}"


def filled_words(claim: Mapping[str, Any]) -> list[str]:
    """The words of a claim that its quote does not have; of times that were reckoned, that they were.

    Of a claim that a person changed, the places may no longer fit it, and nothing is said beyond its end.
    """
    words = [(claim["claim"][one["start"] : one["end"]], one["computed"]) for one in claim.get("filled") or []]
    return [f"{word} (reckoned)" if computed else word for word, computed in words if word]
