"""No two modules import each other, not even for types, nor do more of them in a circle."""

from __future__ import annotations

import re
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
STATIC = ROOT / "web" / "static"
SCRIPT = re.compile(r"""(?:\bfrom|\bimport)\s*\(?\s*["']\./([\w-]+\.js)["']""")
"""The name of a script in an import at the top of another one, or within a function."""


def test_no_modules_import_each_other_in_a_circle() -> None:
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["root_packages"]
    graph = grimp.build_graph(*packages, cache_dir=None)
    TopologicalSorter({name: graph.find_modules_directly_imported_by(name) for name in graph.modules}).prepare()


def test_no_scripts_of_the_page_import_each_other_in_a_circle() -> None:
    imported = {path.name: SCRIPT.findall(path.read_text()) for path in STATIC.glob("*.js")}
    assert sum(map(len, imported.values())) > 40
    TopologicalSorter(imported).prepare()
