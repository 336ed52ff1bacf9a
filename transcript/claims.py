"""Writes the claims found in a text as a table, which a person edits and ``moot batch`` reads."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any

from moot.core.files import escape_formula
from moot.retrievers._evidence import clean

COLUMNS = (
    "id",
    "claim",
    "date",
    "speaker",
    "appeared_at",
    "group",
    "quote",
    "place",
    "reason",
    "score",
    "filled_in",
    "note",
)
MARK = "\ufeff"
"""The byte order mark. Without this mark, some spreadsheets do not read the file as UTF-8."""


def claims_csv(claims: Iterable[Mapping[str, Any]], group: str, url: str = "") -> str:
    """Claims as CSV, with the columns that ``moot batch`` needs and further columns for editing.

    The text begins with a byte order mark. An apostrophe is put in front of a cell that looks like a
    formula; `moot batch` removes it.

    Args:
        claims: the claims of the graph `find_claims`; a person may have changed them. Each has at least ``claim``.
        group: the value of the column ``group`` for all claims: the file or the address of their text.
        url: the address of their text, on which they appeared; empty if there is none.
    """
    table = io.StringIO(newline="")
    writer = csv.writer(table)
    writer.writerow(COLUMNS)
    for number, claim in enumerate(claims, 1):
        cells = {
            "id": claim.get("id") or f"c{number}",
            "group": group,
            "appeared_at": url,
            "place": place_in_words(claim),
            "filled_in": "; ".join(filled_words(claim)),
        }
        cells = {**claim, **cells}
        writer.writerow(escape_formula(_cell(cells.get(name))) for name in COLUMNS)
    return MARK + table.getvalue()


def _cell(value: Any) -> str:
    """A value as the text of a cell: one line without control characters; empty for None."""
    return "" if value is None else " ".join(clean(str(value)).split())


def place_in_words(claim: Mapping[str, Any]) -> str:
    """The place of a claim in its text, e.g. ``page 2, 120-180``; empty if the claim has no place.

    The last two numbers are the positions of the quote's start and end (exclusive) in the text. A claim that a person
    has added has no place.
    """
    if claim.get("start") is None:
        return ""
    page = f"page {claim['page']}, " if claim.get("page") else ""
    return f"{page}{claim['start']}-{claim['end']}"


def filled_words(claim: Mapping[str, Any]) -> list[str]:
    """The passages of a claim that are not in its quote, with "(computed)" after times computed from the text's date.

    A person may have shortened the claim, so ``filled`` may have positions after the claim's end. They are ignored.
    """
    words = [(claim["claim"][part["start"] : part["end"]], part["computed"]) for part in claim.get("filled") or []]
    return [f"{word} (computed)" if computed else word for word, computed in words if word]
