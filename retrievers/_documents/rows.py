"""Parses CSV files."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from moot.retrievers._documents.charsets import charset_in_name, decode
from moot.retrievers._documents.parsed import ParsedDocument, Part, UnreadableDocument, new_document

LONGEST_CELL = 1_000_000
"""The maximum length of a CSV cell, in characters."""
AS_ROWS = (
    "each row is one passage with all of its columns, including one named `text`. If the columns are the "
    "fields of a passage (id, title, url), convert the file to .jsonl"
)
"""The note on a CSV file with a column ``text``."""


def parse_csv(file: Path) -> ParsedDocument:
    """Parses a CSV file: each row after the first becomes a part, with the column's name before each value."""
    text = decode(file.read_bytes(), charset_in_name(file)).text
    csv.field_size_limit(LONGEST_CELL)
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        filled = [(rows.line_num, [cell.strip() for cell in row]) for row in rows if any(map(str.strip, row))]
    except csv.Error as error:
        raise UnreadableDocument(f"line {rows.line_num} is not CSV ({error})") from error
    (_, names), *rest = filled or [(0, [])]
    parts: list[Part] = []
    for line, row in rest:
        if len(row) != len(names):
            raise UnreadableDocument(f"line {line} has {len(row)} columns, and the first line has {len(names)}")
        cells = (f"{name}: {cell}" if name else cell for name, cell in zip(names, row, strict=True) if cell)
        parts.append({"text": "; ".join(cells), "heading": "", "page": 0})
    found = new_document(parts)
    if "text" in names:
        found["note"] = AS_ROWS
    return found
