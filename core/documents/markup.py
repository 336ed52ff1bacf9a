"""Web pages and Word files: the texts under each heading."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Iterator
from typing import Any

from moot.core.documents.parts import Parsed, Part, Unreadable

UNPACKED = 256 * 2**20
"""Bytes of a Word file's contents at most, unpacked."""
HEADINGS = {"head", *(f"h{level}" for level in range(1, 7))}
LISTS = {"list", "ul", "ol"}


def read_html(text: str) -> Parsed:
    """A web page's own text, without menus, scripts and what else stands around it.

    Raises:
        Unreadable: it holds no text.
    """
    import trafilatura
    from lxml import html

    parser = html.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
    page = html.document_fromstring(text.encode("utf-8", "replace"), parser=parser)
    if any("depth" in fault.message for fault in parser.error_log):
        raise Unreadable("is nested too deeply to be read. Save it as .pdf.")
    options = {"extensive_search": False, "original_date": True, "outputformat": "%Y-%m-%d"}
    about = trafilatura.extract_metadata(page, date_config=options)
    whole = trafilatura.html2txt(page).strip()
    found = trafilatura.bare_extraction(page, with_metadata=False, include_comments=False, favor_recall=True)
    title, notes = (about.title or "" if about else ""), []
    parts = [] if found is None or found.body is None else list(_sections(_blocks(found.body)))
    if not parts:
        if not whole:
            raise Unreadable("holds no text: what a browser shows of it may be made by its scripts. Save it as .pdf.")
        parts = [Part(whole)]
        notes = ["no article was found in it: all of its text was taken."]
    return Parsed("html", " ".join(title.split())[:300], parts, published=about.date if about else None, notes=notes)


def read_docx(content: bytes) -> Parsed:
    """A Word file by its styles; it has no pages until it is printed.

    Raises:
        Unreadable: it is broken, has a password, or unpacks to too much.
    """
    import mammoth
    from lxml import etree, html

    with zipfile.ZipFile(io.BytesIO(content)) as file:
        if (size := sum(entry.file_size for entry in file.infolist())) > UNPACKED:
            raise Unreadable(f"unpacks to {size // 2**20:,} MiB; at most {UNPACKED // 2**20} MiB are read.")
        if any(entry.flag_bits & 1 for entry in file.infolist()):
            raise Unreadable("is encrypted. Save it without a password.")
    try:
        made = mammoth.convert_to_html(io.BytesIO(content), convert_image=lambda image: []).value
    except (MemoryError, RecursionError):
        raise
    except Exception as error:  # mammoth lets through whatever a file that is no Word file makes fail
        raise Unreadable(
            f"is a broken Word file ({type(error).__name__}). Open it in a word processor and save it anew."
        ) from error
    if not made.strip():
        raise Unreadable("holds no text.")
    body = html.document_fromstring(made, parser=html.HTMLParser(encoding="utf-8", huge_tree=True))
    parts = list(_sections(_blocks(body.find("body"))))
    if not parts:
        raise Unreadable("holds no text.")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            core = etree.fromstring(file.read("docProps/core.xml"), etree.XMLParser(resolve_entities=False))
        title = core.findtext("{http://purl.org/dc/elements/1.1/}title") or ""
    except (KeyError, etree.XMLSyntaxError):  # a title is not a must
        title = ""
    return Parsed("docx", " ".join(title.split())[:300], parts)


def _blocks(body: Any) -> Iterator[tuple[bool, str]]:
    """The texts of a body in HTML or in trafilatura's TEI, each with whether it is a heading."""
    for element in body:
        if element.tag in LISTS:
            text = "\n".join(filter(None, map(_text, element)))
        elif element.tag == "table":
            text = "\n".join(" | ".join(filter(None, map(_text, row))) for row in element.iter("row", "tr"))
        else:
            text = _text(element)
        if text:
            yield element.tag in HEADINGS, text


def _text(element: Any) -> str:
    return " ".join("".join(element.itertext()).split())


def _sections(blocks: Iterable[tuple[bool, str]]) -> Iterator[Part]:
    """The texts under each heading together; several headings in a row are one."""
    heading: list[str] = []
    texts: list[str] = []
    for is_heading, text in blocks:
        if is_heading and texts:
            yield Part("\n\n".join(texts), heading=": ".join(heading)[:300])
            heading, texts = [], []
        (heading if is_heading else texts).append(text)
    if texts:
        yield Part("\n\n".join(texts), heading=": ".join(heading)[:300])
