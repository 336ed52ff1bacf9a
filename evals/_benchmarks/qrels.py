"""Reads queries with relevance judgements, and the corpora to search for relevant passages.

A data folder contains ``corpus/*.jsonl`` (passages, as `moot index` reads them) and ``qrels/<split>/*.jsonl`` (a
`Query` on each line). The gold ids in a qrels file determine the corpora that the file belongs to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from moot.core.files import why_unread
from moot.core.words import count_with_noun
from moot.graphs._registry import suggest
from moot.retrievers import Passage, UserError, read_passages
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

Scope = Literal["own", "union"]
SCOPES: tuple[Scope, ...] = ("own", "union")
"""The corpora that are searched: ``own`` for the corpora that a qrels file belongs to, ``union`` for all corpora."""


class Gold(BaseModel):
    """A passage that is relevant to a query, and its grade of relevance."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    id: str
    rel: int = Field(ge=1, le=30)


class Query(BaseModel):
    """A query and its relevant passages: one line of a qrels file."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    qid: str
    query: str = Field(pattern=r"\S")
    gold: Annotated[list[Gold], Field(min_length=1)]

    @field_validator("gold")
    @classmethod
    def _check_gold(cls, gold: list[Gold]) -> list[Gold]:
        if len({g.id for g in gold}) < len(gold):
            raise ValueError("names a passage twice")
        return gold


@dataclass(frozen=True)
class Row:
    """A row of the results: the queries of a qrels file, and the passages to search.

    ``files``: the names of the passages' corpus files, without their ending.
    """

    qrels: str
    scope: Scope
    files: tuple[str, ...]
    queries: list[Query]
    passages: dict[str, Passage]


def read_rows(folder: Path, split: str, names: Sequence[str] = (), scopes: Sequence[Scope] = SCOPES) -> list[Row]:
    """The rows of a data folder: one row for each qrels file and scope."""
    files = _jsonl_files(_subfolder(folder / "qrels", split), "qrels")
    for name in names:
        if name not in files:
            raise UserError(f"There are no qrels {name!r} in {split}. {suggest(name, files)}", kind="missing_file")
    qrels = {name: read_queries(files[name]) for name in dict.fromkeys(names or files)}
    corpora = {name: read_corpus(file) for name, file in _jsonl_files(_subfolder(folder, "corpus"), "corpus").items()}
    rows: list[Row] = []
    for name, queries in qrels.items():
        scope_by_files: dict[tuple[str, ...], Scope] = {}
        for scope in scopes:
            chosen = own_corpora(name, queries, corpora) if scope == "own" else tuple(corpora)
            scope_by_files.setdefault(chosen, scope)
        rows += [
            Row(name, scope, files, queries, join_passages(files, corpora)) for files, scope in scope_by_files.items()
        ]
    return rows


def _subfolder(folder: Path, name: str) -> Path:
    if not folder.is_dir():
        raise UserError(
            f"There is no folder {folder}. --data must be a folder that contains corpus/ and qrels/<split>/.",
            kind="missing_file",
        )
    known = sorted(path.name for path in folder.iterdir() if path.is_dir())
    if name not in known:
        raise UserError(f"{folder} contains no folder {name!r}. {suggest(name, known)}", kind="missing_file")
    return folder / name


def _jsonl_files(folder: Path, content: str) -> dict[str, Path]:
    files = {file.stem: file for file in sorted(folder.glob("*.jsonl"))}
    if not files:
        raise UserError(f"{folder} contains no {content}: it has no .jsonl file.", kind="missing_file")
    return files


def read_queries(file: Path) -> list[Query]:
    """Read the queries of a qrels file."""
    queries: dict[str, Query] = {}
    try:
        content = file.read_bytes()
    except OSError as error:
        raise UserError(why_unread(file, error), kind="missing_file") from error
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        query = parse_query(line, f"{file.name}, line {number}")
        if queries.setdefault(query.qid, query) is not query:
            raise UserError(f"{file.name}, line {number}: the qid {query.qid!r} occurs twice.", kind="invalid_file")
    if not queries:
        raise UserError(f"{file} contains no query.", kind="invalid_file")
    return list(queries.values())


def parse_query(line: bytes, where: str) -> Query:
    """Parse a line of a qrels file."""
    try:
        return Query.model_validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise UserError(
            f"{where}: {place + ': ' if place else ''}{first['msg']}. Each line is an object with qid, query and gold, "
            "a list of at least one {id, rel} with rel 1 or more.",
            kind="invalid_file",
        ) from error


def read_corpus(file: Path) -> dict[str, Passage]:
    """Read the passages of a corpus file, by id."""
    return _passages_by_id(read_passages(file), file.name)


def join_passages(names: Iterable[str], corpora: Mapping[str, Mapping[str, Passage]]) -> dict[str, Passage]:
    """Join the passages of the corpora with these names, by id."""
    return _passages_by_id((p for name in names for p in corpora[name].values()), "the union of the corpora")


def _passages_by_id(passages: Iterable[Passage], where: str) -> dict[str, Passage]:
    found: dict[str, Passage] = {}
    for passage in passages:
        if found.setdefault(passage.id, passage) != passage:
            raise UserError(f"In {where}, two different passages have the id {passage.id!r}.", kind="invalid_file")
    return found


def own_corpora(name: str, queries: Iterable[Query], corpora: Mapping[str, Mapping[str, Passage]]) -> tuple[str, ...]:
    """The names of the corpora that a qrels file belongs to.

    If at least one corpus contains all gold passages, the file belongs only to the first such corpus. Otherwise, it
    belongs to each corpus with at least one gold passage.
    """
    ids = {gold.id for query in queries for gold in query.gold}
    if unknown := sorted(ids.difference(*corpora.values())):
        some = ", ".join(unknown[:3]) + (", ..." if len(unknown) > 3 else "")
        raise UserError(
            f"The qrels {name} name {count_with_noun(len(unknown), 'passage')} that no file in corpus/ contains: {some}"
            ". Add the corpus that they come from.",
            kind="invalid_file",
        )
    complete = [file for file, passages in corpora.items() if ids <= passages.keys()]
    return tuple(complete[:1] or (file for file, passages in corpora.items() if ids & passages.keys()))
