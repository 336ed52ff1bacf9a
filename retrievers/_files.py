"""Reads files and web pages as passages for a corpus.

This module reads text, Markdown and JSON Lines; `moot.retrievers._documents` reads PDF, HTML, Word, Excel and CSV.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from moot.core.errors import UserError
from moot.core.files import why_unread
from moot.core.lazy import imported
from moot.retrievers._archives import host_of, page_of
from moot.retrievers._documents.charsets import charset_in_name, decode
from moot.retrievers._documents.children import read_documents, unreadable
from moot.retrievers._documents.fetch import fetch
from moot.retrievers._documents.parse import LARGEST_DOCUMENT, Kind, kind_of
from moot.retrievers._documents.parsed import ParsedDocument, Part, UnreadableDocument, note_of
from moot.retrievers._evidence import clean
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

LONGEST_PARAGRAPH = 1200
"""Maximum number of characters of a paragraph: about as many as the default encoder reads.

Longer paragraphs are split, but passages of JSON Lines are not.
"""

UNREAD = (".", "~$")
"""How the names of hidden files begin, and of the files that Word keeps while a document is open."""


class Passage(BaseModel):
    """A passage of a corpus. A line of a JSON Lines file is an object with at least the fields ``id`` and ``text``."""

    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)

    id: str = Field(min_length=1, max_length=512)
    title: str = ""
    text: str = Field(min_length=1)
    source: str = ""
    url: str | None = None
    published: str | None = None
    page: str | None = None
    heading: str | None = None
    fetched: str | None = None
    sha256: str | None = None
    note: str | None = None

    @field_validator("text")
    @classmethod
    def _check_text(cls, text: str) -> str:
        if not clean(text):
            raise ValueError("contains no text")
        return text


class DocumentPassage(Passage):
    """A passage of a document; if the document is indexed again, its new passages replace all its old ones."""

    # The ids of the document's passages begin with this value and a ``#``.
    document: str = Field(default="", exclude=True)


def read_passages(
    path: Path,
    refused: Callable[[UserError], None] | None = None,
    noted: Callable[[str], None] = lambda note: None,
) -> Iterator[Passage]:
    """Yields the passages of a file, or of a folder's files in the order of their paths. Blocking.

    Each line of a ``.jsonl`` file is a passage, and so is each paragraph of a ``.txt`` or ``.md`` file. Passages of
    PDF, HTML, Word (``.docx``), Excel (``.xlsx``) and ``.csv`` files have the page and the heading if the file has
    them. Long paragraphs are split. The kind of a file is decided by its content if possible, but ``.jsonl`` files and
    workbooks are recognised by name.

    Args:
        path: the file or folder. In a folder, names that begin with a dot or with ``~$`` are skipped.
        refused: called with the error of each file that cannot be read; then reading continues. By default, the first
            error is raised, but a folder's files that cannot be read are skipped if their suffix is not in
            `FILE_SUFFIXES`.
        noted: called with a sentence about missing parts of a file, or about how the file was read.

    Raises:
        UserError: there is no such file or folder, the folder has no files, or a file cannot be read (for JSON Lines,
            the error names the line).
    """
    if not path.exists():
        raise UserError(f"There is no file or folder {path}. Check its path.", kind="missing_file")
    files = _files(path)
    if not files:
        raise UserError(
            f"{path} has no files to index. Supported are {', '.join(FILE_SUFFIXES)} files.", kind="missing_file"
        )
    kinds: dict[Path, Kind | UserError | None] = {file: _kind(file, name, path) for file, name in files}
    documents = read_documents((file, kind) for file, kind in kinds.items() if isinstance(kind, str))
    for file, name in files:
        try:
            kind = kinds[file]
            if isinstance(kind, UserError):
                raise kind
            if kind:
                found = next(documents)
                if isinstance(found, UnreadableDocument):
                    raise unreadable(name, found)
                if note := note_of(found):
                    noted(f"{name}: {note}.")
                yield from _passages_of(found, name)
            else:
                yield from READERS[file.suffix.lower()](file, name)
        except (OSError, UserError) as error:
            if refused is None and path.is_dir() and not file.is_dir() and file.suffix.lower() not in FILE_SUFFIXES:
                continue
            problem = error if isinstance(error, UserError) else _open_error(name, error)
            if refused is None:
                raise problem from error
            refused(problem)


def read_page(url: str, noted: Callable[[str], None] = lambda note: None) -> list[Passage]:
    """Fetches a page or file from the web (`fetch`), and returns its passages, as `read_passages`; blocking."""
    fetched = fetch(url)
    host = host_of(page_of(fetched.from_url)) or url
    stored = fetched.text.name
    try:
        passages = list(read_passages(fetched.text, noted=lambda note: noted(note.replace(stored, url, 1))))
    except UserError as error:  # a person knows the address, not the name of the stored file
        raise UserError(error.detail.replace(stored, url, 1), kind=error.kind) from error
    return [
        passage.model_copy(
            update={
                "id": f"{url}#{passage.id.partition('#')[2]}",
                # A title that begins with the hash is only the name of the stored file, so the host becomes the title.
                "title": host if passage.title.startswith(fetched.sha256) else passage.title,
                "source": host,
                "url": passage.url or fetched.from_url,
                "fetched": fetched.retrieved,
                "sha256": fetched.sha256,
                "document": url,
            }
        )
        for passage in passages
    ]


def _files(path: Path) -> list[tuple[Path, str]]:
    """The files to read, each with its path within the folder (for a single file, its name)."""
    if path.is_file():
        return [(path, path.name)]
    entries: list[Path] = []
    errors: list[OSError] = []
    for folder, folders, files in os.walk(path, onerror=errors.append):
        entries += [Path(folder, name) for name in files]
        # Links that lead out of the folder, and unreadable folders, are included so that each is reported as an error.
        entries += [link for name in folders if (link := Path(folder, name)).is_symlink() and _is_outside(link, path)]
    entries += [Path(error.filename) for error in errors]
    found = ((file, file.relative_to(path)) for file in sorted(entries))
    return [(file, name.as_posix()) for file, name in found if not any(part.startswith(UNREAD) for part in name.parts)]


def _is_outside(file: Path, path: Path) -> bool:
    """Whether a link leads out of a folder."""
    return not file.resolve().is_relative_to(path.resolve())


def _kind(file: Path, name: str, path: Path) -> Kind | UserError | None:
    """The kind of a document; None for a file that `READERS` reads; an error for a file that cannot be read."""
    try:
        if path.is_dir() and _is_outside(file, path):
            return unreadable(name, UnreadableDocument("it is a link out of the folder"))
        if not file.is_file() and not file.is_dir() and file.exists():
            return unreadable(name, UnreadableDocument("it is not a file but a pipe, a socket or a device"))
        kind = kind_of(file) if file.suffix.lower() != ".jsonl" else None
    except UnreadableDocument as why:
        return unreadable(name, why)
    except OSError as error:
        return _open_error(name, error)
    except RuntimeError:  # Python 3.11 and 3.12 raise it for links in a circle
        return unreadable(name, UnreadableDocument("its link leads in a circle"))
    if kind is None and file.suffix.lower() not in READERS:
        return unreadable(
            name, UnreadableDocument(f"its kind is not supported. Supported are {', '.join(FILE_SUFFIXES)} files")
        )
    return kind


def _open_error(name: str, error: OSError) -> UserError:
    return UserError(why_unread(name, error), kind="invalid_file")


def _passages_of(found: ParsedDocument, name: str) -> Iterator[Passage]:
    """The passages of a document; parts longer than `LONGEST_PARAGRAPH` are split."""
    title = found["title"] or Path(name).stem
    for number, part in enumerate(_sections(found["parts"]), start=1):
        texts = [text.strip() for text in split_paragraph(part["text"]) if clean(text)]
        id = f"{name}#page={part['page']}" if part["page"] else f"{name}#{number}"
        heading = part["heading"]
        for i, text in enumerate(texts, start=1):
            yield _passage(
                name,
                id=id if len(texts) == 1 else f"{id}.{i}",
                title=title if heading in ("", title) else f"{title}: {heading}",
                text=text,
                source=name,
                url=found["url"] or None,
                published=found["published"] or None,
                page=str(part["page"]) if part["page"] else None,
                heading=heading or None,
                note=note_of(found) or None,
            )


def _sections(parts: list[Part]) -> Iterator[Part]:
    """Joins consecutive parts under the same heading on the same page, because a single list item would say little."""
    for (heading, page), same in groupby(parts, lambda part: (part["heading"], part["page"])):
        if heading:
            yield {"text": "\n\n".join(part["text"] for part in same), "heading": heading, "page": page}
        else:
            yield from same


def _passage(name: str, **fields: Any) -> Passage:
    """Creates a passage of a file; an error if the file's path cannot be part of an id."""
    try:
        return DocumentPassage(document=name, **fields)
    except ValidationError as error:
        raise UserError(
            f"{name!r} cannot be indexed: its path is too long or not UTF-8, so it cannot be part of the passages' "
            "ids. Rename or move the file.",
            kind="invalid_file",
        ) from error


def _read_jsonl(file: Path, name: str) -> Iterator[Passage]:
    with file.open(encoding="utf-8-sig", errors="strict") as lines:
        number = 0
        try:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield parse_passage(line, f"{name}, line {number}")
        except UnicodeDecodeError as error:
            raise UserError(
                f"{name}, after line {number}: not UTF-8 text. Save the file as UTF-8.", kind="invalid_file"
            ) from error


def parse_passage(line: str, where: str) -> Passage:
    """Parses a line of JSON Lines as a passage; if it is invalid, the error begins with ``where``."""
    try:
        return Passage.model_validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        problem = f"{field}: {first['msg']}" if field else first["msg"]
        raise UserError(
            f"{where}: {problem}. Each line is an object with id, text and, if known, title, source, url, published.",
            kind="invalid_file",
        ) from error


def _read_text(file: Path, name: str) -> Iterator[Passage]:
    """The passages of a text or Markdown file; a Markdown heading becomes the title of the passages below it."""
    title = file.stem
    for number, block in enumerate(re.split(r"\n\s*\n", read_text_file(file, name)), start=1):
        heading = re.match(r"#+\s+(.+)", block.strip()) if file.suffix.lower() == ".md" else None
        if heading:
            title = heading.group(1).strip()
            block = block.strip()[heading.end() :]
        parts = [part for part in split_paragraph(block.strip()) if clean(part)]
        for i, part in enumerate(parts, start=1):
            id = f"{name}#{number}" if len(parts) == 1 else f"{name}#{number}.{i}"
            yield _passage(name, id=id, title=title, text=part, source=name)


def read_text_file(file: Path, name: str) -> str:
    """The decoded text in a file, with ``\\n`` as line ends; UserError if it is too large or cannot be decoded."""
    try:
        if file.stat().st_size > LARGEST_DOCUMENT:
            raise UnreadableDocument(
                f"it has more than {LARGEST_DOCUMENT // 2**20} MiB. Save it in parts, or as .jsonl"
            )
        text = decode(file.read_bytes(), charset_in_name(file)).text
    except UnreadableDocument as why:
        raise unreadable(name, why) from why
    return text.replace("\r\n", "\n").replace("\r", "\n")


def split_paragraph(block: str) -> list[str]:
    """Splits a paragraph that is longer than `LONGEST_PARAGRAPH`, if possible after a line, a sentence or a word."""
    if len(block) <= LONGEST_PARAGRAPH:
        return [block]
    splitter = imported("langchain_text_splitters").RecursiveCharacterTextSplitter(
        separators=["\n", ". ", " ", ""], keep_separator="end", chunk_size=LONGEST_PARAGRAPH, chunk_overlap=0
    )
    parts: list[str] = splitter.split_text(block)
    return parts


FILE_SUFFIXES = (".pdf", ".html", ".docx", ".xlsx", ".csv", ".txt", ".md", ".jsonl")
READERS: dict[str, Callable[[Path, str], Iterator[Passage]]] = {
    ".jsonl": _read_jsonl,
    ".txt": _read_text,
    ".md": _read_text,
}
