"""Parses HTML pages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from moot.core.lazy import imported
from moot.retrievers._documents.blocks import blocks
from moot.retrievers._documents.charsets import charset_in_name, decode
from moot.retrievers._documents.parsed import ParsedDocument, UnreadableDocument, new_document

RAISED = {
    "sup": str.maketrans("0123456789+-−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻"),
    "sub": str.maketrans("0123456789+-−", "₀₁₂₃₄₅₆₇₈₉₊₋₋"),
}
PLACEHOLDER = re.compile(
    r"enable javascript|just a moment\.\.\.|checking (?:if|your)[\w ]{0,40}(?:secure|browser)|404 not found|"
    r"page (?:was )?not found",
    re.IGNORECASE,
)
WALL = re.compile(r"subscribe to continue|we value your privacy|accept all cookies", re.IGNORECASE)
"""Sentences of pages that may show only a part of their content."""
FEWEST_WORDS = 80
"""A page with fewer words that says one of the sentences of `PLACEHOLDER` has no content of its own."""


def _raise_digits(page: Any) -> None:
    """Writes digits in superscripts and subscripts as such, so that they are apart from the number before them."""
    for element in list(page.iter("sup", "sub")):
        text = "".join(element.itertext()).strip()
        if re.fullmatch(r"[\d+−-]+", text):
            element[:] = []
            element.text = text.translate(RAISED[element.tag])
            element.drop_tag()


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
    _raise_digits(page)
    said = " ".join(" ".join(page.xpath("//text()[not(ancestor::script or ancestor::style)]")).split())
    whole = trafilatura.html2txt(page)
    if (shown := PLACEHOLDER.search(said)) and len(whole.split()) < FEWEST_WORDS:
        raise UnreadableDocument(
            f"it is a page in place of the content (“{shown[0]}”). Open its address in a browser, and save the page if "
            "it is there"
        )
    found = trafilatura.bare_extraction(
        page,
        include_comments=False,
        include_tables=True,
        favor_recall=True,
        with_metadata=True,
        date_extraction_params={"extensive_search": False, "original_date": True},  # a stated date, not a guess
    )
    if found is None or found.body is None:
        parsed = new_document([{"text": whole, "heading": "", "page": 0}])
    else:
        parts = list(blocks(found.body, ("head",), ("p", "list", "table", "quote", "code")))
        parsed = new_document(parts, found.title or "", found.date or "", found.url or "")
    if (wall := WALL.search(said)) and len(whole.split()) < FEWEST_WORDS:
        parsed["note"] = f"it says “{wall[0]}”, so it may hold only a part of the page"
    return parsed
