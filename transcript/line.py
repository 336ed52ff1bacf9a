"""Defines sections and lines of text, and short phrases that several lines contain."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from moot.core.errors import BUDGET_EXHAUSTED
from moot.nodes._runtime.turns import Said
from moot.retrievers._evidence import clean
from moot.transcript.language import in_figures

Tone = Literal[
    "", "heading", "aside", "answer", "finding", "person", "warning", "caution", "caveat", "outcome", "failure", "more"
]
"""The meaning of a line; empty for an ordinary line.

- ``heading``: a heading.
- ``aside``: a remark about the debate.
- ``answer``: an agent's answer.
- ``finding``: a result of a vote or a judge, or the stop of a debate.
- ``person``: an action of a person.
- ``warning``: a warning, or a failure in the debate.
- ``caution``: the heading of the warnings, or the warning of the demonstration model.
- ``caveat``: a limit of a verdict.
- ``outcome``: the verdict.
- ``failure``: a missing verdict.
- ``more``: how many reasons or citations are not shown.
"""

NO_BUDGET = "no answer: the budget was used up"
"""The text in place of a reply if too little of a budget was left to request the reply or to wait for it."""
LINK = re.compile(r"https?://[!-~]{1,2000}")
"""A web address that can be shown unchanged."""


@dataclass(frozen=True)
class Line:
    """An actor, an action and a text.

    moot's own lines have neither ``who`` nor ``what``. A line that continues the previous line has no ``who``. ``turn``
    is the index of the line's turn in the document, from 0. ``turn`` is None if the line belongs to no turn, or if
    `Live` made the line. ``link`` is the web address of the item that the text names; empty for no address. ``said``
    is what the line tells of its turn.
    """

    who: str
    what: str
    text: str
    tone: Tone = ""
    turn: int | None = None
    link: str = ""
    said: Said | None = None


@dataclass
class Section:
    """A heading and its lines. ``graph`` is the number of the round whose communication graph is shown, or None."""

    heading: str
    lines: list[Line] = field(default_factory=list)
    graph: int | None = None


def line(who: str, what: str, text: str, tone: Tone = "", link: str | None = None, said: Said | None = None) -> Line:
    """A line. Its parts may come from models and sources, so they are cleaned, and an invalid link is dropped."""
    address = LINK.fullmatch(link or "")
    return Line(clean(who), clean(what), clean(str(text)), tone, link=address[0] if address else "", said=said)


def own_line(text: str, tone: Tone = "finding") -> Line:
    """A line by moot, not by a participant."""
    return line("", "", text, tone)


def format_duration(seconds: float) -> str:
    """A duration in words: ``4.2 s``, ``35 s``, ``2 min 5 s``, ``1 h 5 min``, ``2 days 3 h``.

    An amount of 0 is left out, except for ``0.0 s``.
    """
    whole = round(seconds)
    if whole < 60:
        return f"{in_figures(seconds, 1)} s" if whole < 10 else f"{whole} s"
    if whole < 3600:
        return _two_units(divmod(whole, 60), ("min", "s"))
    if whole < 86400:
        return _two_units(divmod(round(whole / 60), 60), ("h", "min"))
    days, hours = divmod(round(whole / 3600), 24)
    return _two_units((days, hours), ("day" if days == 1 else "days", "h"))


def _two_units(amounts: tuple[int, int], units: tuple[str, str]) -> str:
    """Two amounts with their units; an amount of 0 is left out."""
    return " ".join(f"{amount:,} {unit}" for amount, unit in zip(amounts, units, strict=True) if amount)


def list_of(words: Iterable[str]) -> str:
    """Words as a list in a sentence: ``a, b and c``; empty without words."""
    *most, last = list(words) or [""]
    return f"{', '.join(most)} and {last}" if most else last


def has_rounds(settings: Mapping[str, Any]) -> bool:
    """Whether a system with these settings has rounds."""
    return bool({"max_rounds", "rounds"} & set(settings))


def with_reason(what: str, reason: str | None) -> str:
    """A finding, followed by its reason if there is one."""
    return f"{what} - {reason}" if reason else what


def unusable(outcome: str) -> str:
    """The text in place of a reply that could not be used, was not requested, or was not waited for."""
    return NO_BUDGET if outcome == BUDGET_EXHAUSTED else f"no usable reply ({outcome})"
