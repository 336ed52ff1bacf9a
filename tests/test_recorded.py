"""The report of the page's example can be made, and the example's excerpt in the README agrees with ``moot show``."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from moot.web import debates
from moot.web.kept import parse_document

from tests.commands import moot

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "web" / "example.json"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))


def test_reports_of_the_example_contain_its_claim_and_quotes(tmp_path: Path) -> None:
    document = json.loads(EXAMPLE.read_text(encoding="utf-8"))
    cited = [citation for turn in document["turns"] for citation in turn.get("citations", [])]
    assert cited
    assert all(citation["verified"] for citation in cited)
    for kind in ("md", "html"):
        file = tmp_path / f"report.{kind}"
        done = moot("report", EXAMPLE, f"--{kind}", "--out", file)
        assert done.returncode == 0, done.stderr
        text = re.sub(r"<[^>]+>|\*\*", "", file.read_text(encoding="utf-8"))
        for passage in (document["claim"], *(citation["quote"] for citation in cited)):
            assert passage in text


def test_a_report_says_of_a_quote_what_it_does_only_for_answers_that_were_assessed(tmp_path: Path) -> None:
    """The answer of round 1 that the evidence settles nothing was not assessed; a later answer has the same quote."""
    done = moot("report", EXAMPLE, "--md", "--out", tmp_path / "report.md")
    assert done.returncode == 0, done.stderr
    parts = (tmp_path / "report.md").read_text(encoding="utf-8").split("\n## ")
    groups = {name: rest for name, _, rest in (part.partition("\n") for part in parts)}
    quote = "It is the first part of the International Space Station to reach orbit."
    for answer, is_assessed in (("Refuted", True), ("Not enough evidence", False)):
        (line,) = (line for line in groups[f"Quoted for “{answer}”"].splitlines() if quote in line)
        assert ("bears it out" in line) == is_assessed


def test_the_lines_of_the_excerpt_are_in_the_output_of_show() -> None:
    """Three dots in the excerpt stand for omitted text."""
    shown = moot("show", debates.save(parse_document(EXAMPLE.read_bytes())))
    assert shown.returncode == 0, shown.stderr
    (excerpt,) = re.findall(
        r"<!-- RECORDED DEBATE -->\n\n```text\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S
    )
    assert 12 <= len(excerpt.splitlines()) <= 16
    assert max(map(len, excerpt.splitlines())) <= 110
    printed = iter(shown.stdout.splitlines())
    for line in excerpt.splitlines():  # also checks the order, because the iterator only moves forward
        pattern = re.escape(line).replace(re.escape("..."), ".+")
        assert any(re.fullmatch(pattern, printed_line) for printed_line in printed), line
