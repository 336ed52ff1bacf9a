"""Debaters' sources on the scripted endpoint: several sources, failures, fallbacks, a cutoff date, and long texts."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web
from moot.graphs.tool_mad import ToolMadSettings, graph
from moot.retrievers._excerpts import shown_text

from tests.conftest import StartStub
from tests.retrievers.conftest import Serve, serve  # noqa: F401
from tests.retrievers.vendors import SERPER, TAVILY, starter

NO_SOURCE = {"name": "plain"}


async def debate(*debaters: dict[str, Any], **settings: Any) -> dict[str, Any]:
    chosen = {"model": "openai:stub", "max_rounds": 1, "scoring": "consensus_only", "debaters": debaters, **settings}
    document: dict[str, Any] = await graph.ainvoke(
        {"claim": "The deepest lake is Baikal."}, context=ToolMadSettings.model_validate(chosen)
    )
    return document


def turn_of(document: dict[str, Any], agent: str) -> dict[str, Any]:
    return next(t for t in document["turns"] if t["agent"] == agent)


def warning_kinds(document: dict[str, Any]) -> list[str]:
    return [w["kind"] for w in document["warnings"]]


@pytest.fixture(autouse=True)
def stub(start_stub: StartStub) -> Any:
    return start_stub([{"fields": {"query": "deepest lake", "answer": "SUPPORTS", "citations": []}}])


async def test_results_of_several_sources_alternate(stub: Any) -> None:
    names = ["bm25:demo-encyclopaedia", "bm25:demo-news"]
    document = await debate({"name": "both", "retriever": names}, NO_SOURCE, k=2)
    assert (document["status"], turn_of(document, "both")["retrieval"]) == ("done", "ok")
    found = [e["retrievals"][0] for e in document["evidence"]]
    assert [r["retriever"] for r in found] == names * 2
    assert [r["rank"] for r in found] == [1, 1, 2, 2]
    assert all((r["agent"], r["round"], r["query"]) == ("both", 1, "deepest lake") for r in found)
    assert [(c["requested"], c["retriever"]) for c in document["corpora"]] == [(n, n) for n in names]
    assert any("a search engine that matches words" in p for p in stub.prompts())


async def test_a_debate_continues_if_the_source_of_one_debater_fails(
    serve: Serve,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await starter(serve, monkeypatch)(TAVILY, lambda n: web.Response(status=500, headers={"retry-after": "0"}))
    searcher = {"name": "search", "retriever": "tavily"}
    document = await debate(searcher, {"name": "rag", "retriever": "bm25:demo-encyclopaedia"})
    assert (document["status"], document["answer"]) == ("done", "SUPPORTS")
    assert (turn_of(document, "search")["retrieval"], turn_of(document, "search")["evidence_ids"]) == ("failed", [])
    assert warning_kinds(document) == ["retrieval_failed"]


@pytest.mark.parametrize("status", [432, 400], ids=["quota", "bad request"])
async def test_fallbacks_are_tried_in_order_until_one_does_not_fail(
    serve: Serve,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    status: int,
) -> None:
    start = starter(serve, monkeypatch)
    await start(TAVILY, lambda n: web.Response(status=status))
    await start(SERPER, lambda n: web.Response(text="<html>"))
    searcher = {"name": "search", "retriever": "tavily", "fallback": ["serper", "bm25:demo-encyclopaedia", "bm25"]}
    document = await debate(searcher, NO_SOURCE)
    assert turn_of(document, "search")["retrieval"] == "ok"
    assert {e["retrievals"][0]["retriever"] for e in document["evidence"]} == {"bm25:demo-encyclopaedia"}
    assert warning_kinds(document) == ["retrieval_failed", "retrieval_failed", "stand_in"]
    assert [c["requested"] for c in document["corpora"]] == ["tavily", "serper", "bm25:demo-encyclopaedia"]


async def test_a_search_counts_as_failed_if_its_fallback_finds_nothing(
    serve: Serve,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    stub: Any,
) -> None:
    await starter(serve, monkeypatch)(TAVILY, lambda n: web.Response(status=400))
    searcher = {"name": "search", "retriever": "tavily", "fallback": ["bm25:demo-news"]}
    document = await debate(searcher, NO_SOURCE, query_formulation=False, published_before="1000-01-01")
    assert (turn_of(document, "search")["retrieval"], document["evidence"]) == ("failed", [])
    assert warning_kinds(document) == ["retrieval_failed", "stand_in", "no_evidence"]


async def test_a_refused_key_ends_the_debate_in_spite_of_a_fallback(
    serve: Serve,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await starter(serve, monkeypatch)(TAVILY, lambda n: web.Response(status=401))
    document = await debate({"name": "search", "retriever": "tavily", "fallback": ["bm25:demo-news"]}, NO_SOURCE)
    assert (document["status"], document["error"]["kind"]) == ("failed", "authentication")


async def test_a_fallback_that_cannot_be_opened_is_an_error_before_any_call(stub: Any) -> None:
    document = await debate({"name": "rag", "retriever": "bm25:demo-news", "fallback": ["serper"]}, NO_SOURCE)
    assert (document["error"]["kind"], stub.calls()) == ("missing_key", [])


async def test_evidence_not_published_before_the_cutoff_date_is_left_out() -> None:
    """Undated evidence is kept, with a warning."""
    dated = {"name": "rag", "retriever": "bm25:demo-news"}
    everything = await debate(dated, NO_SOURCE, k=20)
    days = sorted(e["published"] for e in everything["evidence"] if "published" in e)
    document = await debate(dated, NO_SOURCE, k=20, published_before=days[len(days) // 2])
    published = [e.get("published") for e in document["evidence"]]
    assert published
    assert all(day is None or day < days[len(days) // 2] for day in published)
    assert warning_kinds(document).count("undated_evidence") == (None in published)
    assert document["settings"]["published_before"] == days[len(days) // 2]


async def test_prompts_show_long_texts_only_in_part(stub: Any) -> None:
    document = await debate({"name": "rag", "retriever": "bm25:demo-encyclopaedia"}, NO_SOURCE, max_evidence_tokens=16)
    piece = document["evidence"][0]
    assert len(piece["text"]) > len(shown_text(piece))
    assert shown_text(piece).endswith(" [...]")
    assert any(shown_text(piece) in p for p in stub.prompts())
    assert not any(piece["text"] in p for p in stub.prompts())
    warned = [w["detail"] for w in document["warnings"] if w["kind"] == "evidence_cut"]
    assert piece["id"] in warned[0]
    assert len(warned) == len(document["evidence"])
