"""What README shows is what happens."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from moot.graphs import DESCRIPTIONS
from moot.graphs.tool_mad import graph

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", README, re.S)


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
