"""What README shows is what happens."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from moot.cli.drawings import drawing
from moot.cli.options import parse_settings
from moot.graphs import DESCRIPTIONS, load_graph

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
SOURCE, *SNIPPETS = re.findall(r"```python\n(.*?)```", README, re.S)


def test_a_source_of_langchain_community(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SOURCE)
    (shown,) = re.findall(r"^moot (verify .*langchain:.*)$", README, re.M)
    command = [sys.executable, "-c", "from moot.cli.main import run; run()", *shlex.split(shown, comments=True)]
    command += ["--model", "fake:1", "--json", "--set", "query_formulation=false", "--set", "k=1"]
    command += ["--set", "max_rounds=1", "--set", "scoring=consensus_only"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found = [e for e in json.loads(done.stdout)["evidence"] if e["source"] == "shop"]
    assert [(e["title"], e["text"]) for e in found] == [("Deliveries", "Parcels leave on Monday.")]
    assert done.stderr == ""  # no warning of a package


@pytest.mark.parametrize("snippet", SNIPPETS, ids=["function", "graph", "inspect", "measures"])
def test_snippets_run(snippet: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", snippet]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_the_drawing_is_the_graph() -> None:
    assert drawing(load_graph("tool_mad").graph, xray=True) in README


def test_every_graph_is_in_the_table() -> None:
    table = README.partition("| graph |")[2].partition("\n\n")[0].splitlines()[1:]
    assert sorted(row.split("`")[1] for row in table[1:]) == sorted(DESCRIPTIONS)
    assert {row.count("|") for row in table} == {8}
    assert all(f"| `{name}` |" in README for name in DESCRIPTIONS)


@pytest.mark.parametrize("command", re.findall(r'^moot verify "[^"]*" (.*--set .*)$', README, re.M))
def test_settings_that_are_shown_exist(command: str) -> None:
    words = shlex.split(command, comments=True)
    pairs = [value for flag, value in pairwise(words) if flag == "--set"]
    graph = next((value for flag, value in pairwise(words) if flag == "--graph"), "tool_mad")
    parse_settings(load_graph(graph).settings, pairs, {})
