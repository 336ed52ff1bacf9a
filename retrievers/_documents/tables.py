"""Reads the rows of tables: CSV text, and the sheets of .xlsx workbooks. Lists of claims and documents share it."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time
from itertools import islice
from typing import Any, NamedTuple

from typing_extensions import TypedDict

DELIMITERS = ",;\t|"
ONE_COLUMN = "\x1f"
"""The delimiter for text without columns: the control character "unit separator", which no text contains."""
SEP = re.compile(r'\s*"?sep=(.)"?\s*', re.IGNORECASE)
"""A first line that names the delimiter. Excel reads it, and some programs write it."""
SAMPLE = 100
"""Number of lines or rows at the beginning of a table from which its layout is found."""
CSV_ERRORS = {
    "unexpected end of data": "a quotation mark is not closed before the end of the file",
    "field larger than field limit": "a cell has more than 131,072 characters, or a quotation mark is not closed; JSON "
    "Lines may have longer texts",
}
"""Beginnings of the csv module's errors, with plainer words for each."""
NO_VALUE = re.compile(rb"<c\b(?![^>]*\bt=\"str\")[^>]*>\s*<f\b(?:[^>]*/>|[^>]*>[^<]*</f>)\s*(?:<v\s*/>|<v></v>|</c>)")
"""A cell of a worksheet whose formula has no stored value. A formula with an empty text as its value is not meant."""
ERROR_CELL = re.compile(rb"<c\b[^>]*\bt=\"e\"")
HIDDEN_ROW = re.compile(rb"<row\b[^>]*\bhidden=\"(?:1|true)\"[^>]*(?<!/)>")
"""A row with cells that a person does not see. Hidden rows without cells are not meant."""


class Row(NamedTuple):
    """A row that is not empty: its first line's number (from 1), its cells, its text, and what is wrong with it."""

    line: int
    cells: list[str]
    text: str
    problem: str = ""


class Header(NamedTuple):
    """The names of a table's columns, the line that they are on, and the texts of the rows above."""

    names: list[str]
    line: int
    above: list[str]


class Sheet(TypedDict):
    """A worksheet; each row is the number of the row (from 1) and its cells."""

    name: str
    rows: list[tuple[int, list[str]]]
    hidden: bool


def csv_rows(lines: Iterable[str], delimiter: str) -> Iterator[Row]:
    """The rows of CSV text; a row that is not CSV has its text and the problem, and reading goes on after it."""
    taken: list[str] = []

    def take() -> Iterator[str]:
        for line in lines:
            taken.append(line)
            yield line

    rows = csv.reader(take(), delimiter=delimiter, strict=True)
    line = 1
    while True:
        taken.clear()
        try:
            cells = next(rows, None)
        except csv.Error as error:
            reason = next((plain for begin, plain in CSV_ERRORS.items() if str(error).startswith(begin)), error)
            yield Row(line, [], "".join(taken).strip(), f"it is not CSV ({reason})")
        else:
            if cells is None:
                return
            if any(cell.strip() for cell in cells) and not (line == 1 and SEP.fullmatch("".join(taken))):
                yield Row(line, cells, "".join(taken).strip())
        line = rows.line_num + 1


def sheet_rows(sheet: Sheet) -> Iterator[Row]:
    """The rows of a worksheet."""
    return (Row(number, cells, "; ".join(filter(None, cells))) for number, cells in sheet["rows"])


def csv_delimiter(lines: Iterable[str], name: str = "") -> str:
    """The delimiter of CSV text: of a line ``sep=;``, else of a header with the column ``name``, else of most rows."""
    sample = list(islice(lines, SAMPLE))
    if sample and (told := SEP.fullmatch(sample[0])):
        return told[1]
    found = []
    for preference, delimiter in enumerate(DELIMITERS):
        rows = [row for row in csv_rows(sample, delimiter) if not row.problem]
        named = max((len(row.cells) for row in rows if name and place_of(name, row.cells) is not None), default=0)
        wide = [row.cells for row in rows if len(row.cells) > 1]
        # Below a line without the delimiter, a delimiter that a space always follows is punctuation.
        is_prose = bool(wide) and len(rows[0].cells) == 1 and all(cell[:1] == " " for cell in wide[0][1:])
        if wide and named != 1 and (named or not is_prose):
            width, times = max(Counter(map(len, wide)).items(), key=lambda item: (item[1], item[0]))
            found.append((named, times, width, -preference, delimiter))
    return max(found)[-1] if found else ONE_COLUMN


def header_of(rows: Iterable[Row], name: str = "") -> Header | None:
    """The header: the first row with a cell ``name``, else the first row as wide as most; None if there are no rows.

    Rows above the header have fewer cells with text.
    """
    sample = [row for row in islice(rows, SAMPLE) if not row.problem]
    widest = 0
    for index, row in enumerate(sample):
        filled = _filled(row)
        if name and (filled > widest or filled == widest == 1) and place_of(name, row.cells) is not None:
            return _header(sample, index)
        widest = max(widest, filled)
    widths = Counter(len(row.cells) for row in sample)
    width = max(widths, key=lambda one: (one > 1, widths[one]), default=0)
    wide = [index for index, row in enumerate(sample) if len(row.cells) == width]
    several = [index for index in wide if _filled(sample[index]) > 1]
    return _header(sample, (several or wide)[0]) if wide else None


def _header(sample: Sequence[Row], index: int) -> Header:
    return Header([" ".join(cell.split()) for cell in sample[index].cells], sample[index].line, _texts(sample[:index]))


def _texts(rows: Iterable[Row]) -> list[str]:
    return ["; ".join(text for cell in row.cells if (text := " ".join(cell.split()))) for row in rows]


def _filled(row: Row) -> int:
    return sum(bool(cell.strip()) for cell in row.cells)


def place_of(name: str, cells: Sequence[str]) -> int | None:
    """The index of the first cell with a column's name, whatever its case and white space; None if there is none."""
    wanted = " ".join(name.split()).casefold()
    return next((i for i, cell in enumerate(cells) if " ".join(cell.split()).casefold() == wanted), None)


def fit(row: Row, header: Header) -> Row:
    """The row with as many cells as the header, or with a problem if it has fewer cells, or more that have text."""
    if row.problem:
        return row
    width = len(header.names)
    last = max((i for i, name in enumerate(header.names, 1) if name), default=width)
    if len(row.cells) < last or any(cell.strip() for cell in row.cells[width:]):
        problem = (
            f"it has {len(row.cells)} columns, and the header (line {header.line}) has {width}. "
            "Put quotation marks around a text that contains the separator of the columns or a line break"
        )
        return row._replace(problem=problem)
    return row._replace(cells=(row.cells + [""] * width)[:width])


def cell_text(value: Any) -> str:
    """A cell's value as text: days in ISO form, whole numbers without a decimal point."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, float):
        return f"{value:.15g}"  # as spreadsheets show it: 0.3 for 0.1 + 0.2
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(" ", "seconds")
    return value.isoformat() if isinstance(value, date | time) else str(value)
