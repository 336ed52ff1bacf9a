"""The form of parsed documents, which the parsers of all formats return."""

from __future__ import annotations

import zipfile

from typing_extensions import TypedDict

DAMAGED = "it is damaged. Open it in a program that can display it, and save it again"

LARGEST_UNPACKED = 100 * 2**20
"""The maximum size of an Office file's unpacked XML files, in bytes."""
MOST_CHARACTERS = 50_000_000
"""The maximum length of a document's text, in characters."""

LONGEST_SHOWN = 80
"""The maximum number of characters of a document's text that a note shows."""


class Part(TypedDict):
    """A page, a row, or a block (such as a paragraph, a list or a table) of a document."""

    text: str
    heading: str  # the last heading before the part, or the last bookmark before or on the page; may be empty
    page: int  # from 1; 0 if the document has no pages


class ParsedDocument(TypedDict):
    """The result of parsing a document; texts may be empty."""

    title: str
    published: str  # a date that the document states, not the file's
    modified: str  # the date of its last change, if a web page states it
    publisher: str  # the name of the website, if a web page states it
    url: str
    pages: int
    empty_pages: int  # without readable text
    note: str  # how the document was read, if this may surprise the user
    excerpt: str  # what a web page says that shows that it may be only a part, such as a pay wall
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
        "modified": "",
        "publisher": "",
        "url": url,
        "pages": pages,
        "empty_pages": empty,
        "note": "",
        "excerpt": "",
        "parts": parts,
    }


def note_of(found: ParsedDocument) -> str:
    """What of a document is missing, and how it was read, if this may surprise; else empty."""
    empty = f"{found['empty_pages']:,} of its {found['pages']:,} pages contain no text (they are empty or pictures)"
    part = f"it says “{beginning(found['excerpt'])}”, so it may hold only a part of the page"
    told = (empty if found["empty_pages"] else "", found["note"], part if found["excerpt"] else "")
    return "; ".join(filter(None, told))


def struck_note(struck: str) -> str:
    """The note on text that is struck out, which is left out as withdrawn."""
    return f"text that is struck out is left out (“{beginning(struck)}”)"


def beginning(text: str) -> str:
    """The beginning of a text, for a note or an error."""
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN].rstrip()} ..."


def check_unpacked_size(packed: zipfile.ZipFile) -> None:
    """Refuses an Office file whose texts are too large when they are unpacked; pictures do not count."""
    texts = (part for part in packed.infolist() if part.filename.endswith((".xml", ".rels")))
    if sum(part.file_size for part in texts) > LARGEST_UNPACKED:
        raise UnreadableDocument(f"it unpacks to more than {LARGEST_UNPACKED // 2**20} MiB")
