"""Listing commands import no heavy modules, and the file that they read agrees with the graphs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from moot.cli.tables import listing_rows, unlisted_settings

from tests.commands import moot

FILE = Path(__file__).parents[2] / "cli" / "listings.jsonl"
HEAVY = ("chromadb", "langchain_core", "langgraph", "numpy", "openai", "torch")
COMMANDS = (
    "--help",
    "settings --help",
    "graphs",
    "tasks",
    "presets",
    "settings tool_mad",
    "settings proclaim",
    "settings tool_mat",
    "settings",
    "eval tasks",
    "nonsense",
)
PROGRAM = f"""
import json, sys
from moot.cli.main import run
ended = {{}}
for command in {COMMANDS}:
    sys.argv = ["moot", *command.split()]
    try:
        run()
    except SystemExit:
        ended[command] = [name for name in {HEAVY} if name in sys.modules]
print(json.dumps(ended))
"""


def test_listings_help_and_errors_load_no_heavy_module() -> None:
    """All commands run in one process, so a module that one command loads is also reported for all later commands."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=100, check=False)
    assert json.loads(done.stdout.splitlines()[-1]) == {name: [] for name in COMMANDS}, done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_the_listings_file_is_up_to_date() -> None:
    command = [sys.executable, "-m", "moot.cli.listings"]
    hashing = {"PYTHONHASHSEED": "7"}  # changes the order of sets
    done = subprocess.run(command, capture_output=True, timeout=200, check=True, env=os.environ | hashing)
    assert done.stdout.decode("utf-8") == FILE.read_text(encoding="utf-8"), (
        "cli/listings.jsonl is out of date: run `make docs`"
    )


def test_settings_of_a_graph_equal_the_rows_of_the_listings_file() -> None:
    assert [list(row) for row in unlisted_settings("rag")] == listing_rows("settings rag")


def test_an_unknown_graph_gets_a_suggestion() -> None:
    assert "There is no graph 'tool_mat'. Did you mean tool_mad?" in moot("settings", "tool_mat").stderr
