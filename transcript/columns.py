"""The table of a batch, which `moot batch` writes and the web page offers: its columns, and the cells of a row.

The columns of the user's list come first, as the list has them. Then come the other facts about the row, then what its
debate found: the state of its review, the editor's rating and words if it is approved or corrected, and what the
machine found. Its verdict never stands in the column of the editor's ``rating``. A column of moot whose name the list
uses for something else begins with ``moot_``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from moot.core.sheets import Cell

Columns = Sequence[Sequence[str]]
"""The columns of a list: the name of each in the list and in moot, which is the same if moot does not know it."""

ROW_COLUMNS = ("row", "id", "claim", "speaker", "date", "label", "group")
NUMBER = re.compile(r"0|-?[1-9][0-9]{0,9}(\.[0-9]{0,3}[1-9])?|-?0\.[0-9]{0,3}[1-9]")
"""A number in a list that is written as a spreadsheet writes it, so that it can be a number in the table."""
MOST_SOURCES = 3
"""Number of sources in the table."""
DEBATE_COLUMNS = (
    "system",
    "status",
    "same_as_row",
    "review",
    "rating",
    "title",
    "summary",
    "editor",
    "verdict",
    "why",
    *(f"{name}_{number}" for number in range(1, MOST_SOURCES + 1) for name in ("quote", "source")),
    "answer",
    "evidence",
    "votes",
    "warrants",
    "confidence",
    "decision",
    "stop_reason",
    "error",
    "rounds",
    "searched_for",
    "calls",
    "tokens",
    "usd",
    "seconds",
    "warnings",
)


def header_of(own: Columns, debate: Sequence[str]) -> list[str]:
    """The names of the table's columns, for a list with these columns and these columns about its debates."""
    taken = {name.casefold() for name, _ in own}
    names = [*_row_columns(own), *debate]
    return [*(name for name, _ in own), *(f"moot_{name}" if name.casefold() in taken else name for name in names)]


def cells_of_row(own: Columns, written: Sequence[str], row: Mapping[str, Any], debate: Sequence[Cell]) -> list[Cell]:
    """The cells of a row under `header_of`; the claim that was checked stands in the list's own column of claims."""
    padded = [*written[: len(own)], *[""] * (len(own) - len(written))]
    in_place = [row["claim"] if name == "claim" else _own(cell) for (_, name), cell in zip(own, padded, strict=True)]
    return [*in_place, *(row.get(name) for name in _row_columns(own)), *debate]


def _own(cell: str) -> Cell:
    if not NUMBER.fullmatch(cell):
        return cell
    return float(cell) if "." in cell else int(cell)


def _row_columns(own: Columns) -> list[str]:
    known = {name for _, name in own}
    return [name for name in ROW_COLUMNS if name not in known]
