"""What README shows is what happens."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from moot.graphs import DESCRIPTIONS
from moot.graphs.tool_mad import graph

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
SOURCE, *SNIPPETS = re.findall(r"```python\n(.*?)```", README, re.S)


def test_a_source_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SOURCE)
    command = [sys.executable, "-c", "from moot.cli.main import run; run()", "verify", "Parcels leave on Monday."]
    command += ["--model", "fake:1", "--set", "debaters.0.retriever=langchain:shop:retriever", "--json"]
    command += ["--set", "max_rounds=1", "--set", "scoring=consensus_only", "--set", "query_formulation=false"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    found = [e for e in json.loads(done.stdout)["evidence"] if e["source"] == "shop"]
    assert [(e["title"], e["text"]) for e in found] == [("Deliveries", "Parcels leave on Monday.")], done.stderr


@pytest.mark.parametrize("snippet", SNIPPETS, ids=["function", "graph"])
def test_snippets_run(snippet: str) -> None:
    done = subprocess.run([sys.executable, "-c", snippet], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_the_drawing_is_the_graph() -> None:
    drawn = re.sub(r"^---\n.*?\n---\n", "", graph.get_graph(xray=True).draw_mermaid(), flags=re.S)
    assert drawn.strip() in README


def test_every_graph_is_in_the_table() -> None:
    assert all(f"| `{name}` |" in README for name in DESCRIPTIONS)
