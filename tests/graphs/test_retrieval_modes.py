"""The setting ``retrieval``: when debaters search, and which evidence they see in other rounds."""

from __future__ import annotations

from typing import Any

import pytest
from moot.graphs import load_graph

from tests.conftest import MODELS, StartStub, reading_demo, says

CLAIM = "The kilogram is no longer defined by a metal cylinder kept in France."
TEXT = "A balance holds the kilogram now"


async def debate(name: str, inputs: dict[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    system = load_graph(name)
    kind = system.settings
    chosen = kind.model_validate({"embedder": "openai:stub-embedding", "attempts": 1, **reading_demo(kind), **settings})
    document: dict[str, Any] = await system.graph.ainvoke({"claim": CLAIM, **(inputs or {})}, context=chosen)
    return document


ROUNDS = {"every_round": [1, 2, 3], "once": [1], "none": []}
"""For each mode, the rounds in which debaters search."""


@pytest.mark.parametrize("name", ["tool_mad", "tool_mad_consistency"])
@pytest.mark.parametrize("mode", ROUNDS)
async def test_the_retrieval_setting_selects_the_rounds_with_searches(
    start_stub: StartStub, name: str, mode: str
) -> None:
    stub = start_stub([says("rag", "SUPPORTS"), says("search", "REFUTES")])
    scoring = "all_rounds" if name == "tool_mad" else "off"
    document = await debate(name, models=MODELS, scoring=scoring, retrieval=mode)
    assert (document["status"], document["rounds"]) == ("done", 3)
    searched = {r["round"] for piece in document["evidence"] for r in piece["retrievals"]}
    assert sorted(searched) == ROUNDS[mode]
    for role in ("rag", "search"):
        turns = [turn for turn in document["turns"] if turn["agent"] == role]
        prompts = stub.prompts(f"stub-{role}")
        assert [turn["query"] is not None for turn in turns] == [turn["round"] in ROUNDS[mode] for turn in turns]
        assert len([p for p in prompts if "the `query`" in p]) == len(ROUNDS[mode])
        answered = [p for p in prompts if "your `answer`" in p]
        for turn, prompt in zip(turns, answered, strict=True):
            assert all(f'<evidence id="{i}">' in prompt for i in turn["evidence_ids"])
            assert ("(none: no search was made)" in prompt) == (mode == "none")
            assert bool(turn["evidence_ids"]) == (mode != "none")
        if mode == "once":
            assert turns[0]["evidence_ids"] == turns[1]["evidence_ids"] == turns[2]["evidence_ids"]


async def test_prompts_of_all_rounds_say_that_the_only_search_failed(
    start_stub: StartStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WIKIPEDIA_BASE_URL", "http://127.0.0.1:9")
    stub = start_stub([says("rag", "SUPPORTS"), says("search", "REFUTES")])
    debaters = [{"name": "rag", "retriever": "wikipedia"}, {"name": "search", "retriever": "bm25:demo-news"}]
    await debate("tool_mad", models=MODELS, scoring="all_rounds", retrieval="once", max_rounds=2, debaters=debaters)
    answered = [p for p in stub.prompts("stub-rag") if "your `answer`" in p]
    assert [p.count("(none, as the sources could not be searched)") for p in answered] == [1, 1]


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


@pytest.mark.parametrize(("supported", "stop"), [(True, "stable_consensus"), (False, "max_rounds")])
async def test_faithfulness_is_measured_on_given_texts(start_stub: StartStub, supported: bool, stop: str) -> None:
    scored = {"statements": ["It does."], "verdicts": [{"index": 0, "reason": "so", "supported": supported}]}
    start_stub([
        says("rag", "SUPPORTS"),
        says("search", "SUPPORTS"),
        {"model": "stub-scorer", "fields": {**scored, "questions": [f"Is it true that {CLAIM}?"] * 3}},
    ])  # fmt: skip
    document = await debate("tool_mad", {"given": [{"text": TEXT}]}, models=MODELS, retrieval="none", max_rounds=1)
    assert document["stop_reason"] == stop
    assert document["scores"]["rag"]["faithfulness"] == float(supported)
