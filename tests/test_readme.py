"""The README is short, lists every system, and its program and links work.

CITATION.cff and the CI agree with pyproject.toml.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from moot.core.lazy import imported
from moot.graphs import DESCRIPTIONS

from tests.commands import output_of

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MOST = 8000
"""The maximum length of the README in characters."""


def test_the_readme_is_short() -> None:
    assert len(README) <= MOST


def test_the_first_screen_has_the_picture_the_demo_and_two_ways_to_a_model() -> None:
    screen = "\n".join(README.splitlines()[:50])
    parts = ["docs/pictures/report.jpg", "make demo", "make setup && . .venv/bin/activate"]
    parts += ["ollama pull qwen3:8b\nmoot verify", "export OPENAI_API_KEY=sk-...\nmoot verify"]
    places = [screen.find(part) for part in parts]
    assert places == sorted(places)
    assert -1 not in places
    targets = re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert {*re.findall(r"^make ([\w-]+)", README, re.M)} <= {*targets}


def test_every_system_has_a_full_row_in_the_table() -> None:
    rows = README.partition("| graph |")[2].partition("\n\n")[0].splitlines()[2:]
    assert sorted(row.split("`")[1] for row in rows) == sorted(DESCRIPTIONS)
    assert all(len([cell for cell in row.split("|") if cell.strip()]) == 3 for row in rows)


def test_the_program_in_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", README, re.S)
    monkeypatch.chdir(tmp_path)
    printed = output_of(program)
    assert "max_rounds" in printed or "consensus" in printed


@pytest.mark.parametrize("file", ["README.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_relative_links_lead_to_files(file: str) -> None:
    links = re.findall(r"(?:\]\(|src=\")(?!https?:)([^)#\"]+)", (ROOT / file).read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (ROOT / link).is_file()] == []


def test_the_citation_has_the_version_and_licence_of_the_project() -> None:
    citation = imported("yaml").safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (citation["version"], citation["license"]) == (PROJECT["version"], PROJECT["license"])
    assert {"cff-version", "message", "title", "authors", "license"} <= set(citation)


def test_the_ci_workflow_tests_every_supported_python_version() -> None:
    jobs = imported("yaml").safe_load((ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8"))["jobs"]
    classifiers = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert jobs["tests"]["strategy"]["matrix"]["python"] == classifiers
