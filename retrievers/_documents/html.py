"""Parses HTML pages."""

from __future__ import annotations

from pathlib import Path

from moot.core.lazy import imported
from moot.retrievers._documents.blocks import blocks
from moot.retrievers._documents.charsets import charset_in_name, decode
from moot.retrievers._documents.parsed import ParsedDocument, UnreadableDocument, new_document


def parse_html(file: Path) -> ParsedDocument:
    """Parses an HTML page; if its main content is not found, the whole text becomes one part."""
    trafilatura, html = imported("trafilatura"), imported("lxml.html")
    parser = html.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
    try:
        page = html.document_fromstring(
            decode(file.read_bytes(), charset_in_name(file)).text.encode(errors="replace"), parser=parser
        )
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
        return new_document([{"text": whole, "heading": "", "page": 0}])
    parts = list(blocks(found.body, ("head",), ("p", "list", "table", "quote", "code")))
    return new_document(parts, found.title or "", found.date or "", found.url or "")
