"""The setting ``retrieval``: when debaters search, and which evidence they see in other rounds."""

from __future__ import annotations

from typing import Any

import pytest
from moot.graphs import load_graph

from tests.conftest import StartStub, reading_demo

CLAIM = "The kilogram is no longer defined by a metal cylinder kept in France."
TEXT = "A balance holds the kilogram now"


async def debate(name: str, inputs: dict[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    system = load_graph(name)
    kind = system.settings
    chosen = kind.model_validate({"embedder": "openai:stub-embedding", "attempts": 1, **reading_demo(kind), **settings})
    document: dict[str, Any] = await system.graph.ainvoke({"claim": CLAIM, **(inputs or {})}, context=chosen)
    return document


MISSING_SOURCES: dict[str, dict[str, Any]] = {
    "tool_mad": {"debaters": [{"name": "rag", "retriever": "bm25:none"}, {"name": "search", "retriever": "bm25:none"}]},
    "madke": {"sources": ["bm25:none"], "fallback": ["bm25:none"]},
    "standard_mad": {"sources": ["bm25:none"]},
    "rag": {"sources": ["bm25:none"]},
}
"""For each debate system, settings with sources that cannot be opened."""


@pytest.mark.parametrize("name", MISSING_SOURCES)
async def test_without_retrieval_no_source_is_opened(start_stub: StartStub, name: str) -> None:
    stub = start_stub([{"fields": {"citations": []}}])
    settings = {"model": "openai:stub", **MISSING_SOURCES[name]}
    assert (await debate(name, **settings))["error"]["kind"] == "unknown_corpus"
    for given in ([], [{"text": TEXT}]):
        document = await debate(name, {"given": given}, **settings, retrieval="none")
        assert (document["status"], document["corpora"]) == ("done", [])
        assert [piece["text"] for piece in document["evidence"]] == [text["text"] for text in given]
        assert not [
            turn for turn in document["turns"] if turn["step"] in ("retrieve", "select") or turn.get("retrieval")
        ]
    answered = [p for p in stub.prompts() if "your `answer`" in p]
    assert {TEXT in p for p in answered} == {True, False}
    assert all((TEXT in p) != ("(none: no search was made)" in p) for p in answered)
