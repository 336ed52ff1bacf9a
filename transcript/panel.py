"""What a panel of judges decided, in words: its votes, the confidence, who dissents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from moot.nodes.texts.calibrated import backed
from moot.transcript.end import Said, answer, citations, decided, hangs_on, headline, reasons, where_said
from moot.transcript.line import Line, counted, line, list_of, say

WON_BY = {"SUPPORTED": "plaintiff", "NOT SUPPORTED": "defense"}
"""The side that a verdict is for."""
MOST_CITED = 10
"""Citations that are given; those of a side's arguments may be many."""
ROUNDED = 1e-5
"""More than what parts and their sum differ by for being rounded in the document."""


def panel_verdict(document: Mapping[str, Any], said: Said) -> Iterator[Line]:
    """A panel's verdict: what it comes to, how sure that is, why, what the winning side cited, and who dissents.

    Args:
        document: the result.
        said: reasons that were said before; these are not said again.
    """
    verdict, subject = document["raw_verdict"], document["task"]["subject"]
    how = f"{votes_for(document)}; {document['stop_reason']}"
    if document["answer"] is None:
        none = f"none, as the panel finds the {subject} {verdict}, which is none of the answers"
        yield from headline(document, f"Verdict: {none} ({how})")
    else:
        yield from headline(document, answer(document, how))
    yield confidence(document)
    yield from decided(document)
    yield from hangs_on(document)
    yield from reasons(document, said)
    if side := WON_BY.get(verdict):
        yield from citations(document, side, MOST_CITED)
    for one in document["metrics"]["panel"]["dissent"]:
        yield line(one["agent"], "dissents", f"{one['verdict']} - {where_said(document, one['reason'], said)}")


def votes_for(document: Mapping[str, Any]) -> str:
    """How many judges gave the panel's verdict: ``NOT SUPPORTED by 2 of 3 judges``."""
    panel, verdict = document["metrics"]["panel"], document["raw_verdict"]
    given = panel["verdicts"]
    found = f"{verdict} by {given[verdict]} of {counted(sum(given.values()), 'judge')}"
    if panel["tied"]:
        first = next(turn["agent"] for turn in document["turns"] if turn.get("verdict") == verdict)
        found += f"; with equal votes that of {first} holds"
    if any(warned["kind"] == "burden_of_refutation" for warned in document["warnings"]):
        found += ", and so not refuted"
    silent = panel["without_verdict"]
    return found + (f"; {list_of(silent)} gave no verdict" if silent else "")


def confidence(document: Mapping[str, Any]) -> Line:
    """The confidence as a sum of its parts."""
    given, parts = document["metrics"]["panel"]["verdicts"], document["confidence_parts"]
    winning, votes = given[document["raw_verdict"]], sum(given.values())
    base, switch, reflection = (parts[name] for name in ("base", "role_switch", "reflection"))
    total = base + switch + reflection
    limited = abs(total - document["confidence"]) > ROUNDED
    digits = next((n for n in (2, 3, 4) if adds_up((base, switch, reflection), total, n)), 4)
    terms = f"base {base:.{digits}f} ({winning} of {votes} votes, quality {parts['quality']:.2f})"
    terms += signed("role switch", switch, digits, parts["consistency"] is not None)
    terms += signed("reflection", reflection, digits, parts["winning_reflection"] is not None)
    found = f"{document['confidence']:.{digits}f}"
    if limited:
        bound = "cut to 1" if total > 1 else f"raised to {document['confidence']:g}"
        return say(f"Confidence {found}, {backed(document)}: {terms} = {total:.{digits}f}, {bound}", "")
    return say(f"Confidence {found}, {backed(document)}: {terms}", "")


def adds_up(parts: tuple[float, ...], total: float, digits: int) -> bool:
    """Whether parts are what they sum up to with so many digits too."""
    return round(sum(round(part, digits) for part in parts), digits) == round(total, digits)


def signed(name: str, part: float, digits: int, known: bool) -> str:
    """A part of a sum that may be negative."""
    return f" {'-' if part < 0 else '+'} {name} {abs(part):.{digits}f}" + " (no score)" * (not known)
