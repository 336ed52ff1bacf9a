"""The maximum length of tests."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]


def own_files(*patterns: str) -> Iterator[tuple[str, str]]:
    """The name and text of each file that Git does not ignore. Tracked files that are deleted are skipped."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    for name in subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines():
        if (ROOT / name).exists():
            yield name, (ROOT / name).read_text()


def test_no_test_has_more_than_60_lines() -> None:
    lengths = {
        f"{name}::{part.name}": part.end_lineno - part.lineno + 1
        for name, text in own_files("tests/*.py")
        for part in ast.walk(ast.parse(text))
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) and part.name.startswith("test_")
        if part.end_lineno is not None
    }
    assert len(lengths) > 1000
    assert {test: length for test, length in lengths.items() if length > 60} == {}
