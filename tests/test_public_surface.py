"""What users may rely on: the public names, each of which says what it takes and gives, and a light import."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from moot.graphs import DESCRIPTIONS, OTHER_GRAPHS

LISTED = Path(__file__).parent / "public_surface.txt"
"""A line for every public name. Who adds or takes away one changes this file with it."""
API = Path(__file__).parents[1] / "docs" / "api"
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


def explained(text: str) -> set[str]:
    """The parameters that a docstring explains."""
    section = re.search(r"^Args:\n((?:    .*\n?)+)", text, re.M)
    return set(re.findall(r"\w+", " ".join(re.findall(r"^    ([\w, ]+):", section[1], re.M)))) if section else set()


def lacking(found: Any) -> Iterator[str]:
    """What the docstring of a public object does not say."""
    text = inspect.getdoc(found) or ""
    if isinstance(found, ModuleType):
        yield "it is hidden by a module of its name"
    if not text.strip() or (inspect.isclass(found) and text.startswith(f"{found.__name__}(")):  # as dataclasses make
        yield "a docstring"
    if not inspect.isfunction(found):
        return
    signature = inspect.signature(found)
    yield from sorted(set(signature.parameters) - explained(text))
    if inspect.iscoroutinefunction(found) and "Raises:" not in text:
        yield "Raises"
    if signature.return_annotation == "Node" and "Reads:" not in text:
        yield "Reads"
    if re.match(r"tuple\[(?!\w+, \.\.\.)", str(signature.return_annotation)) and "Returns:" not in text:
        yield "Returns"


def test_the_names_are_those_that_are_listed() -> None:
    assert sorted(public()) == LISTED.read_text(encoding="utf-8").split()


def test_each_is_documented() -> None:
    graphs = {"DESCRIPTIONS", "OTHER_GRAPHS"}
    aliases = graphs | {"Agents", "RetrievalEnd", "StopReason", "Verdict", "DEFAULT_ENCODER", "DEMO_CORPORA"}
    found = {name: list(lacking(one)) for name, one in public().items() if name.rpartition(".")[2] not in aliases}
    assert not {name: what for name, what in found.items() if what}


def test_each_is_in_the_reference() -> None:
    pages = "\n".join(page.read_text(encoding="utf-8") for page in API.glob("*.md"))
    shown = re.findall(rf"^::: ((?:{'|'.join(PACKAGES)})\.[\w.]+)$", pages, re.M)
    graphs = {f"moot.graphs.{name}" for name in DESCRIPTIONS | OTHER_GRAPHS}
    assert sorted(shown) == sorted(graphs | set(public()))


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_is_light(package: str) -> None:
    code = f"import sys, {package}; print(*{{name.partition('.')[0] for name in sys.modules}} & {HEAVY})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert not done.stdout.split()
