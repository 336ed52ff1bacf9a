"""What a report says of editors: the stage of the check, their rating and words, corrections, and who decided."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from moot.core.reviews import DEFAULT_SCALE, History, Scale, Stage, changes
from moot.transcript.language import day_in_words, listed, t
from moot.transcript.report.head import NO_EDITOR, Chip
from moot.transcript.report.sources import Sources, plain

KINDS = {"supported": "sup", "refuted": "ref", "not enough": "nee", "conflicting": "con"}
"""The kind of answer, which sets shape and colour, that a step of a house's scale is tied to."""
STAGES: dict[Stage, tuple[str, str]] = {
    "new": ("new", "Not reviewed"),
    "in_review": ("rev", "In review"),
    "approved": ("app", "Approved"),
    "corrected": ("cor", "Corrected"),
    "withdrawn": ("wd", "Withdrawn"),
}
"""The icon of each stage, and its words."""
CITED = re.compile(r"\s*\[(\d{1,3})\]")
"""A source's number in a text of an editor, as the report has it."""

Parts = list[tuple[str, int | None]]
"""A text in parts: each is a text, or the number of a source with an empty text."""


@dataclass(frozen=True)
class Review:
    """What editors decided about a check, and which version of the check (the id of its document) a report shows.

    ``fault`` says that the history was changed by hand.
    """

    history: History = field(default_factory=History)
    document: str = ""
    scale: Scale = DEFAULT_SCALE
    fault: str = ""

    @property
    def of_version(self) -> History:
        """The history, if it is about this version; else an empty one."""
        return self.history.of_version(self.document)

    @property
    def has_begun(self) -> bool:
        """Whether editors have begun with this version: a summary would change the numbers of the sources they cite."""
        return any(entry.document == self.document for entry in self.history)


@dataclass(frozen=True)
class Reviewed:
    """A review in words. What does not apply is empty."""

    stage: Stage
    icon: str
    words: str  # the stage's
    note: str  # beside the machine's verdict: who has looked at it
    footer: str
    dated: str = ""  # when it was approved, corrected or withdrawn
    rating: Chip | None = None
    rated: str = ""  # the rating as it is shown: in quotation marks without a kind of answer
    means: str = ""
    title: str = ""
    summary: list[Parts] = field(default_factory=list)  # paragraphs, as are those of the context
    context: list[Parts] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)  # corrections, or why it was withdrawn
    approved_by: str = ""
    answers_for: list[str] = field(default_factory=list)
    changes: list[tuple[str, str]] = field(default_factory=list)

    @property
    def is_decided(self) -> bool:
        """Whether the report has the editor's words."""
        return self.rating is not None


def rating_chip(rating: str, scale: Scale) -> Chip:
    """A rating as a chip: with shape and colour if its step is tied to an answer, else as a text in ink."""
    step = scale.find(rating)
    kind = KINDS[step.answer] if step and step.answer else "text"
    return Chip(kind, rating_in_words(rating, scale))


def rating_in_words(rating: str, scale: Scale) -> str:
    """A rating for readers: a house's own in its words, one of moot's scale in the current language."""
    return plain(t(rating) if scale == DEFAULT_SCALE and scale.find(rating) else rating)


def in_report(review: Review, document: Mapping[str, Any], sources: Sources) -> Reviewed:
    """A review as the report of a document says it."""
    history, made = review.of_version, _day(datetime.fromisoformat(document["started_at"]))
    icon, words = STAGES[history.stage]
    same: dict[str, Any] = {"stage": history.stage, "icon": icon, "words": t(words)}
    if review.fault:
        by_hand = t("Its review history was changed by hand, so no words of an editor are shown.")
        return Reviewed("new", "warn", t("History changed by hand"), by_hand, by_hand)
    last, settled = history.last, history.settled
    if last is None or settled is None:
        unreviewed = t("Machine check, {date}. Not reviewed by an editor.", date=made)
        return Reviewed(**same, note=f"{t(NO_EDITOR)}{_other_version(review.history)}", footer=unreviewed)
    if history.stage == "in_review":
        footer = t("Machine check, {date}. In review, not approved.", date=made)
        note = t("An editor is reviewing it; nothing is approved yet.")
        return Reviewed(**same, note=note, footer=footer, changes=_changes(history, review.scale))
    approvals = [one for one in history if one.action == "approve"]
    approved, changed = approvals[-1], _day(settled.at)
    first = _day(approved.at)
    facts: dict[str, Any] = {**same, "note": "", "changes": _changes(history, review.scale)}
    if history.stage == "withdrawn":
        dated = t("{date}, withdrawn {withdrawn}", date=first, withdrawn=changed)
        was = t(
            "We rated this “{rating}” until {date}. That rating no longer holds.",
            rating=rating_in_words(settled.rating, review.scale),  # a draft may have another one
            date=changed,
        )
        why = (t("Withdrawn, {date}.", date=changed), plain(settled.to_readers))
        footer = t("Approved {date}, withdrawn {withdrawn}.", date=first, withdrawn=changed)
        return Reviewed(**facts, dated=dated, means=was, notes=[why], footer=footer)
    dated, footer = first, t("Approved {date}.", date=first)
    if history.stage == "corrected":
        dated = t("{date}, corrected {corrected}", date=first, corrected=changed)
        footer = t("Approved {date}, corrected {corrected}.", date=first, corrected=changed)
    chip, step = rating_chip(settled.rating, review.scale), review.scale.find(settled.rating)
    answers_for = [t("{name} decided, {date}.", name=plain(settled.person), date=changed)]
    if last.look_again:
        answers_for.append(t("We look at the sources again on {date}.", date=_day(last.look_again)))
    since = [one for one in history if one.number > approved.number and one.action == "correct"]
    return Reviewed(
        **facts,
        footer=footer,
        dated=dated,
        rating=chip,
        rated=t("“{answer}”", answer=chip.word) if chip.kind == "text" else chip.word,
        means=plain(step.about) if step else "",
        title=plain(settled.title),
        summary=_paragraphs(settled.summary, sources),
        context=_paragraphs(settled.context, sources),
        notes=[(t("Correction, {date}.", date=_day(one.at)), plain(one.to_readers)) for one in reversed(since)],
        approved_by=t("Checked and approved by {name}, {date}.", name=plain(approved.person), date=first),
        answers_for=answers_for,
    )


def written_summary(document: Mapping[str, Any]) -> str:
    """The machine's summary for readers with the report's numbers of sources, from which an editor may start."""
    found = document.get("reader_summary") or {"sentences": []}
    mentioned = [c["evidence_id"] for one in found["sentences"] for c in one["citations"]]
    numbers = Sources(document, mentioned).numbers
    sentences = []
    for one in found["sentences"]:
        cited = dict.fromkeys(numbers[c["evidence_id"]] for c in one["citations"])
        sentences.append(" ".join([plain(one["text"]), *(f"[{number}]" for number in cited)]))
    return " ".join(sentences)


def _other_version(history: History) -> str:
    if (settled := history.settled) is None:
        return ""
    _, words = STAGES[history.stage]
    said = t("An editor decided about another version of this check on {date}:", date=_day(settled.at))
    return f" {said} {t(words)}."


def _changes(history: History, scale: Scale) -> list[tuple[str, str]]:
    """When and what an editor decided, newest first; without drafts, plans and notes."""
    found = []
    rating = ""
    for entry, changed in zip(history, changes(history), strict=True):
        name, rated = plain(entry.person), rating_in_words(entry.rating, scale)
        if entry.action == "approve":
            said = t("Approved by {name}: “{rating}”.", name=name, rating=rated)
        elif entry.action == "withdraw":
            said = t("Withdrawn by {name}.", name=name)
        elif entry.action == "correct":
            fields = {"title": t("title"), "summary": t("summary"), "context": t("context")}
            named = [words for name_, words in fields.items() if name_ in changed]
            if rating != rated:
                named.insert(0, t("rating, from “{before}” to “{after}”", before=rating, after=rated))
            said = t("Corrected by {name}.", name=name)
            said += f" {t('Changed: {fields}.', fields=listed(named))}" if named else ""
        else:
            continue
        rating = rated
        found.append((_day(entry.at), said))
    return found[::-1]


def _paragraphs(text: str, sources: Sources) -> list[Parts]:
    """An editor's text in paragraphs; a number of one of the report's sources in brackets becomes a citation."""
    known = {*sources.numbers.values()}
    paragraphs = []
    for paragraph in filter(str.strip, re.split(r"\n\s*\n", text)):
        parts, at = Parts(), 0
        for found in CITED.finditer(paragraph):
            if int(found[1]) in known:
                parts += [(_within(paragraph[at : found.start()]), None), ("", int(found[1]))]
                at = found.end()
        parts.append((_within(paragraph[at:]), None))
        paragraphs.append([part for part in parts if part != ("", None)])
    return paragraphs


def _within(text: str) -> str:
    """A part of a paragraph; a space before it, after a citation, stays."""
    return f"{' ' * text[:1].isspace()}{plain(text)}"


def _day(at: date | datetime) -> str:
    return day_in_words(f"{at:%Y-%m-%d}")
