"""Runs the debate of a row of a batch, and writes its document and its report into the batch's folder."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from moot.cli.batch.jobs import Job
from moot.core.errors import MootError
from moot.core.files import write_atomically, write_error
from moot.core.store import open_store
from moot.graphs import load_graph
from moot.nodes._models.budget import Budget, debates_within
from moot.nodes._models.prices import Price
from moot.nodes._models.replies import Mode, StoreUse, store_use
from moot.nodes._models.spend import UNBOUNDED, Spend
from moot.nodes._runtime.document import check_schema
from moot.nodes._runtime.settings import checked_settings
from moot.transcript.language import speaking
from moot.transcript.outcome import Outcome, failed_outcome, outcome_of
from moot.transcript.report.report import report
from moot.transcript.report.summary import summarised
from moot.web.debates import for_history

log = logging.getLogger(__name__)

RECORDED: tuple[Mode, ...] = ("record", "reuse")
"""The modes in which the store has a run for each debate."""


class Folder:
    """The folder for the documents and reports of a batch.

    Args:
        path: the path of the folder.
        has_runs: whether this machine's store has the debates' runs. It has not for the rows of a queue.
    """

    def __init__(self, path: Path, *, has_runs: bool) -> None:
        self.path = path
        self.has_runs = has_runs

    def put(self, job: Job, document: dict[str, Any], outcome: Outcome) -> None:
        """Writes the document and the report of a row's debate, and records that its run has ended. Blocking.

        The report is written first, because a row that has a document is not run again. If no report can be made, or
        the debate cannot be added to the history, a message is added to the outcome's ``error``.
        """
        try:
            with speaking(job.language):
                page = report(document, "html", job.asked_language)
        except MootError as error:
            _add_error(outcome, f"No report: {error.detail}")
        else:
            self._write(f"{job.name}.html", page)
        self._write(f"{job.name}.json", json.dumps(document, ensure_ascii=False, indent=2) + "\n")
        try:
            kept, store = for_history(document), open_store()
            if self.has_runs:
                store.end(job.key, "done" if document["status"] == "done" else "failed", kept)
            elif kept:
                store.put(kept)
        except MootError as error:
            _add_error(outcome, f"Not in the history: {error.detail}")

    def _write(self, name: str, text: str) -> None:
        path = self.path / name
        if path.is_symlink():
            path.unlink()  # otherwise the write would follow the link
        try:
            write_atomically(path, text)
        except OSError as error:
            raise write_error(path, error) from error


def _add_error(outcome: Outcome, text: str) -> None:
    outcome["error"] = " ".join(filter(None, (outcome["error"], text)))


async def run_debate(
    job: Job, mode: Mode, prices: Mapping[str, Price], folder: Folder | None
) -> tuple[Outcome, dict[str, Any] | None]:
    """Runs or resumes a row's debate, and puts it into the folder, if there is one; returns its outcome and document.

    An error is not raised: the outcome has failed, and there is no document.
    """
    try:
        document = await _document_of(job, mode)
        outcome = outcome_of(document, prices)
        if folder:
            await asyncio.to_thread(folder.put, job, document, outcome)
        return outcome, document
    except MootError as error:
        return failed_outcome(error.detail, error.kind), None
    except Exception as error:
        log.exception("The debate of the row %s failed", job.name)
        return failed_outcome(f"{type(error).__name__}: {error}"[:1000], "fault_of_ours"), None


async def _document_of(job: Job, mode: Mode) -> dict[str, Any]:
    system = load_graph(job.system)
    settings = checked_settings(system.settings, dict(job.settings), system.name)
    with store_use(StoreUse(mode, id=job.key, ends=False)):
        document = await system.graph.ainvoke(dict(job.asked), context=settings.with_document())
        return await summarised({**document, "id": job.key})


@contextmanager
def share_of(job: Job, until: float) -> Iterator[None]:
    """A context in which a debate stays within its share of the batch's ceilings, and ends ``until`` (since 1970)."""
    if not job.most and until == math.inf:
        yield
        return
    with debates_within(Budget(Spend(*job.most) if job.most else UNBOUNDED, until - time.time())):
        yield


def existing_document(folder: Path, name: str, keys: Collection[str]) -> dict[str, Any] | None:
    """The document of a debate in the folder, by the name of its files and the ids that it may have. Blocking.

    None if there is no readable document, or if the document is that of another debate, or that of a debate that is not
    done.
    """
    try:
        document: dict[str, Any] = json.loads((folder / f"{name}.json").read_bytes())
        check_schema(document)
        return document if document["id"] in keys and document["status"] == "done" else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):  # no document, or one that no batch wrote
        return None
