"""Extracts the texts of documents, with their pages and headings.

Documents are untrusted. So the module `children` runs these functions in child processes with limits.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from moot.core.lazy import missing_package
from moot.retrievers._documents.charsets import encoding_of_start
from moot.retrievers._documents.html import parse_html
from moot.retrievers._documents.parsed import MOST_CHARACTERS, ParsedDocument, UnreadableDocument, note_of
from moot.retrievers._documents.pdf import parse_pdf
from moot.retrievers._documents.rows import parse_csv, parse_xlsx
from moot.retrievers._documents.word import parse_docx

PICTURE = "a picture. Run text recognition (OCR) on it, and save the result as text or PDF"
Kind = Literal["pdf", "html", "docx", "csv", "xlsx"]
WORKBOOKS = (".xlsx", ".xlsm")
"""The suffixes of Excel workbooks."""

PACKAGES = {
    "pdf": ("pypdfium2", "A PDF"),
    "docx": ("mammoth", "A Word document"),
    "xlsx": ("python_calamine", "A workbook"),
}
"""The packages of the extra ``documents`` that read a kind of document, with the subject of the error without them."""
LARGEST_DOCUMENT = 200 * 2**20
"""The maximum size of a file, in bytes."""
FOREIGN = {
    b"\xd0\xcf\x11\xe0": "an old Office file (.doc, .xls) or has a password. Save it as .docx, .xlsx or PDF",
    b"{\\rtf": "rich text (RTF). Save it as .docx or PDF",
    b"\x89PNG": PICTURE,
    b"\xff\xd8\xff": PICTURE,
    b"GIF8": PICTURE,
    b"II*\0": PICTURE,
    b"MM\0*": PICTURE,
    b"\x1f\x8b": "a compressed file. Unpack it",
    b"%!PS": "PostScript. Save it as PDF",
}
"""The first bytes of files that are not supported, each with the kind of file and advice."""


def kind_of(file: Path) -> Kind | None:
    """The kind of a file, by its name only if its content does not show it; None for plain text."""
    if kind := _kind_of(file):
        check_package(kind)
    return kind


def check_package(kind: Kind) -> None:
    """Raises a UserError that names the extra ``documents`` if the package that reads this kind is not installed."""
    package, subject = PACKAGES.get(kind, ("", ""))
    if package and find_spec(package) is None:
        raise missing_package(ModuleNotFoundError(name=package), "documents", subject)


def _kind_of(file: Path) -> Kind | None:
    with file.open("rb") as opened:
        start = opened.read(4096)
    if b"%PDF-" in start[:1024]:
        return "pdf"
    if start.startswith(b"PK\x03\x04"):
        if file.suffix.lower() in WORKBOOKS:
            return "xlsx"
        return "docx"  # `parse` checks it, in a child process, because a ZIP file may list millions of files
    if what := next((what for mark, what in FOREIGN.items() if start.startswith(mark)), None):
        raise UnreadableDocument(f"it is {what}")
    if not start.strip():
        raise UnreadableDocument("it is empty")
    encoding = encoding_of_start(start)
    if encoding is None and b"\0" in start:
        raise UnreadableDocument("it contains no text")
    text = start.decode(encoding or "latin-1", "replace").encode().lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith((b"<!doctype html", b"<html", b"<head", b"<body")) or b"<html" in text[:1000]:
        return "html"
    suffix = file.suffix.lower()
    if suffix == ".pdf":
        raise UnreadableDocument("it is not a PDF, although its name says so")
    if suffix == ".docx":
        raise UnreadableDocument("it is not a Word document, although its name says so")
    if suffix in WORKBOOKS:
        raise UnreadableDocument("it is not an Excel workbook, although its name says so")
    return "html" if suffix in (".html", ".htm", ".xhtml") else "csv" if suffix in (".csv", ".tsv") else None


def parse(file: Path, kind: Kind, tick: Callable[[], None] = lambda: None) -> ParsedDocument:
    """Parses a document, which if damaged or malicious may raise any error, not only UnreadableDocument.

    ``tick`` is called after each page of a PDF.
    """
    if file.stat().st_size > LARGEST_DOCUMENT:
        raise UnreadableDocument(f"it has more than {LARGEST_DOCUMENT // 2**20} MiB")
    found = parse_pdf(file, tick) if kind == "pdf" else PARSERS[kind](file)
    found["parts"] = [part for part in found["parts"] if part["text"].strip()]
    if not found["parts"]:
        raise UnreadableDocument("it contains no text")
    if sum(len(part["text"]) for part in found["parts"]) > MOST_CHARACTERS:
        raise UnreadableDocument(f"it contains more than {MOST_CHARACTERS:,} characters of text. Give a part of it")
    return found


def texts_of(found: ParsedDocument, name: str) -> list[dict[str, str]]:
    """A document's texts in the form of `moot.nodes._texts.given.GivenText`; ``name`` replaces a missing title."""
    texts: list[dict[str, str]] = []
    previous: tuple[str, int] | None = None
    for part in found["parts"]:
        position = (part["heading"], part["page"])
        # Consecutive parts on the same page and under the same heading become one text.
        if position == previous:
            texts[-1]["text"] += "\n\n" + part["text"]
            continue
        previous = position
        title = found["title"] or name
        title = title if part["heading"] in ("", title) else f"{title}: {part['heading']}"
        known = {"page": str(part["page"] or ""), "heading": part["heading"], "published": found["published"]}
        known["note"] = note_of(found)
        texts.append({"text": part["text"], "title": title, **{key: value for key, value in known.items() if value}})
    return texts


PARSERS: dict[Kind, Callable[[Path], ParsedDocument]] = {
    "html": parse_html,
    "docx": parse_docx,
    "csv": parse_csv,
    "xlsx": parse_xlsx,
}
