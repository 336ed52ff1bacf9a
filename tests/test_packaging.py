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
from moot.cli.tables import listing_rows
from moot.prompts import load
from moot.retrievers._corpus import DEMO_CORPORA, demo_passages
from moot.nodes._models.prices import read_prices
assert load("tool_mad/judge") and read_prices() and all(demo_passages(name) for name in DEMO_CORPORA)
assert listing_rows("settings tool_mad")
from moot.web.pages import STATIC
from moot.transcript.report.report import _templates
assert "page.js" in STATIC and {{"report.css", "report.html", "report.md"}} <= set(_templates().list_templates())
print("imported")
"""
RUN = "from moot.cli.main import run; run()"


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


def run_command(python: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of moot as `run_program` does. Its stderr also lists the imported modules."""
    return run_program(python, folder, RUN, *words, option="importtime")


def run_program(
    python: Path, folder: Path, program: str, *words: str, option: str = "utf8"
) -> subprocess.CompletedProcess[str]:
    """Run a program with this Python. ``folder`` is its current folder, and contains ``MOOT_HOME``.

    ``option`` is the value of Python's option ``-X``.
    """
    environment = os.environ | {"MOOT_HOME": str(folder / "home"), "OPENAI_API_KEY": "stub", "COLUMNS": "200"}
    command = [str(python), "-X", option, "-c", program, *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=False)


def test_the_demo_needs_only_base_dependencies(base: Path, tmp_path: Path) -> None:
    done = run_program(base / "bin" / "python", tmp_path, RUN, "demo")
    assert done.returncode == 0, done.stderr
    assert len([*(tmp_path / "moot-demo").glob("*.html")]) == 3


def test_debates_on_a_bm25_corpus_need_only_base_dependencies(
    base: Path, tmp_path: Path, start_stub: StartStub
) -> None:
    stub = start_stub([{"fields": {"answer": "SUPPORTS", "citations": []}}])
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "saffron.txt").write_text("Saffron is the dried stigma of the crocus flower.\n")
    (tmp_path / "claims.csv").write_text("claim\nSaffron comes from a crocus.\nSaffron is dried.\n")
    python = base / "bin" / "python"
    options = ["--graph", "rag", "--model", "openai:stub", "--set", 'sources=["bm25:mine"]']
    indexed = run_command(python, tmp_path, "index", "texts", "--corpus", "mine", "--embedder", "none")
    assert indexed.returncode == 0, indexed.stderr
    verified = run_command(
        python, tmp_path, "verify", "Saffron comes from a crocus.", *options, "--out", "verdict.json"
    )
    assert verified.returncode == 0, verified.stderr
    document = json.loads((tmp_path / "verdict.json").read_text())
    assert document["answer"] == "SUPPORTS"
    assert [piece["title"] for piece in document["evidence"]] == ["saffron"]
    assert "dried stigma" in stub.prompts()[0]
    batch = run_command(python, tmp_path, "batch", "claims.csv", "--out", "verdicts", *options)
    assert batch.returncode == 0, batch.stderr
    assert (tmp_path / "verdicts" / "table.csv").read_text().count("SUPPORTS") == 2
    # `moot verify` does not load the heavy packages, even if they are installed.
    again = run_command(Path(sys.executable), tmp_path, "verify", "Saffron is dried.", *options, "--fresh")
    assert again.returncode == 0, again.stderr
    assert not re.findall(r"\| +(chromadb|torch|transformers|sentence_transformers)$", again.stderr, re.MULTILINE)


EXTRAS = {
    "index texts --corpus other": 'The default text encoder needs .*"moot\\[encoders\\]"',
    "index texts --corpus other --embedder openai:e": 'A corpus with vectors needs .*"moot\\[chroma\\]"',
    "serve": 'moot serve needs the package .*"moot\\[server\\]"',
    "service": 'moot service needs the package .*"moot\\[service\\]"',
    "eval run --graph rag --task claims=x.jsonl": 'moot eval needs the package .*"moot\\[evals\\]"',
    "worker --queue postgresql://127.0.0.1/x": 'A queue needs the package .*"moot\\[queue\\]"',
}
"""Maps each command that needs an extra to the pattern of its error without the extra."""
RUN_EACH = """
import os, sys
from moot.cli.main import run
for line in sys.argv[1:]:
    if os.fork() == 0:
        sys.argv[1:] = line.split()
        run()
    print(os.waitstatus_to_exitcode(os.wait()[1]), file=sys.stderr)
"""


def test_the_error_for_a_missing_extra_names_the_extra(base: Path, tmp_path: Path, start_stub: StartStub) -> None:
    start_stub()
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "saffron.txt").write_text("Saffron is dried.\n")
    done = run_program(base / "bin" / "python", tmp_path, RUN_EACH, *EXTRAS)
    lines = done.stderr.splitlines()
    ends = [number for number, line in enumerate(lines) if line == "2"]
    assert len(ends) == len(EXTRAS), done.stderr
    for end, pattern in zip(ends, EXTRAS.values(), strict=True):
        assert re.match(f"moot: {pattern}", lines[end - 1]), done.stderr
