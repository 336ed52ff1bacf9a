"""Divides the tree of an HTML page, or of a Word document as HTML, into blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from moot.core.lazy import imported
from moot.retrievers._documents.grid import INLINE, text_of
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
                loose += [*_edge(element), element.text or ""]
        elif event == "end" and element is within:
            within = None
            if element.tag in headings:
                heading = " ".join(text_of(element).split())[:200]
            elif part := _part([text_of(element)], heading):
                yield part
        if event == "end" and within is None and element is not body:
            loose += [*_edge(element), element.tail or ""]
    if part := _part(loose, heading):
        yield part


def _edge(element: Any) -> tuple[str, ...]:
    """What divides the text around the start or the end of an element."""
    return () if element.tag in INLINE else ("\n",)


def _part(texts: Iterable[str], heading: str) -> Part | None:
    """A part with these texts; None if they are only white space."""
    text = " ".join("".join(texts).split())
    return {"text": text, "heading": heading, "page": 0} if text else None
