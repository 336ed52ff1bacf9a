"""The command ``moot claims``: its model, the error without a model, its output, its entry in the history."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from moot.web.table import claim_in

from tests.claims.test_find import TEXT, WRITTEN, rules
from tests.commands import moot
from tests.conftest import StartStub


@pytest.fixture
def article(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MOOT_MODEL", raising=False)
    (tmp_path / "line.txt").write_text(f"A line\n\n{TEXT}")
    return tmp_path / "line.txt"


def test_a_setting_without_effect_is_ignored_in_the_environment_and_refused_as_an_option(
    article: Path, start_stub: StartStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model comes from the environment, too."""
    stub = start_stub(rules())
    monkeypatch.setenv("MOOT_MODEL", "openai:set")
    monkeypatch.setenv("MOOT_CORPUS", "of-debates")
    done = moot("claims", article, "--json")
    assert done.returncode == 0, done.stderr
    assert [one["claim"] for one in json.loads(done.stdout)["claims"]] == [one["claim"] for one in WRITTEN[:3]]
    assert {call["model"] for call in stub.calls()} == {"set"}
    refused = moot("claims", article, "--set", "corpus=mine")
    assert (refused.returncode, "leave out corpus" in refused.stderr) == (2, True)


def test_without_a_model_the_error_says_what_to_do_and_sentences_can_be_listed(article: Path) -> None:
    done = moot("claims", article)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--model provider:name" in done.stderr
    listed = moot("claims", article, "--sentences", "--date", "2025-05-14")
    assert (listed.returncode, "4 claims" in listed.stderr) == (0, True)  # one of 5 sentences is too short
    rows = list(csv.DictReader(io.StringIO(listed.stdout.removeprefix("\ufeff"))))
    assert rows[0]["claim"] == "Norwick opened its tram line in May 2024."
    assert all(row["claim"] in f"{TEXT}" for row in rows)
    assert {row["date"] for row in rows} == {"2025-05-14"}


def test_the_output_tells_a_new_user_what_to_do(article: Path, start_stub: StartStub, tmp_path: Path) -> None:
    """``moot claims`` names the missing date and counts dropped claims; ``moot batch`` says what to do about errors."""
    dropped = [{"quote": f"Invented, number {n}.", "speaker": ""} for n in range(5)]
    written = [{"number": 1, "claim": "Last year the tram line in Norwick cost 412 million pounds."}]
    start_stub(rules(found=[{"quote": "It cost 412 million pounds", "speaker": ""}, *dropped], written=written))
    table = tmp_path / "found.csv"
    done = moot("claims", article, "--model", "openai:stub", "--out", table, "--set", "min_score=0")
    assert "7 more were dropped: --json lists all." in done.stderr
    assert "words like “last year” are left unchanged. Give the date with --date" in done.stderr
    tried = moot("batch", table, "--out", tmp_path / "verdicts", "--model", "openai:stub", "--graph", "rag")
    assert "These columns are not read" not in tried.stderr
    assert "or name another source in place of `web`, e.g." in tried.stdout


def test_the_history_shows_a_failed_run_by_file_name_or_first_line(article: Path, start_stub: StartStub) -> None:
    start_stub([{"status": 401}])
    done = moot("claims", article, "--model", "openai:stub")
    assert (done.returncode, "refused the key" in done.stderr, "Traceback" in done.stderr) == (2, True, False)
    [row] = json.loads(moot("list", "--json").stdout)
    assert (row["claim"], row["graph"], row["status"]) == ("line.txt", "find_claims", "failed")
    assert claim_in({"text": "\n  First line \nmore"}) == "First line"
