"""Plain text, Markdown and tables."""

from __future__ import annotations

import csv
import io

from moot.core.documents.parts import Parsed, Part, Unreadable

LONGEST_FIELD = 1_000_000
"""Characters of a field of a table."""
COLUMNS = ("id", "title", "source", "url", "published")
"""What a table with a column ``text`` may say of each, as a JSONL file does."""


def read_text(text: str, kind: str) -> Parsed:
    """A ``.txt`` or ``.md`` file: one part, as it stands; headings are looked for when it is split."""
    return Parsed(kind, "", [Part(text.replace("\r\n", "\n").replace("\r", "\n"))])


def read_csv(text: str) -> Parsed:
    """A table whose first row names its columns: a part for each row, as ``column: value`` lines.

    If there is a column ``text``, that is the part, and `COLUMNS` say what else is known of it.

    Raises:
        Unreadable: it has no rows, a row with more fields than columns, or a field that is too long.
    """
    csv.field_size_limit(LONGEST_FIELD)
    first = text.partition("\n")[0]
    mark = max(",;\t", key=first.count)
    rows = csv.reader(io.StringIO(text.replace("\0", ""), newline=""), delimiter=mark, strict=True)
    try:
        names = [" ".join(name.split()) for name in next(rows, [])]
        parts = [part for row in rows if (part := _part(names, row, rows.line_num))]
    except csv.Error as error:
        raise Unreadable(f"line {rows.line_num} cannot be read ({error}). Save the table as CSV anew.") from error
    if not parts:
        raise Unreadable("is a table without rows below its first one, which names the columns.")
    return Parsed("csv", "", parts)


def _part(names: list[str], row: list[str], line: int) -> Part | None:
    if len(row) > len(names):
        raise Unreadable(
            f"line {line} has {len(row)} fields, and the first row names {len(names)} columns. Put quotation marks "
            "around fields that hold a separator."
        )
    fields = {name: value.strip() for name, value in zip(names, row, strict=False) if value.strip()}
    lower = {name.lower(): value for name, value in fields.items()}
    if "text" in map(str.lower, names):
        about = {name: lower[name] for name in COLUMNS if name in lower}
        return Part(lower["text"], about=about) if "text" in lower else None
    said = "\n".join(f"{name}: {value}" if name else value for name, value in fields.items())
    return Part(said) if said else None
