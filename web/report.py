"""A debate in words, for the page and as a report that needs nothing else: Markdown, or one HTML file without script.

What is said of each turn is what the command line says of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files
from itertools import groupby
from typing import Any
from urllib.parse import quote

from moot.nodes.runtime.state import PERSON
from moot.retrievers.evidence import GIVEN, clean
from moot.retrievers.excerpts import GAP
from moot.transcript import ending, lines
from moot.transcript.end import WARNINGS, checked
from moot.transcript.line import Line, Section, line, titled
from moot.web.debates import Document, unfit

MARKUP = re.compile(r"[\\`*_{}\[\]#|~$^]|^[-+=:]|(?<=^\d)[.)]|(?<=^\d\d)[.)]")
"""What Markdown would take for more than text."""
FOLDED = 2000
"""Texts of more characters are folded in HTML."""
WEB = re.compile(r"https?://\S", re.IGNORECASE)


@contextmanager
def fitting() -> Iterator[None]:
    """Says of a document that its parts do not fit together, where something in it is found to be of another kind.

    Raises:
        UserError: that.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise unfit(f"its parts do not fit together ({type(error).__name__}: {str(error)[:100]})") from error


# --- citations --------------------------------------------------------------------------------------------------------


def with_citations(told: Iterable[Section], document: Document) -> list[Section]:
    """What is said of a debate's rounds, and after each turn what it cites, every citation with its check."""
    known = {piece["id"]: piece for piece in document["evidence"]}

    def cites(who: str, citation: Mapping[str, Any]) -> Line:
        id, fails = citation["evidence_id"], citation["fabricated"] or not citation["verified"]
        where = f"[{id[:80]}]" if citation["fabricated"] or id not in known else titled(known[id])
        text = f'"{citation["quote"]}" in {where} ({checked(citation, known)})'
        return line(who, "cites", text, "warning" if fails else "")

    def complete(lines: Iterable[Line]) -> Iterator[Line]:
        for place, said in groupby(lines, lambda one: one.turn):
            of_turn = [one for one in said if one.what != "cites"]
            yield from of_turn
            if place is not None:
                yield from (cites(of_turn[0].who, one) for one in document["turns"][place].get("citations") or [])

    return [replace(section, lines=[*complete(section.lines)]) for section in told]


# --- evidence ---------------------------------------------------------------------------------------------------------


Parts = list[tuple[str, bool]]
"""A text in parts, each with whether somebody quotes it."""


def marked(piece: Mapping[str, Any], document: Document) -> Parts:
    """A piece's text in parts, each with whether somebody quotes it."""
    cited = [c for turn in document["turns"] for c in turn.get("citations") or [] if c["verified"]]
    spans = sorted((c["start"], c["end"]) for c in cited if c["evidence_id"] == piece["id"])
    parts, at = [], 0
    for start, end in spans:
        start = max(start, at)
        if start < end:
            parts += [(piece["text"][at:start], False), (piece["text"][start:end], True)]
            at = end
    return [part for part in (*parts, (piece["text"][at:], False)) if part[0]]


def shown_of(piece: Mapping[str, Any], parts: Parts) -> Parts:
    """Those of a piece's parts that debaters were shown, with `GAP` where something is left out; all if all was."""
    spans, kept = piece.get("shown") or [], Parts()
    for start, end in spans:
        at, gap = 0, [(f" {GAP} ", False)]
        kept += gap if kept else []
        for text, quoted in parts:
            within = text[max(start - at, 0) : max(end - at, 0)]
            kept += [(within, quoted)] if within else []
            at += len(text)
    rest = spans and piece["text"][spans[-1][1] :].strip()
    return [*kept, *([(f" {GAP}", False)] if rest else [])] if kept else parts


def marks_of(piece: Mapping[str, Any]) -> list[str]:
    """What is to be known of a piece beside where it comes from."""
    agents = {retrieval.get("agent") for retrieval in piece["retrievals"] if retrieval["retriever"] == GIVEN}
    found = {
        "given with the claim": GIVEN in agents,
        "added by a person": PERSON in agents,
        "struck by a person": piece.get("struck"),
        "shown in part": "shown" in piece,
        "cut to length": piece.get("truncated"),
        "a model's summary": "summary_of" in piece,
    }
    return [mark for mark, holds in found.items() if holds]


def web_address(url: str | None) -> str:
    """An address that a link may lead to, without what would end the link; an empty text for any other."""
    return quote(str(url), safe="/:?#[]@!$&'*+,;=%~-._") if WEB.match(url or "") else ""


# --- files ------------------------------------------------------------------------------------------------------------


def escaped(text: object) -> str:
    """A text that Markdown shows as it stands, in one line."""
    line = " ".join(clean(str(text)).split())
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return MARKUP.sub(r"\\\g<0>", line)


@lru_cache(maxsize=1)
def _templates() -> Any:
    from jinja2 import Environment, PackageLoader

    environment = Environment(
        loader=PackageLoader("moot.web"),
        autoescape=lambda name: name is not None and name.endswith(".html"),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"md": escaped, "address": web_address, "marks": marks_of}
    return environment


def report(document: Document, kind: str) -> str:
    """A debate's report; ``kind`` is ``md`` or ``html``.

    Raises:
        UserError: this version does not know the debate's graph or settings, or its parts do not fit together.
    """
    with fitting():
        told, end = with_citations(lines(document), document), ending(document)
        whole = [(piece, marked(piece, document)) for piece in document["evidence"]]
        evidence = [(piece, parts, shown_of(piece, parts)) for piece, parts in whole]
    warnings = [line for line in end.lines if line.tone in ("warning", "caution") and line.text != WARNINGS]
    end.lines = [line for line in end.lines if line.tone not in ("warning", "caution")]
    style = files("moot.web").joinpath("templates/report.css").read_text(encoding="utf-8")
    page: str = (
        _templates()
        .get_template(f"report.{kind}")
        .render(document=document, told=told, end=end, warnings=warnings, evidence=evidence, style=style, folded=FOLDED)
    )
    return page
