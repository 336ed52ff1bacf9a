"""The page's batches in the store: each has its settings, and a row for each claim.

The outcome of a claim is read from its debate's run and document. The debate's id is derived from the batch's id and
the number of the claim's row.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid5

import sqlalchemy as sa
from moot.core.errors import UserError
from moot.core.store import open_store
from moot.core.tables import batches, rows
from moot.evals._benchmarks.claim_files import COLUMNS, BadRow, ClaimRow, ClaimsFile
from moot.graphs import load_graph
from moot.graphs._registry import graph_names
from moot.web.repeats import same_claim
from moot.web.table import THREADS
from pydantic import TypeAdapter, ValidationError

ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
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
        columns: the columns of the user's list, as in `ClaimsFile.columns`; empty if the claims are from no table.
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
    columns: list[tuple[str, str]] = field(default_factory=list)


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
        same_as: the number of the earlier row with the same claim, input and settings, whose debate this is; None if
            there is none.
    """

    row: ClaimRow
    debate: str
    thread: str
    graph: str
    input: Mapping[str, Any]
    context: Mapping[str, Any]
    same_as: int | None = None


# --- blocking ---------------------------------------------------------------------------------------------------------


def parse_batch(body: Any) -> Batch:
    """Checks the body of a request that starts a batch; returns the batch, without storing it.

    The returned batch has the defaults for `stopped`, `ended` and `faults`.
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
    """Stores a new batch with its claims; returns their rows."""
    if not 1 <= len(claims) <= MOST_ROWS:
        raise UserError(
            f"A batch on the page has 1 to {MOST_ROWS:,} claims. For more, use: moot batch", kind="bad_request"
        )
    if not all(isinstance(one, dict) for one in claims):
        raise UserError('Each claim is an object: {"claim": "..."}.', kind="bad_request")
    lines = [json.dumps({key: one[key] for key in COLUMNS if one.get(key) is not None}) for one in claims]
    with TemporaryDirectory(prefix="moot-") as folder:
        file = Path(folder) / "claims.jsonl"
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        found = list(ClaimsFile(file))
    if bad := [row for row in found if isinstance(row, BadRow)]:
        more = f" {len(bad) - 1} more cannot be used." if len(bad) > 1 else ""
        raise UserError(f"Claim {bad[0].number}: {bad[0].problem}.{more}", kind="invalid_claim")
    written = [one.get("written") or () for one in claims]
    if not all(isinstance(cells, list | tuple) and all(isinstance(cell, str) for cell in cells) for cells in written):
        raise UserError("`written` is a list of the texts of a claim's cells.", kind="bad_request")
    good = [
        replace(row, written=tuple(cells))
        for row, cells in zip(found, written, strict=True)
        if isinstance(row, ClaimRow)
    ]

    def add(connection: sa.Connection) -> None:
        about = {"file": batch.name, "mode": "record", "until": math.inf, "made": datetime.now(UTC)}
        connection.execute(sa.insert(batches).values(id=batch.id, page=json.dumps(asdict(batch)), **about))
        keys = ((debate_id(batch.id, row.number), row) for row in good)
        values = [
            {"key": key, "batch": batch.id, "number": row.number, "claim": row.claim, "job": json.dumps(asdict(row))}
            for key, row in keys
        ]
        connection.execute(sa.insert(rows), values)

    open_store().do(add)
    return good


def store_batch(batch: Batch) -> None:
    """Stores a batch that was changed."""
    changed = sa.update(batches).where(batches.c.id == batch.id, batches.c.page.is_not(None))
    values = {"page": json.dumps(asdict(batch))}
    if not open_store().do(lambda connection: connection.execute(changed.values(**values)).rowcount):
        raise no_batch_error()


def no_batch_error() -> UserError:
    """The error for a batch that does not exist."""
    return UserError("There is no such batch: it was deleted, or the link is wrong.", kind="missing_file")


def load(id: str) -> Batch:
    """A batch by its id; UserError if there is no such batch."""
    query = sa.select(batches.c.page).where(batches.c.id == id)
    if (found := open_store().do(lambda connection: connection.scalar(query), is_lookup=True)) is None:
        raise no_batch_error()
    return _batch_adapter().validate_json(found)


def jobs(batch: Batch) -> list[Job]:
    """The debates of a batch, in the order of its claims; UserError as for `job_of`.

    Rows with equal claims, inputs and settings have the debate of the first one.
    """
    query = sa.select(rows.c.job).where(rows.c.batch == batch.id).order_by(rows.c.number)
    found = open_store().do(lambda connection: connection.scalars(query).all(), is_lookup=True)
    first: dict[str, Job] = {}
    all_jobs = []
    for row in found:
        job = job_of(batch, TypeAdapter(ClaimRow).validate_json(row))
        same = first.setdefault(_content_of(job), job)
        is_first = same is job
        all_jobs.append(job if is_first else replace(same, row=job.row, same_as=same.row.number))
    return all_jobs


def _content_of(job: Job) -> str:
    asked = {**job.input, "claim": same_claim(job.row.claim)}
    return json.dumps([job.graph, asked, job.context], sort_keys=True)


def take(id: str) -> bool:
    """Makes this process run a batch; False if another process, which is alive, runs it."""
    store = open_store()

    def job(connection: sa.Connection) -> bool:
        row = connection.execute(sa.select(batches).where(batches.c.id == id)).first()
        if row is None:
            raise no_batch_error()
        if row.owner not in (None, store.owner) and store.living(connection)(row):
            return False
        connection.execute(sa.update(batches).where(batches.c.id == id).values(owner=store.owner))
        return True

    return store.do(job)


def release(id: str) -> None:
    """Lets another process run a batch of this process."""
    mine = sa.update(batches).where(batches.c.id == id, batches.c.owner == open_store().owner)
    open_store().do(lambda connection: connection.execute(mine.values(owner=None)))


def debate_id(batch: str, number: int) -> str:
    """The id of the debate of a batch's row."""
    return hashlib.sha256(f"{batch}:{number}".encode()).hexdigest()[:32]


def job_of(batch: Batch, row: ClaimRow) -> Job:
    """The debate of a row. The row's values override the batch's values; the row's texts are added to the batch's."""
    debate = debate_id(batch.id, row.number)
    input = {key: value for key, value in row.input_of(batch.input).items() if key != "given" or value}
    graph = row.graph or batch.graph
    context = batch.context
    if graph != batch.graph and graph in graph_names():
        # Leaves out settings that the row's system lacks.
        context = {key: value for key, value in context.items() if key in load_graph(graph).settings.model_fields}
    context = {**context, **row.settings}
    return Job(row, debate, str(uuid5(THREADS, debate)), graph, input, context)


def ids() -> list[str]:
    """The ids of all batches, newest first."""
    query = sa.select(batches.c.id).where(batches.c.page.is_not(None)).order_by(batches.c.made.desc())
    return [*open_store().do(lambda connection: connection.scalars(query).all(), is_lookup=True)]


def delete(id: str) -> None:
    """Deletes a batch; its debates stay."""
    gone = sa.delete(batches).where(batches.c.id == id, batches.c.page.is_not(None))
    open_store().do(lambda connection: connection.execute(gone))
