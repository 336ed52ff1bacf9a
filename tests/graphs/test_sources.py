"""Debaters' sources on the scripted endpoint: several sources, failures, fallbacks, a cutoff date, and long texts."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web
from moot.graphs.tool_mad import ToolMadSettings, graph

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
