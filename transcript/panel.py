"""The text on the decision of a panel of judges: its votes, the confidence, and dissents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from moot.core.words import count_with_noun
from moot.nodes._texts.calibrated import calibration_basis
from moot.transcript.end import (
    ShownReasons,
    answer,
    calibration_lines,
    citations,
    headline,
    reason_or_reference,
    reasons,
    robustness_lines,
)
from moot.transcript.line import Line, line, list_of, own_line

WINNING_SIDE = {"SUPPORTED": "plaintiff", "NOT SUPPORTED": "defense"}
"""Maps a verdict to the side that wins with it; with other verdicts, no side wins."""
MOST_CITED = 10
"""Maximum number of citations shown; a side's arguments may have many."""
ROUNDING_ERROR = 1e-5
"""The largest difference between the total and the sum of its parts that rounding in the document can cause."""


def panel_verdict(document: Mapping[str, Any], shown: ShownReasons) -> Iterator[Line]:
    """A panel's verdict: the answer, its confidence, the reasons, the winning side's citations, and dissents.

    Args:
        document: the result.
        shown: reasons that were shown before; a reference replaces each of them.
    """
    verdict, subject = document["raw_verdict"], document["task"]["subject"]
    how = f"{votes_for(document)}; {document['stop_reason']}"
    if document["answer"] is None:
        none = f"none, as the panel finds the {subject} {verdict}, which is not one of the answers"
        yield from headline(document, f"Verdict: {none} ({how})")
    else:
        yield from headline(document, answer(document, how))
    yield confidence(document)
    yield from calibration_lines(document)
    yield from robustness_lines(document)
    yield from reasons(document, shown)
    if side := WINNING_SIDE.get(verdict):
        yield from citations(document, side, MOST_CITED)
    for one in document["metrics"]["panel"]["dissent"]:
        yield line(
            one["agent"], "dissents", f"{one['verdict']} - {reason_or_reference(document, one['reason'], shown)}"
        )


def votes_for(document: Mapping[str, Any]) -> str:
    """How many judges gave the panel's verdict: ``NOT SUPPORTED by 2 of 3 judges``."""
    panel, verdict = document["metrics"]["panel"], document["raw_verdict"]
    given = panel["verdicts"]
    found = f"{verdict} by {given[verdict]} of {count_with_noun(sum(given.values()), 'judge')}"
    if panel["tied"]:
        first = next(turn["agent"] for turn in document["turns"] if turn.get("verdict") == verdict)
        found += f"; tied votes, so the verdict of {first} counts"
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
    limited = abs(total - document["confidence"]) > ROUNDING_ERROR
    digits = next((n for n in (2, 3, 4) if adds_up((base, switch, reflection), total, n)), 4)
    terms = f"base {base:.{digits}f} ({winning} of {votes} votes, quality {parts['quality']:.2f})"
    terms += signed_part("role switch", switch, digits, parts["consistency"] is not None)
    terms += signed_part("reflection", reflection, digits, parts["winning_reflection"] is not None)
    found = f"{document['confidence']:.{digits}f}"
    if limited:
        bound = "cut to 1" if total > 1 else f"raised to {document['confidence']:g}"
        return own_line(f"Confidence {found}, {calibration_basis(document)}: {terms} = {total:.{digits}f}, {bound}", "")
    return own_line(f"Confidence {found}, {calibration_basis(document)}: {terms}", "")


def adds_up(parts: tuple[float, ...], total: float, digits: int) -> bool:
    """Whether the parts still add up to the total after rounding to ``digits`` digits."""
    return round(sum(round(part, digits) for part in parts), digits) == round(total, digits)


def signed_part(name: str, part: float, digits: int, known: bool) -> str:
    """A part of a sum with its sign; with a note if its score is not ``known``."""
    return f" {'-' if part < 0 else '+'} {name} {abs(part):.{digits}f}" + " (no score)" * (not known)
