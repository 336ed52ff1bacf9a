"""The public interface: its names, their docstrings, and an import without heavy packages."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, get_origin

import pytest
from moot.graphs import DESCRIPTIONS
from moot.graphs._registry import OTHER_GRAPHS

ROOT = Path(__file__).parents[1]
MOST = 291
"""The maximum number of public names. The files of moot's graphs import nothing else from `moot.nodes`."""
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

ONE_SENTENCE = ("core", "embedded", "evals", "graphs", "nodes", "prompts", "retrievers")
"""The folders in which docstrings of private names are one sentence."""
SECTION = re.compile(r"^(Args|Attributes|Raises|Returns|Yields):$", re.M)
DOCUMENTED = (ast.AsyncFunctionDef, ast.ClassDef, ast.FunctionDef)


def public_objects() -> dict[str, Any]:
    """Every public object of `PACKAGES`, by its full name."""
    modules = [import_module(name) for name in PACKAGES]
    return {f"{module.__name__}.{name}": getattr(module, name) for module in modules for name in module.__all__}


def explained_parameters(text: str) -> set[str]:
    """The names of the parameters that a docstring explains; empty if it has no section ``Args``."""
    section = re.search(r"^Args:\n((?:    .*\n?)+)", text, re.M)
    return set(re.findall(r"\w+", " ".join(re.findall(r"^    ([\w, ]+):", section[1], re.M)))) if section else set()


def documentation_faults(found: Any) -> Iterator[str]:
    """The parts that a public object's docstring lacks. It is also a fault if a module hides the object."""
    text = inspect.getdoc(found) or ""
    if isinstance(found, ModuleType):
        yield "a module of this name hides it"
    # `dataclass` writes a docstring with this beginning if the class has none.
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


def test_the_list_of_public_names_is_short() -> None:
    assert len(public_objects()) <= MOST


def test_of_the_public_packages_only_moot_graphs_has_modules_without_underscore() -> None:
    modules = [file.relative_to(ROOT) for name in PACKAGES for file in (ROOT / name.partition(".")[2]).rglob("*.py")]
    systems = DESCRIPTIONS.keys() | OTHER_GRAPHS.keys() | {"contexts", "summarise_for_readers"}
    public_modules = {file.with_suffix("").as_posix() for file in modules if not re.search(r"/_", file.as_posix())}
    proclaim = {f"graphs/proclaim/{part}" for part in ("court", "negotiation", "panel")}
    assert public_modules == {f"graphs/{name}" for name in systems - {"proclaim"}} | proclaim


def test_an_unknown_name_raises_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = import_module("moot.nodes").no_such_name


def test_each_public_object_is_documented() -> None:
    faults = {
        name: list(documentation_faults(item))
        for name, item in public_objects().items()
        if name != "moot.graphs.DESCRIPTIONS" and get_origin(item) is None  # only the source explains a type alias
    }
    assert not {name: lacking for name, lacking in faults.items() if lacking}


def with_sections(parent: ast.AST, name: str) -> Iterator[str]:
    """The full names of the functions and classes within ``parent`` whose docstrings have sections."""
    for node in ast.iter_child_nodes(parent):
        inner = f"{name}.{node.name}" if isinstance(node, DOCUMENTED) else name
        if isinstance(node, DOCUMENTED) and SECTION.search(ast.get_docstring(node) or ""):
            yield inner
        yield from with_sections(node, inner)


def test_docstrings_of_private_names_have_no_sections() -> None:
    """A private function or class has a docstring of one sentence, or none."""
    found = {item for item in public_objects().values() if inspect.isclass(item) or inspect.isroutine(item)}
    public = {f"{item.__module__}.{item.__qualname__}": inspect.isclass(item) for item in found}
    for file in (file for folder in ONE_SENTENCE for file in (ROOT / folder).rglob("*.py")):
        path = file.relative_to(ROOT)
        module = ".".join(("moot", *path.with_suffix("").parts))
        for name in with_sections(ast.parse(file.read_text(encoding="utf-8")), module):
            parent, _, own = name.rpartition(".")
            is_public = name in public or (public.get(parent) and not re.match("_(?!_)", own))
            assert is_public, f"{name}: one sentence, or no docstring"


def test_type_checkers_see_the_defaults_of_fields() -> None:
    """Type checkers find a default only in `Field(default=...)` (PEP 681). For them, `Field(1)` is a required field."""
    for file in (file for name in PACKAGES for file in (ROOT / name.partition(".")[2]).rglob("*.py")):
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Field":
                assert not [argument for argument in call.args if ast.unparse(argument) != "..."], (
                    f"{file}:{call.lineno}"
                )


def test_importing_the_packages_loads_no_heavy_module() -> None:
    code = f"import sys, {', '.join(PACKAGES)}; print(*{{name.partition('.')[0] for name in sys.modules}} & {HEAVY})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert not done.stdout.split()
