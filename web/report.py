"""A debate as a report that needs nothing else: as Markdown, or as one HTML file without any script.

What is said of each turn is what the command line says of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from itertools import groupby
from typing import Any
from urllib.parse import quote

from moot.cli.show import Transcript
from moot.cli.verify import TRANSCRIPTS
from moot.retrievers.evidence import clean, given_in
from moot.web.debates import Document, settings_of, unfit
from rich.console import Console

MARKUP = re.compile(r"[\\`*_{}\[\]#|~$^]|^[-+=:]|(?<=^\d)[.)]|(?<=^\d\d)[.)]")
"""What Markdown would take for more than text."""
WEB = re.compile(r"https?://\S", re.IGNORECASE)
END = "Verdict"


@dataclass
class Line:
    """Who did what, and a text; ``who`` and ``what`` are empty where nobody in the debate says it. ``tone`` is a
    style of the screen's.
    """

    who: str
    what: str
    text: str
    tone: str = ""


@dataclass
class Section:
    """A heading and the lines under it."""

    heading: str
    lines: list[Line] = field(default_factory=list)


class Recorder:
    """A screen that keeps its lines, under the headings that are said in bold; its end comes under one of ours."""

    sections: list[Section]

    def line(self, agent: str, what: str, text: str, style: str = "") -> None:
        """As `Screen.line`."""
        self.sections[-1].lines.append(Line(clean(agent), clean(what), clean(str(text)), style))

    def say(self, text: str, style: str = "", indent: int = 0) -> None:
        """As `Screen.say`."""
        if style == "bold":
            self.sections.append(Section(clean(text)))
            return
        if style.startswith("bold"):
            self.sections.append(Section(END))
        self.sections[-1].lines.append(Line("", "", clean(text), style))


def transcript_of(document: Document) -> tuple[list[Section], Section]:
    """What the command line prints of a debate, and of its end.

    Raises:
        UserError: this version does not know the debate's graph or settings, or its parts do not fit together.
    """
    settings = settings_of(document)
    printer = next((of for kind, of in TRANSCRIPTS.items() if isinstance(settings, kind)), Transcript)
    recorder: Any = type("Recorded", (Recorder, printer), {})(Console(quiet=True), settings)
    recorder.sections = []
    try:
        for written in replayed(document):
            recorder.update(written)
        recorder.close(document)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise unfit(f"its parts do not fit together ({type(error).__name__}: {str(error)[:100]})") from error
    *told, end = recorder.sections
    return told, end


def replayed(document: Document) -> Iterator[dict[str, Any]]:
    """What a debate's nodes wrote, as far as its document tells, in the order of its rounds."""
    if document["task"] is None:  # it was never opened
        return
    shared = {key: document[key] for key in ("evidence", "corpora")}
    yield {**{key: document[key] for key in ("graph", "claim", "task")}, "evidence": given_in(document["evidence"])}
    for phase, spoken in groupby(document["turns"], lambda turn: turn["phase"]):
        for number, turns in groupby(spoken, lambda turn: turn["round"]):
            yield {"graphs": [entry for entry in document["graphs"] if entry["round"] == number]}
            yield {"turns": list(turns), **shared}
        yield {"debates": [entry for entry in document["debates"] if entry["phase"] == phase]}
    yield {key: document[key] for key in ("votes", "rounds", "scores", "stop_reason")}


# --- evidence ---------------------------------------------------------------------------------------------------------


def marked(piece: Mapping[str, Any], document: Document) -> list[tuple[str, bool]]:
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
    environment.filters |= {"md": escaped, "address": web_address}
    return environment


def report(document: Document, kind: str) -> str:
    """A debate's report; ``kind`` is ``md`` or ``html``.

    Raises:
        UserError: as of `transcript_of`.
    """
    told, end = transcript_of(document)
    evidence = [(piece, marked(piece, document)) for piece in document["evidence"]]
    style = files("moot.web").joinpath("templates/report.css").read_text(encoding="utf-8")
    page: str = (
        _templates()
        .get_template(f"report.{kind}")
        .render(document=document, told=told, end=end, evidence=evidence, style=style)
    )
    return page
