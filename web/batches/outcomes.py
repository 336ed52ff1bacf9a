"""The outcomes of a batch's debates, read from the server's table and from the debates' documents."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from moot.core.errors import UserError
from moot.core.store import open_store
from moot.nodes._models.prices import calls_with_reserved_tokens, cost_of, read_prices
from moot.nodes._models.step_record import tokens_of
from moot.nodes._runtime.document import check_schema
from moot.nodes._texts.calibrated import confidence_basis
from moot.nodes._texts.outage import outage_of
from moot.nodes._texts.verdict import nothing_found
from moot.transcript.document import checked_parts
from moot.transcript.report.codes import in_words
from moot.transcript.report.head import dissent, verdict_chip, verdict_of
from moot.transcript.report.names import Names
from moot.transcript.report.sources import Sources
from moot.web import debates
from moot.web.batches.storage import Job
from starlette.concurrency import run_in_threadpool


@dataclass(frozen=True)
class Outcome:
    """The outcome of a claim's debate so far.

    Args:
        status: ``running``, ``waiting``, ``interrupted``, ``failed`` or ``done``; ``none`` if the debate has not
            started or was deleted, or if it is done and its document is missing.
        document: the id of the debate's document; None if there is none, or if the debate is running or waiting.
        answer: the document's answer; None if the debate has no answer, or without a document.
        evidence: `nothing_found` of the document; empty without a document.
        chip: the kind and the word of the answer, for the chip that shows it; None without a document.
        backing: the basis of the verdict, in a sentence.
        divided: whether the debate is done, and `dissent` lists a dissent.
        quotes: four counts: quoted pieces of evidence, all pieces, quotes found in their source, quotes not found.
        confidence: the document's confidence; None if it has none, or without a document.
        confidence_rests_on: the votes or answers behind the confidence, and its calibration, in words.
        decision: ``act`` or ``escalate``; None without a calibration.
        error: why the debate failed, or why its document cannot be read; otherwise empty.
        kind: the kind of the error in the document; empty if there is none.
        outage: `outage_of` of the document; None without a document.
        usd: the cost so far; None if the cost is not known, or without a document.
        seconds: the debate's duration in all its runs; None without a document.
    """

    status: str
    document: str | None = None
    graph: str | None = None
    answer: str | None = None
    evidence: str = ""
    chip: tuple[str, str] | None = None
    backing: str = ""
    divided: bool = False
    quotes: tuple[int, int, int, int] = (0, 0, 0, 0)
    confidence: float | None = None
    confidence_rests_on: str | None = None
    decision: str | None = None
    error: str = ""
    kind: str = ""
    outage: bool | None = None
    rounds: int | None = None
    stop_reason: str | None = None
    calls: int = 0
    tokens: int = 0
    usd: float | None = None
    seconds: float | None = None
    warnings: int = 0


async def outcomes_of(jobs: Iterable[Job]) -> list[Outcome]:
    """The outcome of each debate, in the order of ``jobs``."""
    listed, store = list(jobs), open_store()
    statuses = await store.soon(store.statuses, [job.debate for job in listed])
    found = await run_in_threadpool(_stored_outcomes, listed, statuses)
    for at, (job, one) in enumerate(zip(listed, found, strict=True)):
        if one.status == "failed" and one.document is None and (row := await store.soon(store.run, job.debate)):
            found[at] = replace(one, error=row.note or "It failed, and there is no document.")
    return found


def _stored_outcomes(jobs: list[Job], statuses: Mapping[str, str]) -> list[Outcome]:
    found = debates.last_documents([job.debate for job in jobs])
    return [_stored_outcome(found.get(job.debate), statuses.get(job.debate)) for job in jobs]


def _stored_outcome(found: tuple[str, float] | None, status: str | None) -> Outcome:
    if status in ("running", "waiting") or found is None:
        return Outcome(status if status and status != "done" else "none")
    return _read_outcome(*found)


@lru_cache(maxsize=8192)
def _read_outcome(id: str, written: float) -> Outcome:
    """The outcome in a document. When it was written is part of the cache's key."""
    try:
        document = json.loads(debates.content_of(id))
        check_schema(document)
        with checked_parts():
            return _outcome_of(id, document)
    except (ValueError, RecursionError) as error:
        return Outcome("failed", id, error=f"The document cannot be read: {str(error)[:300]}.")
    except UserError as error:  # also if the document was just deleted
        return Outcome("none") if error.kind == "missing_file" else Outcome("failed", id, error=error.detail)


def _outcome_of(stem: str, document: Mapping[str, Any]) -> Outcome:
    names, sources, error = Names(document), Sources(document), document["error"] or {}
    calls = calls_with_reserved_tokens(document["calls"])
    chip = verdict_chip(document)
    return Outcome(
        status=document["status"],
        document=stem,
        graph=document["graph"],
        answer=document["answer"],
        evidence=nothing_found(document),
        chip=(chip.kind, chip.word),
        backing=verdict_of(document, names).backing,
        divided=bool(document["status"] == "done" and dissent(document, names)[1]),
        quotes=(len(sources.quoted), len(sources.pieces), len(sources.quotes), len(sources.faulty)),
        confidence=document["confidence"],
        confidence_rests_on=confidence_basis(document),
        decision=document.get("decision"),
        error=in_words(error.get("detail") or ""),
        kind=error.get("kind") or "",
        outage=outage_of(document),
        rounds=document["rounds"],
        stop_reason=document["stop_reason"],
        calls=len(calls),
        tokens=tokens_of(calls),
        usd=cost_of(calls, read_prices()),
        seconds=document["seconds"],
        warnings=len(document["warnings"]),
    )
