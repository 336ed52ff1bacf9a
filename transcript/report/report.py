"""A debate as a document for readers: HTML in one file without scripts, or Markdown.

This module combines the parts; the templates are in ``transcript/look``.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from moot.nodes._texts.plans import asked_in_vain, is_found_by, queries_of
from moot.nodes._texts.verdict import caveats
from moot.retrievers._evidence import GIVEN, clean
from moot.retrievers._normalise import WEB_SEARCHES
from moot.retrievers._pages import is_found_page
from moot.transcript.document import checked_parts, round_sections
from moot.transcript.language import (
    current_language,
    day_in_words,
    direction,
    language_of_claim,
    listed,
    speaking,
    t,
    time_in_words,
)
from moot.transcript.report import head
from moot.transcript.report.codes import NOT_SEARCHED, replaced_source_words, source_words, words_for
from moot.transcript.report.method import command, not_in_command, run_facts
from moot.transcript.report.names import Names
from moot.transcript.report.paper import MOST_QUOTES, fill_first_page, record_fits
from moot.transcript.report.passages import near_quotes, passage_link
from moot.transcript.report.record import Note, parts, timeline
from moot.transcript.report.reviewed import Review, in_report
from moot.transcript.report.sources import (
    SourceQuote,
    Sources,
    link_host,
    marks_of,
    plain,
    quoted_parts,
    shown_parts,
    sources_of,
    title_of,
    web_address,
)
from moot.transcript.templates import templates

Document = Mapping[str, Any]
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
MOST_ASKED = 6
"""Maximum number of queries that stand beside a verdict that the evidence is not enough; the record has all."""
LONGEST_TITLE = 120
"""Maximum number of characters of a page's title, and of a search query for past debates."""


@dataclass(frozen=True)
class Fact:
    """A label, and sentences on searches, gaps or failures. ``bad`` marks a failure."""

    name: str
    sentences: list[str]
    bad: bool = False


def report(document: Document, kind: str, language: str | None = None, review: Review | None = None) -> str:
    """A debate's report.

    Args:
        document: the result document; the debate may have failed or been interrupted. If the document has a key
            ``reader_summary``, the report contains the summary's sentences and stances.
        kind: ``html``, ``md``, or ``part``: only the body of the HTML, for a page with `styles` and ``icons.html``.
        language: a key of `LANGUAGES`; None for the claim's language, or the current one if the claim's is not certain
            or there are no texts in it.
        review: what editors decided about the check; None if nobody has reviewed it.

    Raises:
        UserError: this version does not know the debate's graph or settings, the document's parts are inconsistent,
            there are no texts in the language, or the file of prices cannot be read or is invalid.
    """
    with checked_parts(), speaking(language or language_of_claim(document["claim"])):
        values = _template_values(document, review or Review())
        name = "debate.html" if kind == "part" else f"report.{kind}"
        page: str = templates().get_template(name).render(values)
    return page


def _template_values(document: Document, review: Review) -> dict[str, Any]:
    names, summary = Names(document), document.get("reader_summary")
    sources = sources_of(document)
    day, time = time_in_words(datetime.fromisoformat(document["started_at"]))
    groups, context = head.groups_by_answer(document, sources), head.Group("")
    if summary:
        groups, context = head.groups_by_stance(summary, sources)
    context.on_paper = min(MOST_QUOTES, len(context.quotes))
    beside, below = head.sides_of(groups)
    said_none, dissent = head.dissent(document, names)
    sections = round_sections(document) if document["task"] else []
    record_parts = parts(document, sections, sources, names)
    claim, verdict, warned = (
        plain(document["claim"] or t("(no claim)")),
        head.verdict_of(document, names),
        head.verdict_warnings(document, names),
    )
    sentences = _sentences(summary, sources) if summary else []
    reasons = head.reasons(document, names)
    asked = _asked(document) if verdict.kind == "nee" else []
    why = [" ".join(text for text, _ in sentences)] if sentences else [f"{text} {who}" for who, text in reasons[:1]]
    reviewed = in_report(review, document, sources)
    if reviewed.is_decided:
        why = ["".join(text for text, _ in paragraph) for paragraph in reviewed.summary]
        fill_first_page(f"{reviewed.title} {claim}", verdict, reviewed.notes, [*why, *asked], beside, below)
    else:
        fill_first_page(claim, verdict, [*warned, *reviewed.notes], [*why, *asked], beside, below)
    answers = timeline(document, sections, names)
    quoted = [_source(sources, id, document) for id in sources.quoted]
    passages = ["".join(text for text, _ in one["parts"]) for one in quoted]
    return {
        "lang": current_language(),
        "direction": direction(),
        "document": document,
        "claim": claim,
        "title": (reviewed.title or plain(document["claim"] or t("A debate")))[:LONGEST_TITLE],
        "reviewed": reviewed,
        "machine": head.verdict_chip(document),
        "is_claim": not document["task"] or document["task"]["subject"] == "claim",
        "kicker": _title_line(document),
        "made_at": t("{date}, {time}", date=day, time=time),
        "said_by": _claim_origin(document),
        "appeared": _appearance(document),
        "verdict": verdict,
        "warned": warned,
        "summary": summary,
        "sentences": sentences,
        "left_out": _omitted_sentences(summary) if summary and sentences else "",
        "reasons": [(who, sources.numbered(plain(text))) for who, text in reasons],
        "asked": asked,
        "glance": _key_facts(document, sources),
        "beside": beside,
        "below": below,
        "place": lambda quote: _place(quote, sources, names),
        "assessed": any(quote.warrants for quote in sources.quotes),
        "sources": quoted,
        "context": context,
        "unknown": _not_found(document, summary),
        "others": [_source(sources, id, document) for id in sources.unquoted],
        "said_none": said_none,
        "dissent": dissent,
        "searched": _searched(document, sources, names),
        "checked": _citation_check(sources),
        "faulty": [(one, names(one.who)) for one in sources.faulty],
        "timeline": answers,
        "parts": record_parts,
        "brief": not record_fits(passages, len(answers.rows) if answers else 0, record_parts),
        "went_wrong": (wrong := _other_warnings(document, names, sources)),
        "is_mixed": any(note.language != current_language() for _, note, _ in wrong),
        "made": run_facts(document),
        "command": command(document) if document["task"] else "",
        "not_in_command": not_in_command(document),
    }


def _title_line(document: Document) -> str:
    """What was made and by whom, such as "Claim check by two language models"."""
    is_question = document["task"] and document["task"]["subject"] == "question"
    what = t("Answer") if is_question else t("Claim check")
    speakers = {turn["agent"] for turn in document["turns"] if turn["step"] in ("respond", "argue")}
    if document["graph"] == "proclaim":
        by = t("by a trial among language models")
    elif len(speakers) == 2:
        by = t("by two language models")
    else:
        by = t("by {count} language models", count=len(speakers)) if len(speakers) > 1 else t("by a language model")
    return f"{what} {by}"


def _claim_origin(document: Document) -> str:
    """Who said the claim, and when; empty for a question."""
    task = document["task"] or {}
    if task.get("subject") == "question":
        return ""
    who, when = plain(task.get("speaker") or ""), day_in_words(plain(task.get("claim_date") or ""))
    if who and when:
        return t("Said by {name} ({date}).", name=who, date=when)
    if who:
        return t("Said by {name}, date not given.", name=who)
    if when:
        return t("Date of the claim: {date}; by whom is not given.", date=when)
    return t("By whom and when it was said is not given.")


def _appearance(document: Document) -> dict[str, str] | None:
    """The page on which the claim appeared: its address, its host and its archived copy; None if it is not given."""
    address = web_address((document["task"] or {}).get("appeared_at"))
    copies = [web_address(one.get("archived")) for one in document["evidence"] if one.get("url") == address]
    archived = next(filter(None, copies), "")
    return {"address": address, "host": link_host(address), "archived": archived} if address else None


def _asked(document: Document) -> list[str]:
    """What was asked of the sources, each with the number of passages that were found; at most `MOST_ASKED`."""
    found: dict[str, set[str]] = {}
    known = {piece["id"]: piece for piece in document["evidence"]}
    for turn in document["turns"]:
        if turn.get("retrieval") in ("ok", "empty"):
            # An answer may also rest on texts that were given, and on passages that an earlier search found.
            ids = {id for id in turn["evidence_ids"] if turn["step"] != "respond" or is_found_by(turn, known[id])}
            for query in queries_of(turn):
                found.setdefault(plain(query), set()).update(ids)
    said = [t("“{query}” ({count} passages found)", query=query, count=len(ids)) for query, ids in found.items()]
    left = len(said) - MOST_ASKED
    return said[:MOST_ASKED] + ([t("{count} more queries, which are in the appendix", count=left)] if left > 0 else [])


def _place(quote: SourceQuote, sources: Sources, names: Names) -> dict[str, str]:
    """Where a quote stands, in words; the link to its passage, which is empty without a web address; and who quoted it.

    Who quoted it stands beside what it does for their answers, and is empty if that was not assessed.
    """
    piece = sources.pieces[quote.id]
    facts = [_publisher(piece)]
    if piece.get("page") is not None:
        facts.append(t("page {number}", number=plain(piece["page"])))
    who = listed(map(names, quote.who))
    does = t("Quoted by {names}: {words}.", names=who, words=quote.does) if quote.does else ""
    return {"where": ", ".join(facts), "link": _linked(piece, [(quote.start, quote.end)]), "does": does}


def _publisher(piece: Mapping[str, Any]) -> str:
    return t("given with the claim") if piece["source"] == GIVEN else plain(piece.get("publisher") or piece["source"])


def _linked(piece: Mapping[str, Any], spans: Iterable[tuple[int, int]]) -> str:
    """A link to passages of a page that was read, or to the page; empty without a web address."""
    address = web_address(piece.get("url"))
    return passage_link(address, piece["text"], spans) if address and piece.get("fetched") else address


def _not_found(document: Document, summary: Mapping[str, Any] | None) -> list[str]:
    """What is not known: what a summary says is missing, what was asked in vain, and the queries that found nothing."""
    empty = [t("The searches went on while the claim was open, but nothing that was found settles it.")] * bool(
        asked_in_vain(document)
    )
    empty += [
        t("“{query}” found nothing.", query=plain(query))
        for turn in document["turns"]
        if turn.get("retrieval") == "empty"
        for query in queries_of(turn)
    ]
    return list(dict.fromkeys([*(plain(one) for one in (summary or {}).get("not_found", [])), *empty]))


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
    return t("{count} more sentences were left out, as each must rest on a checked quote.", count=count)


def _key_facts(document: Document, sources: Sources) -> list[tuple[str, str, bool]]:
    """Facts beside the verdict, each as a name, a text, and whether the text reports a problem."""
    count = document["metrics"].get("citations") or {}
    facts = []
    if count.get("total"):
        found, total = count["verified"], count["total"]
        facts.append((t("Quotes found"), t("{part} of {whole}", part=found, whole=total), found < total))
    facts.append((t("Sources quoted"), str(len({one.id for one in sources.quotes})), False))
    kinds = Counter(one["kind"] for one in document["warnings"])
    if any(map(_replaces_web_search, document["corpora"])):
        facts.append((t("The web"), t("not searched"), True))
    elif kinds["stand_in"]:
        facts.append((t("A source"), t("was replaced"), True))
    if kinds["retrieval_failed"]:
        facts.append((t("A source"), t("failed"), True))
    return facts


def _source(sources: Sources, id: str, document: Document) -> dict[str, Any]:
    """The values of a source's entry in the report's list of sources."""
    piece = sources.pieces[id]
    whole = quoted_parts(piece, document)
    address, found = web_address(piece.get("url")), is_found_page(piece)
    host, publisher = link_host(piece.get("url")) if address else "", _publisher(piece)
    meta = [publisher if publisher != host else ""]
    meta.append(day_in_words(plain(piece["published"])) if piece.get("published") else t("date not given"))
    if piece.get("page") is not None:
        meta.append(t("page {number}", number=plain(piece["page"])))
    if piece.get("note"):
        meta.append(plain(piece["note"]))
    if piece.get("status"):
        meta.append(words_for("standing", piece["status"]))
    if piece.get("fetched"):
        meta.append(t("read {time}", time=format_time(piece["fetched"])))
    meta += [mark for mark in marks_of(piece) if mark not in meta]
    shown = shown_parts(piece, whole)
    linked = _linked(piece, [(one.start, one.end) for one in sources.quotes if one.id == id])
    return {
        "number": sources.numbers[id],
        "title": title_of(piece),
        "meta": [one for one in meta if one],
        "address": linked,
        "printed": address,
        "host": host,
        "no_link": plain(piece["url"])[:200] if piece.get("url") and not address else "",
        "parts": [(clean_part(text), quoted) for text, quoted in (near_quotes(whole) if found else shown)],
        "whole": [(clean_part(text), quoted) for text, quoted in whole] if piece.get("shown") and not found else [],
        "kept": found,
        "archived": web_address(piece.get("archived")),
        "length": len(piece["text"]),
        "notice": web_address(piece.get("retracted")),
        "weight": piece.get("weight"),
        "sha256": plain(piece.get("sha256") or ""),
    }


def format_time(text: str) -> str:
    """A time in ISO form in words, in UTC; any other text as `plain` shows it."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return plain(text)
    day, time = time_in_words(at)
    return t("{date}, {time}", date=day, time=time)


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


def _searched(document: Document, sources: Sources, names: Names) -> list[Fact]:
    """What was searched, and what was replaced, failed, was shortened or went wrong."""
    facts = [Fact(t("Searched"), _searched_sources(document, sources))]
    instead = dict.fromkeys(
        t(
            "{name} was meant to search the web; {source} was searched instead.",
            name=names(one["agent"]),
            source=source_words(one["retriever"]),
        )
        for one in document["corpora"]
        if _replaces_web_search(one)
    )
    failed = [head.failed_source_sentence(one) for one in document["warnings"] if one["kind"] == "retrieval_failed"]
    replacements = [
        replaced_source_words(plain(one["detail"])) for one in document["warnings"] if one["kind"] == "stand_in"
    ]
    failed += [sentence for lead, sentence in replacements if not instead or lead != t(NOT_SEARCHED)]
    if replaced := [*instead, *dict.fromkeys(map(names.with_names, map(plain, failed)))]:
        facts.append(Fact(t("Replaced or failed"), replaced, bad=True))
    cut = sum("shown" in piece or bool(piece.get("truncated")) for piece in document["evidence"])
    whole = len(sources.pieces)
    short = [t("{part} of {count} passages were shown in part.", part=cut, count=whole)] if cut else []
    kinds = Counter(one["kind"] for one in document["warnings"] if one["kind"] in SHORTENED)
    short += [words_for("warning", kind) for kind in kinds if kind not in ("evidence_cut",)]
    if short:
        facts.append(Fact(t("Shortened"), short))
    other = Counter(
        one["kind"]
        for one in document["warnings"]
        if one["kind"] not in (*REPLACED_SOURCES, *SHORTENED, *SHOWN_ELSEWHERE)
    )
    if other:
        sentences = [_times(words_for("warning", kind), count) for kind, count in other.items()]
        facts.append(Fact(t("Other notes"), sentences, bad=True))
    return facts


def _times(words: str, count: int) -> str:
    """A text that is said a number of times."""
    return words if count == 1 else t("{text} ({count} times)", text=words, count=count)


def _replaces_web_search(reading: Mapping[str, Any]) -> bool:
    """Whether a web search was requested, but another source was read, for example because no key was set."""
    return reading["requested"] == "web" and reading["retriever"] not in WEB_SEARCHES


def _searched_sources(document: Document, sources: Sources) -> list[str]:
    """Sentences on the searched sources, the given texts, and the numbers of passages found and quoted."""
    read = {source_words(one["retriever"]): one.get("passages") for one in document["corpora"]}
    if not read and not sources.pieces:
        if document["status"] != "done":
            return [t("Nothing before the debate ended.")]
        return [t("Nothing: this method answers from what the model knows.")]
    where = [
        name if count is None else f"{name} ({t('{count} passages', count=count)})" for name, count in read.items()
    ]
    searches = sum("retrieval" in turn for turn in document["turns"])
    given = sum(GIVEN in (r["retriever"] for r in piece["retrievals"]) for piece in sources.pieces.values())
    said = t("{sources}, in {count} searches.", sources=listed(where), count=searches)
    sentences = [f"{said[:1].upper()}{said[1:]}"] if where else []
    sentences += [t("{count} texts were given with the claim.", count=given)] if given else []
    found, quoted = len(sources.pieces), len(sources.quoted)
    return [*sentences, t("{count} passages were found, and {quoted} of them quoted.", count=found, quoted=quoted)]


def _citation_check(sources: Sources) -> str:
    """How many quotes were found in their sources, differ in typography, are not in their sources, or are invented."""
    cited = [c for turn in sources.document["turns"] for c in turn.get("citations") or []]
    if not cited:
        return t("Nobody quoted anything.")
    found = [c for c in cited if c["verified"]]
    invented = sum(c["fabricated"] for c in cited)
    missing = len(cited) - len(found) - invented
    said = [t("{count} quotes were checked, and {found} found in their source.", count=len(cited), found=len(found))]
    if differ := sum(map(sources.differs_in_typography, found)):
        said.append(t("{count} differ in typography alone (quotation marks, dashes, spaces).", count=differ))
    if missing:
        said.append(t("{count} are not in the source in these words.", count=missing))
    if invented:
        said.append(t("{count} were invented: they name sources that the agents were not shown.", count=invented))
    else:
        said.append(t("None was invented."))
    return " ".join(said)


def _other_warnings(document: Document, names: Names, sources: Sources) -> list[tuple[str, Note, int]]:
    """The warnings that are not shown with the verdict, and all warnings on replaced or failed sources.

    Each warning has its words, its details and its count.
    """
    said_above = [one for one in caveats(document) if head.caveat_sentence(document, one, names)]
    beside = [(one["kind"], one["detail"]) for one in said_above if one["kind"] not in REPLACED_SOURCES]
    warned = [(one["kind"], one["detail"]) for one in document["warnings"]]
    found = Counter(one for one in warned if one not in beside)
    told = {detail: head.in_reader_words(document, plain(detail), names) for _, detail in found}
    return [
        (words_for("warning", kind), Note(told[detail][1], sources.numbered(told[detail][0])), count)
        for (kind, detail), count in found.items()
    ]
