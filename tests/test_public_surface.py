"""The public interface: its names, their docstrings, and an import without heavy packages."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from moot.graphs import DESCRIPTIONS
from moot.graphs._registry import OTHER_GRAPHS

ROOT = Path(__file__).parents[1]
MOST = 135
"""The maximum number of public names: readers skip a longer list."""
PACKAGES = ("moot.evals", "moot.graphs", "moot.nodes", "moot.prompts", "moot.retrievers")
HEAVY = {
    "chromadb",
    "inspect_ai",
    "langchain",
    "langchain_openai",
    "openai",
    "sentence_transformers",
    "torch",
    "transformers",
}


def public() -> dict[str, Any]:
    """Every public object by its name."""
    modules = [import_module(name) for name in PACKAGES]
    return {f"{module.__name__}.{name}": getattr(module, name) for module in modules for name in module.__all__}


def explained_parameters(text: str) -> set[str]:
    """The parameters that a docstring explains."""
    section = re.search(r"^Args:\n((?:    .*\n?)+)", text, re.M)
    return set(re.findall(r"\w+", " ".join(re.findall(r"^    ([\w, ]+):", section[1], re.M)))) if section else set()


def missing_parts(found: Any) -> Iterator[str]:
    """The faults of a public object: it is a module, or its docstring lacks these parts."""
    text = inspect.getdoc(found) or ""
    if isinstance(found, ModuleType):
        yield "it is hidden by a module of its name"
    # A docstring with this beginning was made by `dataclass`.
    if not text.strip() or (inspect.isclass(found) and text.startswith(f"{found.__name__}(")):
        yield "a docstring"
    if not inspect.isfunction(found):
        return
    signature = inspect.signature(found)
    yield from sorted(set(signature.parameters) - explained_parameters(text))
    if inspect.iscoroutinefunction(found) and "Raises:" not in text:
        yield "Raises"
    if signature.return_annotation == "Node" and "Reads:" not in text:
        yield "Reads"
    if re.match(r"tuple\[(?!\w+, \.\.\.)", str(signature.return_annotation)) and "Returns:" not in text:
        yield "Returns"


def test_the_list_of_names_is_short_and_other_modules_are_underscored() -> None:
    assert len(public()) <= MOST
    modules = [file.relative_to(ROOT) for name in PACKAGES for file in (ROOT / name.partition(".")[2]).rglob("*.py")]
    systems = DESCRIPTIONS.keys() | OTHER_GRAPHS.keys() | {"presets", "summarise_for_readers"}
    open_ones = {file.with_suffix("").as_posix() for file in modules if not re.search(r"/_", file.as_posix())}
    proclaim = {f"graphs/proclaim/{part}" for part in ("court", "negotiation", "panel")}
    assert open_ones == {f"graphs/{name}" for name in systems - {"proclaim"}} | proclaim


def test_old_names_still_work_with_a_warning_and_unknown_names_do_not() -> None:
    lines = [json.loads(line) for line in (ROOT / "core/old_names.jsonl").read_text(encoding="utf-8").splitlines()]
    assert lines
    for line in lines:
        package, _, name = line["name"].rpartition(".")
        assert line["name"] not in public()
        with pytest.warns(DeprecationWarning, match=re.escape(line["name"])) as caught:
            assert getattr(import_module(package), name) is not None
        assert caught[0].filename == __file__
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        _ = import_module("moot.nodes").no_such_name


def test_an_old_name_causes_one_warning(tmp_path: Path) -> None:
    program = tmp_path / "old.py"
    program.write_text("from moot.nodes import Run, gather_node\nassert Run and gather_node\n", encoding="utf-8")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr.count("Run is now moot.nodes.NodeContext.") == 1
    assert done.stderr.count("gather_node is now moot.nodes.join_node.") == 1


def test_each_public_object_is_documented() -> None:
    found = {name: list(missing_parts(one)) for name, one in public().items() if name != "moot.graphs.DESCRIPTIONS"}
    assert not {name: what for name, what in found.items() if what}


def test_type_checkers_see_the_defaults_of_fields() -> None:
    """Type checkers read defaults from `Field(default=...)` only (PEP 681): `Field(1)` makes a field required."""
    for file in (file for name in PACKAGES for file in (ROOT / name.partition(".")[2]).rglob("*.py")):
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Field":
                assert not [one for one in call.args if ast.unparse(one) != "..."], f"{file}:{call.lineno}"


def test_importing_the_packages_loads_no_heavy_module() -> None:
    code = f"import sys, {', '.join(PACKAGES)}; print(*{{name.partition('.')[0] for name in sys.modules}} & {HEAVY})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert not done.stdout.split()
