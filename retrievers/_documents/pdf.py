"""Reads the text of PDF files, with the values of form fields; pages that are pictures are read by OCR."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from moot.core.lazy import imported
from moot.retrievers._documents import ocr
from moot.retrievers._documents.layout import Glyph, is_private, join_lines, page_text
from moot.retrievers._documents.parsed import DAMAGED, ParsedDocument, Part, UnreadableDocument, new_document

MOST_PAGES = 5000
"""The maximum number of pages of a PDF."""
MOST_UNREADABLE = 0.2
"""The maximum share of a page's characters that the file does not name, such as the bullets of symbol fonts."""
MOST_PIXELS = 12_000_000
"""The maximum number of pixels of a page for OCR: A4 has 8.7 million at `DOTS_PER_INCH`."""
DOTS_PER_INCH = 300
"""The resolution that tesseract's documentation recommends."""
NO_TITLES = ("untitled", "untitled document", "(anonymous)", "unspecified")
"""Titles that programs write into PDF files without a title."""
XFA = "it is an XFA form, which has no pages. Open it in Adobe Reader, and print it into a new PDF"
GLYPHS = "have fonts that do not say which characters they show"
PICTURES = "are pictures without text, such as scans"


def parse_pdf(file: Path, tick: Callable[[], None]) -> ParsedDocument:
    """Parses a PDF: each readable page becomes a part, under the last bookmark on or before the page.

    ``tick`` is called after each page.
    """
    pdfium = imported("pypdfium2")
    try:
        document = pdfium.PdfDocument(file)
    except pdfium.PdfiumError as error:
        locked = "password" in str(error).lower()
        raise UnreadableDocument("it is encrypted. Save a copy without a password" if locked else DAMAGED) from error
    pages = len(document)
    if pages > MOST_PAGES:
        raise UnreadableDocument(f"it has {pages:,} pages, more than the maximum of {MOST_PAGES:,}. Give a part of it")
    form = document.get_formtype()
    if form:
        document.init_forms()
    headings = _outline(document, pdfium)
    parts: list[Part] = []
    heading, broken, fields, by_ocr = "", 0, 0, 0
    why: dict[str, int] = {}
    for number in range(pages):
        heading = headings.get(number, heading)
        try:
            page = document[number]
            values = list(_fields(document, page)) if form else []
            text, unreadable = _text(page)
            read_by_ocr = False
            if unreadable:
                read = ocr.read_picture(_picture(page))
                text, read_by_ocr = read.text, bool(read.text)
                if not read.text:
                    reason = f"{unreadable}. {read.why}"
                    why[reason] = why.get(reason, 0) + 1
            page.close()
        except pdfium.PdfiumError:
            broken += 1
            continue
        finally:
            tick()
        fields, by_ocr = fields + len(values), by_ocr + read_by_ocr
        shown = (f"{heading} (read by OCR)" if heading else "read by OCR") if read_by_ocr else heading
        body = join_lines(
            "\n".join([text, *(f"{name}: {value}" if name else value for name, value in values if value)])
        )
        parts.append({"text": body, "heading": shown, "page": number + 1})
    if broken == pages:
        raise UnreadableDocument(DAMAGED)
    if form == pdfium.raw.FORMTYPE_XFA_FULL or (form == pdfium.raw.FORMTYPE_XFA_FOREGROUND and not fields):
        raise UnreadableDocument(XFA)
    if why and not any(part["text"] for part in parts):
        raise UnreadableDocument(f"its pages {max(why, key=lambda reason: why[reason])}")
    title = document.get_metadata_dict().get("Title") or ""
    found = new_document(parts, "" if title.strip().lower() in NO_TITLES else title, pages=pages)
    found["empty_pages"] -= sum(why.values())
    notes = [f"{count:,} of its {pages:,} pages {reason}" for reason, count in why.items()]
    if by_ocr:
        notes.insert(
            0, f"{by_ocr:,} of its {pages:,} pages were read by OCR, as {ocr.languages()} ({ocr.LANGUAGES}): check them"
        )
    found["note"] = "; ".join(notes)
    return found


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


def _text(page: Any) -> tuple[str, str]:
    """The text of a page; and why the page cannot be read as text, or nothing."""
    # PDFium sorts the words of a turned page, and it glues some of them, so the text is read from the page unturned.
    rotation = page.get_rotation()
    page.set_rotation(0)
    glyphs = list(_glyphs(page))
    page.set_rotation(rotation)
    shown = [glyph for glyph in glyphs if not glyph.text.isspace()]
    unknown = sum(is_private(glyph.text) for glyph in shown)
    if unknown > MOST_UNREADABLE * len(shown):
        return "", GLYPHS
    if not shown:
        drawn = any(page.get_objects(max_depth=2))
        return "", PICTURES if drawn else ""
    return page_text(glyphs), ""


def _glyphs(page: Any) -> Iterator[Glyph]:
    """The characters within the visible part of a page, in the file's order."""
    raw = imported("pypdfium2.raw")
    text = page.get_textpage()
    left, bottom, right, top = page.get_bbox()
    x, y, box = ctypes.c_double(), ctypes.c_double(), raw.FS_RECTF()
    for index in range(text.count_chars()):
        code = raw.FPDFText_GetUnicode(text, index)
        if raw.FPDFText_IsGenerated(text, index) == 1:  # a space or the end of a line, which has no place
            yield Glyph(chr(code))
            continue
        raw.FPDFText_GetCharOrigin(text, index, x, y)
        raw.FPDFText_GetLooseCharBox(text, index, box)
        if left <= (box.left + box.right) / 2 <= right and bottom <= (box.bottom + box.top) / 2 <= top:
            angle = raw.FPDFText_GetCharAngle(text, index)
            yield Glyph(chr(code), x.value, y.value, (box.left, box.bottom, box.right, box.top), angle)


def _fields(document: Any, page: Any) -> Iterator[tuple[str, str]]:
    """The name and the value of each form field of a page; values may be empty."""
    raw = imported("pypdfium2.raw")
    form = document.formenv
    silent = (raw.FPDF_FORMFIELD_PUSHBUTTON, raw.FPDF_FORMFIELD_SIGNATURE)
    marks = (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON)

    def text_of(read: Any, annotation: Any) -> str:
        length = read(form, annotation, None, 0)
        buffer = ctypes.create_string_buffer(length)
        read(form, annotation, ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR)), length)
        return buffer.raw.decode("utf-16-le", "replace").rstrip("\0").strip()

    for index in range(raw.FPDFPage_GetAnnotCount(page)):
        annotation = raw.FPDFPage_GetAnnot(page, index)
        try:
            if raw.FPDFAnnot_GetSubtype(annotation) != raw.FPDF_ANNOT_WIDGET:
                continue
            kind = raw.FPDFAnnot_GetFormFieldType(form, annotation)
            hidden = raw.FPDFAnnot_GetFlags(annotation) & raw.FPDF_ANNOT_FLAG_HIDDEN
            if kind in silent or hidden:
                continue
            if kind in marks and not raw.FPDFAnnot_IsChecked(form, annotation):
                yield "", ""
                continue
            label = text_of(raw.FPDFAnnot_GetFormFieldAlternateName, annotation)
            name = label or text_of(raw.FPDFAnnot_GetFormFieldName, annotation)
            value = text_of(raw.FPDFAnnot_GetFormFieldExportValue, annotation) if kind in marks else ""
            yield name, value or text_of(raw.FPDFAnnot_GetFormFieldValue, annotation)
        finally:
            raw.FPDFPage_CloseAnnot(annotation)


def _picture(page: Any) -> bytes:
    """A page as a grey picture in the format PGM, with at most `MOST_PIXELS` pixels."""
    width, height = page.get_size()
    scale = min(DOTS_PER_INCH / 72, (MOST_PIXELS / max(1.0, width * height)) ** 0.5)
    bitmap = page.render(scale=scale, grayscale=True)
    rows = memoryview(bitmap.buffer).cast("B")
    lines = (rows[row * bitmap.stride : row * bitmap.stride + bitmap.width] for row in range(bitmap.height))
    return b"P5 %d %d 255\n" % (bitmap.width, bitmap.height) + b"".join(lines)
