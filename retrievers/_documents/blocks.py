"""Divides the tree of an HTML page, or of a Word document as HTML, into blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from moot.core.lazy import imported
from moot.retrievers._documents.parsed import Part


def blocks(body: Any, headings: tuple[str, ...], tags: tuple[str, ...]) -> Iterator[Part]:
    """The outermost blocks of a tree in order, each with the last heading before it; loose text is a block, too."""
    etree = imported("lxml.etree")
    heading = ""
    within: Any = None
    loose: list[str] = []
    for event, element in etree.iterwalk(body, events=("start", "end")):
        if event == "start" and within is None:
            if element.tag in (*headings, *tags):
                if part := _part(loose, heading):
                    yield part
                within, loose = element, []
            else:
                loose.append(element.text or "")
        elif event == "end" and element is within:
            within = None
            if element.tag in headings:
                heading = " ".join(element.itertext()).strip()[:200]
            elif part := _part(_rows(element) or element.itertext(), heading):
                yield part
        if event == "end" and within is None and element is not body:
            loose.append(element.tail or "")
    if part := _part(loose, heading):
        yield part


def _rows(table: Any) -> list[str]:
    """The rows of a table with the column's name before each cell; empty if its first row does not name the columns."""
    rows = [
        [(cell.get("role"), " ".join(" ".join(cell.itertext()).split())) for cell in row] for row in table.iter("row")
    ]
    if len(rows) < 2 or {len(row) for row in rows} != {len(rows[0])} or {role for role, _ in rows[0]} != {"head"}:
        return []
    return [
        "; ".join(f"{name}: {cell}" for (_, name), (_, cell) in zip(rows[0], row, strict=True)) + "."
        for row in rows[1:]
    ]


def _part(texts: Iterable[str], heading: str) -> Part | None:
    """A part with these texts; None if they are only white space."""
    text = " ".join(" ".join(texts).split())
    return {"text": text, "heading": heading, "page": 0} if text else None
