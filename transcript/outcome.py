"""The outcome of a debate of a batch, for its table, its progress and its ceilings: of commands and of the page."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import shorten
from typing import Any

from moot.core.errors import BUDGET_EXHAUSTED
from moot.nodes._models.prices import Price, calls_with_reserved_tokens, cost_of, paid_calls
from moot.nodes._models.step_record import tokens_of
from moot.nodes._texts.calibrated import shown_confidence
from moot.nodes._texts.outage import outage_of
from moot.nodes._texts.plans import queries_in
from moot.nodes._texts.verdict import (
    nothing_found,
    turns_by_reason,
    verdict_citations,
    votes_in_short,
    warrants_in_short,
)
from moot.retrievers._excerpts import sentences
from moot.transcript.columns import MOST_SOURCES
from moot.transcript.report.head import verdict_chip
from moot.transcript.report.sources import Sources, plain, title_of, web_address

Outcome = dict[str, Any]
"""A debate's outcome as plain JSON; see `outcome_of`."""
NOTHING: Outcome = {"status": "failed", **dict.fromkeys(("answer", "confidence", "error", "kind", "outage"))}
"""The outcome of a row without a document, before its error is added."""
LONGEST_WHY = 500
"""Maximum length of the sentence that says why, in characters."""


def failed_outcome(detail: str, kind: str) -> Outcome:
    """The outcome of a row that failed without a document."""
    return {**NOTHING, "error": detail, "kind": kind}


def outcome_of(document: Mapping[str, Any], prices: Mapping[str, Price]) -> Outcome:
    """A debate's outcome from its document.

    The outcome's ``spent`` is the cost of all runs of the debate, and its ``paid`` is the cost of the last run (see
    `spending`).
    """
    error = document["error"] or {}
    return {
        "status": document["status"],
        "answer": document["answer"],
        "verdict": verdict_chip(document).word,
        "why": why(document),
        "sources": sources_of(document),
        "evidence": nothing_found(document),
        "votes": votes_in_short(document),
        "warrants": warrants_in_short(document),
        "confidence": shown_confidence(document),
        "decision": document.get("decision"),
        "error": error.get("detail"),
        "kind": error.get("kind"),
        "outage": outage_of(document),
        "rounds": document["rounds"],
        "searched_for": "; ".join(queries_in(document)),
        "stop_reason": document["stop_reason"] or (BUDGET_EXHAUSTED if error.get("kind") == BUDGET_EXHAUSTED else None),
        "warnings": len(document["warnings"]),
        "seconds": document["seconds"],
        "spent": spending(document["calls"], prices),
        "paid": spending(paid_calls(document["calls"]), prices),
    }


def why(document: Mapping[str, Any]) -> str:
    """The first sentence of the reasons for a debate's verdict; empty if there are none.

    Ids of evidence become the numbers of the report's sources; those of `sources_of` are the first.
    """
    first = next((" ".join(reason.split()) for reason in turns_by_reason(dict(document))), "")
    spans = sentences(first[: 4 * LONGEST_WHY])
    text = first[slice(*spans[0])] if spans else ""
    told = "".join(part if number is None else f" [{number}]" for part, number in Sources(document).numbered(text))
    return shorten(plain(told), LONGEST_WHY, placeholder=" ...")


def sources_of(document: Mapping[str, Any]) -> list[dict[str, str]]:
    """The first sources that the verdict quotes: a ``quote`` from each, and its ``source``, an address or a title."""
    pieces = {piece["id"]: piece for piece in document["evidence"]}
    cited = [one for one in verdict_citations(dict(document)) if one["verified"] and one["evidence_id"] in pieces]
    first = {one["evidence_id"]: plain(one["quote"]) for one in reversed(cited)}
    listed = [(pieces[id], first[id]) for id in dict.fromkeys(one["evidence_id"] for one in cited)][:MOST_SOURCES]
    return [{"quote": quote, "source": web_address(piece.get("url")) or title_of(piece)} for piece, quote in listed]


def spending(calls: list[Any], prices: Mapping[str, Price]) -> dict[str, Any]:
    """The cost of calls: their number (``calls``), tokens (``tokens``) and USD (``usd``).

    Calls marked as shared are left out. A request whose reply was lost counts with its reserved tokens. ``usd`` is None
    if a price or a number of tokens is not known.
    """
    most = calls_with_reserved_tokens(calls)
    return {"calls": len(most), "tokens": tokens_of(most), "usd": cost_of(most, prices)}


def cells_of(outcome: Mapping[str, Any]) -> dict[str, Any]:
    """The values of an outcome by the names of the table's columns."""
    quoted = {
        f"{name}_{number}": text
        for number, one in enumerate(outcome.get("sources") or (), 1)
        for name, text in one.items()
    }
    spent = outcome.get("spent") or {}
    usd = spent.get("usd")
    return {**outcome, **spent, "usd": None if usd is None else round(usd, 8), **quoted}
