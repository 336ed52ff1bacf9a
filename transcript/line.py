"""Sections and lines of text, and small phrases that several lines use."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from moot.nodes._records.entries import Turn
from moot.retrievers._evidence import clean

Tone = Literal[
    "", "heading", "aside", "answer", "finding", "person", "warning", "caution", "caveat", "outcome", "failure", "more"
]
"""The meaning of a line: ``finding`` is a result of votes, judges and stops, ``outcome`` the verdict, ``failure`` a
missing verdict, ``caveat`` a limit of a verdict, ``warning`` a failure in the debate, ``caution`` the heading of
warnings or the warning of the demonstration model, ``aside`` a remark about the debate, ``more`` the number of omitted
lines.
"""

NO_BUDGET = "no answer: the budget was used up"
"""Shown in place of a reply that was not requested, or not waited for, because too little of a budget was left."""


LINK = re.compile(r"https?://[!-~]{1,2000}")
"""A web address that can be shown unchanged."""


@dataclass(frozen=True)
class Line:
    """An actor, an action and a text.

    Lines by moot have neither ``who`` nor ``what``. A line that continues the previous line has no ``who``.
    ``turn`` is the index of the line's turn in the document, from 0. It is None if the line has no turn, or if the
    debate still runs. ``link`` is the web address of the item that the text names.
    """

    who: str
    what: str
    text: str
    tone: Tone = ""
    turn: int | None = None
    link: str = ""


@dataclass
class Section:
    """A heading and its lines. ``graph`` is the round whose communication graph is shown with them, if any."""

    heading: str
    lines: list[Line] = field(default_factory=list)
    graph: int | None = None


def line(who: str, what: str, text: str, tone: Tone = "", link: str | None = None) -> Line:
    """A participant's line, without control characters from models and sources, and without invalid links."""
    address = LINK.fullmatch(link or "")
    return Line(clean(who), clean(what), clean(str(text)), tone, link=address[0] if address else "")


def own_line(text: str, tone: Tone = "finding") -> Line:
    """A line by moot, not by a participant."""
    return line("", "", text, tone)


def titled(piece: Mapping[str, Any]) -> str:
    """A piece of evidence as its title and its id."""
    return f"{piece['title'] or piece['source']}{on_page(piece)} [{piece['id']}]"


def on_page(piece: Mapping[str, Any]) -> str:
    """The page of a piece of evidence, as a suffix of its document's name; empty without a page."""
    return f", page {piece['page']}" if piece.get("page") else ""


def format_duration(seconds: float) -> str:
    """A duration in words: ``4.2 s``, ``35 s``, ``2 min 5 s``, ``1 h 5 min``, ``2 days 3 h``."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if whole < 10 else f"{whole} s"
    if whole < 3600:
        return _two_units(divmod(whole, 60), ("min", "s"))
    if whole < 86400:
        return _two_units(divmod(round(whole / 60), 60), ("h", "min"))
    days, hours = divmod(round(whole / 3600), 24)
    return _two_units((days, hours), ("day" if days == 1 else "days", "h"))


def _two_units(amounts: tuple[int, int], units: tuple[str, str]) -> str:
    return " ".join(f"{amount:,} {unit}" for amount, unit in zip(amounts, units, strict=True) if amount)


def list_of(words: Iterable[str]) -> str:
    """Words as a list in a sentence: ``a, b and c``."""
    *most, last = list(words) or [""]
    return f"{', '.join(most)} and {last}" if most else last


def has_rounds(settings: Mapping[str, Any]) -> bool:
    """Whether a system with these settings has rounds."""
    return bool({"max_rounds", "rounds"} & set(settings))


def with_turn_number(what: str, turn: Mapping[str, Any]) -> str:
    """An action, with the turn's number if it has one."""
    return f"{what} {turn['number']}" if "number" in turn else what


def with_reason(what: str, reason: str | None) -> str:
    """A finding with its reason, if there is one."""
    return f"{what} - {reason}" if reason else what


def unusable(turn: Turn) -> str:
    """The text in place of a reply that could not be used, was not requested, or was not waited for."""
    if turn.get("outcome") == "budget_exhausted":
        return NO_BUDGET
    return f"no usable reply ({turn.get('outcome', 'unparsed')})"
