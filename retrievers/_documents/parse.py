"""Extracts the texts of documents, with their pages and headings.

Documents are untrusted. So the module `children` runs these functions in child processes with limits.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from moot.core.lazy import imported
from moot.retrievers._documents.tables import (
    ERROR_CELL,
    NO_VALUE,
    Row,
    Sheet,
    cell_text,
    csv_delimiter,
    csv_rows,
    fit,
    header_of,
    sheet_rows,
)
from typing_extensions import TypedDict

DAMAGED = "it is damaged. Open it in a program that can display it, and save it again"
PICTURE = "a picture. Run text recognition (OCR) on it, and save the result as text or PDF"
Kind = Literal["pdf", "html", "docx", "csv", "xlsx"]

WORKBOOKS = (".xlsx", ".xlsm")
"""The suffixes of Excel workbooks."""
LARGEST_DOCUMENT = 200 * 2**20
"""The maximum size of a file, in bytes."""
LARGEST_UNPACKED = 100 * 2**20
"""The maximum size of an Office file's unpacked XML files, in bytes."""
MOST_PAGES = 5000
"""The maximum number of pages of a PDF."""
MOST_CHARACTERS = 50_000_000
"""The maximum length of a document's text, in characters."""
LIKELY = 0.2
"""A guessed encoding is used only if the decoded text resembles a language by more than this value (0 to 1)."""
LONGEST_CELL = 1_000_000
"""The maximum length of a CSV cell, in characters."""
MOST_LINES = 5
"""The maximum number of lines that a note lists."""
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
MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""The encodings named by byte order marks."""
CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
NO_TITLES = ("untitled", "untitled document", "(anonymous)", "unspecified")
"""Titles that programs write into PDF files without a title."""
AS_ROWS = (
    "each row is one passage with all of its columns, including one named `text`. If the columns are the "
    "fields of a passage (id, title, url), convert the file to .jsonl"
)
"""The note on a CSV file with a column ``text``."""
CORE = "docProps/core.xml"
"""The file with the title, inside a Word document."""
BLOCKS = ("p", "li", "tr", "blockquote", "pre")
HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")


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


def kind_of(file: Path) -> Kind | None:
    """The kind of a file, by its name only if its content does not show it; None for plain text."""
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
    encoding = bom_encoding(start)
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


def parse(file: Path, kind: Kind) -> ParsedDocument:
    """Parses a document, which if damaged or malicious may raise any error, not only UnreadableDocument."""
    if file.stat().st_size > LARGEST_DOCUMENT:
        raise UnreadableDocument(f"it has more than {LARGEST_DOCUMENT // 2**20} MiB")
    found = PARSERS[kind](file)
    found["parts"] = [part for part in found["parts"] if part["text"].strip()]
    if not found["parts"]:
        raise UnreadableDocument("it contains no text")
    if sum(len(part["text"]) for part in found["parts"]) > MOST_CHARACTERS:
        raise UnreadableDocument(f"it contains more than {MOST_CHARACTERS:,} characters of text. Give a part of it")
    return found


def bom_encoding(content: bytes) -> str | None:
    """The encoding that a text's byte order mark shows; None if the text has no mark."""
    return next((encoding for mark, encoding in MARKS.items() if content.startswith(mark)), None)


def decoded(content: bytes, declared: str | None = None) -> str:
    """The text in the first encoding that fits: of the byte order mark, UTF-8, of an HTML declaration, or a guess.

    A ``declared`` encoding is the only one that is tried.
    """
    if declared:
        try:
            return content.decode(declared)
        except (UnicodeError, LookupError) as error:
            raise UnreadableDocument(f"it is not text in {declared} ({error})") from error
    named = CHARSET.search(content[:4096])
    for encoding in (bom_encoding(content), "utf-8", named and named[1].decode()):
        try:
            if encoding:
                return content.decode(encoding)
        except (UnicodeError, LookupError):
            continue
    best = imported("charset_normalizer").from_bytes(content[:100_000]).best()
    try:
        if best is not None and best.coherence > LIKELY and b"\0" not in content:
            return content.decode(best.encoding)
    except UnicodeDecodeError:
        pass
    raise UnreadableDocument("it is not UTF-8 text. Save the file as UTF-8")


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
        texts.append({"text": part["text"], "title": title, **{key: value for key, value in known.items() if value}})
    return texts


def _document(parts: list[Part], title: str = "", published: str = "", url: str = "", pages: int = 0) -> ParsedDocument:
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


# --- PDF


def _parse_pdf(file: Path) -> ParsedDocument:
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
    return _document(parts, "" if title.strip().lower() in NO_TITLES else title, pages=pages)


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


# --- HTML and Word


def _parse_html(file: Path) -> ParsedDocument:
    """Parses an HTML page; if its main content is not found, the whole text becomes one part."""
    trafilatura, html = imported("trafilatura"), imported("lxml.html")
    parser = html.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
    try:
        page = html.document_fromstring(decoded(file.read_bytes()).encode(errors="replace"), parser=parser)
    except html.etree.ParserError as error:
        raise UnreadableDocument("it is not readable HTML") from error
    if any("depth" in fault.message for fault in parser.error_log):
        raise UnreadableDocument("it is nested too deeply. Save it as PDF")
    whole = trafilatura.html2txt(page)
    found = trafilatura.bare_extraction(
        page,
        include_comments=False,
        include_tables=True,
        favor_recall=True,
        with_metadata=True,
        date_extraction_params={"extensive_search": False, "original_date": True},  # a stated date, not a guess
    )
    if found is None or found.body is None:
        return _document([{"text": whole, "heading": "", "page": 0}])
    parts = list(_blocks(found.body, ("head",), ("p", "list", "table", "quote", "code")))
    return _document(parts, found.title or "", found.date or "", found.url or "")


def _blocks(body: Any, headings: tuple[str, ...], blocks: tuple[str, ...]) -> Iterator[Part]:
    """The outermost blocks of a tree in order, each with the last heading before it; other text is lost."""
    heading, within = "", None
    for element in body.iter():
        if within is not None and within in element.iterancestors():
            continue
        within = None
        if element.tag in headings:
            heading, within = " ".join(element.itertext()).strip()[:200], element
        elif element.tag in blocks:
            within = element
            yield {"text": " ".join(" ".join(element.itertext()).split()), "heading": heading, "page": 0}


def check_unpacked_size(packed: zipfile.ZipFile) -> None:
    """Refuses an Office file whose texts are too large when they are unpacked; pictures do not count."""
    texts = (part for part in packed.infolist() if part.filename.endswith((".xml", ".rels")))
    if sum(part.file_size for part in texts) > LARGEST_UNPACKED:
        raise UnreadableDocument(f"it unpacks to more than {LARGEST_UNPACKED // 2**20} MiB")


def _parse_docx(file: Path) -> ParsedDocument:
    """Parses a Word document, without its pictures."""
    mammoth, html = imported("mammoth"), imported("lxml.html")
    try:
        with zipfile.ZipFile(file) as packed:
            if "word/document.xml" not in packed.namelist():
                raise UnreadableDocument("it is a ZIP file. Unpack it, or save it as PDF, .docx, .xlsx or .csv")
            check_unpacked_size(packed)
            about = packed.read(CORE).decode(errors="replace") if CORE in packed.namelist() else ""
        with file.open("rb") as opened:
            converted = mammoth.convert_to_html(opened, convert_image=mammoth.images.img_element(lambda image: {}))
    except (zipfile.BadZipFile, KeyError, ValueError, RecursionError) as error:
        raise UnreadableDocument(DAMAGED) from error
    if not converted.value.strip():
        raise UnreadableDocument("it contains no text")
    tree = html.fragment_fromstring(converted.value, create_parent="div")
    title = re.search(r"<dc:title>([^<]{1,500})</dc:title>", about)
    return _document(list(_blocks(tree, HEADINGS, BLOCKS)), title[1] if title else "")


# --- tables


def _parse_csv(file: Path) -> ParsedDocument:
    """Parses a CSV file: each row becomes a part (`_row_parts`)."""
    text = decoded(file.read_bytes()).removeprefix("\ufeff")
    csv.field_size_limit(LONGEST_CELL)
    delimiter = csv_delimiter(io.StringIO(text, newline=""))
    parts, note = _row_parts(list(csv_rows(io.StringIO(text, newline=""), delimiter)))
    return _document(parts) | {"note": note}


def _parse_xlsx(file: Path) -> ParsedDocument:
    """Parses the sheets of an Excel workbook as `_parse_csv` does; several sheets have their names as headings."""
    sheets, note = read_workbook(file)
    parts: list[Part] = []
    notes = [note]
    for sheet in sheets:
        own, note = _row_parts(list(sheet_rows(sheet)), sheet["name"] if len(sheets) > 1 else "")
        parts += own
        notes.append(note)
    return _document(parts) | {"note": "; ".join(dict.fromkeys(filter(None, notes)))}


def _row_parts(rows: Sequence[Row], heading: str = "") -> tuple[list[Part], str]:
    """Each row below the header as a part with the column's name before each value, and a note about other rows.

    The texts above the header are parts, and a row that does not fit the header is a part with its own text.
    """
    header = header_of(rows)
    if header is None:
        return [{"text": row.text, "heading": heading, "page": 0} for row in rows], ""
    texts = [*header.above]
    unfit: list[int] = []
    for row in (fit(row, header) for row in rows if row.line > header.line or row.problem):
        if row.problem:
            unfit.append(row.line)
        if len(row.text) > LONGEST_CELL and row.problem:
            raise UnreadableDocument(f"line {row.line} has a cell of more than {LONGEST_CELL:,} characters")
        cells = zip(header.names, map(str.strip, row.cells), strict=False)
        named = "; ".join(f"{name}: {cell}" if name else cell for name, cell in cells if cell)
        texts.append(row.text if row.problem else named)
    notes = [AS_ROWS] if "text" in header.names else []
    if unfit:
        lines = ", ".join(f"{line:,}" for line in unfit[:MOST_LINES]) + (" ..." if len(unfit) > MOST_LINES else "")
        notes.append(
            f"{len(unfit):,} of its rows do not fit the header, so they are indexed as they are, without the names of "
            f"the columns (line {lines})"
        )
    return [{"text": text, "heading": heading, "page": 0} for text in texts], "; ".join(notes)


def read_workbook(file: Path) -> tuple[list[Sheet], str]:
    """The sheets of an Excel workbook with at least one row, and a note about missing values; may raise any error.

    Formulas have the values that the program which saved the file has computed.
    """
    calamine = imported("python_calamine")
    with zipfile.ZipFile(file) as packed:
        check_unpacked_size(packed)
        names = [name for name in packed.namelist() if re.fullmatch(r"xl/worksheets/[^/]+\.xml", name)]
        contents = [packed.read(name) for name in names]
    if any(NO_VALUE.search(content) for content in contents):
        raise UnreadableDocument(
            "it has formulas without stored values. Open it in a spreadsheet program, and save it again"
        )
    errors = sum(len(ERROR_CELL.findall(content)) for content in contents)
    sheets: list[Sheet] = []
    characters = 0
    with calamine.CalamineWorkbook.from_path(file) as book:
        for about in book.sheets_metadata:
            rows = [
                (number, [cell_text(cell) for cell in cells])
                for number, cells in enumerate(book.get_sheet_by_name(about.name).iter_rows(), 1)
                if any(str(cell).strip() for cell in cells)
            ]
            characters += sum(len(cell) for _, cells in rows for cell in cells)
            if characters > MOST_CHARACTERS:
                raise UnreadableDocument(f"it contains more than {MOST_CHARACTERS:,} characters. Save it in parts")
            if rows:
                hidden = about.visible != calamine.SheetVisibleEnum.Visible
                sheets.append({"name": about.name, "rows": rows, "hidden": hidden})
    return sheets, f"{errors:,} of its cells hold errors, such as #N/A, and are read as empty" if errors else ""


PARSERS: dict[Kind, Callable[[Path], ParsedDocument]] = {
    "pdf": _parse_pdf,
    "html": _parse_html,
    "docx": _parse_docx,
    "csv": _parse_csv,
    "xlsx": _parse_xlsx,
}
