"""The commands read pages by default, and say what it takes; graphs and the preset paper do not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from moot.graphs import DESCRIPTIONS, load_graph
from moot.graphs.rag import RagSettings
from moot.nodes._steps.pages import cost_of_reading

from tests.commands import moot
from tests.conftest import StartStub
from tests.scripted_web import ScriptedWeb, all_sites, environment, scripted_web

SITE = all_sites()[0]
SAYS = "moot: for each search in serper, up to 6 pages are fetched and read"
pytestmark = pytest.mark.allow_hosts(["127.0.0.1", SITE.host])


@pytest.fixture(autouse=True)
def web(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ScriptedWeb]:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
    with scripted_web([SITE]) as running:
        for name, value in environment(running).items():
            monkeypatch.setenv(name, value)
        yield running


def test_verify_and_batch_read_pages_unless_a_setting_or_a_preset_says_otherwise(
    start_stub: StartStub, tmp_path: Path
) -> None:
    start_stub([{"fields": {"query": "Alder Canal", "answer": "SUPPORTS", "rationale": "So.", "citations": []}}])
    options = ["--model", "openai:stub", "--graph", "rag", "--set", 'sources=["web"]']
    read = moot("verify", SITE.claim, *options, "--out", tmp_path / "read.json")
    assert SAYS in read.stderr, read.stderr
    [piece] = json.loads((tmp_path / "read.json").read_text())["evidence"]
    assert SITE.decisive in " ".join(piece["text"].split())
    unread = moot("verify", SITE.claim, *options, "--preset", "paper", "--out", tmp_path / "unread.json")
    assert "fetched and read" not in unread.stderr
    [piece] = json.loads((tmp_path / "unread.json").read_text())["evidence"]
    assert SITE.decisive not in piece["text"]
    assert "snippet" not in piece
    (tmp_path / "claims.csv").write_text(f"claim\n{SITE.claim}\n")
    done = moot("batch", tmp_path / "claims.csv", *options, "--out", tmp_path / "batch")
    assert SAYS in done.stderr, done.stderr
    [document] = [json.loads(file.read_text()) for file in (tmp_path / "batch").glob("*.json")]
    assert document["settings"]["read_pages"]


def test_what_is_said_before_the_start_names_tools_whose_pages_are_read() -> None:
    said = cost_of_reading(RagSettings(read_pages=True), ["wikipedia", "serper", "web", "mcp:notes/search"])
    assert said.startswith("for each search in serper and mcp:notes/search, up to 6 pages are fetched and read")


def test_graphs_leave_it_at_the_snippets_unless_their_preset_is_practical() -> None:
    kinds = {name: load_graph(name).settings for name in DESCRIPTIONS}
    searching = {name for name, kind in kinds.items() if "read_pages" in kind.model_fields}
    assert "tool_mad" in searching
    for name, kind in kinds.items():
        assert not getattr(kind(), "read_pages", False)
        assert getattr(kind(preset="practical"), "read_pages", False) == (name in searching)
