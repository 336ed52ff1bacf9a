"""Exports and imports the replies of one run as a file of JSON Lines: first the run, then its replies.

An imported file is untrusted. Therefore its size, names and values are checked, and nothing in it is executed. Every
function here blocks.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, NoReturn

from moot.core.errors import UserError
from moot.core.files import why_unread
from moot.core.fingerprints import Kind, Status, as_json, fingerprint_of
from moot.core.store import Reply, Run, Store, pack, row_of
from pydantic import BaseModel, ConfigDict, Field, JsonValue, Strict, StringConstraints, ValidationError

LONGEST_LINE = 64 * 2**20
"""Maximum number of bytes in a line."""
MOST_REPLIES = 100_000
"""Maximum number of replies in a file."""
LARGEST_FILE = 2**30
"""Maximum number of bytes in a file."""

Moment = Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False)]
Amount = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]
Amounts = Annotated[tuple[Amount, Amount, Amount], Strict(False)]  # JSON has lists only
Name = Annotated[str, StringConstraints(pattern=r"^[a-z_]{1,40}$")]


class RunLine(BaseModel):
    """The first line of an exported file, which describes the run."""

    model_config = ConfigDict(extra="forbid", strict=True)
    moot_replies: Literal[1]
    version: Annotated[str, StringConstraints(max_length=40)]
    id: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
    graph: Annotated[str, StringConstraints(max_length=100)]
    input: JsonValue
    settings: JsonValue
    status: Status
    started: Moment
    updated: Moment
    replies: Annotated[int, Field(ge=0)]


class ReplyLine(BaseModel):
    """A line of an exported file after the first line; it describes a reply of the run."""

    model_config = ConfigDict(extra="forbid", strict=True)
    key: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
    kind: Kind
    about: Annotated[dict[Name, Annotated[str, StringConstraints(max_length=500)] | int | None], Field(max_length=30)]
    failed: bool
    paid: Amounts
    sent: Amounts
    created: Moment
    value: JsonValue


def export_run(store: Store, run: Run, path: Path, *, only_models: bool = False) -> int:
    """Writes a run with its replies to a file that only the current user may read; returns the number of replies.

    With ``only_models``, search results and pages are left out.
    """
    replies = [one for one in store.replies(run.id).values() if not only_models or one.kind not in ("search", "page")]
    head: dict[str, Any] = {name: getattr(run, name) for name in RunLine.model_fields if name != "moot_replies"}
    head |= {"moot_replies": 1, "replies": len(replies)}
    lines = ({name: getattr(reply, name) for name in ReplyLine.model_fields} for reply in replies)
    try:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, suffix=".part", delete=False) as fresh:
            try:
                fresh.writelines(as_json(line) + "\n" for line in (head, *lines))
                fresh.close()
                os.replace(fresh.name, path)
            except BaseException:  # the unfinished file is also removed after a KeyboardInterrupt
                os.unlink(fresh.name)
                raise
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror}).", kind="missing_file") from error
    return len(replies)


def import_run(store: Store, path: Path) -> tuple[str, int]:
    """Adds the run in a file to the store, completely or not at all; returns its id and number of replies.

    Its last change is the import, so that the replies of an old run are not removed before they are used.
    """
    place = ["its first line"]
    try:
        with path.open("rb") as source:
            if os.fstat(source.fileno()).st_size > LARGEST_FILE:
                raise _too_large(path, f"{LARGEST_FILE // 2**20} MiB")
            head = RunLine.model_validate(_parse(source.readline(LONGEST_LINE)))
            if store.run(head.id):
                raise UserError(f"The debate {head.id} is stored already.", kind="invalid_file")
            run = head.model_dump(exclude={"moot_replies", "replies"})
            run |= {"input": as_json(head.input), "settings": as_json(head.settings)}
            run |= {"fingerprint": fingerprint_of(head.graph, head.input, head.settings, head.version)}
            run |= {"status": "interrupted" if head.status == "running" else head.status}
            run |= {"updated": time.time(), "claim": 0, "note": f"imported from {path.name}"[:200]}
            count = store.add(run, _rows(source, head, path, place))
    except OSError as error:
        raise UserError(why_unread(path, error), kind="missing_file") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} cannot be imported: {place[0]} {_reason(error)}.", kind="invalid_file") from error
    return head.id, count


def _rows(source: BinaryIO, head: RunLine, path: Path, place: list[str]) -> Iterator[dict[str, Any]]:
    """The rows of the replies in a file; ``place`` gets the line that is read, in words."""
    count = 0
    while text := source.readline(LONGEST_LINE):
        count, place[0] = count + 1, f"reply {count + 1}"
        if count > MOST_REPLIES:
            raise _too_large(path, f"{MOST_REPLIES} replies")
        line = ReplyLine.model_validate(_parse(text))
        if line.kind == "embedding" and not isinstance(line.value, dict) and not _is_vector(line.value):
            raise ValueError("is an embedding whose value is not a vector")
        packed = None if line.value is None else pack(line.kind, line.value)
        yield row_of(
            Reply(head.id, line.key, line.kind, line.about, None, line.failed, line.paid, line.sent, line.created),
            packed,
        )
    if count < head.replies:
        raise ValueError(f"is the last one, but the debate has {head.replies} replies: the file is cut off")


def _too_large(path: Path, bound: str) -> UserError:
    return UserError(f"{path} cannot be imported: it has more than {bound}.", kind="invalid_file")


def _parse(line: bytes) -> Any:
    """Parses a line of an exported file; a ValueError's text is the end of a sentence whose subject is the line."""
    if not line.endswith(b"\n"):
        raise ValueError("is cut off" if len(line) < LONGEST_LINE else f"has more than {LONGEST_LINE // 2**20} MiB")
    try:
        return json.loads(line, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON ({error})") from None  # a JSONDecodeError would count as damage of the store


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"contains {name}, which is not a JSON number")


def _is_vector(value: Any) -> bool:
    """Whether a value is a list of numbers that 32-bit floats can hold."""
    numbers = isinstance(value, list) and value and all(isinstance(one, int | float) for one in value)
    return bool(numbers) and all(-3e38 < one < 3e38 for one in value)


def _reason(error: Exception) -> str:
    """Why a line cannot be imported, as the end of a sentence whose subject is the line."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"is invalid at {'.'.join(str(part) for part in first['loc'])[:100]!r} ({first['msg'][:200]})"
    if isinstance(error, RecursionError):
        return "is nested too deeply"
    return f"is not JSON ({error})" if isinstance(error, UnicodeDecodeError) else str(error)
