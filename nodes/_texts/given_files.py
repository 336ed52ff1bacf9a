"""Reads files and web pages as texts that can be given with a claim."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from moot.core.errors import UserError
from moot.core.files import why_unread
from moot.nodes._texts.given import LONGEST_GIVEN, MOST_GIVEN
from moot.retrievers._archives import host_of, is_url, page_of
from moot.retrievers._documents.children import read_document, unreadable
from moot.retrievers._documents.fetch import fetch
from moot.retrievers._documents.parse import kind_of, texts_of
from moot.retrievers._documents.parsed import UnreadableDocument
from moot.retrievers._files import FILE_SUFFIXES, READERS, read_text_file


def read_given(given: str | Path) -> list[Any]:
    """Reads a file or an http(s) address as objects of the form of `GivenText`; blocking."""
    if not is_url(str(given)):
        return read_given_file(Path(given), Path(given).name)
    found = fetch(str(given))
    host = host_of(page_of(found.from_url)) or found.from_url
    known = {"source": host, "url": found.from_url, "fetched": found.retrieved, "sha256": found.sha256}
    return [{**text, **known} for text in read_given_file(found.text, str(given), host)]


def read_given_file(file: Path, name: str, title: str | None = None) -> list[Any]:
    """Reads a file, called ``name`` in errors, as `read_given` does; texts without a title get ``title``; blocking."""
    title = title or Path(name).stem
    try:
        kind = None if file.suffix.lower() == ".jsonl" else kind_of(file)
        if kind:
            texts = texts_of(read_document(file, name, kind), title)
            return _check_size(name, [{**text, "source": name} for text in texts])
        if file.suffix.lower() not in READERS:
            raise unreadable(
                name, UnreadableDocument(f"its kind is not supported. Supported are {', '.join(FILE_SUFFIXES)} files")
            )
        text = read_text_file(file, name)
    except UnreadableDocument as why:
        raise unreadable(name, why) from why
    except OSError as error:
        raise UserError(why_unread(name, error), kind="invalid_file") from error
    if file.suffix.lower() != ".jsonl":
        return [{"text": text, "title": title, "source": name}]
    return [_read_object(line, f"{name}, line {n}") for n, line in enumerate(text.split("\n"), 1) if line.strip()]


def _check_size(name: str, texts: list[Any]) -> list[Any]:
    """Returns the texts of a document if they are few and short enough to be given with a claim."""
    size = sum(len(text["text"]) for text in texts)
    if len(texts) > MOST_GIVEN or size > LONGEST_GIVEN:
        raise UserError(
            f"{name} is too long to be given with a claim: it has {len(texts):,} pages or sections with {size:,} "
            f"characters; at most {MOST_GIVEN} with {LONGEST_GIVEN:,} characters are allowed. Index it, and use it as "
            "a corpus: moot index PATH --corpus NAME",
            kind="invalid_given",
        )
    return texts


def _read_object(line: str, where: str) -> Any:
    """The object in a line of JSON Lines; ``where`` names the line in errors."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: not valid JSON ({error}).", kind="invalid_file") from error
    if not isinstance(found, dict) or not isinstance(found.get("text"), str):
        raise UserError(f"{where}: not an object with a `text`.", kind="invalid_file")
    return found
