"""One debate of the ledger as a file of JSON lines: first the debate, then its entries. Every call here blocks.

An imported file is untrusted: its size, names and values are checked, and nothing in it is executed.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, cast

from moot.core.errors import UserError
from moot.core.ledger.file import LedgerFile
from moot.core.ledger.records import Entry, Key, Kind, Status, as_json, fingerprint_of, hash_of
from moot.core.ledger.values import packed, packed_vectors, unpack
from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints, ValidationError

if TYPE_CHECKING:
    from moot.core.postgres.served import ServedLedger

FORMAT = 1
PAGE = 100
"""Entries that are read at a time."""
LONGEST_LINE = 64 * 2**20
"""Most bytes of a line."""
MOST_ENTRIES = 100_000
"""Most entries of a file."""
LARGEST = 2**30
"""Most bytes of a file."""

Moment = Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False)]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z_]{1,40}$")]
Spent = Annotated[list[Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]], Field(min_length=3, max_length=3)]
Short = Annotated[str, StringConstraints(max_length=500)]


class Head(BaseModel):
    """The first line: the debate."""

    model_config = ConfigDict(extra="forbid", strict=True)
    moot_ledger: Literal[1]
    moot: Annotated[str, StringConstraints(max_length=40)]
    id: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
    graph: Annotated[str, StringConstraints(max_length=100)]
    input: JsonValue
    settings: JsonValue
    status: Status
    started: Moment
    updated: Moment
    entries: Annotated[int, Field(ge=0)] = 0


class Line(BaseModel):
    """A further line: an entry."""

    model_config = ConfigDict(extra="forbid", strict=True)
    kind: Kind
    parts: Annotated[
        dict[Name, Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{24}$")]], Field(min_length=1, max_length=30)
    ]
    about: Annotated[dict[Name, Short | int | Spent | None], Field(max_length=30)]
    created: Moment
    value: JsonValue


def export_debate(file: LedgerFile | ServedLedger, id: str, path: Path) -> int:
    """Writes a debate with its entries to a file that only its user can read. Returns the number of entries.

    Args:
        file: the ledger.
        id: the debate's id.
        path: the file, which is replaced once the new one is complete.

    Raises:
        UserError: there is no such debate, or the file cannot be written.
    """
    debate = next((found for found in file.debates(id=id) if found.id == id), None)
    if debate is None:
        raise UserError(f"There is no debate {id} in the ledger.", kind="unknown_debate")
    shared = {name: getattr(debate, name) for name in Head.model_fields if not name.startswith("moot")}
    count = 0
    try:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, suffix=".part", delete=False) as fresh:
            try:
                fresh.write(as_json({"moot_ledger": FORMAT, "moot": debate.version, **shared}) + "\n")
                for entry in _entries(file, id):
                    fresh.write(as_json(_said(entry)) + "\n")
                    count += 1
            except BaseException:
                os.unlink(fresh.name)
                raise
        os.replace(fresh.name, path)
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror}).", kind="missing_file") from error
    return count


def _entries(file: LedgerFile | ServedLedger, id: str) -> Iterator[Entry]:
    after = 0
    while page := file.entries(id, after, PAGE):
        yield from (entry for _, entry in page)
        after = page[-1][0]


def _said(entry: Entry) -> dict[str, Any]:
    about = {"kind": entry.key.kind, "parts": entry.key.parts, "about": entry.about, "created": entry.created}
    return {**about, "value": unpack(entry.value)}


def import_debate(file: LedgerFile, path: Path) -> tuple[str, int]:
    """Adds the debate in a file, completely or not at all. Returns its id and the number of its entries.

    It has no document here and does not run: it is interrupted if it was running when it was exported.

    Args:
        file: the ledger.
        path: a file that `export_debate` wrote.

    Raises:
        UserError: the file cannot be read, is too large, is not an exported debate, or its debate exists already.
    """
    count = 0
    try:
        with path.open("rb") as source, file.transaction():
            if os.fstat(source.fileno()).st_size > LARGEST:
                raise ValueError(f"has more than {LARGEST // 2**20} MiB")
            head = Head.model_validate(_read(source.readline(LONGEST_LINE)))
            if file.debates(id=head.id):
                raise UserError(f"The debate {head.id} is in the ledger already.", kind="invalid_file")
            file.add(
                (
                    head.id,
                    fingerprint_of(head.graph, head.input, head.settings, head.moot),
                    head.moot,
                    head.graph,
                    as_json(head.input),
                    as_json(head.settings),
                    "interrupted" if head.status == "running" else head.status,
                    head.started,
                    head.updated,
                    f"imported from {path.name}"[:200],
                )
            )
            while text := source.readline(LONGEST_LINE):
                count += 1
                if count > MOST_ENTRIES:
                    raise ValueError(f"has more than {MOST_ENTRIES} entries")
                file.keep([_entry(head.id, Line.model_validate(_read(text)))])
            if count < head.entries:
                raise ValueError(f"is the last one, but {head.entries} were written: the file is cut off")
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}).", kind="missing_file") from error
    except (ValueError, RecursionError) as error:
        where = f"entry {count}" if count else "its first line"
        raise UserError(f"{path} cannot be imported: {where} {_why(error)}.", kind="invalid_file") from error
    return head.id, count


def _read(line: bytes) -> Any:
    if not line.endswith(b"\n"):
        raise ValueError("is cut off" if len(line) < LONGEST_LINE else f"has more than {LONGEST_LINE // 2**20} MiB")
    try:
        return json.loads(line, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON ({error})") from None  # else it would be reported as damage of the ledger


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"holds {name}, which is not a JSON number")


def _entry(debate: str, line: Line) -> Entry:
    key = Key(line.kind, hash_of(line.kind, line.parts), line.parts)
    if line.kind == "embedding" and not isinstance(line.value, dict):
        if not isinstance(line.value, list) or not all(_is_vector(vector) for vector in line.value):
            raise ValueError("is an embedding whose value is not a list of vectors")
        value = packed_vectors(cast(list[list[float]], line.value))
    else:
        value = packed(as_json(line.value))
    return Entry(debate, key, line.about, line.created, len(value), value)


def _is_vector(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_float, value))


def _is_float(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and abs(value) < 3e38


def _why(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"is not as expected at {'.'.join(str(part) for part in first['loc'])[:100]!r} ({first['msg'][:200]})"
    if isinstance(error, RecursionError):
        return "is nested too deeply"
    return f"is not JSON ({error})" if isinstance(error, UnicodeDecodeError) else str(error)
