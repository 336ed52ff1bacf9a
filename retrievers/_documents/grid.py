"""Writes tables of HTML, also of mammoth's for Word, as lines in which each cell has its headings.

A line is a row: ``Name: Old; Year: 1869``. A table without headings has the cells of a row between bars.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from moot.retrievers._documents.layout import raised

INLINE_NAMES = "a abbr acronym b bdi bdo big cite code data dfn em font hi i ins kbd label mark nobr q ruby samp small"
INLINE = frozenset((*INLINE_NAMES.split(), "span", "strong", "sub", "sup", "time", "tt", "u", "var", "wbr"))
"""Elements within words and lines. The text of all others is apart from the text around them."""
WIDEST = 1000
"""The maximum number of columns or rows that a cell reaches over: HTML's limit for columns."""
LAYOUT = ("h1", "h2", "h3", "h4", "h5", "h6", "table")
"""Elements in the cells of tables that only place the parts of a page."""
LONGEST_CELL = 60
"""A table without headings and with a longer cell, in words, only places the parts of a page."""

TOTAL = re.compile(
    "(?:grand )?total|all\\b|sum\\b|gesamt|insgesamt|summe|ensemble|suma\\b|razem|toplam|всего|итого|合计|合計|"
    "总计|總計|计$|計$|합계|المجموع|الإجمالي",
    re.IGNORECASE,
)
"""The heading of a row that may be the sum of a whole table, also if it is below the heading of a group of rows."""
YEAR = re.compile(r"(?:1[5-9]|20)\d\d(?:[/–-]\d\d(?:\d\d)?)?")
EMPTY = "–"
"""An empty cell between others, in a row without headings."""


class Cell(NamedTuple):
    """A cell: its number in the table, its text, and whether it is the heading of a column or of a row."""

    number: int
    text: str
    kind: str  # "column", "row" or ""


def flatten_tables(tree: Any, *, page: bool) -> None:
    """Puts the lines of each table, one a row, in the table's place; on a ``page``, tables may only be its layout."""
    for table in reversed(list(tree.iter("table"))):  # inner tables before the outer ones
        rows = _grid(table)
        marked = any(cell.kind for row in rows for cell in row)
        if page and not marked and _is_layout(table, rows):
            for element in [table, *table.iter("tbody", "tr", "td", "thead", "tfoot")]:
                element.tag = "div"
            continue
        is_sentence = page or next(table.iterancestors("table"), None) is not None
        caption = table.find("caption")
        lines = [text] if caption is not None and (text := _plain(caption)) else []
        lines += _lines(rows if marked else _guessed(table, rows))
        table[:] = []
        table.text = None
        for line in lines:
            row = table.makeelement("tr")
            cell = row.makeelement("td")
            cell.text = f"{line}." if is_sentence and line[-1] not in ".!?…。" else line
            row.tail = "\n"
            row.append(cell)
            table.append(row)


def text_of(element: Any) -> str:
    """An element's text, with line ends between blocks, and with superscripts apart from numbers."""
    texts = [element.text or ""]
    for child in element:
        text = text_of(child) if isinstance(child.tag, str) else ""
        if child.tag in ("sup", "sub"):
            text = raised(text, child.tag == "sup", "".join(texts))
        texts += [text if child.tag in INLINE else f"\n{text}\n", child.tail or ""]
    return "".join(texts)


def _plain(element: Any) -> str:
    return " ".join(text_of(element).split())


def _own_rows(table: Any) -> list[Any]:
    return [row for row in table.iter("tr") if next(row.iterancestors("table"), None) is table]


def _is_layout(table: Any, rows: Sequence[Sequence[Cell]]) -> bool:
    """Whether a table without headings only places the parts of a page."""
    return (
        table.get("role") in ("presentation", "none")
        or max(map(len, rows), default=0) < 2
        or len(rows) < 2
        or any(element is not table for element in table.iter(*LAYOUT))
        or any(len(cell.text.split()) > LONGEST_CELL for row in rows for cell in row)
    )


def _grid(table: Any) -> list[list[Cell]]:
    """The cells of each row by their columns, without empty columns; a cell that reaches over several is in all."""
    rows: list[list[Cell]] = []
    reaching: dict[int, tuple[int, Cell]] = {}  # by column: the number of rows below, and the cell
    number = 0
    for row in _own_rows(table):
        cells = {column: cell for column, (_, cell) in reaching.items()}
        below = {column: (left - 1, cell) for column, (left, cell) in reaching.items() if left > 1}
        column = 0
        for element in row.iterchildren("td", "th"):
            while column in reaching:
                column += 1
            number += 1
            cell = Cell(number, _plain(element), _kind(element))
            height = _span(element, "rowspan")
            for _ in range(_span(element, "colspan")):
                cells[column] = cell
                if height > 1:
                    below[column] = (height - 1, cell)
                column += 1
        reaching = below
        number += 1
        empty = Cell(number, "", "")
        rows.append([cells.get(column, empty) for column in range(max(cells, default=-1) + 1)])
    filled = {column for row in rows for column, cell in enumerate(row) if cell.text}
    return [[cell for column, cell in enumerate(row) if column in filled] for row in rows]


def _span(cell: Any, name: str) -> int:
    found = re.match(r"\s*(\d{1,4})", cell.get(name) or "")
    return min(max(int(found[1]), 1), WIDEST) if found else 1


def _kind(cell: Any) -> str:
    """The kind of a cell; the heading of a row may be above no other cell, so that `_lines` decides."""
    if cell.getparent().getparent().tag == "thead":
        return "column"
    if cell.tag == "th":
        return "row" if (cell.get("scope") or "").lower().startswith("row") else "column"
    return {"rowheader": "row", "columnheader": "column"}.get(cell.get("role"), "")


def _guessed(table: Any, rows: list[list[Cell]]) -> list[list[Cell]]:
    """The rows of a table without headings, in which cells are headings if they look so.

    That is the first row or the first column if it alone is bold, or a first row without figures over columns of
    figures, if the first column or two others have them. (A form such as "Name, Old; Opened, 1869" must not match.)
    """
    bold = [[_is_bold(cell) for cell in row.iterchildren("td") if _plain(cell)] for row in _own_rows(table)]
    first = rows[0] if rows else []
    below = [row for row in rows[1:] if row]
    if len(first) < 2 or not below or not all(cell.text for cell in first[1:]):
        heads = columns = False
    else:
        names = {cell.text for cell in first}
        columns_below = [[row[at].text for row in below if at < len(row) and row[at].text] for at in range(len(first))]
        figures = [bool(column) and all(re.search(r"\d", text) for text in column) for column in columns_below]
        plain = not any(re.search(r"\d", name) for name in names) and len(names) == len(first)
        plain |= not first[0].text and all(YEAR.fullmatch(cell.text) for cell in first[1:])
        heads = (all(bold[0]) and not all(map(all, bold[1:]))) or (
            plain and (figures[0] or sum(figures) > 1 or not first[0].text)
        )
        columns = all(row[:1] == [True] for row in bold) and not any(any(row[1:]) for row in bold)
    if heads:
        return [[cell._replace(kind="column") for cell in first], *below]
    return [[row[0]._replace(kind="row"), *row[1:]] if columns and row else row for row in rows]


def _is_bold(cell: Any) -> bool:
    bold = "".join("".join(one.itertext()) for one in cell.iter("b", "strong"))
    return "".join(bold.split()) == "".join("".join(cell.itertext()).split())


def _lines(rows: Iterable[Sequence[Cell]]) -> Iterator[str]:
    """The rows as lines with their headings; headings that have no row below are lines, too."""
    names: list[str] = []
    group, unused = "", ""
    above = False  # whether the row before is one of names, too
    for row in rows:
        runs = [next(same) for _, same in groupby(row, lambda cell: cell.number)]
        filled = [cell for cell in runs if cell.text]
        if not filled:
            continue
        is_head = all(cell.kind == "column" for cell in filled)
        if filled[0].kind and len(runs) == 1 and len(row) > 1:
            if unused and not above:
                yield unused
            group = filled[0].text
            unused = "; ".join(filter(None, (unused if above else "", group)))
        elif is_head and (row[0] not in filled or len(filled) > 1):
            if unused and not above and unused != group:
                yield unused
            before = names if above else []
            names = [
                " ".join(dict.fromkeys(filter(None, (before[at] if at < len(before) else "", cell.text))))
                for at, cell in enumerate(row)
            ]
            unused = "; ".join(dict.fromkeys(filter(None, (unused, *(cell.text for cell in filled)))))
            above = True
        else:
            line = _line(row, names)
            is_within = group and len(runs) > 1 and not (len(runs) > 2 and TOTAL.match(filled[0].text))
            yield f"{group}; {line}" if is_within else line
            unused, above = "", False
    if unused:
        yield unused


def _line(row: Sequence[Cell], names: Sequence[str]) -> str:
    """A row as a line: each cell after the names of its columns, else after the heading of the row before it."""
    bare = not any(names) and not any(cell.kind for cell in row)
    parts: list[str] = []
    heads: list[str] = []
    for _, same in groupby(enumerate(row), lambda one: one[1].number):
        columns = list(same)
        text, kind = columns[0][1].text, columns[0][1].kind
        name = ", ".join(dict.fromkeys(names[at] for at, _ in columns if at < len(names) and names[at]))
        if not text:
            parts += [EMPTY] if bare else []
            continue
        if name and len(columns) < max(len(row), 2):
            parts += [*heads, f"{name}: {text}"]
            heads = []
        elif kind:
            heads.append(text)
        else:
            parts.append(f"{', '.join(heads)}: {text}" if heads else text)
            heads = []
    while parts and parts[-1] is EMPTY:
        parts.pop()
    return (" | " if bare else "; ").join(parts + heads)
