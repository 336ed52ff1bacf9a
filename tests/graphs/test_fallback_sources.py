"""Fallback sources: which source is read in place of an unavailable source, and how a debate reports this."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web
from moot.graphs import DESCRIPTIONS, load_graph
from moot.graphs.tool_mad import ToolMadSettings
from moot.nodes._runtime.settings import Settings
from moot.nodes._speakers.debaters import DebaterSettings
from moot.transcript import Live, round_sections
from moot.transcript.report.report import report

from tests.conftest import MODELS, StartStub, StubEndpoint, free_port, reading_demo, says
from tests.retrievers.conftest import Serve, Server, serve  # noqa: F401
from tests.retrievers.vendors import WIKIPEDIA, starter

CLAIM = "The platypus is a mammal that lays eggs."
BASE_SETTINGS = {"scoring": "consensus_only", "embedder": "openai:stub-embedding", "attempts": 1}


@pytest.fixture(autouse=True)
def stub(start_stub: StartStub, monkeypatch: pytest.MonkeyPatch) -> StubEndpoint:
    """An endpoint with debaters that disagree, so there is a second round. Wikipedia's address is a closed port."""
    monkeypatch.setenv("WIKIPEDIA_BASE_URL", f"http://127.0.0.1:{free_port()}")
    return start_stub([says("rag", "SUPPORTS"), says("search", "REFUTES"), {"fields": {"citations": []}}])


async def debate(name: str = "tool_mad", **settings: Any) -> dict[str, Any]:
    settings_class = load_graph(name).settings
    known = {
        key: value for key, value in {**BASE_SETTINGS, "max_rounds": 2}.items() if key in settings_class.model_fields
    }
    chosen = settings_class.model_validate(known | settings)
    document: dict[str, Any] = await load_graph(name).graph.ainvoke({"claim": CLAIM}, context=chosen)
    return document


def sources_read(document: dict[str, Any]) -> set[tuple[str, str]]:
    """For each source that was asked for, a pair of this source and the source that was read."""
    return {(reading["requested"], reading["retriever"]) for reading in document["corpora"]}


def fallback_warnings(document: dict[str, Any]) -> list[str]:
    """The details of the warnings about sources that were replaced."""
    return [warned["detail"] for warned in document["warnings"] if warned["kind"] == "stand_in"]


def searches(server: Server) -> int:
    """The number of searches of Wikipedia. Each is followed by requests for the articles."""
    return sum("gsrsearch" in query for query in server.queries)


async def test_without_a_search_key_and_a_corpus_both_debaters_read_wikipedia_and_the_debate_says_so(
    serve: Serve,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = await starter(serve, monkeypatch)(WIKIPEDIA)
    document = await debate(models=MODELS)
    assert (document["status"], document["rounds"]) == ("done", 2)
    assert sources_read(document) == {("chroma", "wikipedia"), ("web", "wikipedia")}
    first, second = fallback_warnings(document)  # one warning per source, despite two rounds
    assert "`web` was asked for; wikipedia was read in its place" in first + second
    assert "`chroma` was asked for without a corpus; wikipedia was read in its place" in first + second
    assert searches(server) == 5  # one search before the debate, one per debater and round
    (same,) = [warned["detail"] for warned in document["warnings"] if warned["kind"] == "same_source"]
    assert same.startswith("rag and search read the same source: wikipedia.")
    assert same in [line.text for line in Live(ToolMadSettings()).feed({**document, "turns": []})]
    assert same in [line.text for line in round_sections(document)[0].lines]  # the start of the debate's text
    assert "same source" in report(document, "md")


@pytest.mark.parametrize("model", ["fake:1", "openai:stub"])
@pytest.mark.parametrize("name", [name for name in DESCRIPTIONS if reading_demo(load_graph(name).settings)])
async def test_without_a_corpus_no_system_reads_anything_but_wikipedia(
    serve: Serve,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    model: str,
) -> None:
    await starter(serve, monkeypatch)(WIKIPEDIA)
    document = await debate(name, model=model, **({"scoring": "off"} if name == "tool_mad_consistency" else {}))
    assert {reading["retriever"] for reading in document["corpora"]} == {"wikipedia"}
    assert {detail.split("`")[1] for detail in fallback_warnings(document)} == {
        reading["requested"] for reading in document["corpora"]
    } - {"wikipedia"}


async def test_the_error_for_an_unreachable_wikipedia_names_an_option_that_works(stub: StubEndpoint) -> None:
    for name in ("gated", "tool_mad", "madke", "rag"):
        document = await debate(name, model="openai:stub")
        assert (document["status"], document["error"]["kind"]) == ("failed", "retrieval_failed")
        assert all(words in document["error"]["detail"] for words in ("TAVILY_API_KEY", "moot demo"))
    assert [call for call in stub.calls() if call["kind"] != "embedding"] == []
    for name in ("gated", "tool_mad", "madke", "rag"):
        document = await debate(name, model="openai:stub", corpus="demo-news")
        assert (document["status"], ("web", "bm25:demo-news") in sources_read(document)) == ("done", True)


async def test_a_debaters_fallback_does_not_serve_another_debater(
    stub: StubEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A debater without a source that can be searched debates without evidence, if another debater has a source."""
    monkeypatch.setenv("PUBMED_BASE_URL", f"http://127.0.0.1:{free_port()}")
    rag = {"name": "rag", "retriever": "bm25:demo-news", "fallback": ["pubmed"]}
    document = await debate(models=MODELS, debaters=[rag, {"name": "search", "retriever": "web"}])
    assert (document["status"], "retrieval_failed" in {one["kind"] for one in document["warnings"]}) == ("done", True)
    assert sources_read(document) == {("bm25:demo-news", "bm25:demo-news"), ("web", "wikipedia")}
    search = {"name": "search", "retriever": ["bm25:demo-news", "web"], "fallback": ["pubmed"]}
    document = await debate(models=MODELS, retrieval="none", debaters=[rag, {"name": "search", "retriever": "web"}])
    assert document["status"] == "done"
    document = await debate(models=MODELS, query_formulation=False, debaters=[{**rag, "fallback": []}, search])
    assert document["status"] == "done"


async def test_madkes_pool_searches_wikipedia_once_if_wikipedia_also_replaces_the_web(
    serve: Serve,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = await starter(serve, monkeypatch)(WIKIPEDIA)
    document = await debate("madke", model="openai:stub")
    assert sources_read(document) == {("wikipedia", "wikipedia"), ("web", "wikipedia")}
    assert searches(server) == 2  # one search before the debate, one for the pool
    assert [len(piece["retrievals"]) for piece in document["evidence"]] == [1] * len(document["evidence"])


async def test_no_demo_corpus_replaces_a_source_that_fails_during_a_debate(
    serve: Serve,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start_server = starter(serve, monkeypatch)
    await start_server(
        WIKIPEDIA, lambda n: web.Response(text=WIKIPEDIA.nothing) if n == 1 else web.Response(status=400)
    )
    document = await debate("madke", model="openai:stub")
    assert (document["status"], {r["retriever"] for r in document["corpora"]}) == ("failed", {"wikipedia"})


@pytest.mark.parametrize(
    ("settings", "own"),
    [
        ({}, False),
        ({"model": "fake:1", "models": {"judge": "embedded:smollm2-135m"}}, False),
        ({"model": "ollama:llama3.2"}, True),
        ({"models": {"judge": {"model": "openai:a"}}}, True),
        ({"debaters": [{"name": "a", "model": "openai:b"}, {"name": "b"}]}, True),
    ],
)
def test_own_model_tells_whether_any_role_has_a_model_that_is_not_built_in(settings: dict[str, Any], own: bool) -> None:
    checked: Settings = DebaterSettings.model_validate(settings)
    assert checked.own_model == own
