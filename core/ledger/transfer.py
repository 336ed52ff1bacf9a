"""Exports and imports a debate of the ledger as a file of JSON Lines: first the debate, then its entries.

An imported file is untrusted. Therefore its size, names and values are checked, and nothing in it is executed. Every
function here blocks.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, cast

from moot.core.errors import UserError
from moot.core.files import why_unread
from moot.core.ledger.file import LedgerFile
from moot.core.ledger.records import Entry, Key, Kind, Status, as_json, fingerprint_of, hash_of
from moot.core.ledger.stored import stored_call
from moot.core.ledger.values import pack, pack_vectors
from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints, ValidationError

if TYPE_CHECKING:
    from moot.core.postgres.served import ServedLedger

FORMAT = 1
"""The version of the file's format."""
PAGE = 100
"""Number of entries that an export reads from the ledger at once."""
LONGEST_LINE = 64 * 2**20
"""Maximum number of bytes in a line."""
MOST_ENTRIES = 100_000
"""Maximum number of entries in a file."""
LARGEST_FILE = 2**30
"""Maximum number of bytes in a file."""

Moment = Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False)]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z_]{1,40}$")]
Spent = Annotated[list[Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]], Field(min_length=3, max_length=3)]
"""Tokens, USD and number of calls."""
Short = Annotated[str, StringConstraints(max_length=500)]


class DebateLine(BaseModel):
    """The first line of an exported file, which describes the debate."""

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


class EntryLine(BaseModel):
    """A line of an exported file after the first line; it describes an entry of the debate."""

    model_config = ConfigDict(extra="forbid", strict=True)
    kind: Kind
    parts: Annotated[
        dict[Name, Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{24}$")]], Field(min_length=1, max_length=30)
    ]
    about: Annotated[dict[Name, Short | int | Spent | None], Field(max_length=30)]
    created: Moment
    value: JsonValue


def export_debate(file: LedgerFile | ServedLedger, id: str, path: Path) -> int:
    """Writes a debate with its entries to a file that only the current user may read; returns the number of entries."""
    debate = next((found for found in file.debates(id=id) if found.id == id), None)
    if debate is None:
        raise UserError(f"There is no debate {id} in the ledger.", kind="unknown_debate")
    shared = {name: getattr(debate, name) for name in DebateLine.model_fields if not name.startswith("moot")}
    count = 0
    try:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, suffix=".part", delete=False) as fresh:
            try:
                fresh.write(as_json({"moot_ledger": FORMAT, "moot": debate.version, **shared}) + "\n")
                for entry in _all_entries(file, id):
                    fresh.write(as_json(_line_of(entry)) + "\n")
                    count += 1
            except BaseException:  # the unfinished file is also removed after a KeyboardInterrupt
                os.unlink(fresh.name)
                raise
        try:
            os.replace(fresh.name, path)
        except OSError:
            os.unlink(fresh.name)
            raise
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror}).", kind="missing_file") from error
    return count


def _all_entries(file: LedgerFile | ServedLedger, id: str) -> Iterator[Entry]:
    """The entries of a debate, which are read in pages."""
    after = 0
    while page := file.entries(id, after, PAGE):
        yield from (entry for _, entry in page)
        after = page[-1][0]


def _line_of(entry: Entry) -> dict[str, Any]:
    """The fields of an entry's line (see `EntryLine`)."""
    fields = {"kind": entry.key.kind, "parts": entry.key.parts, "about": entry.about, "created": entry.created}
    return {**fields, "value": stored_call(entry).value}


def import_debate(file: LedgerFile, path: Path) -> tuple[str, int]:
    """Adds the debate in a file to the ledger, completely or not at all; returns its id and number of entries."""
    count = 0
    try:
        with path.open("rb") as source, file.transaction():
            if os.fstat(source.fileno()).st_size > LARGEST_FILE:
                raise _too_large(path, f"{LARGEST_FILE // 2**20} MiB")
            head = DebateLine.model_validate(_parse(source.readline(LONGEST_LINE)))
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
                    raise _too_large(path, f"{MOST_ENTRIES} entries")
                file.store_entries([_entry_of(head.id, EntryLine.model_validate(_parse(text)))])
            if count < head.entries:
                raise ValueError(f"is the last one, but the debate has {head.entries} entries: the file is cut off")
    except OSError as error:
        raise UserError(why_unread(path, error), kind="missing_file") from error
    except (ValueError, RecursionError) as error:
        where = f"entry {count}" if count else "its first line"
        raise UserError(f"{path} cannot be imported: {where} {_reason(error)}.", kind="invalid_file") from error
    return head.id, count


def _too_large(path: Path, bound: str) -> UserError:
    return UserError(f"{path} cannot be imported: it has more than {bound}.", kind="invalid_file")


def _parse(line: bytes) -> Any:
    """Parses a line of an exported file; a ValueError's text is the end of a sentence whose subject is the line."""
    if not line.endswith(b"\n"):
        raise ValueError("is cut off" if len(line) < LONGEST_LINE else f"has more than {LONGEST_LINE // 2**20} MiB")
    try:
        return json.loads(line, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON ({error})") from None  # a JSONDecodeError would count as damage of the ledger


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"contains {name}, which is not a JSON number")


def _entry_of(debate: str, line: EntryLine) -> Entry:
    """The entry that a line of an exported file describes."""
    key = Key(line.kind, hash_of(line.kind, line.parts), line.parts)
    if line.kind == "embedding" and not isinstance(line.value, dict):
        if not (isinstance(line.value, list) and line.value and all(_is_vector(vector) for vector in line.value)):
            raise ValueError("is an embedding whose value is not a list of vectors")
        value = pack_vectors(cast(list[list[float]], line.value))
    else:
        value = pack(as_json(line.value))
    return Entry(debate, key, line.about, line.created, len(value), value)


def _is_vector(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_fits_float, value))


def _fits_float(value: Any) -> bool:
    """Whether a value is a number that a 32-bit float can hold."""
    return isinstance(value, int | float) and -3e38 < value < 3e38


def _reason(error: Exception) -> str:
    """Why a line cannot be imported, as the end of a sentence whose subject is the line."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"is invalid at {'.'.join(str(part) for part in first['loc'])[:100]!r} ({first['msg'][:200]})"
    if isinstance(error, RecursionError):
        return "is nested too deeply"
    return f"is not JSON ({error})" if isinstance(error, UnicodeDecodeError) else str(error)
