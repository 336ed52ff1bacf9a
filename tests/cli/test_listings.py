"""Help, listings and errors are quick: they import no heavy modules, or only the graph that is listed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from moot.cli.completing import names
from moot.cli.main import COMMANDS, app
from typer.main import get_command

from tests.commands import moot

HEAVY = ("chromadb", "langchain_core", "langgraph", "numpy", "openai", "torch")
QUICK = ("--help", "settings --help", "graphs", "tasks", "config", "settings", "nonsense")
PROGRAM = f"""
import json, sys
from moot.cli.main import run
ended = {{}}
for command in {QUICK}:
    sys.argv = ["moot", *command.split()]
    try:
        run()
    except SystemExit:
        ended[command] = [name for name in {HEAVY} if name in sys.modules]
print(json.dumps(ended))
"""
LISTINGS = ("graphs", "tasks", "settings gated", "settings find_claims", "eval tasks", "corpora list")


@pytest.fixture(autouse=True)
def _temporary_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")


def test_help_the_list_of_systems_and_errors_load_no_heavy_module() -> None:
    """All commands run in one process, so a module that one command loads is also reported for all later commands."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=100, check=False)
    assert json.loads(done.stdout.splitlines()[-1]) == {name: [] for name in QUICK}, done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_name_gets_a_suggestion() -> None:
    assert "There is no graph 'tool_mat'. Did you mean tool_mad?" in moot("settings", "tool_mat").stderr
    assert "Did you mean 'verify'?" in moot("verfy", "x").stderr
    assert "Name a system, for example: moot settings tool_mad." in moot("settings").stderr


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


def test_help_lists_every_command_under_a_heading_and_shows_defaults() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert {name for panel in COMMANDS.values() for name in panel} == set(commands)
    assert {panel for panel in COMMANDS if panel not in moot("--help").stdout} == set()
    assert "[default: tool_mad]" in moot("verify", "--help").stdout  # text in brackets is no markup


def test_help_wraps_paragraphs_at_the_width_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert "Ctrl-C or SIGTERM, other workers get this worker's rows." in moot("worker", "--help").stdout


def test_completion_offers_only_the_settings_of_the_given_graph() -> None:
    assert "find_claims" in names("all graphs")
    assert "min_score=" in names("settings find_claims")
    assert "corpus=" not in names("settings find_claims")
