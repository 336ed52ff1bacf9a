"""Reads a file or a web page as the input of the graph `find_claims`, with the positions of its pages and headings."""

from __future__ import annotations

from pathlib import Path

from moot.core.errors import UserError
from moot.core.files import why_unread
from moot.nodes._claims.state import ClaimsInput, Section
from moot.nodes._texts.task import is_iso_date
from moot.retrievers._archives import host_of, is_url, page_of
from moot.retrievers._documents.children import read_document, unreadable
from moot.retrievers._documents.fetch import fetch
from moot.retrievers._documents.parse import kind_of
from moot.retrievers._documents.parsed import ParsedDocument, UnreadableDocument, note_of
from moot.retrievers._files import read_text_file

TEXT_SUFFIXES = (".txt", ".md", "")
SEPARATOR = "\n\n"
"""The separator between the parts of a document, such as its pages."""


def read_article(given: str) -> ClaimsInput:
    """The content of a file, or of a page by its http(s) address, as the input of the graph `find_claims`; blocking."""
    if not is_url(given):
        return read_article_file(Path(given), Path(given).name)
    found = fetch(given)
    host = host_of(page_of(found.from_url)) or found.from_url
    return {**read_article_file(found.text, given), "source": host, "url": found.from_url}


def read_article_file(file: Path, name: str) -> ClaimsInput:
    """The same as `read_article`, but only for a file; ``name`` is its name in the result and in errors; blocking."""
    try:
        kind = kind_of(file)
        if kind:
            return article_from(read_document(file, name, kind), name)
        if file.suffix.lower() not in TEXT_SUFFIXES:
            raise UnreadableDocument(
                "its kind is not supported. Supported are PDF, HTML, .docx, .xlsx, .csv, .txt and .md files"
            )
        text = read_text_file(file, name)
    except UnreadableDocument as why:
        raise unreadable(name, why) from why
    except OSError as error:
        raise UserError(why_unread(name, error), kind="missing_file") from error
    return {"text": text, "title": "", "source": name, "url": "", "date": None, "sections": []}


def article_from(document: ParsedDocument, name: str) -> ClaimsInput:
    """A parsed document as the input of `find_claims`; a date of publication that is not in ISO form is left out."""
    text = ""
    sections: list[Section] = []
    for part in document["parts"]:
        text += SEPARATOR if text else ""
        here = (part["page"] or None, part["heading"])
        if not sections or (sections[-1]["page"], sections[-1]["heading"]) != here:
            sections.append({"start": len(text), "page": here[0], "heading": here[1]})
        text += part["text"]
    date = document["published"] if is_iso_date(document["published"]) else None
    article: ClaimsInput = {
        "text": text,
        "title": document["title"],
        "source": name,
        "url": document["url"],
        "date": date,
        "sections": sections,
    }
    if note := note_of(document):
        article["note"] = note
    return article
