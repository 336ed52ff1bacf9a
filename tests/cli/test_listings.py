"""Commands that list something import next to nothing, and what they read is what the graphs say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from moot.cli.tables import listing_rows, unlisted_settings

from tests.commands import moot

FILE = Path(__file__).parents[2] / "cli" / "listings.jsonl"
HEAVY = ("chromadb", "langchain_core", "langgraph", "numpy", "openai", "torch")
LOADED = f"""
import atexit, sys
atexit.register(lambda: print([name for name in {HEAVY} if name in sys.modules]))
from moot.cli.main import run
run()
"""


@pytest.mark.parametrize(
    "command",
    [
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
    ],
)
def test_lists_help_and_mistakes_load_nothing_heavy(command: str) -> None:
    arguments = [sys.executable, "-c", LOADED, *command.split()]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=100, check=False)
    assert done.stdout.splitlines()[-1] == "[]", done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_the_file_is_up_to_date() -> None:
    command = [sys.executable, "-m", "moot.cli.listings"]
    hashing = {"PYTHONHASHSEED": "7"}  # another order of sets than that of whoever wrote the file
    done = subprocess.run(command, capture_output=True, timeout=200, check=True, env=os.environ | hashing)
    assert done.stdout.decode("utf-8") == FILE.read_text(encoding="utf-8"), "cli/listings.jsonl is old: run `make docs`"


def test_a_graph_that_is_not_in_the_file_yet_is_asked_itself() -> None:
    assert [list(row) for row in unlisted_settings("rag")] == listing_rows("settings rag")


def test_an_unknown_graph_is_named() -> None:
    assert "There is no graph 'tool_mat'. Did you mean tool_mad?" in moot("settings", "tool_mat").stderr
