"""The claims of a text as a table that a person edits and ``moot batch`` reads."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any

from moot.core.files import escape_formula
from moot.retrievers._evidence import clean

COLUMNS = ("id", "claim", "date", "speaker", "group", "quote", "place", "reason", "score", "filled_in")
MARK = "\ufeff"
"""The byte order mark: without it, spreadsheets do not read the file as UTF-8."""


def claims_csv(claims: Iterable[Mapping[str, Any]], group: str) -> str:
    """Claims as CSV, with the columns that ``moot batch`` reads and further columns for editing.

    Args:
        claims: as the graph `find_claims` returns them, or as a person changed them; each has at least ``claim``.
        group: the value of the column ``group`` for all claims: the file or address of their text.
    """
    table = io.StringIO(newline="")
    lines = csv.writer(table)
    lines.writerow(COLUMNS)
    for number, one in enumerate(claims, 1):
        cells = {
            "id": one.get("id") or f"c{number}",
            "group": group,
            "place": place_in_words(one),
            "filled_in": "; ".join(filled_words(one)),
        }
        cells = {**one, **cells}
        lines.writerow(escape_formula(_cell(cells.get(name))) for name in COLUMNS)
    return MARK + table.getvalue()


def _cell(value: Any) -> str:
    return "" if value is None else " ".join(clean(str(value)).split())


def place_in_words(claim: Mapping[str, Any]) -> str:
    """The page and the characters of a claim in its text, as ``page 2, 120-180``; empty if a person added it."""
    if claim.get("start") is None:
        return ""
    page = f"page {claim['page']}, " if claim.get("page") else ""
    return f"{page}{claim['start']}-{claim['end']}"


def filled_words(claim: Mapping[str, Any]) -> list[str]:
    """The words of a claim that are not in its quote, with "(computed)" after dates that were computed.

    A person may have changed the claim, so positions after its end are ignored.
    """
    words = [(claim["claim"][one["start"] : one["end"]], one["computed"]) for one in claim.get("filled") or []]
    return [f"{word} (computed)" if computed else word for word, computed in words if word]
