"""Routes that start, show, list, stop, resume, delete and download batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from moot.core.errors import MootError, UserError
from moot.core.sheets import can_write_sheets
from moot.graphs._registry import graph_names
from moot.web.batches import storage
from moot.web.batches.outcomes import Result, results_of
from moot.web.batches.running import BATCHES, RunningBatch
from moot.web.batches.storage import Batch, Job
from moot.web.batches.view import FILTERS, describe_batch, status_of, table_csv, table_sheet, zip_batch
from moot.web.caller import body_of, caller_client, has_users, parse_json
from moot.web.checks import check
from moot.web.table import thread_exists
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

LARGEST = 32 * 2**20
"""Maximum size of a request's body in bytes; a body may contain a batch's claims, and texts for each claim."""
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
MOST_LISTED = 20
"""Maximum number of batches in the list."""


async def start_batch(request: Request) -> Any:
    """Starts a batch and returns its id.

    If the batch exists already, for example after a double click, nothing is started. The body has ``id``, ``name``,
    ``graph``, ``input``, ``context`` and ``claims``, and optionally ``at_once``, ``max_cost`` and ``columns``, the
    columns of the user's list. Each claim is an object with the columns that ``moot batch`` reads, and perhaps its
    cells in the list (``written``).
    """
    body = parse_json(await body_of(request, LARGEST))
    claims = body.pop("claims", None) if isinstance(body, dict) else None
    if not isinstance(claims, list):
        form = '{"id": UUID, "name": ..., "graph": ..., "input": {}, "context": {}, "claims": [{"claim": "..."}]}'
        raise UserError(f"The body must have this form: {form}.", kind="bad_request")
    batch = await run_in_threadpool(storage.parse_batch, body)
    if batch.id in await run_in_threadpool(storage.ids):
        await _find_batch(batch.id, request)
        return {"id": batch.id}
    client = caller_client(request.scope)
    rows = await run_in_threadpool(storage.store_new_batch, batch, claims)
    try:
        await _check_settings([storage.job_of(batch, row) for row in rows], client)
        if has_users():
            await client.threads.create(thread_id=batch.id)  # the owner of this thread owns the batch
        await BATCHES.start(batch, _client(request))
    except BaseException:
        await run_in_threadpool(storage.delete, batch.id)
        raise
    return {"id": batch.id}


async def _check_settings(jobs: Sequence[Job], client: LangGraphClient) -> None:
    """Checks each claim's graph and settings, as the server checks a run."""
    seen: set[str] = set()
    for job in jobs:
        key = repr((job.graph, job.context))
        if key not in seen:
            try:
                if job.graph not in graph_names():
                    raise UserError(f"There is no debate system {job.graph[:60]!r}.", kind="unknown_graph")
                await check({"assistant_id": job.graph, "input": job.input, "context": job.context}, "/runs", client)
            except UserError as error:
                has_own = job.row.graph or job.row.settings
                detail = f"Claim {job.row.number}: {error.detail}" if has_own else error.detail
                raise UserError(detail, kind=error.kind) from error
        seen.add(key)


def _client(request: Request) -> LangGraphClient:
    """A client for this server. If the server has users, the client has the caller's rights."""
    return caller_client(request.scope) if has_users() else get_client(url=None, api_key=None)


async def _find_batch(id: str, request: Request) -> Batch:
    """A batch by its id."""
    if has_users() and not await thread_exists(id, caller_client(request.scope)):
        raise UserError("There is no such batch: it was deleted, or the link is wrong.", kind="missing_file")
    running = BATCHES.running_batch(id)
    return running.batch if running else await run_in_threadpool(storage.load, id)


async def _rows_with_results(batch: Batch) -> list[tuple[Job, Result]]:
    running = BATCHES.running_batch(batch.id)
    jobs = running.jobs if running else await run_in_threadpool(storage.jobs, batch)
    return list(zip(jobs, await results_of(jobs), strict=True))


async def show_batch(request: Request) -> Any:
    """A batch with one ``page`` of its rows. ``show`` filters the rows by outcome, ``q`` by words in the claim."""
    batch = await _find_batch(request.path_params["id"], request)
    query = request.query_params
    page, show = query.get("page", "1"), query.get("show", "all")
    if not (page.isascii() and page.isdigit() and int(page[:6]) > 0) or show not in FILTERS:
        raise UserError(f"`page` is a number from 1, `show` one of {', '.join(FILTERS)}.", kind="bad_request")
    rows, words = await _rows_with_results(batch), query.get("q", "")[: storage.LONGEST_NAME]
    return describe_batch(batch, rows, BATCHES.running_batch(batch.id), page=int(page[:6]), show=show, words=words)


async def list_batches(request: Request) -> Any:
    """The latest batches. For each batch, its claims are counted by status and by filter (`FILTERS`).

    A batch that cannot be read has only its ``id`` and ``fault``.
    """
    found: list[dict[str, Any]] = []
    for id in await run_in_threadpool(storage.ids):
        if len(found) == MOST_LISTED:
            break
        try:
            batch = await _find_batch(id, request)
            described = describe_batch(batch, await _rows_with_results(batch), BATCHES.running_batch(id))
        except MootError as error:
            if error.kind != "missing_file":
                found.append({"id": id, "fault": error.detail})
            continue
        facts = ("id", "name", "began", "graph", "going", "stopped", "ended", "statuses", "counts")
        found.append({key: described[key] for key in facts})
    return {"batches": found}


async def stop_batch(request: Request) -> Any:
    """Stops a batch: no further claim is started, and running debates are interrupted."""
    batch = await _find_batch(request.path_params["id"], request)
    await BATCHES.stop(batch.id)
    return {}


async def resume_batch(request: Request) -> Any:
    """Resumes a batch. Retries the failed rows among the body's ``rows``; if ``failed`` is true, all failed rows."""
    batch = await _find_batch(request.path_params["id"], request)
    content = await body_of(request, LARGEST)
    body = parse_json(content) if content else {}
    rows = body.get("rows", []) if isinstance(body, dict) else None
    if not isinstance(rows, list) or not all(isinstance(one, int) for one in rows):
        raise UserError('The body must be {"rows": [1, 2]}, with the rows to try again.', kind="bad_request")
    if body.get("failed"):
        states = [
            (job, status_of(batch, job, one, BATCHES.running_batch(batch.id)))
            for job, one in await _rows_with_results(batch)
        ]
        rows = [*rows, *(job.row.number for job, status in states if status == "failed")]
    await BATCHES.start(batch, _client(request), rows)
    return {}


async def delete_batch(request: Request) -> Any:
    """Deletes a batch that this server is not running; its debates stay stored."""
    batch = await _find_batch(request.path_params["id"], request)
    if BATCHES.running_batch(batch.id):
        raise UserError("This batch is still running: stop it first.", kind="bad_request")
    await run_in_threadpool(storage.delete, batch.id)
    return {}


async def download_table(request: Request) -> Response:
    """A batch as a CSV table."""
    text = table_csv(*await _table_arguments(request))
    return Response(text, media_type="text/csv", headers=_file_named(request, "csv"))


async def download_sheet(request: Request) -> Response:
    """A batch as an .xlsx table."""
    content = await run_in_threadpool(table_sheet, *await _table_arguments(request))
    return Response(content, media_type=XLSX, headers=_file_named(request, "xlsx"))


async def download_reports(request: Request) -> Response:
    """A batch's tables and the reports of its debates so far, as a ZIP file."""
    given = await _table_arguments(request)
    tables: dict[str, str | bytes] = {"table.csv": table_csv(*given)}
    if can_write_sheets():
        tables["table.xlsx"] = await run_in_threadpool(table_sheet, *given)
    archive = await run_in_threadpool(zip_batch, given[1], tables)
    head = _file_named(request, "zip")
    return StreamingResponse(
        archive, media_type="application/zip", headers=head, background=BackgroundTask(archive.close)
    )


async def _table_arguments(request: Request) -> tuple[Batch, list[tuple[Job, Result]], RunningBatch | None, str]:
    """The batch of a request, its rows, its run if this server runs it, and the server's address."""
    batch = await _find_batch(request.path_params["id"], request)
    server = str(request.base_url).rstrip("/")
    return batch, await _rows_with_results(batch), BATCHES.running_batch(batch.id), server


def _file_named(request: Request, suffix: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="moot-{request.path_params["id"]}.{suffix}"'}
