"""Reports of the debates in docs/recorded can be made. The debates' excerpts agree with the output of ``moot show``."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from moot.web import debates

from tests.commands import moot

RECORDED = Path(__file__).parents[1] / "docs" / "recorded"
DOCUMENTS = sorted(RECORDED.glob("*.json"))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))


def test_the_folder_contains_a_recorded_debate() -> None:
    assert DOCUMENTS


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_reports_of_a_recorded_debate_contain_its_claim_and_quotes(path: Path, tmp_path: Path) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    cited = [citation for turn in document["turns"] for citation in turn["citations"]]
    assert cited
    assert all(citation["verified"] for citation in cited)
    for kind in ("md", "html"):
        file = tmp_path / f"report.{kind}"
        done = moot("report", path, f"--{kind}", "--out", file)
        assert done.returncode == 0, done.stderr
        text = re.sub(r"<[^>]+>|\*\*", "", file.read_text(encoding="utf-8"))
        for passage in (document["claim"], *(citation["quote"] for citation in cited)):
            assert passage in text


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_the_lines_of_an_excerpt_are_in_the_output_of_show(path: Path) -> None:
    """Three dots in the excerpt stand for omitted text."""
    shown = moot("show", debates.save(debates.parse_document(path.read_bytes())))
    assert shown.returncode == 0, shown.stderr
    excerpt = path.with_suffix(".txt").read_text(encoding="utf-8").splitlines()
    assert 12 <= len(excerpt) <= 16
    assert max(map(len, excerpt)) <= 110
    printed = iter(shown.stdout.splitlines())
    for line in excerpt:  # also checks the order, because the iterator only moves forward
        pattern = re.escape(line).replace(re.escape("..."), ".+")
        assert any(re.fullmatch(pattern, printed_line) for printed_line in printed), line
