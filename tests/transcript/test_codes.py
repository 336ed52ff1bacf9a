"""Errors and warnings have words in place of codes, in a report and on the page."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from moot.graphs import load_graph
from moot.graphs._registry import DESCRIPTIONS, OTHER_GRAPHS
from moot.graphs.rag import graph
from moot.nodes._runtime.settings import checked_settings
from moot.transcript.report.codes import CODES, in_words
from moot.transcript.report.report import report
from moot.web import pages

from tests.conftest import StartStub

ROOT = Path(__file__).parents[2]
FOLDERS = ("core", "nodes", "retrievers", "graphs")


@pytest.mark.parametrize(
    ("detail", "words"),
    [
        (
            "Try another model, or set `structured_output` otherwise.",
            "Try another model, or set “How structured output is requested” otherwise.",
        ),
        ("It is shown in part, as max_evidence_tokens is 300.", "as “Longest passage shown to a model” is 300."),
        ("wikipedia: Wikipedia could not be reached.", "Wikipedia: Wikipedia could not be reached."),
        ("`bm25:notes` found nothing.", "the collection “notes” (by keyword) found nothing."),
        ("Another model in `models.arbiter`.", "Another model in “Models of single roles”."),
        ("Run: moot index, with WIKIPEDIA_BASE_URL", "Run: moot index, with WIKIPEDIA_BASE_URL"),
        ("--set max_cost=3", "--set max_cost=3"),
    ],
)
def test_codes_in_errors_are_replaced_by_words(detail: str, words: str) -> None:
    """Commands, their options and environment variables stay as they are."""
    assert in_words(detail).endswith(words)


def test_settings_have_the_same_labels_in_reports_and_on_the_page() -> None:
    named = dict(re.findall(r'^  (\w+): "(.*)",$', pages.STATIC["fields.js"][0].decode(), re.MULTILINE))
    assert {name: re.sub(r" \(.*\)$", "", named[name]) for name in CODES["setting"]} == CODES["setting"]


def user_texts() -> Iterator[str]:
    """The strings in the code that a user may read.

    They contain a space, and are neither docstrings nor in a call of `Field`.
    """
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            tree = ast.parse(path.read_text())
            unread = {id(one.value) for one in ast.walk(tree) if isinstance(one, ast.Expr)}
            fields = [one for one in ast.walk(tree) if isinstance(one, ast.Call) and _called_name(one) == "Field"]
            unread |= {id(part) for field in fields for part in ast.walk(field)}
            for one in ast.walk(tree):
                text = one.value if isinstance(one, ast.Constant) and isinstance(one.value, str) else ""
                if " " in text.strip() and id(one) not in unread:
                    yield text


def _called_name(call: ast.Call) -> str:
    """The name of the function that is called; empty for a method."""
    return getattr(call.func, "id", "")


def test_every_setting_named_in_a_message_has_words() -> None:
    graphs = [load_graph(name, others=True) for name in (*DESCRIPTIONS, *OTHER_GRAPHS)]
    settings: set[str] = {name for one in graphs for name in one.settings.model_fields}
    named = {name for text in user_texts() for name in re.findall(r"`([a-z_]+)[`.:]", text)}
    assert len(named & settings) > 20
    assert named & settings - CODES["setting"].keys() == set()


async def test_a_report_describes_a_failed_search_without_codes(start_stub: StartStub) -> None:
    start_stub([])
    kind: Any = graph.context_schema
    settings = checked_settings(kind, {"model": "openai:stub", "sources": ["wikipedia"]})
    document = await graph.ainvoke({"claim": "The platypus lays eggs."}, context=settings)
    assert document["error"]["kind"] == "retrieval_failed"
    text = report(document, "md")
    assert "No evidence: Wikipedia could not be searched." in text
    assert "“Where to search”" in text
    assert re.findall(r"`(?:sources|fallback)`|retrieval_failed", text) == []
