"""Tests of guessed commands, listings as JSON, ``moot config get``, help and completion."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from moot.cli.completing import names
from moot.cli.guesses import PANELS
from moot.cli.main import app
from typer.main import get_command

from tests.commands import moot

ERRORS = {
    "verfy x": "There is no command 'verfy'. Did you mean moot verify?",
    "chek x": "Did you mean moot verify?",
    "claim x": "Did you mean moot claims?",
    "nonsense": "There is no command 'nonsense'. See: moot -h",
    "corpora shwo": "Did you mean moot corpora show?",
    "corpora add x": "moot index PATH --corpus NAME",
    "page": "moot serve --open",
    "eval list": "moot eval tasks",
    "replies list": "moot replies",
    "config edit": "moot config set KEY VALUE",
    "The earth is flat": 'moot verify "The earth is flat"',
    "He said $5 then": "moot verify 'He said $5 then'",
    "word " * 60 + "end": "moot verify",
    "https://example.org/a": "moot claims https://example.org/a",
    "https://example.org/a.csv": "moot claims https://example.org/a.csv",
    "there/mine.csv": "moot batch there/mine.csv --out FOLDER",
    "verify x --max-cost 1": "--set max_cost=...",
    "settings": "Name a system, for example: moot settings tool_mad.",
}
ALIASES = {
    "history": "list",
    "check A-claim --graph nope": "verify A-claim --graph nope",
    "graphs list": "graphs",
    "presets list": "presets",
    "corpora list": "corpora",
    "models list": "models",
    "corpora ls": "corpora",
    "config list": "config",
    "help claims": "claims --help",
    "help": "--help",
}
LISTINGS = ("graphs", "tasks", "presets", "settings gated", "settings find_claims", "eval tasks", "corpora list")


@pytest.fixture(autouse=True)
def _temporary_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")


@pytest.mark.parametrize("guess", ERRORS)
def test_the_error_for_a_wrong_command_tells_what_to_type(guess: str) -> None:
    done = moot(*guess.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert ERRORS[guess] in done.stderr


@pytest.mark.parametrize("guess", ALIASES)
def test_an_alias_gives_the_same_output_as_the_command(guess: str) -> None:
    done, known = moot(*guess.split()), moot(*ALIASES[guess].split())
    assert (done.returncode, done.stdout, done.stderr) == (known.returncode, known.stdout, known.stderr)


def test_the_error_for_a_file_without_a_command_suggests_moot_claims(tmp_path: Path) -> None:
    (tmp_path / "article").write_text("A text.")
    assert f"moot claims {tmp_path / 'article'}" in moot(tmp_path / "article").stderr


@pytest.mark.parametrize("listing", LISTINGS)
def test_listings_as_json_have_rows_with_names(listing: str) -> None:
    rows = json.loads(moot(*listing.split(), "--json").stdout)
    assert rows
    assert all(row["name"] for row in rows)
    if listing.startswith("settings"):
        assert next(row for row in rows if row["name"] == "attempts")["default"] == 3


def test_config_get_prints_only_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (moot("config", "get", "model").returncode, moot("config", "get", "model").stdout) == (1, "")
    monkeypatch.setenv("MOOT_MODEL", "fake:1")
    assert moot("config", "get", "model").stdout == "fake:1\n"


def test_help_lists_every_command_under_a_heading() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert {name for panel in PANELS.values() for name in panel} == set(commands)
    assert {panel for panel in PANELS if panel not in moot("--help").stdout} == set()


def test_help_wraps_paragraphs_at_the_width_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert "Ctrl-C or SIGTERM, other workers get this worker's rows." in moot("worker", "--help").stdout


def test_completion_offers_only_the_settings_of_the_given_graph() -> None:
    assert "find_claims" in names("all graphs")
    assert "min_score=" in names("settings find_claims")
    assert "corpus=" not in names("settings find_claims")
