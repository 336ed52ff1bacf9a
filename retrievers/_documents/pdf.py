"""Parses PDF files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from moot.core.lazy import imported
from moot.retrievers._documents.parsed import DAMAGED, ParsedDocument, Part, UnreadableDocument, new_document

MOST_PAGES = 5000
"""The maximum number of pages of a PDF."""
NO_TITLES = ("untitled", "untitled document", "(anonymous)", "unspecified")
"""Titles that programs write into PDF files without a title."""


def parse_pdf(file: Path) -> ParsedDocument:
    """Parses a PDF: each readable page becomes a part, under the last bookmark on or before the page."""
    pdfium = imported("pypdfium2")
    try:
        document = pdfium.PdfDocument(file)
    except pdfium.PdfiumError as error:
        locked = "password" in str(error).lower()
        raise UnreadableDocument("it is encrypted. Save a copy without a password" if locked else DAMAGED) from error
    pages = len(document)
    if pages > MOST_PAGES:
        raise UnreadableDocument(f"it has {pages:,} pages, more than the maximum of {MOST_PAGES:,}. Give a part of it")
    headings = _outline(document, pdfium)
    parts: list[Part] = []
    heading, broken = "", 0
    for number in range(pages):
        heading = headings.get(number, heading)
        try:
            text = document[number].get_textpage().get_text_bounded()
        except pdfium.PdfiumError:
            broken += 1
            continue
        parts.append({"text": join_lines(text), "heading": heading, "page": number + 1})
    if broken == pages:
        raise UnreadableDocument(DAMAGED)
    if not any(part["text"].strip() for part in parts):
        raise UnreadableDocument(
            "its pages are pictures without text, such as scans. Run text recognition (OCR) on it first"
        )
    title = document.get_metadata_dict().get("Title") or ""
    return new_document(parts, "" if title.strip().lower() in NO_TITLES else title, pages=pages)


def _outline(document: Any, pdfium: Any) -> dict[int, str]:
    """The title of the last bookmark on each page with any, by the page's index from 0; empty if unreadable."""
    found: dict[int, str] = {}
    try:
        for mark in document.get_toc(max_depth=3):
            position = mark.get_dest()
            if position is not None and position.get_index() is not None:
                found[position.get_index()] = " ".join(mark.get_title().split())[:200]
    except (pdfium.PdfiumError, ValueError):
        return {}
    return found


def join_lines(text: str) -> str:
    """A page's lines as running text, in which lower-case words that a hyphen divides are joined again."""
    text = text.replace("\r", "\n").replace("\x02\n", "").replace("\ufffe\n", "").replace("\ufffe", "")
    text = re.sub(r"(?<=[a-z])[-\u00ad]\n+(?=[a-z])", "", text)
    return " ".join(text.split())
