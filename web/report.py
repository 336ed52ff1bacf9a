"""A debate in words, for the page and as a report that needs nothing else: Markdown, or one HTML file without script.

What is said of each turn is what the command line says of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from itertools import groupby
from typing import Any
from urllib.parse import quote

from moot.cli.show import DECIDING, Transcript
from moot.cli.verify import TRANSCRIPTS
from moot.nodes.runtime.state import PERSON, Turn
from moot.retrievers.evidence import GIVEN, clean, given_in
from moot.web.debates import Document, settings_of, unfit
from rich.console import Console

MARKUP = re.compile(r"[\\`*_{}\[\]#|~$^]|^[-+=:]|(?<=^\d)[.)]|(?<=^\d\d)[.)]")
"""What Markdown would take for more than text."""
WEB = re.compile(r"https?://\S", re.IGNORECASE)
END = "Verdict"
LATE = {*DECIDING, "review_verdict"}
"""Steps that come after the last round's votes."""


@dataclass
class Line:
    """Who did what, and a text; ``who`` and ``what`` are empty where nobody in the debate says it. ``tone`` is a
    style of the screen's, ``turn`` the place of the turn that the line is about, from 0; None where it is about none.
    """

    who: str
    what: str
    text: str
    tone: str = ""
    turn: int | None = None


@dataclass
class Section:
    """A heading and the lines under it; ``graph`` is the round of a debating graph that belongs there."""

    heading: str
    lines: list[Line] = field(default_factory=list)
    graph: int | None = None


class Recorder(Transcript):
    """Keeps its lines, under the headings that are said in bold; its end comes under one of ours."""

    sections: list[Section]
    places: dict[int, int]
    """Of each of the document's turns, by its identity."""
    claim: str
    at: int | None = None

    def line(self, agent: str, what: str, text: str, style: str = "") -> None:
        """As `Screen.line`."""
        self.sections[-1].lines.append(Line(clean(agent), clean(what), clean(str(text)), style, self.at))

    def say(self, text: str, style: str = "", indent: int = 0) -> None:
        """As `Screen.say`."""
        if style == "bold":
            self.sections.append(Section(clean(text)))
            return
        if style.startswith("bold"):
            self.sections.append(Section(END))
        self.sections[-1].lines.append(Line("", "", clean(text), style))

    def _turn(self, turn: Turn, written: Mapping[str, Any]) -> None:
        self.at = self.places.get(id(turn))
        super()._turn(turn, written)
        self.at = None

    def _field(self, field: str, turn: Turn, written: Mapping[str, Any]) -> None:
        self._enter(turn)  # at once, a trial's too: on paper no debate waits until the other one's round is heard
        getattr(self, f"_{field}")(turn, written)

    def _query(self, turn: Turn, written: Mapping[str, Any]) -> None:
        if "tool" not in turn and turn["query"] != self.claim:  # a turn that is over holds its query and its findings
            self.line(turn["agent"], "asks", turn["query"] or "")

    def _hearing(self, entry: Mapping[str, Any]) -> None:
        super()._hearing(entry)
        self.sections[-1].graph = entry["round"]


def transcript_of(document: Document) -> tuple[list[Section], Section]:
    """What the command line prints of a debate, and of its end.

    Raises:
        UserError: this version does not know the debate's graph or settings, or its parts do not fit together.
    """
    *told, end = recorded(document)
    return told, end


def recorded(document: Document, *, over: bool = True) -> list[Section]:
    """What the command line prints of a debate; the last section is its end, where it is over.

    Raises:
        UserError: this version does not know the debate's graph or settings, or its parts do not fit together.
    """
    with fitting():
        settings = settings_of(document)
        printer = next((of for kind, of in TRANSCRIPTS.items() if isinstance(settings, kind)), Transcript)
        recorder: Any = type("Recorded", (Recorder, printer), {})(Console(quiet=True), settings)
        recorder.sections, recorder.claim = [], document["claim"]
        recorder.places = {id(turn): place for place, turn in enumerate(document["turns"])}
        for written in replayed(document):
            recorder.update(written)
        if over:
            recorder.close(document)
    return list(recorder.sections)


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


def replayed(document: Document) -> Iterator[dict[str, Any]]:
    """What a debate's nodes wrote, as far as its document tells, in the order of its rounds."""
    if document["task"] is None:  # it was never opened
        return
    shared = {key: document[key] for key in ("evidence", "corpora")}
    yield {**{key: document[key] for key in ("graph", "claim", "task")}, "evidence": given_in(document["evidence"])}
    ends = [{key: document[key] for key in ("votes", "rounds", "scores", "stop_reason")}]
    for phase, spoken in groupby(document["turns"], lambda turn: turn["phase"]):
        for number, turns in groupby(spoken, lambda turn: turn["round"]):
            yield {"graphs": [entry for entry in document["graphs"] if entry["round"] == number]}
            said = list(turns)
            searched = max((place for place, turn in enumerate(said, 1) if "pool" in turn), default=0)
            yield {"turns": said[:searched], "evidence": seeds(document), "corpora": document["corpora"]}
            yield {"turns": [turn for turn in said[searched:] if turn["step"] not in LATE], **shared}
            if number == document["rounds"]:
                yield from ends  # what the last round comes to, which is known before anybody decides
                ends = []
            late = [turn for turn in said if turn["step"] in LATE]
            questions = [turn for turn in late if turn.get("question")]  # on which the verdict was decided anew
            yield {"turns": [*questions, *(turn for turn in late if not turn.get("question"))], **shared}
        yield {"debates": [entry for entry in document["debates"] if entry["phase"] == phase]}
    yield from ends


def seeds(document: Document) -> list[dict[str, Any]]:
    """What a trial's pools held before anything in them was weighed."""
    found = [piece for piece in document["evidence"] if "pool" in piece]
    return [{key: piece[key] for key in piece if key != "weight"} | {"status": "seed"} for piece in found]


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


def marks_of(piece: Mapping[str, Any]) -> list[str]:
    """What is to be known of a piece beside where it comes from."""
    agents = {retrieval.get("agent") for retrieval in piece["retrievals"] if retrieval["retriever"] == GIVEN}
    found = {
        "given with the claim": GIVEN in agents,
        "added by a person": PERSON in agents,
        "struck by a person": piece.get("struck"),
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
