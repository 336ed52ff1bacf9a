"""Parses Word documents."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

from moot.core.lazy import imported
from moot.retrievers._documents.blocks import blocks
from moot.retrievers._documents.parsed import DAMAGED, ParsedDocument, UnreadableDocument, new_document

LARGEST_UNPACKED = 100 * 2**20
"""The maximum size of a Word document's unpacked XML files, in bytes."""
CORE = "docProps/core.xml"
"""The file with the title, inside a Word document."""
BLOCKS = ("p", "li", "tr", "blockquote", "pre")
HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")


def parse_docx(file: Path) -> ParsedDocument:
    """Parses a Word document, without its pictures."""
    mammoth, html = imported("mammoth"), imported("lxml.html")
    try:
        with zipfile.ZipFile(file) as packed:
            if "word/document.xml" not in packed.namelist():
                raise UnreadableDocument("it is a ZIP file. Unpack it, or save it as PDF, .docx or .csv")
            texts = (part for part in packed.infolist() if part.filename.endswith((".xml", ".rels")))
            if sum(part.file_size for part in texts) > LARGEST_UNPACKED:
                raise UnreadableDocument(f"it unpacks to more than {LARGEST_UNPACKED // 2**20} MiB")
            about = packed.read(CORE).decode(errors="replace") if CORE in packed.namelist() else ""
        with file.open("rb") as opened:
            converted = mammoth.convert_to_html(opened, convert_image=mammoth.images.img_element(lambda image: {}))
    except (zipfile.BadZipFile, KeyError, ValueError, RecursionError) as error:
        raise UnreadableDocument(DAMAGED) from error
    if not converted.value.strip():
        raise UnreadableDocument("it contains no text")
    tree = html.fragment_fromstring(converted.value, create_parent="div")
    title = re.search(r"<dc:title>([^<]{1,500})</dc:title>", about)
    return new_document(list(blocks(tree, HEADINGS, BLOCKS)), title[1] if title else "")
