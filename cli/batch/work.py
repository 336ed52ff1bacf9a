"""Processes a row of a batch: runs or resumes the row's debate, and writes its document and its report."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from moot.cli.batch.jobs import Job
from moot.cli.batch.outcomes import Outcome, failed_outcome
from moot.core.errors import MootError
from moot.core.files import write_atomically, write_error
from moot.core.store import open_store
from moot.graphs import load_graph
from moot.nodes._models.budget import Budget, debates_within
from moot.nodes._models.prices import Price, calls_with_reserved_tokens, cost_of, paid_calls
from moot.nodes._models.replies import Mode, StoreUse, store_use
from moot.nodes._models.spend import UNBOUNDED, Spend
from moot.nodes._models.step_record import tokens_of
from moot.nodes._runtime.document import check_schema
from moot.nodes._runtime.settings import checked_settings
from moot.nodes._texts.calibrated import confidence_basis
from moot.nodes._texts.outage import outage_of
from moot.nodes._texts.verdict import nothing_found
from moot.transcript.report.report import report
from moot.transcript.report.summary import summarised
from moot.web.debates import for_history

log = logging.getLogger(__name__)

RECORDED: tuple[Mode, ...] = ("record", "reuse")
"""The modes in which the store has a run for each debate."""


class DocumentStore(Protocol):
    """Storage for the documents of rows."""

    def put(self, job: Job, document: dict[str, Any], outcome: Outcome) -> None:
        """Stores the document of a row's debate, and the status of its run. Blocking.

        If the debate is done, its row is not run again once the document is stored.

        Args:
            job: the debate.
            document: the debate's document.
            outcome: the debate's outcome. If no report can be made, or the debate cannot be added to the history, a
                message is added to the outcome's ``error``.

        Raises:
            UserError, WorldError: the document cannot be stored.
        """
        ...


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
        """As `DocumentStore.put`. The report is written first, because a row that has a document is not run again."""
        try:
            page = report(document, "html")
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


class RowProcessor:
    """Processes rows. The caller decides how many run at the same time.

    Args:
        store: storage for documents.
        mode: how stored replies are used.
        prices: the prices of models, by name.
    """

    def __init__(self, store: DocumentStore, mode: Mode, prices: Mapping[str, Price]) -> None:
        self.store = store
        self.mode = mode
        self.prices = prices

    async def run_row(self, job: Job) -> Outcome:
        """Runs a row's debate and returns its outcome. An error is not raised; it becomes a failed outcome."""
        try:
            return await self._run_debate(job)
        except MootError as error:
            return failed_outcome(error.detail, error.kind)
        except Exception as error:
            log.exception("The debate of the row %s failed", job.name)
            return failed_outcome(f"{type(error).__name__}: {error}"[:1000], "fault_of_ours")

    async def _run_debate(self, job: Job) -> Outcome:
        system = load_graph(job.system)
        settings = checked_settings(system.settings, dict(job.settings), system.name)
        with store_use(StoreUse(self.mode, id=job.key, ends=False)):
            document = await system.graph.ainvoke(dict(job.asked), context=settings.with_document())
            document = await summarised({**document, "id": job.key})
        outcome = outcome_of(document, self.prices)
        await asyncio.to_thread(self.store.put, job, document, outcome)
        return outcome


@contextmanager
def share_of(job: Job, until: float) -> Iterator[None]:
    """A context manager: a debate in it stays within its row's share of the batch's ceilings.

    Args:
        job: the row, with its share.
        until: the latest end of the batch, in seconds since 1970; infinite without a limit.
    """
    if not job.most and until == math.inf:
        yield
        return
    with debates_within(Budget(Spend(*job.most) if job.most else UNBOUNDED, until - time.time())):
        yield


def outcome_of(document: Mapping[str, Any], prices: Mapping[str, Price]) -> Outcome:
    """A debate's outcome from its document.

    The outcome's ``spent`` is the cost of all runs of the debate, and its ``paid`` is the cost of the last run (see
    `spending`).
    """
    error = document["error"] or {}
    calls = document["calls"]
    return {
        "status": document["status"],
        "answer": document["answer"],
        "evidence": nothing_found(document),
        "confidence": document["confidence"],
        "confidence_rests_on": confidence_basis(document),
        "decision": document.get("decision"),
        "error": error.get("detail"),
        "kind": error.get("kind"),
        "outage": outage_of(document),
        "rounds": document["rounds"],
        "stop_reason": document["stop_reason"],
        "warnings": len(document["warnings"]),
        "seconds": document["seconds"],
        "spent": spending([call for call in calls if not call.get("shared")], prices),
        "paid": spending(paid_calls(calls), prices),
    }


def spending(calls: list[Any], prices: Mapping[str, Price]) -> dict[str, Any]:
    """The cost of calls: their number (``calls``), tokens (``tokens``) and USD (``usd``).

    Calls marked as shared are left out. A request whose reply was lost counts with its reserved tokens. ``usd`` is None
    if a price or a number of tokens is not known.
    """
    most = calls_with_reserved_tokens(calls)
    return {"calls": len(most), "tokens": tokens_of(most), "usd": cost_of(most, prices)}


def existing_document(folder: Path, job: Job) -> dict[str, Any] | None:
    """The document of a debate in the folder. Blocking.

    None if there is no readable document, or if the document is that of another debate, or that of a debate that is not
    done.
    """
    try:
        document: dict[str, Any] = json.loads((folder / f"{job.name}.json").read_bytes())
        check_schema(document)
        return document if document["id"] == job.key and document["status"] == "done" else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):  # no document, or one that no batch wrote
        return None
