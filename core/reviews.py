"""What editors decide about a check: a history to which entries are only added (`History`), each with its hash."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import sqlalchemy as sa
from moot.core.config import value_of
from moot.core.errors import UserError, did_you_mean
from moot.core.store import Store, in_parts
from moot.core.tables import documents, reviews
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic_core import ErrorDetails

Stage = Literal["new", "in_review", "approved", "corrected", "withdrawn"]
"""The state of a check; ``new`` is that of a check without a history."""
STAGES: tuple[Stage, ...] = get_args(Stage)
Action = Literal["save", "approve", "correct", "withdraw", "plan", "comment", "recheck"]
"""What an editor does: saves a draft, approves, corrects or withdraws, plans when to look at the check again, comments
on a passage, or looks again (`moot recheck`)."""
AFTER: dict[Action, Stage] = {
    "save": "in_review",
    "approve": "approved",
    "correct": "corrected",
    "withdraw": "withdrawn",
}
FROM: dict[Action, tuple[Stage, ...]] = {
    "save": ("new", "in_review", "withdrawn"),
    "approve": ("new", "in_review", "withdrawn"),
    "correct": ("approved", "corrected"),
    "withdraw": ("approved", "corrected"),
    **dict.fromkeys(("plan", "comment", "recheck"), get_args(Stage)),
}
"""The stages in which each action is possible."""
DECIDED: tuple[Stage, ...] = ("approved", "corrected")
"""The stages in which a check has the editor's words."""

LONGEST_NAME = 200
"""Maximum number of characters of a person's name."""
Line = Annotated[str, StringConstraints(strip_whitespace=True, max_length=300)]
Words = Annotated[str, StringConstraints(strip_whitespace=True, max_length=10_000)]


class Decision(BaseModel):
    """What an editor writes; empty texts are not written."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rating: Line = ""  # in the words of the house's scale
    title: Line = ""
    summary: Words = ""  # for readers
    context: Words = ""  # for readers
    to_readers: Words = ""  # why the check was corrected or withdrawn
    note: Words = ""  # among editors; never for readers
    acknowledged: tuple[Line, ...] = Field(default=(), max_length=100)  # the kinds of warnings passed over knowingly
    look_again: date | None = None


Found = Literal["unchanged", "text_changed", "passage_gone", "page_gone", "retracted", "not_read"]
"""What became of a cited page: the same text; another text with the same quote; without the quote; no page at its
address any more; the page of a retracted work; a page that could not be read, so that nothing is known."""


class Finding(BaseModel):
    """What became of a quote, and of the page that it is from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    passage: Line  # the id of the piece of evidence
    quote: Words
    found: Found
    decides: bool  # whether the verdict cites the quote
    detail: Words = ""  # what was seen, in a sentence
    now: Words = ""  # the sentences of the page that are nearest to a quote that is gone
    sha256: Line = ""  # of the page as it was read now


class Entry(Decision):
    """One entry of a history: the whole decision after a change, who made it and when."""

    debate: str
    number: int  # from 1
    action: Action
    stage: Stage
    person: str
    at: datetime
    document: str  # the id of the document, that is the version of the check, that was reviewed
    before: str  # the hash of the entry before; empty for the first
    passage: Line = ""  # the id of the piece of evidence on which the note comments
    found: tuple[Finding, ...] = Field(default=(), max_length=10_000)  # by looking again
    version: Line = ""  # the id of the document that debates the check anew

    @property
    def hash(self) -> str:
        """The SHA-256 of the entry as JSON, with that of the entry before in it."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()


class History(tuple[Entry, ...]):
    """All entries about a check, oldest first."""

    @property
    def stage(self) -> Stage:
        """The check's stage."""
        return self[-1].stage if self else "new"

    @property
    def last(self) -> Entry | None:
        """The last entry; None for a check that nobody has looked at."""
        return self[-1] if self else None

    @property
    def settled(self) -> Entry | None:
        """The last entry that decided something: not one that plans, comments, looks again or leaves it withdrawn."""
        return next((entry for entry in reversed(self) if AFTER.get(entry.action) == entry.stage), None)

    @property
    def written(self) -> Entry | None:
        """The last entry in which an editor wrote words; they name sources of its document."""
        return next((entry for entry in reversed(self) if entry.action in ("save", "approve", "correct")), None)

    @property
    def decided(self) -> Entry | None:
        """The entry whose words readers see; None unless the check is approved or corrected."""
        return self.settled if self.stage in DECIDED else None

    def of_version(self, document: str) -> History:
        """The history if its last decision is about this document, else an empty one.

        A check may have several documents, such as those of further branches. What an editor decided about one says
        nothing about the others.
        """
        return self if self.settled and self.settled.document == document else History()


CHANGES: dict[Action, tuple[str, ...]] = {
    "plan": ("look_again", "note"),
    "comment": ("note",),
    "recheck": ("look_again", "note"),
}
"""The fields that actions may change that decide nothing."""
OF_ENTRY: dict[Action, tuple[str, ...]] = {"comment": ("passage",), "recheck": ("found", "version")}
"""The fields of an entry that are no part of a decision, by the action that has them."""

# --- changes ----------------------------------------------------------------------------------------------------------


def next_entry(
    history: History, action: Action, change: Mapping[str, Any], *, debate: str, document: str, person: str
) -> Entry:
    """The entry that an action adds to a history; a UserError says why it cannot be added.

    ``change`` has the fields that differ from the last entry, and those of the entry alone (`OF_ENTRY`). A note and a
    sentence for readers belong to one entry.
    """
    if action not in FROM:
        raise UserError(f"There is no action {action!r}. Known: {', '.join(FROM)}.", kind="bad_request")
    if not person.strip():
        raise UserError(
            "Who decides? Name the person: --person NAME, or `moot config set editor NAME`.", kind="bad_request"
        )
    if history.stage not in FROM[action]:
        possible = [name for name, stages in FROM.items() if history.stage in stages]
        raise UserError(
            f"A check that is {in_words(history.stage)} cannot be {PAST[action]}. Possible: {', '.join(possible)}.",
            kind="bad_request",
        )
    before = history.last.model_dump(include=set(Decision.model_fields)) if history.last else {}
    values = {**before, "note": "", "to_readers": "", **change}
    others = sorted(change.keys() - {*CHANGES.get(action, change), *OF_ENTRY.get(action, ())})
    if others:
        raise UserError(f"The action {action} does not change {', '.join(others)}.", kind="bad_request")
    own = {name: values.pop(name) for name in OF_ENTRY.get(action, ()) if name in values}
    try:
        decision = Decision.model_validate(values)
    except ValidationError as error:
        raise UserError(f"{'; '.join(map(_fault, error.errors()[:5]))}.", kind="bad_request") from error
    check_complete(action, decision)
    if decision.look_again != (history.last and history.last.look_again):
        _check_ahead(decision.look_again)
    if len(person) > LONGEST_NAME:
        raise UserError(f"The person's name may have at most {LONGEST_NAME} characters.", kind="bad_request")
    return Entry(
        **decision.model_dump(),
        **own,
        debate=debate,
        number=len(history) + 1,
        action=action,
        stage=stage_after(action, history.stage),
        person=person.strip(),
        at=datetime.now(UTC).replace(microsecond=0),
        document=document,
        before=history.last.hash if history.last else "",
    )


def _fault(error: ErrorDetails) -> str:
    name = ".".join(map(str, error["loc"]))
    if name == "look_again":
        return f"`{name}` must be a day such as 2030-01-31, not {error['input']!r}"
    return f"{name}: {error['msg']}"


def stage_after(action: Action, stage: Stage) -> Stage:
    """The stage of a check after an action; a draft leaves a check withdrawn, so that readers still see that it is."""
    return stage if (action, stage) == ("save", "withdrawn") else AFTER.get(action, stage)


PAST: dict[Action, str] = {
    "save": "saved as a draft",
    "approve": "approved",
    "correct": "corrected",
    "withdraw": "withdrawn",
    "plan": "planned",
    "comment": "commented on",
    "recheck": "looked at again",
}


def in_words(stage: Stage) -> str:
    """A stage in words."""
    return stage.replace("_", " ")


def check_complete(action: Action, decision: Decision) -> None:
    """Checks that a decision has what its action needs."""
    if action in ("approve", "correct") and not (decision.rating and decision.summary):
        missing = [name for name in ("rating", "summary") if not getattr(decision, name)]
        raise UserError(f"Readers need {' and '.join(f'a {name}' for name in missing)}.", kind="bad_request")
    if action in ("correct", "withdraw") and not decision.to_readers:
        raise UserError(
            "Say to readers why, in a sentence (`to_readers`): a correction or withdrawal is shown to them.",
            kind="bad_request",
        )
    if action == "plan" and decision.look_again is None:
        raise UserError("Name the day on which to look again (`look_again`).", kind="bad_request")
    if action == "comment" and not decision.note:  # of which passage, `moot.web.reviews.decide` checks
        raise UserError("A comment needs a text.", kind="bad_request")


def _check_ahead(day: date | None) -> None:
    """Refuses a day to look again that has passed everywhere on earth."""
    if day is not None and day < (datetime.now(UTC) - timedelta(hours=12)).date():
        raise UserError(f"The day on which to look again, {day}, has passed. Name a later one.", kind="bad_request")


def changes(history: Sequence[Entry]) -> list[dict[str, tuple[Any, Any]]]:
    """For each entry, the fields that it changed, each with the value before and after."""
    empty = Decision().model_dump(mode="json")
    states = [empty, *(entry.model_dump(mode="json", include=set(Decision.model_fields)) for entry in history)]
    return [{name: (old[name], new[name]) for name in new if old[name] != new[name]} for old, new in pairwise(states)]


# --- the store --------------------------------------------------------------------------------------------------------


def history_of(store: Store, debate: str) -> History:
    """The history of a check; a UserError if it was changed by hand; blocking."""
    return store.do(lambda connection: _read(connection, debate), is_lookup=True)


def add_entry(
    store: Store,
    action: Action,
    change: Mapping[str, Any],
    *,
    debate: str,
    document: str,
    person: str,
    based_on: int | None = None,
) -> History:
    """Adds an entry to a check's history, and returns the history; blocking.

    ``based_on`` is the number of the last entry that the person has seen: if there is a newer one, nothing is added,
    and the error says who added it. Without it, the newest counts as seen.
    """

    def add(connection: sa.Connection) -> History:
        store.lock(connection, f"review {debate}")
        history = _read(connection, debate)
        if based_on is not None and based_on != len(history):
            since = history[based_on:]
            who = ", ".join(f"{one.person} ({PAST[one.action]}, {one.at:%Y-%m-%d %H:%M} UTC)" for one in since)
            raise UserError(
                f"The check was changed since you opened it, by {who or 'somebody'}. Look at it again, then decide.",
                kind="review_conflict",
            )
        entry = next_entry(history, action, change, debate=debate, document=document, person=person)
        _insert(connection, entry)
        return History([*history, entry])

    return store.do(add)


def join_history(store: Store, connection: sa.Connection, debate: str, history: History) -> int:
    """Adds to a check's history the entries of a longer one that begins with it; returns their number; blocking.

    Nothing is added to a longer one. Of two histories that went on apart, neither is changed: that is a UserError.
    """
    store.lock(connection, f"review {debate}")
    here = _read(connection, debate)
    same = sum(1 for _ in takewhile(lambda pair: pair[0].hash == pair[1].hash, zip(here, history, strict=False)))
    if same < min(len(here), len(history)):
        ours, theirs = here[same], history[same]
        raise UserError(
            f"Its history and the one here went on apart at entry {same + 1}: here {ours.person} ({PAST[ours.action]}, "
            f"{ours.at:%Y-%m-%d %H:%M} UTC), there {theirs.person} ({PAST[theirs.action]}, "
            f"{theirs.at:%Y-%m-%d %H:%M} UTC). Nothing of this check was added. To keep both, import it under another "
            "MOOT_HOME.",
            kind="review_conflict",
        )
    for entry in history[same:]:
        _insert(connection, entry)
    return len(history) - same if len(history) > len(here) else 0


def _insert(connection: sa.Connection, entry: Entry) -> None:
    row: dict[str, Any] = {"debate": entry.debate, "number": entry.number, "stage": entry.stage, "hash": entry.hash}
    row |= {"look_again": entry.look_again and entry.look_again.isoformat(), "entry": entry.model_dump_json()}
    connection.execute(sa.insert(reviews).values(**row))


def _read(connection: sa.Connection, debate: str) -> History:
    rows = connection.execute(sa.select(reviews).where(reviews.c.debate == debate).order_by(reviews.c.number)).all()
    return checked_history([(row.entry, row.hash) for row in rows], debate)


def checked_history(stored: Sequence[tuple[str, str]], debate: str) -> History:
    """A history from its entries as JSON, each with its hash; a UserError names the first that does not fit."""
    entries: list[Entry] = []
    for number, (text, stored_hash) in enumerate(stored, 1):
        try:
            entry = Entry.model_validate_json(text)
        except ValidationError as error:
            raise _changed(debate, number) from error
        is_next = entry.number == number and entry.debate == debate
        if not is_next or entry.before != (entries[-1].hash if entries else "") or entry.hash != stored_hash:
            raise _changed(debate, number)
        _check_follows(entry, entries[-1].stage if entries else "new")
        entries.append(entry)
    return History(entries)


def _check_follows(entry: Entry, stage: Stage) -> None:
    """Checks that an entry can follow this stage, and is complete: a history from outside may say anything."""
    try:
        check_complete(entry.action, entry)
        fits = stage in FROM[entry.action] and entry.stage == stage_after(entry.action, stage)
    except UserError:
        fits = False
    if not fits or not 0 < len(entry.person.strip()) <= LONGEST_NAME:
        raise UserError(
            f"The history of the check {entry.debate} was changed by hand: its entry {entry.number} does not follow "
            "from those before it. Restore it from a copy of the store.",
            kind="damaged_store",
        )


def _changed(debate: str, number: int) -> UserError:
    return UserError(
        f"The history of the check {debate} was changed by hand: its entry {number} does not fit its hash. Restore it "
        "from a copy of the store.",
        kind="damaged_store",
    )


def histories(store: Store, debates: Sequence[str]) -> dict[str, History | UserError]:
    """The history of each of these checks that has one, by the check's id; blocking.

    In place of a history that was changed by hand, it has the error that says so: one such check hides no others.
    """

    def read(connection: sa.Connection) -> dict[str, History | UserError]:
        stored: dict[str, list[tuple[str, str]]] = {}
        for some in in_parts(debates):
            query = sa.select(reviews).where(reviews.c.debate.in_(some)).order_by(reviews.c.debate, reviews.c.number)
            for row in connection.execute(query):
                stored.setdefault(row.debate, []).append((row.entry, row.hash))
        return {debate: _history_or_fault(entries, debate) for debate, entries in stored.items()}

    return store.do(read, is_lookup=True)


def _history_or_fault(stored: Sequence[tuple[str, str]], debate: str) -> History | UserError:
    try:
        return checked_history(stored, debate)
    except UserError as error:
        return error


def due(store: Store, day: date) -> dict[str, History | UserError]:
    """The histories of those checks that somebody wants to look at again by a day, earliest first; see `histories`."""
    last = sa.select(reviews.c.debate, sa.func.max(reviews.c.number).label("number")).group_by(reviews.c.debate)
    newest = last.subquery()
    query = (
        sa.select(reviews.c.debate)
        .join(newest, (newest.c.debate == reviews.c.debate) & (newest.c.number == reviews.c.number))
        .where(reviews.c.look_again <= day.isoformat(), reviews.c.debate.in_(sa.select(documents.c.of_check)))
        .order_by(reviews.c.look_again, reviews.c.debate)
    )
    names = store.do(lambda connection: [row.debate for row in connection.execute(query)], is_lookup=True)
    found = histories(store, names)
    return {name: found[name] for name in names if name in found}


# --- the house's scale ------------------------------------------------------------------------------------------------


class Step(BaseModel):
    """A step of a house's scale."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rating: Annotated[Line, StringConstraints(min_length=1)]
    about: Line = ""
    answer: Literal["supported", "refuted", "not enough", "conflicting"] | None = None
    value: float | None = None  # the ratingValue of ClaimReview


class Scale(BaseModel):
    """A house's scale."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    steps: tuple[Step, ...] = Field(min_length=1, max_length=100)

    def find(self, rating: str) -> Step | None:
        """The step with this rating, in any case; None if the scale has none, as it may have changed since."""
        wanted = rating.strip().casefold()
        return next((step for step in self.steps if step.rating.casefold() == wanted), None)

    def step(self, rating: str) -> Step:
        """The step with this rating, in any case; a UserError names all ratings."""
        if step := self.find(rating):
            return step
        names = [step.rating for step in self.steps]
        raise UserError(
            f"The scale has no rating {rating!r}. {did_you_mean(rating, names)}Known: {', '.join(names)}.",
            kind="bad_request",
        )


DEFAULT_SCALE = Scale(
    steps=(
        Step(rating="True", answer="supported", value=5),
        Step(rating="Mostly true", value=4),
        Step(rating="Half true", answer="conflicting", value=3),
        Step(rating="Mostly false", value=2),
        Step(rating="False", answer="refuted", value=1),
        Step(rating="Unproven", answer="not enough"),
    )
)
"""The scale of a house that has named none."""


def house_scale() -> Scale:
    """The scale in the file that the configuration names as ``scale``, else `DEFAULT_SCALE`; blocking."""
    if not (name := value_of("scale")):
        return DEFAULT_SCALE
    file = Path(str(name)).expanduser()
    try:
        return Scale.model_validate(tomllib.loads(file.read_text(encoding="utf-8-sig")))
    except OSError as error:
        raise UserError(
            f"The scale {file} cannot be read ({error.strerror or error}). Restore the file, or name another one: "
            "`moot config set scale FILE`.",
            kind="invalid_file",
        ) from error
    except (ValueError, ValidationError) as error:
        raise UserError(
            f'The scale {file} needs [[steps]], each with rating = "..." and perhaps about, answer (supported, '
            f"refuted, not enough or conflicting) and value ({error}).",
            kind="invalid_file",
        ) from error


def as_plain(history: History) -> list[dict[str, Any]]:
    """The entries as plain values, with their hashes and what each changed."""
    return [
        {**json.loads(entry.model_dump_json()), "hash": entry.hash, "changes": changed}
        for entry, changed in zip(history, changes(history), strict=True)
    ]
