"""Tables of a report: typed cells, and their formats on a screen, in CSV, JSON, Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from textwrap import fill
from typing import Any, Literal

from moot.core.files import escape_formula
from moot.evals._stats.measures import load_extra
from moot.evals._stats.significance import Interval
from moot.transcript.templates import escaped

Kind = Literal["text", "count", "share", "signed", "p", "number", "ratio", "money", "variance"]
"""Kinds of cells. A ``share`` may also be another figure between -1 and 1, such as kappa. ``signed`` is a difference of
shares. A ``number`` has one decimal."""


@dataclass(frozen=True)
class Nested:
    """The name of a nested row. The row belongs to the nearest row above it that is not nested."""

    text: str


Cell = str | int | float | Interval | Nested | None
"""None is unknown or undefined. An empty text means that there is nothing to show, for example because the column does
not apply to the row."""


@dataclass(frozen=True)
class Column:
    """A column: its name in files, its heading, and the kind of its cells."""

    key: str
    title: str
    kind: Kind = "text"


def columns(kind: Kind, **titles: str) -> list[Column]:
    """Columns of one kind, from their keys and titles; an empty title becomes the key, with spaces for underscores."""
    return [Column(key, title or key.replace("_", " "), kind) for key, title in titles.items()]


@dataclass(frozen=True)
class Table:
    """A table; the first cell of a row is the row's name."""

    key: str
    title: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def column(self, key: str) -> list[Any]:
        """The cells of a column."""
        places = {column.key: i for i, column in enumerate(self.columns)}
        return [row[places[key]] for row in self.rows]

    def has(self, key: str) -> bool:
        """Whether the table has a column with this key."""
        return any(column.key == key for column in self.columns)

    def without(self, keys: Sequence[str]) -> Table:
        """A copy of the table without the columns with these keys."""
        kept = [i for i, column in enumerate(self.columns) if column.key not in keys]
        rows = tuple(tuple(row[i] for i in kept) for row in self.rows)
        return replace(self, columns=tuple(self.columns[i] for i in kept), rows=rows)


def make_table(
    key: str, title: str, caption: str, heads: Sequence[Column], rows: Sequence[Sequence[Cell]]
) -> Table | None:
    """Make a table; None if there is no row.

    A column without a text or value in any row is dropped, unless its kind is ``money``.
    """
    if not rows:
        return None
    table = Table(key, title, caption, tuple(heads), tuple(map(tuple, rows)))
    return table.without([c.key for c in heads if c.kind != "money" and all(map(_is_blank, table.column(c.key)))])


def _is_blank(cell: Cell) -> bool:
    return cell in (None, "") or (isinstance(cell, Interval) and cell.value is None)


# --- on a screen ------------------------------------------------------------------------------------------------------


def format_cell(cell: Cell, kind: Kind) -> str:
    """A cell as text for readers."""
    if isinstance(cell, Nested):
        return cell.text
    if isinstance(cell, Interval):
        if cell.value is None and cell.reason:
            return f"not computable: {cell.reason}"
        if cell.low is None or cell.high is None:
            return (
                f"{format_cell(cell.value, kind)} [no interval: {cell.reason}]"
                if cell.reason
                else format_cell(cell.value, kind)
            )
        return f"{format_cell(cell.value, kind)} [{format_cell(cell.low, kind)}, {format_cell(cell.high, kind)}]"
    if cell is None:
        return "unknown" if kind == "money" else "–"
    return cell if isinstance(cell, str) else _format_number(cell, kind)


def _format_number(value: float, kind: Kind) -> str:
    if kind == "p":
        return "< 0.001" if value < 0.001 else f"{value:.3f}"
    if kind == "money":
        return f"{value:.2g}" if 0 < value < 0.01 else f"{value:,.4f}"
    value += 0.0  # turns -0.0 into 0.0
    forms = {"count": ",.0f", "share": ".3f", "signed": "+.3f", "number": ",.1f", "ratio": ".2f", "variance": ".6f"}
    return format(round(value, 3) + 0.0 if kind == "signed" else value, forms.get(kind, ""))


def is_numeric(column: Column) -> bool:
    """Whether a column is for numbers; single cells may still be texts."""
    return column.kind != "text"


# --- in files ---------------------------------------------------------------------------------------------------------


def as_csv(table: Table) -> str:
    """A table as CSV: numbers are not rounded, an interval has three columns, and unknown values are empty.

    A text that a spreadsheet would treat as a formula gets a leading apostrophe.
    """
    parts: dict[str, list[Any]] = {}
    for column in table.columns:
        cells = table.column(column.key)
        values = [cell.value if isinstance(cell, Interval) else cell for cell in cells]
        texts = [value.text if isinstance(value, Nested) else value for value in values]
        parts[column.key] = [escape_formula(text) if isinstance(text, str) else text for text in texts]
        if any(isinstance(cell, Interval) for cell in cells):
            for end in ("low", "high"):
                parts[f"{column.key}_{end}"] = [getattr(cell, end, None) for cell in cells]
    # as objects, because whole numbers beside unknown ones would become floats
    written: str = load_extra("pandas").DataFrame(parts, dtype=object).to_csv(index=False, lineterminator="\n")
    return written


def as_records(table: Table) -> dict[str, Any]:
    """A table as plain JSON: its title, its caption, its columns, and each row as an object."""
    names = [column.key for column in table.columns]
    return {
        "title": table.title,
        "caption": table.caption,
        "columns": [asdict(column) for column in table.columns],
        "rows": [dict(zip(names, map(_json_value, row), strict=True)) for row in table.rows],
    }


def _json_value(cell: Cell) -> Any:
    if isinstance(cell, Nested):
        return cell.text
    return asdict(cell) if isinstance(cell, Interval) else cell


def as_markdown(table: Table) -> str:
    """A table in Markdown, with its title as a heading and its caption below."""
    aligned = ["right" if is_numeric(column) else "left" for column in table.columns]
    heads = [escaped(column.title) for column in table.columns]
    written = _shown_cells(table, _markdown_cell).to_markdown(
        headers=heads, index=False, colalign=aligned, disable_numparse=True
    )
    return f"### {escaped(table.title)}\n\n{written}\n\n{escaped(table.caption)}\n"


def _shown_cells(table: Table, text_of: Callable[[Cell, Kind], str]) -> Any:
    """A data frame with a table's cells as texts."""
    kinds = [column.kind for column in table.columns]
    return load_extra("pandas").DataFrame([list(map(text_of, row, kinds)) for row in table.rows])


def _markdown_cell(cell: Cell, kind: Kind) -> str:
    text = format_cell(cell, kind)
    if isinstance(cell, Nested):
        return f"&emsp;{escaped(text)}"
    return escaped(text) if isinstance(cell, str) else text


LATEX = str.maketrans(
    {
        **{sign: rf"\{sign}" for sign in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "–": "--",
        "[": "{[}",
        "]": "{]}",
    }
)
"""LaTeX's special characters with their escapes. LaTeX would read a bracket at the start of a row as an argument."""
FITTING_TABULAR = r"""\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%%
%s}"""
"""LaTeX for a tabular that is scaled down to the width of its column or page if it is wider, and never up."""


def as_latex(table: Table, label: str) -> str:
    """A table in LaTeX, which needs the packages booktabs and graphicx; its notes are comments below the title."""
    rows = [
        [_latex_cell(cell, column.kind) for cell, column in zip(row, table.columns, strict=True)] for row in table.rows
    ]
    heads = [escape_latex(column.title) for column in table.columns]
    aligned = "".join("r" if is_numeric(column) else "l" for column in table.columns)
    notes = fill(" ".join(table.caption.split()), 118, initial_indent="% ", subsequent_indent="% ")
    return (
        f"% Needs the packages booktabs and graphicx.\n{notes}\n\\begin{{table}}[t]\n\\centering\n"
        f"{FITTING_TABULAR % tabular(heads, rows, aligned)}\n"
        f"\\caption{{{escape_latex(table.title)}.}}\n\\label{{{label}}}\n\\end{{table}}\n"
    )


def tabular(heads: Sequence[str], rows: Sequence[Sequence[str]], aligned: str) -> str:
    """A tabular from texts that are already escaped."""
    style = load_extra("pandas").DataFrame([list(row) for row in rows]).style.hide(axis="index")
    titles = [head.replace("{", "{{").replace("}", "}}") for head in heads]  # pandas fills these texts by `format`
    written: str = style.relabel_index(titles, axis="columns").to_latex(column_format=aligned, hrules=True)
    return written.strip()


def escape_latex(text: str) -> str:
    """A text in LaTeX: special characters escaped, each run of white space as one space."""
    return " ".join(text.split()).translate(LATEX)


def _latex_cell(cell: Cell, kind: Kind) -> str:
    text = escape_latex(format_cell(cell, kind))
    return rf"\quad {text}" if isinstance(cell, Nested) else text
