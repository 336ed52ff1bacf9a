"""Local debates are stored, listed, shown, reported and deleted; corpora are listed, shown and deleted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from moot.core.errors import UserError
from moot.retrievers._stores import FolderStore, Manifest
from moot.web import debates

from tests.commands import moot

CONTROL = ("verify", "--graph", "standard_prompting", "--model", "fake:1")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_a_debate_is_stored_listed_shown_reported_and_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert moot("list").stdout == "No debates are stored yet.\n"
    for claim in ("Eggs are laid.", "Bats <b>fly</b>."):
        assert moot(*CONTROL, claim).returncode == 0
    monkeypatch.setenv("MOOT_HISTORY", "off")
    assert moot(*CONTROL, "Not to be kept.").returncode == 0
    listed = json.loads(moot("list", "--json").stdout)
    assert {entry["claim"] for entry in listed} == {"Eggs are laid.", "Bats <b>fly</b>."}
    [found] = json.loads(moot("list", "--json", "--text", "BATS", "--graph", "standard_prompting").stdout)
    assert found["status"] == "done"
    assert json.loads(moot("list", "--json", "--since", "2999-01-01").stdout) == []
    assert "Bats <b>fly</b>." in moot("list").stdout
    own = found["id"][-32:]
    assert json.loads(moot("show", own[:10], "--json").stdout)["id"] == own
    assert "Verdict:" in moot("show", own).stdout
    out = tmp_path / "bats.html"
    assert moot("report", own[:10], "--out", str(out)).returncode == 0
    assert "Bats &lt;b&gt;fly&lt;/b&gt;." in out.read_text("utf-8")
    assert "several" in moot("show", "2").stderr.lower()  # ids begin with the date
    assert moot("delete", own, typed="n\n").returncode != 0
    assert moot("delete", own, "--yes").stdout == f"Deleted: {own}\n"
    assert [entry["claim"] for entry in json.loads(moot("list", "--json").stdout)] == ["Eggs are laid."]
    assert "moot list" in moot("show", own).stderr
    assert own not in moot("ledger", "--json").stdout


def test_an_invalid_moot_history_is_refused_before_the_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOT_HISTORY", "maybe")
    done = moot(*CONTROL, "Eggs.")
    assert done.returncode == 2
    assert "MOOT_HISTORY" in done.stderr
    assert json.loads(moot("ledger", "--json").stdout) == []
    with pytest.raises(UserError, match="on or off"):
        debates.history_is_on()


def test_out_selects_the_format_by_suffix_and_report_refuses_invalid_input(tmp_path: Path) -> None:
    done = moot(*CONTROL, "Eggs.", "--out", str(tmp_path / "x.pdf"))
    assert done.returncode == 2
    assert ".json, .html or .md" in done.stderr
    assert json.loads(moot("ledger", "--json").stdout) == []  # the debate was refused before the first call
    for name, begins in (("x.html", "<!doctype html>"), ("x.md", "# "), ("x.json", "{")):
        assert moot(*CONTROL, "Eggs.", "--out", str(tmp_path / name)).returncode == 0
        assert (tmp_path / name).read_text("utf-8").startswith(begins)
    (tmp_path / "y.json").write_text("[]")
    done = moot("report", str(tmp_path), "--md", "--html")
    assert done.returncode == 2  # one of the files is not a document
    assert "y.json" in done.stderr
    assert {path.name for path in tmp_path.glob("x.*")} == {"x.html", "x.md", "x.json"}
    done = moot("report", str(tmp_path / "x.json"), "--claimreview")
    assert done.returncode == 2
    assert "--publisher" in done.stderr


def test_corpora_are_listed_shown_and_deleted(home: Path) -> None:
    FolderStore(home / "corpora").write(Manifest("mine", "encoder", 3, 7, complete=False))
    found = {one["name"]: one for one in json.loads(moot("corpora", "--json").stdout)}
    assert found["mine"]["passages"] == 7
    assert "index it again" in moot("corpora", "show", "mine").stdout
    assert moot("corpora", "delete", "demo-news", "--yes").returncode == 2
    assert moot("corpora", "delete", "mine", "--yes").returncode == 0
    assert not (home / "corpora" / "mine").exists()
    assert "Known" in moot("corpora", "delete", "mine", "--yes").stderr
