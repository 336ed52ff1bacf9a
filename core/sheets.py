"""Writes tables for spreadsheets: CSV, and .xlsx with the package xlsxwriter. No cell becomes a formula."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from itertools import chain
from typing import IO, TextIO

from moot.core.errors import UserError
from moot.core.files import escape_formula
from moot.core.lazy import import_extra

Cell = str | float | None
PACKAGE = "xlsxwriter"
MOST_ROWS = 2**20
"""Maximum number of rows of a sheet, with its header."""
LONGEST_CELL = 32_767
"""Maximum length of a text in a cell of a sheet, in characters."""
CUT = " ... (the CSV table has the whole text)"
"""The end of a text that is longer than `LONGEST_CELL`."""
WIDEST, NARROWEST = 60, 8
"""Widths of columns, in characters: as the texts of the first `MEASURED` rows, within these bounds."""
MEASURED = 50
MARK = "\ufeff"
"""The byte order mark. Without it, some spreadsheets do not read CSV as UTF-8."""


def can_write_sheets() -> bool:
    """Whether the package that writes .xlsx is installed."""
    return find_spec(PACKAGE) is not None


def write_tables(
    header: Sequence[str], rows: Iterable[Sequence[Cell]], text: TextIO | None = None, sheet: IO[bytes] | None = None
) -> None:
    """Writes a table as CSV to ``text`` and as .xlsx to ``sheet``, a row at a time; UserError without the package."""
    lines = csv.writer(text) if text else None
    if text:
        text.write(MARK)
    page = _Sheet(sheet) if sheet else None
    for number, row in enumerate(chain([header], rows)):
        if lines:
            lines.writerow(map(_text, row))
        if page:
            page.write(number, row)
    if page:
        page.close()


def _text(value: Cell) -> str:
    return "" if value is None else escape_formula(value) if isinstance(value, str) else str(value)


class _Sheet:
    """A workbook with one sheet, whose rows are not kept in memory."""

    def __init__(self, file: IO[bytes]) -> None:
        package = import_extra(PACKAGE, "documents", "An Excel table", "Or use the CSV table.")
        self._book = package.Workbook(file, {"constant_memory": True})
        self._page = self._book.add_worksheet()
        self._bold = self._book.add_format({"bold": True})
        self._widths: list[int] = []
        self._last = 0

    def write(self, number: int, row: Sequence[Cell]) -> None:
        """Writes a row; the first one is the header."""
        if number >= MOST_ROWS:
            raise UserError(f"An Excel table has at most {MOST_ROWS:,} rows: use the CSV table.", kind="invalid_file")
        self._last = number
        self._widths += [NARROWEST] * (len(row) - len(self._widths))
        for column, value in enumerate(row):
            if isinstance(value, int | float) and not isinstance(value, bool):
                self._page.write_number(number, column, value)
            elif text := _text(value):
                cut = text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - len(CUT)] + CUT
                self._page.write_string(number, column, cut, None if number else self._bold)
                if number <= MEASURED:
                    self._widths[column] = max(self._widths[column], min(WIDEST, len(text)))

    def close(self) -> None:
        """Writes the file."""
        for column, width in enumerate(self._widths):
            self._page.set_column(column, column, width)
        self._page.freeze_panes(1, 0)
        self._page.autofilter(0, 0, self._last, len(self._widths) - 1)
        self._book.close()
