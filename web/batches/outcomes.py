"""The outcomes of a page's batch, read from the runs in the store and from the debates' documents."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from moot.core.errors import UserError
from moot.core.store import open_store
from moot.nodes._models.prices import read_prices
from moot.nodes._runtime.document import check_schema
from moot.nodes._texts.verdict import caveats
from moot.transcript.document import checked_parts
from moot.transcript.language import current_language
from moot.transcript.outcome import NOTHING, Outcome, failed_outcome, outcome_of
from moot.transcript.report.codes import in_words, words_for
from moot.transcript.report.head import dissent, verdict_chip, verdict_of
from moot.transcript.report.names import Names
from moot.transcript.report.sources import Sources
from moot.web import debates
from moot.web.batches.storage import Job
from moot.web.reviews import in_lists
from starlette.concurrency import run_in_threadpool


@dataclass(frozen=True)
class Result:
    """A claim's debate so far, as the page shows it.

    Args:
        status: ``running``, ``waiting``, ``interrupted``, ``failed`` or ``done``; ``none`` if the debate has not
            started or was deleted, or if it is done and its document is missing.
        outcome: the outcome in the document; without a document, that of a row without one.
        document: the id of the debate's document; None if there is none, or if the debate is running or waiting.
        graph: the debate system; None if there is no document that can be read.
        chip: the kind and the word of the answer, for the chip that shows it; None without a document.
        backing: the basis of the verdict, in a sentence.
        warned: the warnings that the report shows with the verdict, in short, such as that a source failed.
        why: the first sentence of its reasons; empty if there are none.
        divided: whether the debate is done, and `dissent` lists a dissent.
        quotes: four counts: quoted pieces of evidence, all pieces, quotes found in their source, quotes not found.
        error: why the debate failed, or why its document cannot be read; otherwise empty.
        review: what editors decided (`moot.web.reviews.in_lists`).
    """

    status: str
    outcome: Outcome = field(default_factory=lambda: dict(NOTHING))
    document: str | None = None
    graph: str | None = None
    chip: tuple[str, str] | None = None
    backing: str = ""
    warned: str = ""
    why: str = ""
    divided: bool = False
    quotes: tuple[int, int, int, int] = (0, 0, 0, 0)
    error: str = ""
    review: Mapping[str, Any] = field(default_factory=lambda: {"stage": "new"})

    @property
    def usd(self) -> float | None:
        """The cost so far; None if it is not known, or without a document."""
        usd: float | None = (self.outcome.get("spent") or {}).get("usd")
        return usd


async def results_of(jobs: Iterable[Job]) -> list[Result]:
    """The result of each debate, in the order of ``jobs``."""
    listed, store = list(jobs), open_store()
    statuses = await store.soon(store.statuses, [job.debate for job in listed])
    found = await run_in_threadpool(_stored_results, listed, statuses)
    for at, (job, one) in enumerate(zip(listed, found, strict=True)):
        if one.status == "failed" and one.document is None and (row := await store.soon(store.run, job.debate)):
            found[at] = replace(one, error=row.note or "It failed, and there is no document.")
    return found


def _stored_results(jobs: list[Job], statuses: Mapping[str, str]) -> list[Result]:
    found = debates.last_documents([job.debate for job in jobs])
    results = [_stored_result(found.get(job.debate), statuses.get(job.debate)) for job in jobs]
    reviewed = in_lists([one.document for one in results if one.document])
    return [replace(one, review=reviewed[one.document]) if one.document in reviewed else one for one in results]


def _stored_result(found: tuple[str, float] | None, status: str | None) -> Result:
    if status in ("running", "waiting") or found is None:
        return Result(status if status and status != "done" else "none")
    return _read_result(*found, current_language())


@lru_cache(maxsize=8192)
def _read_result(id: str, written: float, language: str) -> Result:
    """The result in a document. When it was written, and the language of its words, are parts of the cache's key."""
    try:
        document = json.loads(debates.content_of(id))
        check_schema(document)
        with checked_parts():
            return _result_of(id, document)
    except (ValueError, RecursionError) as error:
        return _unreadable(id, f"The document cannot be read: {str(error)[:300]}.")
    except UserError as error:  # also if the document was just deleted
        return Result("none") if error.kind == "missing_file" else _unreadable(id, error.detail)


def _unreadable(id: str, why: str) -> Result:
    return Result("failed", failed_outcome(why, ""), id, error=why)


def _result_of(id: str, document: Mapping[str, Any]) -> Result:
    names, sources, chip = Names(document), Sources(document), verdict_chip(document)
    outcome = outcome_of(document, read_prices())
    return Result(
        status=document["status"],
        outcome=outcome,
        document=id,
        graph=document["graph"],
        chip=(chip.kind, chip.word),
        backing=verdict_of(document, names).backing,
        warned=" ".join(dict.fromkeys(words_for("warning", one["kind"]) for one in caveats(document))),
        why=outcome["why"],
        divided=bool(document["status"] == "done" and dissent(document, names)[1]),
        quotes=(len(sources.quoted), len(sources.pieces), len(sources.quotes), len(sources.faulty)),
        error=in_words(outcome["error"] or ""),
    )
