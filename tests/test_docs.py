"""docs/graphs.md is what its command prints, and the site's pages hold what they take over."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from moot.cli.drawings import drawings_page
from moot.evals.stats.official import place_of
from moot.graphs import DESCRIPTIONS, OTHER_GRAPHS
from moot.retrievers.files import parse_passage

from tests.benchmarks.page import PAGE as PLACES
from tests.benchmarks.page import filled

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGE = DOCS / "graphs.md"
STALE = "docs/graphs.md is not what `moot graphs --drawings` prints: run `make docs`"


def test_the_page_is_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == drawings_page(), STALE
    assert all(f"\n## {name}\n\n{about}\n" in page for name, about in (DESCRIPTIONS | OTHER_GRAPHS).items())
    sections = page.split("\n## ")[1:]
    assert [section.partition("\n")[0] for section in sections] == [*DESCRIPTIONS, *OTHER_GRAPHS]
    assert all("```mermaid\ngraph TD;" in section for section in sections)


def test_the_command_prints_the_same_in_every_process() -> None:
    command = [sys.executable, "-c", "from moot.cli.main import run; run()", "graphs", "--drawings"]
    hashing = {"PYTHONHASHSEED": "7"}  # another order of sets than in the process of this test
    done = subprocess.run(command, capture_output=True, timeout=120, check=True, env=os.environ | hashing)
    assert done.stdout.decode("utf-8") == PAGE.read_text(encoding="utf-8"), STALE


def test_the_site_holds_what_its_pages_name() -> None:
    hooks = runpy.run_path(str(DOCS / "hooks.py"))
    pages = {path.relative_to(DOCS).as_posix(): path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md")}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    left_out = {"Two commands", "A debate", "In your own graph", "The house"}
    taken = re.findall(r"^<!-- README: (.+) -->$", "\n".join(pages.values()), re.M)
    assert {*taken, *left_out} == set(re.findall(r"^## (.+)$", readme, re.M))
    site = "\n".join(
        hooks["on_page_markdown"](text, page=SimpleNamespace(file=SimpleNamespace(src_uri=path)))
        for path, text in pages.items()
    )
    for example in (ROOT / "examples").glob("*.py"):
        assert f"```python\n{example.read_text(encoding='utf-8')}```\n" in site, example


def test_the_program_of_many_debates_runs() -> None:
    (program,) = re.findall(r"```python\n(.*?)```", (DOCS / "howto/speed.md").read_text(encoding="utf-8"), re.S)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert len(answers := done.stdout.splitlines()) == 3, done.stdout
    assert set(answers) <= {"SUPPORTS", "REFUTES", "NOT ENOUGH INFO"}


def test_the_program_that_makes_a_corpus_of_sentences_runs() -> None:
    (program,) = re.findall(r"```python\n(.*?)```", (DOCS / "howto/evaluation.md").read_text(encoding="utf-8"), re.S)
    page = {"id": "Soul_-LRB-film-RRB-", "lines": "0\tSoul is a film .\tfilm\tFilm\n1\t\n2\tIt is long ."}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, input=json.dumps(page), capture_output=True, text=True, timeout=120, check=False)
    made = [parse_passage(line, "") for line in done.stdout.splitlines()]
    assert [(p.title, p.text, place_of(p.model_dump())) for p in made] == [
        ("Soul (film)", "Soul is a film .", ("Soul (film)", "sentence_0")),
        ("Soul (film)", "It is long .", ("Soul (film)", "sentence_2")),
    ], done.stderr


def test_the_program_that_replays_a_debate_runs(tmp_path: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", (DOCS / "howto/ledger.md").read_text(encoding="utf-8"), re.S)
    here = os.environ | {"MOOT_HOME": str(tmp_path)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=here)
    assert done.returncode == 0, done.stderr
    answers, counted = done.stdout.splitlines()
    first, again = answers.split()
    assert first == again in ("SUPPORTS", "REFUTES")
    kept, of = re.findall(r"\d+", counted)
    assert kept == of != "0"


def test_measured_tables_have_their_places() -> None:
    page = PLACES.read_text(encoding="utf-8")
    parts = {name: f"a table of {name}" for name in re.findall(r"<!-- MEASURED: (.+) -->", page)}
    assert set(parts) == {"machine", "scale", "latency", "picture", "growth", "corpora"}
    written = filled(page, parts)
    assert all(f" -->\n\n{part}\n\n<!-- " in written for part in parts.values())
    assert filled(written, parts) == written
    with pytest.raises(ValueError, match="no place for others"):
        filled(page, {"others": ""})
