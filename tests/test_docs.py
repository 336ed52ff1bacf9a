"""Generated pages of docs/ are up to date, and the site's pages and lists are complete."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from moot.graphs import load_graph
from moot.graphs._registry import DESCRIPTIONS, OTHER_GRAPHS

from tests.benchmarks.page import PAGE as SPEED_PAGE
from tests.benchmarks.page import with_parts

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def test_the_page_of_drawings_is_complete() -> None:
    page = (DOCS / "graphs.md").read_text(encoding="utf-8")
    assert all(f"\n## {name}\n\n{about}\n" in page for name, about in (DESCRIPTIONS | OTHER_GRAPHS).items())
    sections = page.split("\n## ")[1:]
    assert [section.partition("\n")[0] for section in sections] == [*DESCRIPTIONS, *OTHER_GRAPHS]
    assert all("```mermaid\ngraph TD;" in section for section in sections)


@cache
def pages() -> dict[str, str]:
    """Every page of the site as Markdown, by path in docs/."""
    made = runpy.run_path(str(DOCS / "hooks.py"))["on_page_markdown"]
    files = {path.relative_to(DOCS).as_posix(): path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md")}
    return {path: made(text, page=SimpleNamespace(file=SimpleNamespace(src_uri=path))) for path, text in files.items()}


def test_the_site_contains_every_example() -> None:
    site = "\n".join(pages().values())
    for example in (ROOT / "examples").glob("*.py"):
        assert f"```python\n{example.read_text(encoding='utf-8')}```\n" in site, example
    assert "<!-- FILE" not in site


def test_settings_and_commands_are_listed_in_the_reference() -> None:
    settings, commands = pages()["reference/settings.md"], pages()["reference/commands.md"]
    for name in DESCRIPTIONS:
        fields = load_graph(name).settings.model_fields
        assert [field for field in fields if not field.endswith("_prompt") and f"\n| `{field}` |" not in settings] == []
    (row,) = re.findall(r"^\| `embedder` \|.*", settings, re.M)
    assert row.endswith("| all except `find_claims` |")
    assert {"verify", "eval run", "replies export"} <= set(re.findall(r"^## moot (.+)$", commands, re.M))
    assert "| `--claim-date` | " in commands


def test_links_from_contributing_lead_to_pages_of_the_site() -> None:
    assert "](howto/speed.md)" in pages()["contributing.md"]


def test_generated_files_are_up_to_date() -> None:
    program = f"""
import runpy
for file, text in runpy.run_path({str(DOCS / "registered.py")!r})["generated_files"]().items():
    assert file.read_text(encoding="utf-8") == text, f"{{file}} is out of date: run `make docs`"
"""
    hashing = {"PYTHONHASHSEED": "7"}  # with this seed, sets have another order than without
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=os.environ | hashing)
    assert done.returncode == 0, done.stderr


def test_every_system_is_in_the_table_of_systems() -> None:
    table = (
        (DOCS / "systems.md").read_text(encoding="utf-8").partition("| graph |")[2].partition("\n\n")[0].splitlines()
    )
    assert sorted(row.split("`")[1] for row in table[2:]) == sorted(DESCRIPTIONS)
    assert {row.count("|") for row in table[1:]} == {8}  # seven columns


@pytest.mark.parametrize("words", ["pdf", "docker", "authentication", "batch", "own corpus"])
def test_common_search_words_occur_in_headings(words: str) -> None:
    headings = [line for text in pages().values() for line in re.findall(r"^#{1,3} (.+)$", text, re.M)]
    assert any(words in heading.lower() for heading in headings)


def test_llms_txt_lists_every_page_once_in_the_order_of_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2].partition("\n\n")[0]
    named = re.findall(r"([\w/]+)\.md$", navigation, re.M)
    lines = re.findall(r"^- \[.+\]\((.+)\.html\): .+$", (DOCS / "llms.txt").read_text(encoding="utf-8"), re.M)
    assert lines == named
    assert set(named) == {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")}


def test_measured_parts_are_written_to_their_places() -> None:
    page = SPEED_PAGE.read_text(encoding="utf-8")
    parts = {name: f"a table of {name}" for name in re.findall(r"<!-- MEASURED: (.+) -->", page)}
    assert set(parts) == {"machine", "scale", "latency", "picture", "growth", "corpora"}
    written = with_parts(page, parts)
    assert all(f" -->\n\n{part}\n\n<!-- " in written for part in parts.values())
    assert with_parts(written, parts) == written


def test_a_measured_part_without_a_place_is_refused() -> None:
    with pytest.raises(ValueError, match="no place for others"):
        with_parts(SPEED_PAGE.read_text(encoding="utf-8"), {"others": ""})
