"""The form of parsed documents, which the parsers of all formats return."""

from __future__ import annotations

from typing_extensions import TypedDict

DAMAGED = "it is damaged. Open it in a program that can display it, and save it again"


class Part(TypedDict):
    """A page, a row, or a block (such as a paragraph, a list or a table) of a document."""

    text: str
    heading: str  # the last heading before the part, or the last bookmark before or on the page; may be empty
    page: int  # from 1; 0 if the document has no pages


class ParsedDocument(TypedDict):
    """The result of parsing a document; texts may be empty."""

    title: str
    published: str  # a date that the document states, not the file's
    url: str
    pages: int
    empty_pages: int  # without readable text
    note: str  # how the document was read, if this may surprise the user
    parts: list[Part]


class UnreadableDocument(Exception):  # noqa: N818 - says why a document cannot be read
    """Raised for a document that cannot be read; the message is the reason, as the end of a sentence."""


def new_document(
    parts: list[Part], title: str = "", published: str = "", url: str = "", pages: int = 0
) -> ParsedDocument:
    """Creates a parsed document with a shortened title and the number of pages without text."""
    empty = pages - len({part["page"] for part in parts if part["text"].strip()}) if pages else 0
    return {
        "title": " ".join(title.split())[:500],
        "published": published,
        "url": url,
        "pages": pages,
        "empty_pages": empty,
        "note": "",
        "parts": parts,
    }
