"""Editors' decisions: stages, complete decisions, two editors at once, and histories that were changed by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from moot.core.errors import UserError
from moot.core.reviews import (
    AFTER,
    DEFAULT_SCALE,
    FROM,
    Action,
    Entry,
    History,
    add_entry,
    changes,
    checked_history,
    history_of,
    house_scale,
    next_entry,
)
from moot.core.store import FileStore, Store
from moot.core.tables import reviews

DEBATE = "0" * 31 + "1"
FULL = {"rating": "False", "summary": "It is not so.", "to_readers": "We erred.", "look_again": "2999-01-01"}
ACTIONS: list[Action] = [*FROM]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return FileStore(tmp_path / "store.sqlite")


def decide(store: Store, action: Action, *, person: str = "Ada", based_on: int | None = None, **change: Any) -> History:
    return add_entry(store, action, change, debate=DEBATE, document="d", person=person, based_on=based_on)


@given(st.lists(st.sampled_from(ACTIONS), max_size=8))
def test_a_stage_follows_only_from_a_stage_before_it(actions: list[Action]) -> None:
    history = History()
    for action in actions:
        change = FULL if action in AFTER else {"note": "Why?", "look_again": "2999-03-01"}
        change = {"note": "Why?"} if action == "comment" else change
        if history.stage not in FROM[action]:
            with pytest.raises(UserError, match=history.stage.replace("_", " ")):
                next_entry(history, action, change, debate=DEBATE, document="d", person="Ada")
            continue
        entry = next_entry(history, action, change, debate=DEBATE, document="d", person="Ada")
        draft_of_withdrawn = (action, history.stage) == ("save", "withdrawn")
        assert entry.stage == ("withdrawn" if draft_of_withdrawn else AFTER.get(action, history.stage))
        history = History([*history, entry])
    assert (history.decided is not None) == (history.stage in ("approved", "corrected"))


@pytest.mark.parametrize(
    ("action", "change", "said"),
    [
        ("approve", {"rating": "False"}, "a summary"),
        ("approve", {"summary": "So."}, "a rating"),
        ("correct", {"rating": "True"}, "Say to readers why"),
        ("withdraw", {}, "Say to readers why"),
        ("plan", {}, "Name the day"),
        ("save", {"look_again": "1/2/2027"}, "must be a day such as 2030-01-31, not '1/2/2027'"),
        ("save", {"look_again": "2020-02-01"}, "2020-02-01, has passed"),
        ("save", {"ratings": "x"}, "ratings"),
        ("comment", {"note": ""}, "needs a text"),
        ("comment", {"note": "x", "rating": "True"}, "does not change rating"),
        ("plan", {"look_again": "2999-03-01", "summary": "x"}, "does not change summary"),
        ("publish", {}, "no action 'publish'"),
    ],
)
def test_what_a_decision_lacks_is_said(store: Store, action: Any, change: dict[str, Any], said: str) -> None:
    if action in ("correct", "withdraw"):
        decide(store, "approve", rating="False", summary="It is not so.")
    before = history_of(store, DEBATE)
    with pytest.raises(UserError, match=said):
        decide(store, action, **change)
    assert history_of(store, DEBATE) == before


def test_somebody_decides(store: Store) -> None:
    with pytest.raises(UserError, match="--person NAME"):
        decide(store, "save", person=" ", rating="False")


def test_a_draft_after_a_withdrawal_leaves_the_check_withdrawn_until_it_is_approved(store: Store) -> None:
    decide(store, "approve", rating="False", summary="It is not so.")
    decide(store, "withdraw", to_readers="We cannot say.")
    drafted = decide(store, "save", person="Bo", rating="True")
    assert (drafted.stage, drafted.settled) == ("withdrawn", drafted[1])
    approved = decide(store, "approve", person="Bo")
    assert (approved.stage, approved.decided) == ("approved", approved[3])
    assert approved[3].rating == "True"  # the draft's words are kept


def test_a_day_that_has_passed_since_it_was_named_stops_nothing(store: Store) -> None:
    history = History([Entry.model_validate({**decide(store, "save").last.model_dump(), "look_again": "2020-02-01"})])  # type: ignore[union-attr]
    kept = next_entry(history, "comment", {"note": "Why?", "passage": "1"}, debate=DEBATE, document="d", person="Bo")
    assert str(kept.look_again) == "2020-02-01"


def test_a_history_says_who_changed_what_from_what_to_what(store: Store) -> None:
    decide(store, "save", rating="Half true", note="Ask them.")
    decide(store, "approve", person="Bo", summary="It is so.", rating="True", look_again="2999-01-01")
    history = decide(store, "correct", rating="False", to_readers="We erred.")
    assert [(one.action, one.person, one.stage) for one in history] == [
        ("save", "Ada", "in_review"),
        ("approve", "Bo", "approved"),
        ("correct", "Ada", "corrected"),
    ]
    assert [one.get("rating") for one in changes(history)] == [
        ("", "Half true"),
        ("Half true", "True"),
        ("True", "False"),
    ]
    assert (history[1].note, history[2].summary) == ("", "It is so.")  # a note belongs to one entry
    assert history_of(store, DEBATE) == history


def test_the_second_of_two_editors_sees_what_the_first_did_and_decides(store: Store) -> None:
    decide(store, "save", based_on=0, rating="False")
    with pytest.raises(UserError, match="changed since you opened it, by Ada") as error:
        decide(store, "save", person="Bo", based_on=0, rating="True")
    assert error.value.kind == "review_conflict"
    assert decide(store, "save", person="Bo", based_on=1, rating="True").last.rating == "True"  # type: ignore[union-attr]


@pytest.mark.parametrize("place", [1, 2, 3])
@pytest.mark.parametrize("how", ["text", "hash", "gone"])
def test_a_history_that_was_changed_by_hand_is_noticed(store: Store, place: int, how: str) -> None:
    decide(store, "save", rating="False")
    decide(store, "approve", summary="It is not so.")
    decide(store, "correct", rating="True", to_readers="We erred.")
    row = reviews.c.number == place
    with_other = {"entry": sa.func.replace(reviews.c.entry, "Ada", "Eve"), "hash": "0" * 64}
    name = {"text": "entry", "hash": "hash"}.get(how)
    statement: Any = sa.delete(reviews).where(row)
    if name:
        statement = sa.update(reviews).where(row).values({name: with_other[name]})
    store.do(lambda connection: connection.execute(statement))
    if how == "gone" and place == 3:
        return  # the last entry is not missed: the hashes say nothing about what does not follow
    with pytest.raises(UserError, match=f"its entry {place} does not fit"):
        history_of(store, DEBATE)


@pytest.mark.parametrize(
    "change",
    [
        {"action": "correct", "stage": "corrected"},
        {"action": "save", "stage": "approved"},
        {"action": "approve", "stage": "approved", "rating": ""},
        {"person": " "},
        {"person": "x" * 201},
    ],
    ids=["nothing to correct", "other stage", "no rating", "nobody", "long name"],
)
def test_a_history_from_outside_whose_entries_do_not_follow_is_refused(change: dict[str, Any]) -> None:
    first = next_entry(History(), "save", FULL, debate=DEBATE, document="d", person="Ada")
    forged = first.model_copy(update=change)
    with pytest.raises(UserError, match="its entry 1 does not follow"):
        checked_history([(forged.model_dump_json(), forged.hash)], DEBATE)


def test_a_house_has_its_own_scale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert house_scale() == DEFAULT_SCALE
    file = tmp_path / "scale.toml"
    monkeypatch.setenv("MOOT_SCALE", str(file))
    file.write_text('[[steps]]\nrating = "Faux"\nanswer = "refuted"\nvalue = 1\n', encoding="utf-8")
    assert house_scale().step("faux").value == 1
    with pytest.raises(UserError, match="Known: Faux"):
        house_scale().step("Fauxx")
    for text, said in (("", "steps"), ('[[steps]]\nrating = "x"\nshape = 1\n', "shape"), ("[[", r"\[\[steps\]\]")):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(UserError, match=said):
            house_scale()
    file.unlink()
    with pytest.raises(UserError, match="cannot be read"):
        house_scale()
