"""Stores batches. Each batch has a folder under ``$MOOT_HOME/batches`` with its claims and its settings.

The outcome of a claim is not stored here. The claim's debate is in the server's table. The debate's id is derived from
the batch's id and the number of the claim's row.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid5

from moot.core.errors import UserError
from moot.core.files import storage_error, write_atomically
from moot.core.home import moot_home, private_folder
from moot.evals._benchmarks.claim_files import COLUMNS, BadRow, ClaimRow, ClaimsFile
from moot.graphs import load_graph
from moot.graphs._registry import graph_names
from moot.web.table import THREADS
from pydantic import TypeAdapter, ValidationError

ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
CLAIMS, BATCH_FILE = "claims.jsonl", "batch.json"
MOST_ROWS = 5000
"""Maximum number of claims in a batch."""
AT_ONCE = 4
"""Default for `Batch.at_once`."""
MOST_AT_ONCE = 64
"""Maximum for `Batch.at_once`."""
LONGEST_NAME = 300
"""Maximum length of a batch's name, in characters."""


@dataclass(frozen=True)
class Batch:
    """A batch without its claims.

    Args:
        id: a UUID.
        name: the name of the file or the article that the claims are from.
        began: its start time in UTC, in ISO format.
        graph: the debate system for claims that name no system.
        input: the debates' input without the claim.
        context: the debates' settings.
        at_once: the maximum number of concurrent debates.
        max_cost: the cost in USD after which no further debate is started; None for no limit.
        stopped: why no further debate is started; empty if the batch was not stopped.
        ended: whether all claims were processed, even if debates failed.
        faults: maps the number of a row to the reason why the row's debate could not be run.
    """

    id: str
    name: str
    began: str
    graph: str
    input: dict[str, Any]
    context: dict[str, Any]
    at_once: int = AT_ONCE
    max_cost: float | None = None
    stopped: str = ""
    ended: bool = False
    faults: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Job:
    """The debate of a row. Its ids depend only on the batch and the row's number, so that no claim is debated twice.

    Args:
        row: the row.
        debate: the debate's id.
        thread: the id of the thread on which the server runs the debate.
        graph: the debate system.
        input: the debate's input.
        context: the debate's settings.
    """

    row: ClaimRow
    debate: str
    thread: str
    graph: str
    input: Mapping[str, Any]
    context: Mapping[str, Any]


def batches_folder() -> Path:
    """The folder of all batches."""
    return moot_home() / "batches"


def folder_of(id: str) -> Path:
    """The folder of a batch.

    Raises:
        UserError: there is no such batch.
    """
    folder = batches_folder() / id
    if not ID.fullmatch(id) or not (folder / BATCH_FILE).is_file():
        raise UserError("There is no such batch: it was deleted, or the link is wrong.", kind="missing_file")
    return folder


# --- blocking ---------------------------------------------------------------------------------------------------------


def parse_batch(body: Any) -> Batch:
    """Checks the body of a request that starts a batch; returns the batch, without storing it.

    The returned batch has the defaults for `stopped`, `ended` and `faults`.

    Raises:
        UserError: the body is not an object, or a field is missing or not valid.
    """
    try:
        batch = _batch_adapter().validate_python({**body, "began": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"})
    except (ValidationError, TypeError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": str(error)}
        problem = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"[:300]
        raise UserError(f"This is not a batch ({problem}).", kind="bad_request") from error
    limit_is_valid = batch.max_cost is None or batch.max_cost > 0
    if not (ID.fullmatch(batch.id) and 1 <= batch.at_once <= MOST_AT_ONCE and limit_is_valid):
        problem = f"`id` is a UUID, `at_once` 1 to {MOST_AT_ONCE}, `max_cost` more than 0."
        raise UserError(f"This is not a batch: {problem}", kind="bad_request")
    if not isinstance(batch.input.get("given") or [], list):
        raise UserError("This is not a batch: `given` is a list of texts.", kind="bad_request")
    name = " ".join(batch.name.split())[:LONGEST_NAME] or "claims"
    return replace(batch, name=name, stopped="", ended=False, faults={})


def _batch_adapter() -> TypeAdapter[Batch]:
    return TypeAdapter(Batch)


def store_new_batch(batch: Batch, claims: Sequence[Any]) -> list[ClaimRow]:
    """Stores a new batch, and its claims as a file of claims; returns the rows of this file.

    Raises:
        UserError: a claim is not valid, there are no claims or too many, or the folder exists or cannot be written.
        WorldError: the disk is full or fails.
    """
    if not 1 <= len(claims) <= MOST_ROWS:
        raise UserError(
            f"A batch on the page has 1 to {MOST_ROWS:,} claims. For more, use: moot batch", kind="bad_request"
        )
    if not all(isinstance(one, dict) for one in claims):
        raise UserError('Each claim is an object: {"claim": "..."}.', kind="bad_request")
    lines = [json.dumps({key: one[key] for key in COLUMNS if one.get(key) is not None}) for one in claims]
    folder = batches_folder() / batch.id
    new = folder.with_name(f".{batch.id}-{secrets.token_hex(4)}")
    try:
        private_folder(new)
        try:
            write_atomically(new / CLAIMS, "\n".join(lines) + "\n", private=True)
            found = list(ClaimsFile(new / CLAIMS))
            if bad := [row for row in found if isinstance(row, BadRow)]:
                more = f" {len(bad) - 1} more cannot be used." if len(bad) > 1 else ""
                raise UserError(f"Claim {bad[0].number}: {bad[0].problem}.{more}", kind="invalid_claim")
            _write(new, batch)
            new.rename(folder)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    except OSError as error:
        raise storage_error("Batches", folder, error) from error
    return [row for row in found if isinstance(row, ClaimRow)]


def store_batch(batch: Batch) -> None:
    """Stores a batch that was changed.

    Raises:
        UserError: the batch was deleted, or cannot be written.
        WorldError: the disk is full or fails.
    """
    folder = folder_of(batch.id)
    try:
        _write(folder, batch)
    except OSError as error:
        raise storage_error("Batches", folder, error) from error


def _write(folder: Path, batch: Batch) -> None:
    write_atomically(folder / BATCH_FILE, json.dumps(asdict(batch), ensure_ascii=False) + "\n", private=True)


def load(id: str) -> Batch:
    """A batch by its id.

    Raises:
        UserError: there is no such batch, or its file is damaged.
    """
    file = folder_of(id) / BATCH_FILE
    try:
        return _batch_adapter().validate_json(file.read_bytes())
    except ValueError as error:
        raise UserError(f"{file} is damaged. Delete its folder, and start a new batch.", kind="invalid_file") from error


def jobs(batch: Batch) -> list[Job]:
    """The debates of a batch, in the order of its claims.

    Raises:
        UserError: the batch was deleted, or its file of claims was changed and is not valid; or as for `job_of`.
    """
    return [job_of(batch, row) for row in _rows(folder_of(batch.id) / CLAIMS)]


def _rows(file: Path) -> Iterator[ClaimRow]:
    for row in ClaimsFile(file):
        if isinstance(row, BadRow):
            raise UserError(f"{file}, line {row.line}: {row.problem}.", kind="invalid_file")
        yield row


def job_of(batch: Batch, row: ClaimRow) -> Job:
    """The debate of a row. The row's values override the batch's values; the row's texts are added to the batch's.

    Raises:
        UserError: the row names a system of an installed package, and this system cannot be loaded.
    """
    debate = hashlib.sha256(f"{batch.id}:{row.number}".encode()).hexdigest()[:32]
    own = {"claim": row.claim, "labels": list(row.labels), "claim_date": row.claim_date, "speaker": row.speaker}
    given = [*(batch.input.get("given") or []), *({"title": title, "text": text} for title, text in row.given)]
    input = {
        **batch.input,
        **{key: value for key, value in own.items() if value},
        **({"given": given} if given else {}),
    }
    graph = row.graph or batch.graph
    context = batch.context
    if graph != batch.graph and graph in graph_names():
        # Leaves out settings that the row's system lacks.
        context = {key: value for key, value in context.items() if key in load_graph(graph).settings.model_fields}
    context = {**context, **row.settings}
    return Job(row, debate, str(uuid5(THREADS, debate)), graph, input, context)


def ids() -> list[str]:
    """The ids of all batches, newest first."""
    folders = [path.parent for path in batches_folder().glob(f"*/{BATCH_FILE}") if ID.fullmatch(path.parent.name)]
    return [folder.name for folder in sorted(folders, key=lambda one: (one / CLAIMS).stat().st_mtime, reverse=True)]


def delete(id: str) -> None:
    """Deletes a batch; its debates stay.

    Raises:
        UserError: there is no such batch.
        OSError: the batch's folder cannot be deleted.
    """
    shutil.rmtree(folder_of(id))
