"""Tests of stored debates (list, show, report, delete) and of ``moot corpora``."""

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
    id = found["id"][-32:]
    assert json.loads(moot("show", id[:10], "--json").stdout)["id"] == id
    assert "Verdict:" in moot("show", id).stdout
    out = tmp_path / "bats.html"
    assert moot("report", id[:10], "--out", str(out)).returncode == 0
    assert "Bats &lt;b&gt;fly&lt;/b&gt;." in out.read_text("utf-8")
    assert moot("report", id[:10], "--language", "fr", "--out", str(out)).returncode == 0
    assert '<html lang="fr" dir="ltr">' in out.read_text("utf-8")
    for command in ("report", "verify"):
        assert "no texts in the language 'xx'" in moot(command, id, "--model", "fake:1", "--language", "xx").stderr
    assert "several" in moot("show", "2").stderr.lower()  # the ids of both documents begin with the year
    assert moot("delete", id, typed="n\n").returncode != 0
    assert moot("delete", id, "--yes").stdout == f"Deleted: {id}\n"
    assert [entry["claim"] for entry in json.loads(moot("list", "--json").stdout)] == ["Eggs are laid."]
    assert "moot list" in moot("show", id).stderr
    assert id not in moot("replies", "--json").stdout
    [other] = json.loads(moot("list", "--json").stdout)
    assert moot("delete", other["id"][:-20], "--yes").returncode == 0
    assert "Eggs are laid." not in moot("replies", "--json").stdout  # its row in the store was deleted too


def test_list_and_replies_refuse_an_unknown_status() -> None:
    for command in ("list", "replies"):
        done = moot(command, "--status", "finished")
        assert done.returncode == 2
        assert "interrupted" in done.stderr
        assert moot(command, "--status", "done").returncode == 0


def test_an_output_file_for_several_reports_is_refused(tmp_path: Path) -> None:
    for name in ("x.json", "y.json"):
        assert moot(*CONTROL, "Eggs.", "--out", str(tmp_path / name)).returncode == 0
    out = tmp_path / "one.html"
    done = moot("report", str(tmp_path / "x.json"), str(tmp_path / "y.json"), "--out", str(out))
    assert done.returncode == 2
    assert "folder" in done.stderr
    assert not out.exists()


def test_an_invalid_value_of_the_variable_moot_history_is_refused_before_the_first_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MOOT_HISTORY", "maybe")
    done = moot(*CONTROL, "Eggs.")
    assert done.returncode == 2
    assert "MOOT_HISTORY" in done.stderr
    assert json.loads(moot("replies", "--json").stdout) == []
    with pytest.raises(UserError, match="on or off"):
        debates.history_is_on()


def test_the_suffix_of_the_output_file_selects_its_format(tmp_path: Path) -> None:
    done = moot(*CONTROL, "Eggs.", "--out", str(tmp_path / "x.pdf"))
    assert done.returncode == 2
    assert ".json, .html or .md" in done.stderr
    assert json.loads(moot("replies", "--json").stdout) == []  # the debate was refused before the first call
    for name, begins in (("x.html", "<!doctype html>"), ("x.md", "# "), ("x.json", "{")):
        assert moot(*CONTROL, "Eggs.", "--out", str(tmp_path / name)).returncode == 0
        assert (tmp_path / name).read_text("utf-8").startswith(begins)


def test_report_names_an_invalid_document_and_reports_on_the_valid_document(tmp_path: Path) -> None:
    assert moot(*CONTROL, "Eggs.", "--out", str(tmp_path / "x.json")).returncode == 0
    (tmp_path / "y.json").write_text("[]")
    done = moot("report", str(tmp_path), "--md", "--html")
    assert done.returncode == 2
    assert "y.json" in done.stderr
    assert {path.name for path in tmp_path.glob("x.*")} == {"x.html", "x.md", "x.json"}


def test_a_claimreview_report_needs_a_publisher(tmp_path: Path) -> None:
    assert moot(*CONTROL, "Eggs.", "--out", str(tmp_path / "x.json")).returncode == 0
    done = moot("report", str(tmp_path / "x.json"), "--claimreview")
    assert done.returncode == 2
    assert "--publisher" in done.stderr


def test_a_corpus_of_the_user_is_listed_shown_and_deleted(home: Path) -> None:
    FolderStore(home / "corpora").write(Manifest("mine", "encoder", 3, 7, complete=False))
    found = {corpus["name"]: corpus for corpus in json.loads(moot("corpora", "--json").stdout)}
    assert found["mine"]["passages"] == 7
    assert "index it again" in moot("corpora", "show", "mine").stdout
    assert moot("corpora", "delete", "demo-news", "--yes").returncode == 2
    assert moot("corpora", "delete", "mine", "--yes").returncode == 0
    assert not (home / "corpora" / "mine").exists()
    assert "Known" in moot("corpora", "delete", "mine", "--yes").stderr
