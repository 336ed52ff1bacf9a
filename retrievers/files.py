"""Passages from files: what becomes one piece of a corpus."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from moot.core.errors import UserError
from moot.core.lazy import imported
from moot.retrievers.evidence import clean
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

LONGEST_PARAGRAPH = 1200
"""Characters of a paragraph of a text file that becomes one passage; about what the default encoder reads."""


class Passage(BaseModel):
    """One passage of a corpus, as its JSONL line gives it."""

    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)

    id: str = Field(min_length=1, max_length=512)
    title: str = ""
    text: str = Field(min_length=1)
    source: str = ""
    url: str | None = None
    published: str | None = None

    @field_validator("text")
    @classmethod
    def _check_text(cls, text: str) -> str:
        if not clean(text):
            raise ValueError("holds no text")
        return text


def read_passages(path: Path) -> Iterator[Passage]:
    """Passages of a file or folder: ``.jsonl`` (one object a line), ``.txt`` and ``.md`` (one passage a paragraph).

    Args:
        path: the file or folder.

    Raises:
        UserError: nothing to read there, or a line that is no passage (with file and line).
    """
    if not path.exists():
        raise UserError(f"There is no file or folder {path}.", kind="missing_file")
    found = path.rglob("*") if path.is_dir() else [path]
    files = sorted(p for p in found if p.suffix.lower() in READERS and p.is_file())
    if not files:
        raise UserError(f"{path} holds nothing to index: give .jsonl, .txt or .md files.", kind="missing_file")
    for file in files:
        name = file.relative_to(path).as_posix() if path.is_dir() else file.name
        try:
            yield from READERS[file.suffix.lower()](file, name)
        except OSError as error:
            raise UserError(f"{name} cannot be read ({error.strerror}).", kind="invalid_file") from error


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
    """The passage that a JSONL line holds; ``where`` names file and line in the error."""
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
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{name}: not UTF-8 text. Save the file as UTF-8.", kind="invalid_file") from error
    title = file.stem
    for number, block in enumerate(re.split(r"\n\s*\n", text), start=1):
        heading = re.match(r"#+\s+(.+)", block.strip()) if file.suffix.lower() == ".md" else None
        if heading:
            title = heading.group(1).strip()
            block = block.strip()[heading.end() :]
        parts = [part for part in _split(block.strip()) if clean(part)]
        for i, part in enumerate(parts, start=1):
            place = f"{name}#{number}" if len(parts) == 1 else f"{name}#{number}.{i}"
            try:
                yield Passage(id=place, title=title, text=part, source=name)
            except ValidationError as error:
                raise UserError(
                    f"{name!r} cannot be indexed: its path, which becomes the passages' id, is too long or not UTF-8. "
                    "Rename or move the file.",
                    kind="invalid_file",
                ) from error


def _split(block: str) -> list[str]:
    """A paragraph, at the ends of sentences or words where it is longer than what encoders read."""
    if len(block) <= LONGEST_PARAGRAPH:
        return [block]
    splitter = imported("langchain_text_splitters").RecursiveCharacterTextSplitter(
        separators=["\n", ". ", " ", ""], keep_separator="end", chunk_size=LONGEST_PARAGRAPH, chunk_overlap=0
    )
    parts: list[str] = splitter.split_text(block)
    return parts


READERS: dict[str, Callable[[Path, str], Iterator[Passage]]] = {
    ".jsonl": _read_jsonl,
    ".txt": _read_text,
    ".md": _read_text,
}
