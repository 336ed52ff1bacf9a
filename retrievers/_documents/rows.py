"""Parses tables: CSV files and Excel workbooks. `tables` reads their rows, for lists of claims, too."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path

from moot.core.lazy import imported
from moot.retrievers._documents.charsets import charset_in_name, decode
from moot.retrievers._documents.parsed import (
    MOST_CHARACTERS,
    ParsedDocument,
    Part,
    UnreadableDocument,
    check_unpacked_size,
    new_document,
)
from moot.retrievers._documents.tables import (
    ERROR_CELL,
    HIDDEN_ROW,
    NO_VALUE,
    Row,
    Sheet,
    cell_text,
    csv_delimiter,
    csv_rows,
    fit,
    header_of,
    sheet_rows,
)

LONGEST_CELL = 1_000_000
"""The maximum length of a CSV cell, in characters."""
MOST_LINES = 5
"""The maximum number of lines that a note lists."""
AS_ROWS = (
    "each row is one passage with all of its columns, including one named `text`. If the columns are the "
    "fields of a passage (id, title, url), convert the file to .jsonl"
)
"""The note on a table with a column ``text``."""


def parse_csv(file: Path) -> ParsedDocument:
    """Parses a CSV file: each row becomes a part (`_row_parts`)."""
    text = decode(file.read_bytes(), charset_in_name(file)).text
    csv.field_size_limit(LONGEST_CELL)
    delimiter = csv_delimiter(io.StringIO(text, newline=""))
    parts, note = _row_parts(list(csv_rows(io.StringIO(text, newline=""), delimiter)))
    return new_document(parts) | {"note": note}


def parse_xlsx(file: Path) -> ParsedDocument:
    """Parses the sheets of an Excel workbook, except hidden ones, as `parse_csv` does, with their names as headings."""
    sheets, note = read_workbook(file)
    parts: list[Part] = []
    left_out = [sheet["name"] for sheet in sheets if sheet["hidden"]]
    notes = [note, f"its hidden sheets are left out ({', '.join(left_out)})" if left_out else ""]
    for sheet in (one for one in sheets if not one["hidden"]):
        own, note = _row_parts(list(sheet_rows(sheet)), sheet["name"] if len(sheets) > 1 else "")
        parts += own
        notes.append(note)
    return new_document(parts) | {"note": "; ".join(dict.fromkeys(filter(None, notes)))}


def _row_parts(rows: Sequence[Row], heading: str = "") -> tuple[list[Part], str]:
    """Each row below the header as a part with the column's name before each value, and a note about other rows.

    The texts above the header are parts, and a row that does not fit the header is a part with its own text.
    """
    header = header_of(rows)
    if header is None:
        return [{"text": row.text, "heading": heading, "page": 0} for row in rows], ""
    texts = [*header.above]
    unfit: list[int] = []
    below = [row for row in rows if row.line > header.line or row.problem]
    if not below:
        texts.append("; ".join(filter(None, header.names)))
    for row in (fit(row, header) for row in below):
        if row.problem:
            unfit.append(row.line)
        if len(row.text) > LONGEST_CELL and row.problem:
            raise UnreadableDocument(f"line {row.line} has a cell of more than {LONGEST_CELL:,} characters")
        cells = zip(header.names, map(str.strip, row.cells), strict=False)
        named = "; ".join(f"{name}: {cell}" if name else cell for name, cell in cells if cell)
        texts.append(row.text if row.problem else named)
    notes = [AS_ROWS] if "text" in header.names else []
    if unfit:
        lines = ", ".join(f"{line:,}" for line in unfit[:MOST_LINES]) + (" ..." if len(unfit) > MOST_LINES else "")
        notes.append(
            f"{len(unfit):,} of its rows do not fit the header, so they are indexed as they are, without the names of "
            f"the columns (line {lines})"
        )
    return [{"text": text, "heading": heading, "page": 0} for text in texts], "; ".join(notes)


def read_workbook(file: Path) -> tuple[list[Sheet], str]:
    """The sheets of an Excel workbook with at least one row, and a note about missing values; may raise any error.

    Formulas have the values that the program which saved the file has computed.
    """
    calamine = imported("python_calamine")
    with zipfile.ZipFile(file) as packed:
        check_unpacked_size(packed)
        names = [name for name in packed.namelist() if re.fullmatch(r"xl/worksheets/[^/]+\.xml", name)]
        contents = [packed.read(name) for name in names]
    if any(NO_VALUE.search(content) for content in contents):
        raise UnreadableDocument(
            "it has formulas without stored values. Open it in a spreadsheet program, and save it again"
        )
    errors, unseen = (sum(len(sign.findall(content)) for content in contents) for sign in (ERROR_CELL, HIDDEN_ROW))
    sheets: list[Sheet] = []
    characters = 0
    with calamine.CalamineWorkbook.from_path(file) as book:
        for about in book.sheets_metadata:
            rows = [
                (number, [cell_text(cell) for cell in cells])
                for number, cells in enumerate(book.get_sheet_by_name(about.name).iter_rows(), 1)
                if any(str(cell).strip() for cell in cells)
            ]
            characters += sum(len(cell) for _, cells in rows for cell in cells)
            if characters > MOST_CHARACTERS:
                raise UnreadableDocument(f"it contains more than {MOST_CHARACTERS:,} characters. Save it in parts")
            if rows:
                hidden = about.visible != calamine.SheetVisibleEnum.Visible
                sheets.append({"name": about.name, "rows": rows, "hidden": hidden})
    notes = [f"{errors:,} of its cells hold errors, such as #N/A, and are read as empty"] if errors else []
    notes += [f"rows that are hidden, as by a filter, are read, too ({unseen:,})"] if unseen else []
    return sheets, "; ".join(notes)
