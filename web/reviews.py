"""Editors' decisions about stored checks, and what reports, lists and tables say of them. Everything here blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from moot.core.config import value_of
from moot.core.errors import UserError
from moot.core.reviews import (
    DECIDED,
    DEFAULT_SCALE,
    FROM,
    Action,
    Entry,
    History,
    Scale,
    add_entry,
    histories,
    history_of,
    house_scale,
    in_words,
    next_entry,
)
from moot.core.store import existing_store, open_store
from moot.transcript.document import checked_parts
from moot.transcript.report.claim_review import claim_review
from moot.transcript.report.head import warnings_of_verdict
from moot.transcript.report.names import Names
from moot.transcript.report.report import report
from moot.transcript.report.reviewed import CITED, Review, rating_chip, rating_in_words
from moot.transcript.report.sources import passage_named, sources_of
from moot.web import debates
from moot.web.kept import Document, current_user, may_approve

FOR_APPROVERS: tuple[Action, ...] = ("approve", "correct", "withdraw")
"""What only those may do whom the operator of a service names."""
MAY_NOT = (
    "You may not {action} checks here. Save a draft: the check is then in review, and those who may approve it see it. "
    "The operator of this server says who may (`approves` in the file of users)."
)
NOT_ENDED = (
    "This check has no end yet, so its document may still change: nothing is approved. Resume it, or check the claim "
    "again."
)
MAY_NOT_DELETE = "An editor has decided about this check: only those who may approve checks here can delete it."


# --- decisions --------------------------------------------------------------------------------------------------------


def decide(
    stem: str, action: Action, change: Mapping[str, Any], *, person: str | None = None, based_on: int | None = None
) -> History:
    """Adds an editor's decision about a stored check (the id of its document) to its history.

    The person is the user of a service, else the one named here, else ``editor`` in the configuration. Whoever approves
    or corrects names each warning of the verdict as acknowledged.
    """
    if action == "recheck":
        raise UserError(
            "A check is looked at again by `moot recheck`, or by the button on the page.", kind="bad_request"
        )
    if action in FOR_APPROVERS and not may_approve.get():
        raise UserError(MAY_NOT.format(action=action), kind="not_allowed")
    document, store, check = debates.load(stem), open_store(), debates.check_of(stem)
    written = dict(change)
    if action == "comment":
        with checked_parts():
            written["passage"] = passage_named(document, str(written.get("passage", "")))
    if written.get("rating"):
        written["rating"] = house_scale().step(str(written["rating"])).rating
    about: dict[str, Any] = {"debate": check, "document": stem}
    about["person"] = current_user.get() or person or value_of("editor") or ""
    before = history_of(store, check)
    words = before.written
    if words and words.document != stem and action in ("save", "approve", "correct") and before.stage in FROM[action]:
        _check_numbers(words, document, written)
        written.setdefault("acknowledged", ())  # what was acknowledged were warnings of another version
    if action in ("approve", "correct") and based_on in (None, len(before)):
        if document["status"] != "done":
            raise UserError(NOT_ENDED, kind="bad_request")
        entry = next_entry(before, action, written, **about)
        _check_acknowledged(document, entry, written.get("acknowledged", ()))
    return add_entry(store, action, written, based_on=based_on, **about)


def _check_numbers(words: Entry, document: Document, written: Mapping[str, Any]) -> None:
    """Refuses words of another version that stay as they are, but whose numbers name other sources in this one."""
    with checked_parts():
        here = {number: id for id, number in sources_of(document).numbers.items()}
        other = debates.load(words.document) if debates.has_document(words.document) else None
        there = {number: id for id, number in sources_of(other).numbers.items()} if other else {}
    for name in ("summary", "context"):
        cited = [] if name in written else [int(number) for number in CITED.findall(getattr(words, name))]
        if moved := [number for number in cited if here.get(number) != there.get(number)]:
            raise UserError(
                f"The {name} was written for another version of this check, in which [{moved[0]}] is another source. "
                f"Look at the sources of this version, and give the {name} anew (`{name}`; as an option: --{name}).",
                kind="bad_request",
            )


def _check_acknowledged(document: Document, entry: Entry, named: Sequence[str]) -> None:
    """Checks that each warning of the verdict is acknowledged, and that no others are named."""
    with checked_parts():
        kinds = dict.fromkeys(one.kind for one in warnings_of_verdict(document, Names(document)))
    if left := [kind for kind in kinds if kind not in entry.acknowledged]:
        raise UserError(
            f"The verdict has warnings that are not acknowledged: {', '.join(left)}. Read them in the report. To "
            f"decide in spite of them, name them: {' '.join(f'--acknowledge {kind}' for kind in left)}.",
            kind="bad_request",
        )
    if others := [kind for kind in named if kind not in kinds]:
        raise UserError(
            f"The verdict has no warning {', '.join(others)}. Its warnings: {', '.join(kinds) or 'none'}.",
            kind="bad_request",
        )


def check_deletable(stem: str) -> None:
    """Refuses to delete a check that was approved, for those who may not approve."""
    if may_approve.get() or not debates.has_document(stem):
        return
    if any(entry.stage in DECIDED for entry in history_of(open_store(), debates.check_of(stem))):
        raise UserError(MAY_NOT_DELETE, kind="not_allowed")


# --- reports ----------------------------------------------------------------------------------------------------------


def review_of(stem: str) -> Review:
    """What editors decided about a stored document, for its report; UserError if the history was changed by hand."""
    return Review(history_of(open_store(), debates.check_of(stem)), stem, house_scale())


def review_of_file(document: Document) -> Review:
    """The same for a document from a file, if it is stored here, too."""
    stem = debates.stored_as(document)
    if stem is None:
        return Review()
    review = review_of(stem)
    if review.has_begun and document.get("reader_summary") != debates.load(stem).get("reader_summary"):
        raise UserError(
            "An editor has reviewed this check as it is stored here. The file has another summary, so its sources have "
            f"other numbers than the editor cites. Write the report of the stored check: `moot report {stem}`.",
            kind="bad_request",
        )
    return review


def report_of(stem: str, kind: str, language: str | None = None) -> str:
    """The report of a stored document with the editor's words."""
    return report(debates.load(stem), kind, language, review_of(stem))


def claim_review_of(stem: str, publisher: str, url: str, *, unreviewed: bool) -> str:
    """The ClaimReview of a stored document."""
    history = review_of(stem).of_version
    return claim_review(debates.load(stem), publisher, url, history, unreviewed=unreviewed)


# --- lists and tables -------------------------------------------------------------------------------------------------


def in_lists(stems: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What lists say of the reviews of documents, by id.

    Each has the ``stage``; if somebody looked at it, ``person`` and ``at``; if it is decided, ``rating``, its ``chip``,
    ``title`` and ``summary``; if it is withdrawn, the rating that it had as ``was``. A history that was changed by hand
    is a ``fault``.
    """
    store = existing_store()
    if store is None or not stems:
        return {}
    checks = debates.checks_of(stems)
    found = histories(store, [*checks.values()])
    scale = house_scale() if found else DEFAULT_SCALE
    return {stem: _in_list(found.get(check, History()), stem, scale) for stem, check in checks.items()}


def _in_list(found: History | UserError, stem: str, scale: Scale) -> dict[str, Any]:
    if isinstance(found, UserError):
        return {"stage": "damaged", "fault": found.detail}
    history = found.of_version(stem)
    about: dict[str, Any] = {"stage": history.stage}
    if settled := history.settled:
        about |= {"person": settled.person, "at": settled.at.isoformat()}
    if entry := history.decided:
        about |= {"rating": entry.rating, "title": entry.title, "summary": entry.summary}
        about["chip"] = asdict(rating_chip(entry.rating, scale))
    elif settled and history.stage == "withdrawn":
        about["was"] = rating_in_words(settled.rating, scale)
    return about


def of_debates(keys: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What lists say of the review of the last document of each debate that has one, by the debate's id."""
    if existing_store() is None:
        return {}
    last = {debate: stem for debate, (stem, _) in debates.last_documents(keys).items()}
    found = in_lists([*last.values()])
    return {debate: found[stem] for debate, stem in last.items() if stem in found}


def stage_in_words(review: Mapping[str, Any]) -> str:
    """The stage of a review in a list or a table."""
    special = {"new": "not reviewed", "damaged": "history changed by hand"}
    return special.get(review["stage"]) or in_words(review["stage"])


def standing(history: History) -> str:
    """The stage of a check in a sentence, with our rating if there is one."""
    settled, decided = history.settled, history.decided
    if settled is None:
        return "Not reviewed."
    ours = f"Our rating: {decided.rating}. " if decided else ""
    return f"{ours}{in_words(history.stage).capitalize()}, {settled.person}, {moment(settled)}."


def moment(entry: Entry) -> str:
    """When an entry was made."""
    return f"{entry.at:%Y-%m-%d %H:%M} UTC"


def cells_of_review(review: Mapping[str, Any]) -> dict[str, Any]:
    """The cells of a table's columns on a review."""
    return {
        "review": stage_in_words(review),
        "editor": review.get("person"),
        **{name: review.get(name) for name in ("rating", "title", "summary")},
    }
