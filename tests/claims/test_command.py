"""The command ``moot claims``: its model, its output, its errors, and the entry of a failed run in the history."""

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


def test_the_variable_moot_corpus_is_ignored_but_the_setting_corpus_is_refused(
    article: Path, start_stub: StartStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding claims reads no corpus. The model comes from the variable MOOT_MODEL."""
    stub = start_stub(rules())
    monkeypatch.setenv("MOOT_MODEL", "openai:set")
    monkeypatch.setenv("MOOT_CORPUS", "of-debates")
    done = moot("claims", article, "--json")
    assert done.returncode == 0, done.stderr
    assert [one["claim"] for one in json.loads(done.stdout)["claims"]] == [one["claim"] for one in WRITTEN[:3]]
    assert {call["model"] for call in stub.calls()} == {"set"}
    refused = moot("claims", article, "--set", "corpus=mine")
    assert (refused.returncode, "leave out corpus" in refused.stderr) == (2, True)


def test_the_error_without_a_model_names_the_option(article: Path) -> None:
    done = moot("claims", article)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--model provider:name" in done.stderr


def test_sentences_are_listed_without_a_model(article: Path) -> None:
    listed = moot("claims", article, "--sentences", "--date", "2025-05-14")
    # The heading and one of 5 sentences are too short.
    assert (listed.returncode, "4 claims" in listed.stderr) == (0, True)
    rows = list(csv.DictReader(io.StringIO(listed.stdout.removeprefix("\ufeff"))))
    assert rows[0]["claim"] == "Norwick opened its tram line in May 2024."
    assert all(row["claim"] in TEXT for row in rows)
    assert {row["date"] for row in rows} == {"2025-05-14"}


def test_a_text_without_claims_has_an_exit_code_of_its_own(article: Path, start_stub: StartStub) -> None:
    start_stub(rules(found=[]))
    done = moot("claims", article, "--model", "openai:stub")
    assert (done.returncode, "0 claims" in done.stderr) == (3, True)
    article.write_text("Too short.")
    assert moot("claims", article, "--sentences").returncode == 3


def test_a_failed_run_does_not_say_that_claims_are_unchanged_sentences(
    article: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    done = moot("claims", article, "--model", "openai:gpt-4o")
    assert (done.returncode, "OPENAI_API_KEY is not set" in done.stderr) == (2, True)
    assert "0 claims. 0 calls to models." in done.stderr
    assert "unchanged sentence" not in done.stderr


def test_the_output_tells_a_new_user_what_to_do(article: Path, start_stub: StartStub, tmp_path: Path) -> None:
    """``moot claims`` asks for the date and counts dropped items. ``moot batch`` suggests a corpus."""
    dropped = [{"quote": f"Invented, number {n}.", "speaker": ""} for n in range(5)]
    written = [{"number": 1, "claim": "Last year the tram line in Norwick cost 412 million pounds."}]
    start_stub(rules(found=[{"quote": "It cost 412 million pounds", "speaker": ""}, *dropped], written=written))
    table = tmp_path / "found.csv"
    done = moot("claims", article, "--model", "openai:stub", "--out", table, "--set", "min_score=0")
    assert "7 more were dropped: --json lists all." in done.stderr
    assert "words like “last year” are left unchanged. Give the date with --date" in done.stderr
    tried = moot("batch", table, "--out", tmp_path / "verdicts", "--model", "openai:stub", "--graph", "rag")
    assert "These columns are not read" not in tried.stderr
    assert "moot demo" in tried.stdout


def test_the_history_shows_a_failed_run_by_its_file_name(article: Path, start_stub: StartStub) -> None:
    start_stub([{"status": 401}])
    done = moot("claims", article, "--model", "openai:stub")
    assert (done.returncode, "refused the key" in done.stderr, "Traceback" in done.stderr) == (2, True, False)
    [row] = json.loads(moot("list", "--json").stdout)
    assert (row["claim"], row["graph"], row["status"]) == ("line.txt", "find_claims", "failed")


def test_a_text_without_title_and_source_is_shown_by_its_first_line() -> None:
    assert claim_in({"text": "\n  First line \nmore"}) == "First line"
