"""Numbers the sources of a report, and collects the quotes from each source."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import quote as encoded

from moot.core.errors import UserError
from moot.nodes._records.entries import PERSON
from moot.nodes._texts.verdict import WARRANT_WORDS, WARRANTS, verdict_citations
from moot.retrievers._archives import host_of, website_of
from moot.retrievers._evidence import GIVEN, UNTITLED, clean
from moot.retrievers._excerpts import GAP
from moot.transcript.language import t

WEB = re.compile(r"https?://\S", re.IGNORECASE)

Parts = list[tuple[str, bool]]
"""A text in parts. Each part is a text, and whether it is quoted."""


@dataclass
class SourceQuote:
    """A quote that its source contains.

    ``differs`` is true if an agent's quote differs in typography from the source. ``given`` has the turns with the
    quote, each with what it does for the turn's answer; None if that was not assessed.
    """

    id: str
    start: int
    end: int
    text: str
    number: int = 0
    differs: bool = False
    given: list[tuple[Mapping[str, Any], str | None]] = field(default_factory=list)

    @property
    def who(self) -> list[str]:
        """The agents who gave the quote, or their sides in a trial."""
        return list(dict.fromkeys(turn.get("side") or turn["agent"] for turn, _ in self.given))

    @property
    def warrants(self) -> list[str]:
        """What the quote does for the answers that cite it, as far as they were assessed."""
        return [bears for bears in WARRANTS if bears and any(one == bears for _, one in self.given)]

    @property
    def does(self) -> str:
        """`warrants` in words."""
        return ", ".join(t(WARRANT_WORDS[bears]) for bears in self.warrants)


@dataclass(frozen=True)
class FaultyQuote:
    """A quote that its source does not contain.

    ``number`` is the number of the source. It is None if the agent was not shown the named source.
    """

    text: str
    who: str
    number: int | None


class Sources:
    """A debate's evidence, numbered for a report.

    The order is: pieces in ``first``, pieces that the verdict quotes, other quoted pieces, and all other pieces. Only
    verified quotes count.
    """

    def __init__(self, document: Mapping[str, Any], first: Iterable[str] = ()) -> None:
        self.document = document
        self.pieces = {piece["id"]: piece for piece in document["evidence"]}
        cited = [c for turn in document["turns"] for c in turn.get("citations") or [] if c["verified"]]
        deciding = [c for c in verdict_citations(dict(document)) if c["verified"]]
        order = dict.fromkeys([*first, *(c["evidence_id"] for c in (*deciding, *cited)), *self.pieces])
        known = [id for id in order if id in self.pieces]
        self.numbers = {id: number for number, id in enumerate(known, 1)}
        marked = {*first} | {c["evidence_id"] for c in cited}
        self.quoted = [id for id in known if id in marked]
        self.unquoted = [id for id in known if id not in marked]

    @cached_property
    def quotes(self) -> list[SourceQuote]:
        """The quotes that their sources contain, ordered by source.

        A quote inside a longer quote is not listed. Its turns are added to those of the longer quote.
        """
        found: dict[tuple[str, int, int], SourceQuote] = {}
        for turn in self.document["turns"]:
            for citation in turn.get("citations") or []:
                if not citation["verified"] or citation["evidence_id"] not in self.pieces:
                    continue
                span = (citation["evidence_id"], citation["start"], citation["end"])
                text = self.pieces[span[0]]["text"][span[1] : span[2]]
                one = found.setdefault(span, SourceQuote(*span, text, self.numbers[span[0]]))
                one.differs |= self.differs_in_typography(citation)
                one.given.append((turn, citation.get("warrant")))
        whole: list[SourceQuote] = []
        for one in sorted(found.values(), key=lambda one: (one.number, one.start, -one.end)):
            if whole and whole[-1].id == one.id and one.end <= whole[-1].end:  # part of a longer quote
                whole[-1].given += one.given
            else:
                whole.append(one)
        return whole

    def differs_in_typography(self, citation: Mapping[str, Any]) -> bool:
        """Whether a verified quote differs in typography from its source; false if the evidence lacks the source."""
        if (piece := self.pieces.get(citation["evidence_id"])) is None:
            return False
        text: str = piece["text"][citation["start"] : citation["end"]]
        quote: str = citation["quote"]
        return text.strip() != quote.strip()

    @cached_property
    def faulty(self) -> list[FaultyQuote]:
        """Quotes that their sources do not contain, each once."""
        return [
            *dict.fromkeys(
                FaultyQuote(
                    citation["quote"],
                    turn.get("side") or turn["agent"],
                    None if citation["fabricated"] else self.numbers.get(citation["evidence_id"]),
                )
                for turn in self.document["turns"]
                for citation in turn.get("citations") or []
                if not citation["verified"]
            )
        ]

    def numbered(self, text: str) -> list[tuple[str, int | None]]:
        """Splits a text at the ids of sources."""
        if not self.pieces:
            return [(text, None)]
        parts: list[tuple[str, int | None]] = []
        at = 0
        for found in self._ids.finditer(text):
            parts += [(text[at : found.start()].rstrip(), None), ("", self.numbers[found[1]])]
            at = found.end()
        return [part for part in (*parts, (text[at:], None)) if part != ("", None)]

    @cached_property
    def _ids(self) -> re.Pattern[str]:
        known = "|".join(map(re.escape, sorted(self.pieces, key=len, reverse=True)))
        return re.compile(rf"\[?(?<![\w-])({known})(?![\w-])\]?")


def sources_of(document: Mapping[str, Any]) -> Sources:
    """The sources of a report, with those that the summary mentions first."""
    summary = document.get("reader_summary") or {}
    return Sources(document, [c["evidence_id"] for one in summary.get("sentences", []) for c in one["citations"]])


# --- one source -------------------------------------------------------------------------------------------------------


def passage_named(document: Mapping[str, Any], name: str) -> str:
    """The id of the piece of evidence that is named by its id or by its number in the report, such as 2 or [2]."""
    numbers = sources_of(document).numbers
    found = name if name in numbers else next((id for id, n in numbers.items() if str(n) == name.strip(" []")), None)
    if found is None:
        known = f"Its passages are 1 to {len(numbers)}, or {', '.join([*numbers][:5])}." if numbers else "It has none."
        raise UserError(f"The check has no passage {name[:40]!r}. {known}", kind="bad_request")
    return found


def quoted_parts(piece: Mapping[str, Any], document: Mapping[str, Any]) -> Parts:
    """A piece's whole text, split into quoted and other parts."""
    cited = [c for turn in document["turns"] for c in turn.get("citations") or [] if c["verified"]]
    spans = sorted((c["start"], c["end"]) for c in cited if c["evidence_id"] == piece["id"])
    parts, at = [], 0
    for start, end in spans:
        start = max(start, at)
        if start < end:
            parts += [(piece["text"][at:start], False), (piece["text"][start:end], True)]
            at = end
    return [part for part in (*parts, (piece["text"][at:], False)) if part[0]]


def shown_parts(piece: Mapping[str, Any], parts: Parts) -> Parts:
    """The parts that debaters were shown, with `GAP` in place of omissions.

    An omission at the beginning has no `GAP`. All of ``parts`` is returned if the piece was shown in full.
    """
    spans, found = piece.get("shown") or [], Parts()
    for start, end in spans:
        at, gap = 0, [(f" {GAP} ", False)]
        found += gap if found else []
        for text, quoted in parts:
            within = text[max(start - at, 0) : max(end - at, 0)]
            found += [(within, quoted)] if within else []
            at += len(text)
    rest = spans and piece["text"][spans[-1][1] :].strip()
    return [*found, *([(f" {GAP}", False)] if rest else [])] if found else parts


def marks_of(piece: Mapping[str, Any]) -> list[str]:
    """Notes on a piece that was given, added, struck, shortened, summarised or archived; empty for other pieces."""
    host, website = link_host(piece.get("url")), website_of(web_address(piece.get("url")))
    agents = {retrieval.get("agent") for retrieval in piece["retrievals"] if retrieval["retriever"] == GIVEN}
    found = {
        t("given with the claim"): GIVEN in agents,
        t("added by a person"): PERSON in agents,
        t("struck by a person"): piece.get("struck"),
        t("retracted"): "retracted" in piece,
        t("a verdict of others"): piece.get("fact_check"),
        t("where the claim appeared"): piece.get("claim_page"),
        t("your label: {label}", label=plain(piece.get("site_label") or "")): piece.get("site_label"),
        t("shown in part"): "shown" in piece,
        t("cut to length"): piece.get("truncated"),
        t("a model's summary"): "summary_of" in piece,
        t("a search engine's snippet: the page was not read"): piece.get("snippet"),
        t("a copy of a page of {site}", site=website): website != host,
    }
    return [mark for mark, holds in found.items() if holds]


def web_address(url: str | None) -> str:
    """A web address in which characters that would end a link are encoded; empty for any other text or None."""
    return encoded(str(url), safe="/:?#[]@!$&'*+,;=%~-._") if WEB.match(url or "") else ""


def link_host(url: str | None) -> str:
    """The host of a web address, without ``www.``; empty for an invalid address or None."""
    return host_of(web_address(url)).removeprefix("www.")


def title_of(piece: Mapping[str, Any]) -> str:
    """The title of a source, or "Untitled passage"."""
    title = plain(piece["title"])
    return title if title and title != UNTITLED else t("Untitled passage")


def plain(text: object) -> str:
    """A text for display in one line, without control characters and with its HTML entities decoded."""
    return " ".join(html.unescape(clean(str(text))).split())
