"""The wheel contains every module and the data files, and runs with its base dependencies only."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import Distribution, distribution, distributions
from importlib.util import cache_from_source
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.conftest import StartStub

ROOT = Path(__file__).parents[1]
FOLDERS = (
    "cli",
    "core",
    "embedded",
    "evals",
    "graphs",
    "nodes",
    "prompts",
    "retrievers",
    "service",
    "transcript",
    "web",
)
HEAVY = {"chromadb", "sentence-transformers", "torch", "transformers"}

IMPORT_ALL = """
import importlib, sys
sys.path.extend({dependencies!r})  # moot's dependencies: the clean environment contains moot only
import moot.nodes
assert moot.nodes.__file__.startswith({clean!r}), moot.nodes.__file__
for name in {modules!r}:
    importlib.import_module(name)
from moot.prompts import load
from moot.retrievers._corpus import DEMO_CORPORA, demo_passages
from moot.nodes._models.prices import read_prices
assert load("tool_mad/judge") and read_prices() and all(demo_passages(name) for name in DEMO_CORPORA)
from moot.web.pages import STATIC
from moot.transcript.templates import templates
assert "page.js" in STATIC and {{"report.css", "report.html", "report.md"}} <= set(templates().list_templates())
print("imported")
"""


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment in which only the wheel is installed."""
    folder = tmp_path_factory.mktemp("packaging")
    # The wheel is built from a copy, because old files in the folder build/ would get into the wheel.
    source = folder / "source"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__", "tests"))
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(source)]
    subprocess.run(build, check=True, capture_output=True)
    [wheel] = folder.glob("*.whl")
    environment = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(environment / "bin" / "python"),
        "install",
        "--quiet",
        "--no-deps",
    ]
    subprocess.run([*install, "--no-index", str(wheel)], check=True)
    return environment


def site_packages_of(environment: Path) -> Path:
    """The folder of an environment's installed packages."""
    [site] = (environment / "lib").glob("python3*/site-packages")
    return site


def add_requirements(found: Distribution, extras: frozenset[str], known: dict[tuple[str, str], Distribution]) -> None:
    """Add to ``known`` all direct and indirect requirements of ``found``, including those of its ``extras``."""
    for requirement in map(Requirement, found.requires or ()):
        for extra in ("", *extras):
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                inner = {"", *requirement.extras} - {e for n, e in known if n == canonicalize_name(requirement.name)}
                other = distribution(requirement.name)
                known |= {(canonicalize_name(requirement.name), extra): other for extra in inner}
                if inner:
                    add_requirements(other, frozenset(inner), known)


def link_to_installed(file: Path, place: Path) -> None:
    """Create a link at ``place`` to an installed file, and a link to its bytecode. Missing files get no link.

    Without the bytecode, each test run would compile all dependencies again.
    """
    links = {place: file}
    if file.suffix == ".py":
        links[Path(cache_from_source(place))] = Path(cache_from_source(file))
    for new, target in links.items():
        new.parent.mkdir(parents=True, exist_ok=True)
        if target.exists():
            new.symlink_to(target)


@pytest.fixture(scope="module")
def base(clean: Path) -> Path:
    """An environment with the wheel and its base dependencies, which are links to the installed packages."""
    folder = clean.with_name("base")
    shutil.copytree(clean, folder, symlinks=True)
    [moot] = distributions(name="moot", path=[str(site_packages_of(folder))])
    known: dict[tuple[str, str], Distribution] = {}
    add_requirements(moot, frozenset(), known)
    assert not HEAVY & {name for name, _ in known}
    for found in {found.name: found for found in known.values()}.values():
        for file in found.files or ():
            if ".." not in file.parts and file.suffix != ".pyc":
                link_to_installed(Path(str(file.locate())), site_packages_of(folder) / file)
    return folder


def test_modules_of_the_wheel_can_be_imported_and_data_files_can_be_read(clean: Path, tmp_path: Path) -> None:
    files = [path.relative_to(ROOT) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    modules = sorted({".".join(("moot", *f.with_suffix("").parts)).removesuffix(".__init__") for f in files})
    assert len(modules) > 30
    dependencies = [p for p in sys.path if p.endswith("site-packages")]
    code = IMPORT_ALL.format(dependencies=dependencies, clean=str(clean), modules=modules)
    python = str(clean / "bin" / "python")
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.stdout.strip() == "imported", done.stderr
    for folder in FOLDERS:
        assert (site_packages_of(clean) / "moot" / folder / "py.typed").exists()


def run_each(python: Path, folder: Path, *commands: str) -> tuple[list[int], list[str]]:
    """Run commands of moot, one after the other, each in a fork of one process; return exit codes, and lines of stderr.

    ``folder`` is their current folder, and contains ``MOOT_HOME``. The process ends with the list of its modules.
    """
    environment = os.environ | {"MOOT_HOME": str(folder / "home"), "OPENAI_API_KEY": "stub", "COLUMNS": "200"}
    program = [str(python), "-c", RUN_EACH, *commands]
    done = subprocess.run(program, capture_output=True, text=True, cwd=folder, env=environment, check=False)
    lines = done.stderr.splitlines()
    return [int(line.removeprefix(ENDED)) for line in lines if line.startswith(ENDED)], lines


ENDED = "ended with "
RUN_EACH = f"""
import os, shlex, sys
from moot.cli.main import run
for line in sys.argv[1:]:
    if os.fork() == 0:
        sys.argv[1:] = shlex.split(line)
        try:
            run()
        finally:
            print("modules", *sys.modules, file=sys.stderr)
            sys.stderr.flush()
    print("{ENDED}", os.waitstatus_to_exitcode(os.wait()[1]), sep="", file=sys.stderr, flush=True)
"""
IN_BASE = (
    "demo",
    "index texts --corpus mine --embedder none",
    "verify 'Saffron comes from a crocus.' --out verdict.json --graph rag --model openai:stub "
    """--set 'sources=["bm25:mine"]'""",
    """batch claims.csv --out verdicts --graph rag --model openai:stub --set 'sources=["bm25:mine"]'""",
)


def test_the_demo_and_debates_on_a_bm25_corpus_need_only_base_dependencies(
    base: Path, tmp_path: Path, start_stub: StartStub
) -> None:
    stub = start_stub([{"fields": {"answer": "SUPPORTS", "citations": []}}])
    (tmp_path / "texts").mkdir()
    page = "<html><title>saffron</title><body><p>Saffron is the dried stigma of the crocus flower.</p></body></html>"
    (tmp_path / "texts" / "saffron.html").write_text(page)  # the base reads web pages
    (tmp_path / "claims.csv").write_text("claim\nSaffron comes from a crocus.\nSaffron is dried.\n")
    codes, lines = run_each(base / "bin" / "python", tmp_path, *IN_BASE)
    assert codes == [0] * len(IN_BASE), lines
    assert len([*(tmp_path / "moot-demo").glob("*.html")]) == 3
    document = json.loads((tmp_path / "verdict.json").read_text())
    assert document["answer"] == "SUPPORTS"
    assert [piece["title"] for piece in document["evidence"]] == ["saffron"]
    assert any("dried stigma" in prompt for prompt in stub.prompts())  # the planner is asked before the search
    assert (tmp_path / "verdicts" / "table.csv").read_text().count("SUPPORTS") == 2


def test_verify_does_not_load_heavy_packages_that_are_installed(tmp_path: Path, start_stub: StartStub) -> None:
    start_stub([{"fields": {"answer": "SUPPORTS", "citations": []}}])
    codes, lines = run_each(
        Path(sys.executable),
        tmp_path,
        """verify 'Saffron is dried.' --graph rag --model openai:stub --set 'sources=["bm25:demo-news"]'""",
    )
    [modules] = [line.split() for line in lines if line.startswith("modules ")]
    assert (codes, "moot.graphs.rag" in modules) == ([0], True), lines
    assert not {"chromadb", "torch", "transformers", "sentence_transformers"} & {*modules}


EXTRAS = {
    "index texts --corpus other": 'The default text encoder needs .*"moot\\[encoders\\]"',
    "index texts --corpus other --embedder openai:e": 'A corpus with vectors needs .*"moot\\[chroma\\]"',
    "index files --corpus other --embedder none": 'A PDF needs the package pypdfium2: .*"moot\\[documents\\]"',
    "claims letter.docx --model openai:stub": 'A Word document needs .*"moot\\[documents\\]"',
    "batch list.xlsx --out verdicts --model openai:stub": 'A workbook needs .*"moot\\[documents\\]"',
    "serve": 'moot serve needs the package .*"moot\\[server\\]"',
    "service": 'moot service needs the package .*"moot\\[service\\]"',
    "eval run --graph rag --task claims=x.jsonl": 'moot eval needs the package .*"moot\\[evals\\]"',
    "worker --queue postgresql://127.0.0.1/x": 'A queue needs the package .*"moot\\[queue\\]"',
}
"""Maps each command that needs an extra to the pattern of its error without the extra."""


def test_the_error_for_a_missing_extra_names_the_extra(base: Path, tmp_path: Path, start_stub: StartStub) -> None:
    start_stub()
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "saffron.txt").write_text("Saffron is dried.\n")
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "report.pdf").write_bytes(b"%PDF-1.7\n")
    for name in ("letter.docx", "list.xlsx"):
        (tmp_path / name).write_bytes(b"PK\x03\x04")
    codes, lines = run_each(base / "bin" / "python", tmp_path, *EXTRAS)
    assert codes == [2] * len(EXTRAS), lines
    said = [line for line in lines if not line.startswith(("modules ", ENDED))]
    for pattern in EXTRAS.values():
        assert any(re.match(f"moot: {pattern}", line) for line in said), (pattern, said)


TYPED = """
from dataclasses import dataclass
from typing import TypedDict

from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import HumanMessage
from langgraph.graph import StateGraph
from langgraph.types import Command
from moot.graphs.contexts import RagContext, RoundsSettingsDict
from moot.graphs.find_claims import graph as find_claims
from moot.graphs.rag import RagSettings, graph
from moot.graphs.tool_mad import ToolMadSettings
from moot.nodes import CompiledDebate, Debate, Debater, FakeChatModel, RoundsSettings, graph_node


class State(TypedDict, total=False):
    sentence: str
    verdict: str | None


@dataclass
class Context:
    user: str
    debate: RagContext


graph.invoke({"claim": "x", "labels": ["yes", "no"]}, context=RagSettings(model="fake:1"))
graph.invoke({"messages": [HumanMessage("x")]}, context={"model": FakeChatModel(), "sources": ["bm25:demo-news"]})
graph.invoke({"messages": [("user", "x")]}, context={"models": {"agent": {"model": "fake:1"}}})
graph.invoke({"messages": [{"role": "user", "content": "x"}]}, {"configurable": {"thread_id": "1"}})
graph.invoke(Command(resume=True), context={"embedder": DeterministicFakeEmbedding(size=3)})
print(graph.invoke(None, version="v2").value["evidence"][0]["title"])
find_claims.invoke({"text": "x"}, context={"model": "fake:1"})
chosen: RagContext = {"published_before": "2020-10-25", "answer_prompt": "Say it.\\n---\\n{claim}"}
chosen["k"] = 4
node = graph_node(graph).with_settings(RagSettings(model="fake:1"))
builder = StateGraph(State, context_schema=Context)
builder.add_node("a", node.with_keys(lambda s: {"claim": s["sentence"]}, lambda d: {"verdict": d["answer"]}))
builder.add_node("b", graph)
builder.compile().invoke({"sentence": "x"}, context=Context("me", chosen))
own: CompiledDebate[RoundsSettings | RoundsSettingsDict] = Debate("own", RoundsSettings).compile()
own.invoke({"claim": "x"}, context={"max_rounds": 3})

graph.invoke({"clam": "x"})  # wrong
graph.invoke({"claim": 1})  # wrong
graph.invoke("x")  # wrong
graph.invoke({"claim": "x"}, context={"modle": "fake:1"})  # wrong
graph.invoke({"claim": "x"}, context={"k": "three"})  # wrong
graph.invoke({"claim": "x"}, context={"models": {"agent": {"modle": "fake:1"}}})  # wrong
graph.invoke({"claim": "x"}, context={"max_rounds": 3})  # wrong
graph.invoke({"claim": "x"}, context=ToolMadSettings(debaters=(Debater(name="a"),)))  # wrong
graph.invoke({"claim": "x"}, context=RagSettings(modle="fake:1"))  # wrong
find_claims.invoke({"claim": "x"})  # wrong
own.invoke({"claim": "x"}, context={"max_round": 3})  # wrong
Context("me", {"modle": "fake:1"})  # wrong
"""
"""A user's program; type checkers must refuse the lines that are marked, and no others."""


def test_type_checkers_know_the_keys_of_inputs_and_contexts(base: Path, tmp_path: Path) -> None:
    """basedpyright is pyright with its Node.js in the package. For mypy, `make check` shows it with the tests' code."""
    (tmp_path / "program.py").write_text(TYPED)
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard"}')
    checker = [sys.executable, "-m", "basedpyright", "--pythonpath", str(base / "bin" / "python"), "program.py"]
    done = subprocess.run(checker, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = {int(line) for line in re.findall(r"program\.py:(\d+)(?::\d+)?:? (?:- )?error", done.stdout)}
    wrong = {number for number, line in enumerate(TYPED.splitlines(), 1) if line.endswith("# wrong")}
    assert found == wrong, done.stdout
