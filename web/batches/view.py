"""A batch for the browser: its progress with one page of its claims, a table of all claims, and a ZIP file."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from tempfile import SpooledTemporaryFile
from typing import IO, Any
from zipfile import ZIP_DEFLATED, ZipFile

from moot.core.errors import UserError
from moot.core.files import escape_formula
from moot.transcript.columns import DEBATE_COLUMNS, ROW_COLUMNS
from moot.transcript.line import format_duration
from moot.transcript.report.codes import ANSWERS
from moot.transcript.report.report import report
from moot.web import debates
from moot.web.batches.outcomes import Outcome
from moot.web.batches.running import RunningBatch
from moot.web.batches.storage import Batch, Job

PAGE_SIZE = 50
"""Number of claims on one page."""
FILTERS = ("all", "open", "failed", "divided", *ANSWERS, "text")
"""Filters of claims: all, unfinished, failed and divided claims, and claims with each kind of answer."""
COLUMNS = (*ROW_COLUMNS, *DEBATE_COLUMNS, "backing", "disagreement", "report")
"""The columns of ``moot batch``, then the verdict's basis, `Outcome.divided` and the report's address."""
IN_MEMORY = 16 * 2**20
"""Maximum size in bytes of a ZIP file in memory. A larger file is written to the disk."""
MARK = "\ufeff"
"""The byte order mark; without it, some spreadsheets do not read the file as UTF-8."""
Rows = Sequence[tuple[Job, Outcome]]


def status_of(batch: Batch, job: Job, outcome: Outcome, running: RunningBatch | None) -> str:
    """A row's status for the browser; by default, the status of its debate.

    If the debate is not done, the status is ``running`` while this server works on the row, and ``failed`` if the
    debate could not be run. It is ``next`` if the running batch has not yet started or resumed the debate. A failed
    debate stays ``failed`` until it is retried.
    """
    number = job.row.number
    if outcome.status == "done":
        return "done"
    if running and number in running.active:
        return "running"
    if number in batch.faults:
        return "failed"
    if running and outcome.status in ("none", "interrupted") and job in running.left:
        return "next"
    return outcome.status


def describe_batch(
    batch: Batch, rows: Rows, running: RunningBatch | None, *, page: int = 1, show: str = "all", words: str = ""
) -> dict[str, Any]:
    """A batch's state for the browser, with one page of the rows that pass the filters.

    Args:
        batch: the batch.
        rows: the batch's debates with their outcomes.
        running: the running batch; None if this server is not running it.
        page: the page's number, from 1.
        show: one of `FILTERS`.
        words: words that the claims must contain, ignoring case; empty for all claims.
    """
    entries = [_entry(batch, job, outcome, running) for job, outcome in rows]
    kinds = Counter(kind for one in entries for kind in _filters_for(one))
    with_document = [outcome for _, outcome in rows if outcome.document]
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
        "going": running is not None,
        "stopped": batch.stopped,
        "ended": batch.ended,
        "left": remaining_time(batch, entries) if running else "",
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


def remaining_time(batch: Batch, entries: Sequence[Mapping[str, Any]]) -> str:
    """An estimate of the time for the remaining rows, in words; empty if no row is left, or if none is done.

    It is based on the mean duration of rows that are done.
    """
    took = [one["seconds"] for one in entries if one["status"] == "done" and one["seconds"] is not None]
    statuses = Counter(one["status"] for one in entries)
    rows = statuses["next"] + statuses["running"] / 2  # on average, a running row is half done
    if not (took and rows):
        return ""
    at_once = min(batch.at_once, statuses["next"] + statuses["running"])
    minutes = round(sum(took) / len(took) * rows / at_once / 60)
    return f"about {format_duration(60 * minutes)} left" if minutes else "under a minute left"


def _entry(batch: Batch, job: Job, outcome: Outcome, running: RunningBatch | None) -> dict[str, Any]:
    row, status = job.row, status_of(batch, job, outcome, running)
    document = outcome.document if status not in ("running", "waiting") else None
    return {
        "number": row.number,
        "claim": row.claim,
        "about": " · ".join(filter(None, (row.speaker, row.claim_date))),
        "status": status,
        "document": document,
        "thread": job.thread if status in ("running", "waiting") else None,
        "chip": outcome.chip if status == "done" else None,
        "backing": outcome.backing if status == "done" else "",
        "divided": outcome.divided and status == "done",
        "quotes": outcome.quotes if status == "done" else None,
        "usd": outcome.usd,
        "seconds": outcome.seconds,
        "error": "" if status in ("done", "running", "next") else batch.faults.get(row.number) or outcome.error,
    }


def _filters_for(entry: Mapping[str, Any]) -> list[str]:
    """The `FILTERS` that an entry passes, without ``all``."""
    status = entry["status"]
    if status == "done":
        return [entry["chip"][0], *(["divided"] if entry["divided"] else [])]
    return ["failed"] if status == "failed" else ["open"]


def table(batch: Batch, rows: Rows, running: RunningBatch | None, server: str) -> str:
    """All rows as a CSV table.

    Args:
        batch: the batch.
        rows: the batch's debates with their outcomes.
        running: the running batch; None if this server is not running it.
        server: the server's address, for links to the reports.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for job, outcome in rows:
        status, row = status_of(batch, job, outcome, running), job.row
        has_document = outcome.document is not None
        cells: dict[str, Any] = {
            **{name: getattr(outcome, name) for name in COLUMNS if has_document and hasattr(outcome, name)},
            "row": row.number,
            "id": row.id,
            "claim": row.claim,
            "label": row.label,
            "group": row.group,
            "system": job.graph,
            "status": {"none": "not begun", "next": "not begun"}.get(status, status),
            "error": batch.faults.get(row.number) or outcome.error,
            "disagreement": ("yes" if outcome.divided else "no") if status == "done" else None,
            "report": f"{server}/moot/debates/{outcome.document}" if has_document else None,
        }
        writer.writerow(escape_formula("" if cells.get(name) is None else str(cells[name])) for name in COLUMNS)
    return MARK + text.getvalue()


def zip_batch(rows: Rows, csv_text: str) -> IO[bytes]:
    """Makes a ZIP file with a batch's table and the reports of its rows. Blocking.

    Args:
        rows: the batch's debates with their outcomes; rows without a document have no report.
        csv_text: the table.

    Returns:
        The open file, at its beginning. The name of each report is the number of its row. If a document was deleted or
        cannot be read, a text file says why there is no report for the row.
    """
    file = SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - the route closes it after sending it
    with ZipFile(file, "w", ZIP_DEFLATED) as archive:
        archive.writestr("table.csv", csv_text)
        for job, outcome in rows:
            if outcome.document:
                try:
                    page = report(debates.load(outcome.document), "html")
                except UserError as error:
                    archive.writestr(f"{job.row.number}.txt", f"No report: {error.detail}\n")
                else:
                    archive.writestr(f"{job.row.number}.html", page)
    file.seek(0)
    return file
