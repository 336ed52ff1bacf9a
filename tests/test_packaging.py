"""The wheel holds every module and every data file, and needs nothing of this folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("cli", "core", "embedded", "evals", "graphs", "nodes", "prompts", "retrievers", "transcript", "web")

IMPORT_ALL = """
import importlib, sys
sys.path.extend({dependencies!r})  # what moot needs; the clean environment holds moot alone
import moot.nodes
assert moot.nodes.__file__.startswith({clean!r}), moot.nodes.__file__
for name in {modules!r}:
    importlib.import_module(name)
from moot.cli.tables import listed
from moot.prompts import load
from moot.retrievers.corpus import DEMO_CORPORA, demo_passages
from moot.nodes.models.prices import read_prices
assert load("tool_mad/judge") and read_prices() and all(demo_passages(name) for name in DEMO_CORPORA)
assert listed("settings tool_mad")
from moot.web.pages import STATIC
from moot.transcript.report.report import _templates
assert "page.js" in STATIC and {{"report.css", "report.html", "report.md"}} <= set(_templates().list_templates())
print("imported")
"""


def test_the_wheel_in_a_clean_environment(tmp_path: Path) -> None:
    source = tmp_path / "source"  # a copy, as what an earlier build left in build/ would end up in the wheel
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__", "tests"))
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(source)]
    subprocess.run(build, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    clean = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(clean)], check=True)
    python = str(clean / "bin" / "python")
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*install, str(wheel)], check=True)
    files = [path.relative_to(ROOT) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    modules = sorted({".".join(("moot", *f.with_suffix("").parts)).removesuffix(".__init__") for f in files})
    assert len(modules) > 30
    dependencies = [p for p in sys.path if p.endswith("site-packages")]
    code = IMPORT_ALL.format(dependencies=dependencies, clean=str(clean), modules=modules)
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.stdout.strip() == "imported", done.stderr
    for folder in FOLDERS:
        [installed] = (clean / "lib").glob(f"python3*/site-packages/moot/{folder}/py.typed")
        assert installed.exists()
