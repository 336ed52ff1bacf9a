"""`moot review` on stored checks of this machine."""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa
from moot.core.reviews import history_of
from moot.core.store import open_store
from moot.core.tables import reviews

from tests.commands import moot

READ = ("--acknowledge", "demo_model", "--acknowledge", "fabricated_citations")
"""The warnings of checks by the fake model."""
CLAIM = "The kilogram is no longer defined by a metal cylinder."


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The id of a stored check."""
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
    assert moot("verify", CLAIM, "--model", "fake:1", "--graph", "standard_prompting").returncode == 0
    return str(json.loads(moot("list", "--json").stdout)[0]["id"][-32:])


def test_a_day_of_an_editor(check: str, tmp_path: Path) -> None:
    short = check[:8]
    assert "Not reviewed." in moot("review", short).stdout
    nobody = moot("review", short, "--approve", "--rating", "False", "--summary", "It is not so.")
    assert (nobody.returncode, "--person NAME" in nobody.stderr) == (2, True)
    assert moot("config", "set", "editor", "Ada").returncode == 0
    wrong = moot("review", short, "--rating", "Fals")
    assert (wrong.returncode, "Did you mean" in wrong.stderr) == (2, True)
    early = moot("review", short, "--correct", "The date was wrong.")
    assert (early.returncode, "that is new cannot be corrected" in early.stderr) == (2, True)
    today = datetime.now(UTC).date().isoformat()
    unread = moot("review", short, "--approve", "--rating", "False", "--summary", "It is not so.")
    assert (unread.returncode, "not acknowledged: " in unread.stderr) == (2, True)
    words = ("--rating", "mostly false", "--summary", "It is not so.", "--note", "Ask BIPM.", "--look-again", today)
    other = moot("review", short, "--approve", *words, *READ, "--acknowledge", "retracted")
    assert (other.returncode, "has no warning retracted. Its warnings: " in other.stderr) == (2, True)
    approved = moot("review", short, "--approve", *words, *READ)
    assert "Our rating: Mostly false. Approved, Ada" in approved.stdout, approved.stderr
    stale = moot("review", short, "--withdraw", "We erred.", "--based-on", "0", "--person", "Bo")
    assert (stale.returncode, "changed since you opened it, by Ada (approved" in stale.stderr) == (2, True)
    corrected = moot("review", short, "--correct", "The date was wrong.", "--rating", "False", "--person", "Bo")
    assert "rating: False (was: Mostly false)" in corrected.stdout
    assert "False (corrected)" in moot("list", "--stage", "corrected").stdout
    planned = moot("review", short, "--look-again", "2999-01-31").stdout
    assert "to readers: none" not in planned  # nothing was taken back
    assert "look again on: 2999-01-31" in moot("review", short, "--look-again", today).stdout
    assert moot("list", "--stage", "new").stdout == "No stored debate matches.\n"
    assert moot("list", "--stage", "published").returncode == 2
    assert "Our rating: False. Corrected, Bo" in moot("show", short).stdout
    assert moot("report", short, "--html", "--out", str(tmp_path / "check.html")).returncode == 0
    page = (tmp_path / "check.html").read_text("utf-8")
    assert ("The date was wrong." in page, "Ask BIPM." in page) == (True, False)
    assert f"{short}  {today}  corrected  False" in moot("review", "--due").stdout
    found = json.loads(moot("review", short, "--json").stdout)
    assert (found["stage"], [one["person"] for one in found["history"]]) == ("corrected", ["Ada", "Bo", "Ada", "Ada"])
    assert moot("delete", short, "--yes").returncode == 0
    assert history_of(open_store(), check) == ()


def test_a_damaged_history_hides_no_other_check_that_is_due(check: str) -> None:
    assert moot("verify", "Bats fly.", "--model", "fake:1", "--graph", "standard_prompting").returncode == 0
    [other] = [one["id"][-32:] for one in json.loads(moot("list", "--json").stdout) if one["claim"] == "Bats fly."]
    for id in (check, other):
        assert (
            moot("review", id, "--look-again", datetime.now(UTC).date().isoformat(), "--person", "Ada").returncode == 0
        )
    by_hand = sa.update(reviews).where(reviews.c.debate == check).values(hash="0" * 64)
    open_store().do(lambda connection: connection.execute(by_hand))
    due = moot("review", "--due")
    assert (due.returncode, other[:8] in due.stdout, "changed by hand" in due.stderr) == (2, True, True)
    again = moot("recheck", "--due", "--no-debate", "--json")
    assert (again.returncode, [one["claim"] for one in json.loads(again.stdout)]) == (3, ["Bats fly."]), again.stderr


def test_a_file_has_the_words_of_its_stored_check_unless_its_debate_was_changed(check: str, tmp_path: Path) -> None:
    file = tmp_path / "check.json"
    file.write_text(moot("show", check, "--json").stdout, "utf-8")
    said = ("--rating", "False", "--summary", "It is not so.", "--person", "Ada")
    assert moot("review", check, "--approve", *said, *READ).returncode == 0
    assert moot("report", str(file), "--md").returncode == 0
    assert "Our rating: False" in file.with_suffix(".md").read_text("utf-8")
    late = moot("report", check, "--md", "--model", "fake:1")
    assert (late.returncode, "change the numbers of the sources" in late.stderr) == (2, True)
    document = json.loads(file.read_text("utf-8"))
    summary = {"sentences": [], "stances": [], "not_found": [], "would_change": [], "dropped": 0}
    file.write_text(json.dumps(document | {"reader_summary": summary}), "utf-8")
    other = moot("report", str(file), "--md")
    assert (other.returncode, "The file has another summary" in other.stderr) == (2, True)
    file.write_text(json.dumps(document | {"answer": None}), "utf-8")
    assert moot("report", str(file), "--md").returncode == 0
    assert "Not reviewed" in file.with_suffix(".md").read_text("utf-8")


def test_the_table_of_a_list_has_the_editors_words_once_the_same_command_runs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
    (tmp_path / "list.csv").write_text("claim,title\nBats fly.,Mine\nEels swim.,Mine\n", "utf-8")
    model = ("--graph", "standard_prompting", "--model", "fake:1")
    command = ("batch", str(tmp_path / "list.csv"), *model, "--out", str(tmp_path / "out"))
    assert moot(*command).returncode == 0
    [bats] = [one["id"][-32:] for one in json.loads(moot("list", "--json").stdout) if one["claim"] == "Bats fly."]
    said = ("--rating", "True", "--title", "They do", "--summary", "They do fly.", "--person", "Ada")
    assert moot("review", bats, "--approve", *said, *READ).returncode == 0
    assert moot(*command).returncode == 0
    first, second = csv.DictReader((tmp_path / "out" / "table.csv").read_text("utf-8-sig").splitlines())
    columns = ("review", "rating", "moot_title", "summary", "editor")
    assert [first[name] for name in columns] == ["approved", "True", "They do", "They do fly.", "Ada"]
    assert [second[name] for name in columns] == ["not reviewed", "", "", "", ""]
    assert first["verdict"]
