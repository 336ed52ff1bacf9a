"""What is said of a debate: sections of lines, and the small words that several lines use."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from moot.nodes.records.entries import Turn
from moot.retrievers.evidence import clean

Tone = Literal[
    "", "heading", "aside", "answer", "finding", "person", "warning", "caution", "caveat", "outcome", "failure", "more"
]
"""How a line is meant: ``finding`` is what votes, judges and stops come to, ``outcome`` the verdict and ``failure``
that there is none, ``caveat`` what is to be known of a verdict, ``warning`` what did not work and ``caution`` what
stands above warnings, ``aside`` what is said about the debate, ``more`` how much is left out."""

NOT_ASKED = "not asked: the budget was used up"
"""What is said in place of a reply that a ceiling left too little to ask for."""


LINK = re.compile(r"https?://[!-~]{1,2000}")
"""A web address that can be shown as it stands."""


@dataclass(frozen=True)
class Line:
    """Who did what, and a text; ``who`` and ``what`` are empty where nobody in the debate says it.

    ``turn`` is the place of the turn that the line is about among the document's, from 0; None where it is about none,
    or the debate goes on. ``link`` is the web address of what the text names.
    """

    who: str
    what: str
    text: str
    tone: Tone = ""
    turn: int | None = None
    link: str = ""


@dataclass
class Section:
    """A heading and the lines under it; ``graph`` is the round of a debating graph that belongs there."""

    heading: str
    lines: list[Line] = field(default_factory=list)
    graph: int | None = None


def line(who: str, what: str, text: str, tone: Tone = "", link: str | None = None) -> Line:
    """A line of somebody's; without control characters of models and sources, and links that are no web address."""
    address = LINK.fullmatch(link or "")
    return Line(clean(who), clean(what), clean(str(text)), tone, link=address[0] if address else "")


def say(text: str, tone: Tone = "finding") -> Line:
    """A line of our own."""
    return line("", "", text, tone)


def titled(piece: Mapping[str, Any]) -> str:
    """A piece of evidence by its title, with its id."""
    return f"{piece['title'] or piece['source']}{on_page(piece)} [{piece['id']}]"


def on_page(piece: Mapping[str, Any]) -> str:
    """The page of a document that a piece of evidence is from, as it follows the document's name."""
    return f", page {piece['page']}" if piece.get("page") else ""


def counted(count: int, one: str) -> str:
    """A number with its noun: ``1 call``, ``1,200 calls``."""
    return f"{count:,} {one}{'' if count == 1 else 's'}"


def list_of(words: Iterable[str]) -> str:
    """Words as a sentence lists them: ``a, b and c``."""
    *most, last = list(words) or [""]
    return f"{', '.join(most)} and {last}" if most else last


def has_rounds(settings: Mapping[str, Any]) -> bool:
    """Whether a system with these settings goes round after round."""
    return bool({"max_rounds", "rounds"} & set(settings))


def numbered(what: str, turn: Mapping[str, Any]) -> str:
    """What somebody does, with the turn's number where it has one."""
    return f"{what} {turn['number']}" if "number" in turn else what


def reasoned(what: str, reason: str | None) -> str:
    """A finding with its reason."""
    return f"{what} - {reason}" if reason else what


def unusable(turn: Turn) -> str:
    """What is said of a reply that could not be used, or was not asked for."""
    if turn.get("outcome") == "budget_exhausted":
        return NOT_ASKED
    return f"nothing that can be used ({turn.get('outcome', 'unparsed')})"
