"""Divides the tree of an HTML page, or of a Word document as HTML, into blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moot.retrievers._documents.parsed import Part


def blocks(body: Any, headings: tuple[str, ...], tags: tuple[str, ...]) -> Iterator[Part]:
    """The outermost blocks of a tree in order, each with the last heading before it; other text is lost."""
    heading, within = "", None
    for element in body.iter():
        if within is not None and within in element.iterancestors():
            continue
        within = None
        if element.tag in headings:
            heading, within = " ".join(element.itertext()).strip()[:200], element
        elif element.tag in tags:
            within = element
            yield {"text": " ".join(" ".join(element.itertext()).split()), "heading": heading, "page": 0}
