"""A graph's file contains only the steps of its paper. Code that all systems share is in the builder."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

GRAPHS = Path(__file__).parents[2] / "graphs"
OTHER_FILES = [GRAPHS / name for name in ("__init__.py", "presets.py", "_registry.py", "_shared.py")]
GRAPH_FILES = sorted(path for path in GRAPHS.rglob("*.py") if path not in OTHER_FILES)
MAX_LINES = {
    "tool_mad": 75,
    "madke": 80,
    "proclaim": 100,
    "tit_for_tat": 55,
    "group_debate": 56,
    "tool_mad_consistency": 50,
}
"""The maximum number of lines of code in a file of these systems; 46 for all others."""
SHARED_CODE = re.compile(r"""\[['"]error|get\(['"]error|\b(settings_of|runtime|open_node|close_node|question_or)\b""")
"""A pattern for lines with code that all systems share."""


def docstring_lines(tree: ast.AST) -> Iterator[int]:
    """The numbers of all lines that belong to docstrings, also to those below assignments."""
    for node in ast.walk(tree):
        body = getattr(node, "body", ())
        for part in body if isinstance(body, list) else ():
            if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant):
                yield from range(part.lineno, (part.end_lineno or part.lineno) + 1)


@pytest.mark.parametrize("file", GRAPH_FILES, ids=lambda file: str(file.relative_to(GRAPHS)))
def test_a_graphs_file_is_short_and_has_no_code_that_all_systems_share(file: Path) -> None:
    """Imports do not count."""
    text = file.read_text(encoding="utf-8")
    tree = ast.parse(text)
    documented = set(docstring_lines(tree))
    for part in tree.body:
        if isinstance(part, ast.Import | ast.ImportFrom):
            documented |= {*range(part.lineno, (part.end_lineno or part.lineno) + 1)}
    code = [line for n, line in enumerate(text.splitlines(), 1) if n not in documented and line.split("#")[0].strip()]
    system = file.relative_to(GRAPHS).parts[0].removesuffix(".py")
    assert len(code) <= MAX_LINES.get(system, 46)
    assert not [line for line in code if not line.startswith("from ") and SHARED_CODE.search(line)]
