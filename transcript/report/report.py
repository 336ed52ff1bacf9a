"""A debate as a document for readers: HTML in one file without scripts, or Markdown.

This module combines the parts; the templates are in ``transcript/look``.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from importlib.resources import files
from typing import Any

from moot.core.words import count_with_noun
from moot.nodes._texts.verdict import caveats
from moot.retrievers._evidence import GIVEN, clean
from moot.transcript.document import checked_parts, round_sections
from moot.transcript.line import list_of
from moot.transcript.report import head
from moot.transcript.report.codes import NOT_SEARCHED, in_words, replaced_source_words, source_words, words_for
from moot.transcript.report.method import command, not_in_command, run_facts
from moot.transcript.report.names import Names
from moot.transcript.report.paper import around_quotes, fill_first_page, record_fits
from moot.transcript.report.record import parts, timeline
from moot.transcript.report.sources import (
    Sources,
    link_host,
    marks_of,
    plain,
    quoted_parts,
    shown_parts,
    title_of,
    web_address,
)

__all__ = ["escaped", "icons", "report", "styles"]

Document = Mapping[str, Any]
MARKUP = re.compile(r"[\\`*_{}\[\]#|~$^]|^[-+=:]|(?<=^\d)[.)]|(?<=^\d\d)[.)]")
"""Characters that Markdown would interpret."""
REPLACED_SOURCES = ("stand_in", "retrieval_failed")
"""Kinds of warnings that a report shows under "Replaced or failed"."""
SHORTENED = ("evidence_cut", "prompt_shortened", "exhibits_left_out", "evidence_not_compared", "source_not_summarised")
"""Kinds of warnings that a report shows under "Shortened"."""
SHOWN_ELSEWHERE = (
    "empty_retrieval",
    "fabricated_citation",
    "fabricated_citations",
    "unverified_quote",
    "demo_model",
    "recorded_model",
    "no_evidence",
    "single_origin",
)
"""Kinds of warnings that are left out of "Other notes", because other parts of a report show them."""
LONGEST_TITLE = 120
"""Maximum number of characters of a page's title, and of a search query for past debates."""


@dataclass(frozen=True)
class Fact:
    """A label, and sentences on searches, gaps or failures. ``bad`` marks a failure."""

    name: str
    sentences: list[str]
    bad: bool = False


def report(document: Document, kind: str) -> str:
    """A debate's report.

    Args:
        document: the result document; the debate may have failed or been interrupted. If the document has a key
            ``reader_summary``, the report contains the summary's sentences and stances.
        kind: ``html``, ``md``, or ``part``: only the body of the HTML, for a page that contains `styles` and `icons`.

    Raises:
        UserError: this version does not know the debate's graph or settings, the document's parts are inconsistent, or
            the file of prices cannot be read or is invalid.
    """
    with checked_parts():
        values = _template_values(document)
        name = "debate.html" if kind == "part" else f"report.{kind}"
        page: str = _templates().get_template(name).render(values)
    return page


def icons() -> str:
    """The icons that reports refer to. A page contains them once."""
    return files("moot.transcript").joinpath("look/icons.html").read_text(encoding="utf-8")


def _template_values(document: Document) -> dict[str, Any]:
    names, summary = Names(document), document.get("reader_summary")
    mentioned = [c["evidence_id"] for one in (summary or {}).get("sentences", []) for c in one["citations"]]
    sources = Sources(document, mentioned)
    began = datetime.fromisoformat(document["started_at"]).astimezone(UTC)
    groups = (
        head.groups_by_stance(summary, sources, names) if summary else head.groups_by_answer(document, sources, names)
    )
    beside, below = head.sides_of(groups)
    said_none, dissent = head.dissent(document, names)
    sections = round_sections(document) if document["task"] else []
    record_parts = parts(document, sections, sources, names)
    claim, verdict, warned = (
        plain(document["claim"] or "(no claim)"),
        head.verdict_of(document, names),
        head.verdict_warnings(document),
    )
    sentences = _sentences(summary, sources) if summary else []
    reasons = head.reasons(document, names)
    why = [" ".join(text for text, _ in sentences)] if sentences else [f"{text} {who}" for who, text in reasons[:3]]
    fill_first_page(claim, verdict, warned, why, beside, below)
    answers = timeline(document, sections, names)
    quoted = [_source(sources, id, document) for id in sources.quoted]
    passages = ["".join(text for text, _ in one["parts"]) for one in quoted]
    return {
        "document": document,
        "claim": claim,
        "title": plain(document["claim"] or "A debate")[:LONGEST_TITLE],
        "is_claim": not document["task"] or document["task"]["subject"] == "claim",
        "kicker": _title_line(document, names),
        "date": f"{began.day} {began:%B %Y}",
        "time": f"{began:%H:%M} UTC",
        "said_by": _claim_origin(document),
        "verdict": verdict,
        "warned": warned,
        "summary": summary,
        "sentences": sentences,
        "left_out": _omitted_sentences(summary) if summary and sentences else "",
        "reasons": [(who, sources.numbered(plain(text))) for who, text in reasons],
        "glance": _key_facts(document, sources),
        "beside": beside,
        "below": below,
        "sources": quoted,
        "others": [_source(sources, id, document) for id in sources.unquoted],
        "said_none": said_none,
        "dissent": dissent,
        "searched": _searched(document, sources, names, summary),
        "checked": _citation_check(sources),
        "faulty": [(one, names(one.who)) for one in sources.faulty],
        "timeline": answers,
        "parts": record_parts,
        "brief": not record_fits(passages, len(sources.unquoted), len(answers.rows) if answers else 0, record_parts),
        "went_wrong": _other_warnings(document, names, sources),
        "made": run_facts(document),
        "command": command(document) if document["task"] else "",
        "not_in_command": not_in_command(document),
    }


def _title_line(document: Document, names: Names) -> str:
    """What was made and by whom, such as "Claim check by two language models"."""
    what = "Answer" if document["task"] and document["task"]["subject"] == "question" else "Claim check"
    if document["graph"] == "proclaim":
        return f"{what} by a trial among language models"
    speakers = {turn["agent"] for turn in document["turns"] if turn["step"] == "respond"}
    many = {2: "two"}.get(len(speakers), str(len(speakers)))
    return f"{what} by {many} language models" if len(speakers) > 1 else f"{what} by a language model"


def _claim_origin(document: Document) -> str:
    """Who said the claim and when; empty for a question."""
    task = document["task"] or {}
    if task.get("subject") == "question":
        return ""
    return (
        f"Said by: {plain(task.get('speaker') or 'not given')} · When: {plain(task.get('claim_date') or 'not given')}"
    )


def _sentences(summary: Mapping[str, Any], sources: Sources) -> list[tuple[str, list[int]]]:
    """The sentences of a summary, each with the numbers of its sources."""
    return [
        (plain(one["text"]), list(dict.fromkeys(sources.numbers[c["evidence_id"]] for c in one["citations"])))
        for one in summary["sentences"]
    ]


def _omitted_sentences(summary: Mapping[str, Any]) -> str:
    """A sentence on how many sentences of the summary are left out; empty if all are shown."""
    if not (count := summary["dropped"]):
        return ""
    more = "1 more sentence was" if count == 1 else f"{count} more sentences were"
    return f"{more} left out: each must rest on a checked quote, and at most three are shown."


def _key_facts(document: Document, sources: Sources) -> list[tuple[str, str, bool]]:
    """Facts beside the verdict, each as a name, a text, and whether the text reports a problem."""
    count = document["metrics"].get("citations") or {}
    facts = []
    if count.get("total"):
        found, total = count["verified"], count["total"]
        facts.append(("Quotes found", f"{found} of {total}", found < total))
    facts.append(("Sources quoted", str(len({one.id for one in sources.quotes})), False))
    kinds = Counter(one["kind"] for one in document["warnings"])
    if any(map(_replaces_web_search, document["corpora"])):
        facts.append(("The web", "not searched", True))
    elif kinds["stand_in"]:
        facts.append(("A source", "was replaced", True))
    if kinds["retrieval_failed"]:
        facts.append(("A source", "failed", True))
    return facts


def _source(sources: Sources, id: str, document: Document) -> dict[str, Any]:
    """The values of a source's entry in the report's list of sources."""
    piece = sources.pieces[id]
    whole = quoted_parts(piece, document)
    meta = [plain(piece.get("publisher") or piece["source"]) if piece["source"] != GIVEN else "given with the claim"]
    meta.append(plain(piece["published"]) if piece.get("published") else "date not given")
    if piece.get("page") is not None:
        meta.append(f"page {plain(piece['page'])}")
    if piece.get("status"):
        meta.append(plain(piece["status"]))
    if piece.get("fetched"):
        meta.append(f"read {format_time(piece['fetched'])}")
    meta += [mark for mark in marks_of(piece) if mark not in meta]
    address = web_address(piece.get("url"))
    return {
        "number": sources.numbers[id],
        "title": title_of(piece),
        "meta": [one for one in meta if one],
        "address": address,
        "host": link_host(piece.get("url")) if address else "",
        "no_link": plain(piece["url"])[:200] if piece.get("url") and not address else "",
        "parts": [(clean_part(text), quoted) for text, quoted in shown_parts(piece, whole)],
        "whole": [(clean_part(text), quoted) for text, quoted in whole] if piece.get("shown") else [],
        "length": len(piece["text"]),
        "weight": piece.get("weight"),
        "sha256": plain(piece.get("sha256") or ""),
    }


def format_time(text: str) -> str:
    """A time in ISO form in words, in UTC; any other text as `plain` shows it."""
    try:
        at = datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        return plain(text)
    return f"{at.day} {at:%B %Y, %H:%M} UTC"


def clean_part(text: str) -> str:
    """A part of a text for display, with its HTML entities decoded.

    White space at each end becomes a single space. A part without visible characters becomes a single space.
    """
    found = html.unescape(text)
    cleaned = clean(found)
    before = " " if found[:1].isspace() and cleaned else ""
    after = " " if found[-1:].isspace() and cleaned else ""
    return f"{before}{cleaned}{after}" if cleaned else " "


# --- what was searched, and what went wrong ---------------------------------------------------------------------------


def _searched(document: Document, sources: Sources, names: Names, summary: Mapping[str, Any] | None) -> list[Fact]:
    """What was searched, what was not found, and what was replaced, failed, was shortened or went wrong."""
    facts = [Fact("Searched", _searched_sources(document, sources))]
    empty = [
        f"“{plain(turn['query'])}” found nothing ({names(turn['agent'])})."
        for turn in document["turns"]
        if turn.get("query") and turn.get("retrieval") in ("ok", "empty") and not turn["evidence_ids"]
    ]
    has_failed = any(turn.get("retrieval") == "failed" for turn in document["turns"])
    missing = [plain(one) for one in (summary or {}).get("not_found", [])]
    if found := list(dict.fromkeys([*missing, *empty])):
        facts.append(Fact("Not found", found))
    elif not summary and document["corpora"] and not has_failed:
        facts.append(Fact("Not found", ["Each search found something. No check for missing evidence was made."]))
    instead = dict.fromkeys(
        f"{names(one['agent'])} was meant to search the web; {source_words(one['retriever'])} was searched instead."
        for one in document["corpora"]
        if _replaces_web_search(one)
    )
    failed = [head.failed_source_sentence(one) for one in document["warnings"] if one["kind"] == "retrieval_failed"]
    replacements = [
        replaced_source_words(plain(one["detail"])) for one in document["warnings"] if one["kind"] == "stand_in"
    ]
    failed += [sentence for lead, sentence in replacements if not instead or lead != NOT_SEARCHED]
    if replaced := [*instead, *dict.fromkeys(map(names.with_names, map(plain, failed)))]:
        facts.append(Fact("Replaced or failed", replaced, bad=True))
    cut = sum("shown" in piece or bool(piece.get("truncated")) for piece in document["evidence"])
    short = [f"{cut} of {count_with_noun(len(sources.pieces), 'passage')} {_was(cut)} shown in part."] if cut else []
    kinds = Counter(one["kind"] for one in document["warnings"] if one["kind"] in SHORTENED)
    short += [words_for("warning", kind) for kind in kinds if kind not in ("evidence_cut",)]
    if short:
        facts.append(Fact("Shortened", short))
    other = Counter(
        one["kind"]
        for one in document["warnings"]
        if one["kind"] not in (*REPLACED_SOURCES, *SHORTENED, *SHOWN_ELSEWHERE)
    )
    if other:
        sentences = [
            words_for("warning", kind) + (f" ({count} times)" if count > 1 else "") for kind, count in other.items()
        ]
        facts.append(Fact("Other notes", sentences, bad=True))
    return facts


def _replaces_web_search(reading: Mapping[str, Any]) -> bool:
    """Whether a web search was requested, but another source was read, for example because no key was set."""
    return reading["requested"] == "web" and reading["retriever"] not in ("tavily", "serper")


def _searched_sources(document: Document, sources: Sources) -> list[str]:
    """Sentences on the searched sources, the given texts, and the numbers of passages found and quoted."""
    read = {source_words(one["retriever"]): one.get("passages") for one in document["corpora"]}
    if not read and not sources.pieces:
        unfinished = document["status"] != "done"
        return [
            "Nothing before the debate ended."
            if unfinished
            else "Nothing: this method answers from what the model knows."
        ]
    where = [name + (f" ({passages:,} passages)" if passages is not None else "") for name, passages in read.items()]
    searches = sum("retrieval" in turn for turn in document["turns"])
    given = sum(GIVEN in (r["retriever"] for r in piece["retrievals"]) for piece in sources.pieces.values())
    listed = list_of(where)
    times = f"{searches:,} search{'' if searches == 1 else 'es'}"
    sentences = [f"{listed[:1].upper()}{listed[1:]}, in {times}."] if where else []
    sentences += [f"{count_with_noun(given, 'text')} {_was(given)} given with the claim."] if given else []
    return [
        *sentences,
        f"{count_with_noun(len(sources.pieces), 'passage')} {_was(len(sources.pieces))} found; "
        f"{len(sources.quoted) or 'none'} {_was(len(sources.quoted))} quoted.",
    ]


def _was(count: int) -> str:
    return "was" if count == 1 else "were"


def _citation_check(sources: Sources) -> str:
    """How many quotes were found in their sources, differ in typography, are not in their sources, or are invented."""
    cited = [c for turn in sources.document["turns"] for c in turn.get("citations") or []]
    if not cited:
        return "Nobody quoted anything."
    found = [c for c in cited if c["verified"]]
    invented = sum(c["fabricated"] for c in cited)
    missing = len(cited) - len(found) - invented
    differ = sum(map(sources.differs_in_typography, found))
    text = f"{count_with_noun(len(cited), 'quote')} checked: {len(found)} found in "
    text += f"{'its' if len(found) == 1 else 'their'} source"
    text += f", {differ} of them in other typography (quotation marks, dashes, spaces)." if differ else "."
    text += f" {missing} {'is' if missing == 1 else 'are'} not in the source in these words." if missing else ""
    if not invented:
        return f"{text} None was invented."
    if invented == 1:
        return f"{text} 1 was invented: it names a source that the agent was not shown."
    return f"{text} {invented} were invented: they name sources that the agents were not shown."


def _other_warnings(document: Document, names: Names, sources: Sources) -> list[tuple[str, Any, int]]:
    """The warnings that are not shown with the verdict, and all warnings on replaced or failed sources.

    Each warning has its words, its details and its count.
    """
    beside = [(one["kind"], one["detail"]) for one in caveats(document) if one["kind"] not in REPLACED_SOURCES]
    warned = [(one["kind"], one["detail"]) for one in document["warnings"]]
    found = Counter(one for one in warned if one not in beside)
    return [
        (words_for("warning", kind), sources.numbered(names.with_names(plain(in_words(detail)))), count)
        for (kind, detail), count in found.items()
    ]


# --- templates --------------------------------------------------------------------------------------------------------


def escaped(text: object) -> str:
    """A text that Markdown shows unchanged, in one line."""
    line = " ".join(clean(str(text)).split())
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return MARKUP.sub(r"\\\g<0>", line)


def styles() -> str:
    """The style sheet of a report."""
    look = files("moot.transcript").joinpath("look")
    return "\n".join(look.joinpath(name).read_text(encoding="utf-8") for name in ("tokens.css", "report.css"))


@lru_cache(maxsize=1)
def _templates() -> Any:
    from jinja2 import Environment, PackageLoader

    environment = Environment(
        loader=PackageLoader("moot.transcript", "look"),
        autoescape=lambda name: name is not None and name.endswith(".html"),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["md"] = escaped
    environment.filters["around_quotes"] = around_quotes
    environment.globals["style"] = styles()
    return environment
