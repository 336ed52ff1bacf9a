"""A batch for the browser: its progress with one page of its claims, a table of all claims, and a ZIP file."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from tempfile import SpooledTemporaryFile
from typing import IO, Any
from zipfile import ZIP_DEFLATED, ZipFile

from moot.core.errors import UserError
from moot.core.sheets import Cell, can_write_sheets, write_tables
from moot.transcript.columns import DEBATE_COLUMNS, ROW_COLUMNS, cells_of_row, header_of
from moot.transcript.language import day_in_words, t
from moot.transcript.line import format_duration
from moot.transcript.outcome import cells_of
from moot.transcript.report.codes import ANSWERS
from moot.transcript.report.sentences import translated
from moot.web.batches.outcomes import Result
from moot.web.batches.running import RunningBatch
from moot.web.batches.storage import Batch, Job
from moot.web.reviews import cells_of_review, report_of

PAGE_SIZE = 50
"""Number of claims on one page."""
FILTERS = ("all", "open", "failed", "divided", *ANSWERS, "text")
"""Filters of claims: all, unfinished, failed and divided claims, and claims with each kind of answer."""
ABOUT_DEBATES = (*DEBATE_COLUMNS, "backing", "disagreement", "report")
"""The columns of ``moot batch``, then the verdict's basis, `Result.divided` and the report's address."""
COLUMNS = (*ROW_COLUMNS, *ABOUT_DEBATES)
"""The columns for claims that are from no table."""
IN_MEMORY = 16 * 2**20
"""Maximum size in bytes of a ZIP file in memory. A larger file is written to the disk."""
Rows = Sequence[tuple[Job, Result]]


def status_of(batch: Batch, job: Job, result: Result, running: RunningBatch | None) -> str:
    """A row's status for the browser; by default, the status of its debate.

    If the debate is not done, the status is ``running`` while this server works on the row, and ``failed`` if the
    debate could not be run. It is ``next`` if the running batch has not yet started or resumed the debate. A failed
    debate stays ``failed`` until it is retried.
    """
    number = job.same_as or job.row.number
    if result.status == "done":
        return "done"
    if running and number in running.active:
        return "running"
    if number in batch.faults:
        return "failed"
    if running and result.status in ("none", "interrupted") and any(one.debate == job.debate for one in running.left):
        return "next"
    return result.status


def describe_batch(
    batch: Batch, rows: Rows, running: RunningBatch | None, *, page: int = 1, show: str = "all", words: str = ""
) -> dict[str, Any]:
    """A batch's state for the browser, with one page of the rows that pass the filters."""
    entries = [_entry(batch, job, result, running) for job, result in rows]
    kinds = Counter(kind for one in entries for kind in _filters_for(one))
    with_document = [result for job, result in rows if result.document and job.same_as is None]
    costs = [one.usd for one in with_document]
    wanted = words.casefold().split()
    found = [
        one
        for one in entries
        if show in ("all", *_filters_for(one)) and all(word in one["claim"].casefold() for word in wanted)
    ]
    return {
        "id": batch.id,
        "name": batch.name,
        "began": batch.began,
        "graph": batch.graph,
        "model": batch.context.get("model"),
        "sheets": can_write_sheets(),
        "going": running is not None,
        "stopped": translated(batch.stopped) or batch.stopped,
        "ended": batch.ended,
        "left": remaining_time(running) if running else "",
        "max_cost": batch.max_cost,
        "statuses": Counter(one["status"] for one in entries),
        "counts": {"all": len(entries)} | {kind: kinds[kind] for kind in FILTERS[1:]},
        "usd": None if None in costs else sum(cost or 0 for cost in costs),
        "quotes": [sum(one.quotes[2] for one in with_document), sum(one.quotes[3] for one in with_document)],
        "rows": found[(page - 1) * PAGE_SIZE : page * PAGE_SIZE],
        "page": page,
        "pages": max(1, -(-len(found) // PAGE_SIZE)),
        "found": len(found),
    }


def remaining_time(running: RunningBatch) -> str:
    """An estimate of the time for the remaining rows, in words; empty if no row is left, or if none has ended."""
    in_flight = len(running.active)
    left = len(running.left) + in_flight
    seconds = running.progress.seconds_left(left, in_flight)
    if not left or seconds is None:
        return ""
    minutes = round(seconds / 60)
    return t("about {time} left", time=format_duration(60 * minutes)) if minutes else t("under a minute left")


def _entry(batch: Batch, job: Job, result: Result, running: RunningBatch | None) -> dict[str, Any]:
    row, status = job.row, status_of(batch, job, result, running)
    document = result.document if status not in ("running", "waiting") else None
    return {
        "number": row.number,
        "claim": row.claim,
        "about": [*filter(None, (row.speaker, row.claim_date and day_in_words(row.claim_date)))],
        "same_as": job.same_as,
        "status": status,
        "document": document,
        "thread": job.thread if status in ("running", "waiting") else None,
        "chip": result.chip if status == "done" else None,
        "review": result.review if status == "done" else None,
        "backing": result.backing if status == "done" else "",
        "warned": result.warned if status == "done" else "",
        "why": result.why if status == "done" else "",
        "cut": result.outcome.get("stop_reason") == "budget_exhausted",
        "divided": result.divided and status == "done",
        "quotes": result.quotes if status == "done" else None,
        "usd": result.usd,
        "seconds": result.outcome.get("seconds"),
        "error": "" if status in ("done", "running", "next") else _error(batch, job, result),
    }


def _filters_for(entry: Mapping[str, Any]) -> list[str]:
    """The `FILTERS` that an entry passes, without ``all``."""
    status = entry["status"]
    if status == "done":
        return [entry["chip"][0], *(["divided"] if entry["divided"] else [])]
    return ["failed"] if status == "failed" else ["open"]


def _error(batch: Batch, job: Job, result: Result) -> str:
    return batch.faults.get(job.same_as or job.row.number) or result.error


def table_csv(batch: Batch, rows: Rows, running: RunningBatch | None, server: str) -> str:
    """All rows as a CSV table."""
    text = io.StringIO(newline="")
    write_tables(header_of(batch.columns, ABOUT_DEBATES), _lines(batch, rows, running, server), text)
    return text.getvalue()


def table_sheet(batch: Batch, rows: Rows, running: RunningBatch | None, server: str) -> bytes:
    """All rows as an .xlsx table; UserError if the package that writes it is missing. Blocking."""
    file = io.BytesIO()
    write_tables(header_of(batch.columns, ABOUT_DEBATES), _lines(batch, rows, running, server), sheet=file)
    return file.getvalue()


def _lines(batch: Batch, rows: Rows, running: RunningBatch | None, server: str) -> Iterator[list[Cell]]:
    """The rows of the table."""
    for job, result in rows:
        status, row = status_of(batch, job, result, running), job.row
        has_document = result.document is not None
        facts = {
            "row": row.number,
            "id": row.id,
            "claim": row.claim,
            "label": row.label,
            "group": row.group,
            "speaker": job.input.get("speaker"),
            "date": job.input.get("claim_date"),
        }
        is_open = status in ("none", "next")
        cells: dict[str, Any] = {
            **(cells_of(result.outcome) | cells_of_review(result.review) if has_document else {}),
            **({"stop_reason": batch.stopped} if is_open else {}),
            "system": job.graph,
            "status": "not begun" if is_open else status,
            "same_as_row": job.same_as,
            "error": _error(batch, job, result),
            "backing": " ".join(filter(None, (result.backing, result.warned))),
            "disagreement": ("yes" if result.divided else "no") if status == "done" else None,
            "report": f"{server}/moot/debates/{result.document}" if has_document else None,
        }
        yield cells_of_row(batch.columns, row.written, facts, [cells.get(name) for name in ABOUT_DEBATES])


def zip_batch(rows: Rows, tables: Mapping[str, str | bytes]) -> IO[bytes]:
    """An open ZIP file with a batch's tables, by their names, and the reports of its rows, by number; blocking.

    If a row has no report, a text says why.
    """
    file = SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - the route closes it after sending it
    with ZipFile(file, "w", ZIP_DEFLATED) as archive:
        for name, content in tables.items():
            archive.writestr(name, content)
        for job, result in rows:
            if result.document and job.same_as is None:
                try:
                    page = report_of(result.document, "html")
                except UserError as error:
                    archive.writestr(f"{job.row.number}.txt", f"No report: {error.detail}\n")
                else:
                    archive.writestr(f"{job.row.number}.html", page)
    file.seek(0)
    return file
