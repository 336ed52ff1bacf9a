"""An outage of all sources is never a verdict; an empty result or an outage of some sources can be part of one."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web
from moot.evals._stats.outcomes import outcome_of
from moot.graphs import load_graph
from moot.transcript.report.report import report

from tests.conftest import CLAIM, StartStub, StubEndpoint, free_port
from tests.faults.sources import unsteady
from tests.retrievers.conftest import Serve, serve  # noqa: F401
from tests.retrievers.vendors import VENDORS, Vendor, starter

DOWN, SHELF, UNSTEADY = (f"langchain:tests.faults.sources:{name}" for name in ("down", "shelf", "unsteady"))
EMPTY = "langchain:tests.transcript.shelf:empty"
SEARCHING = (
    "tool_mad",
    "tool_mad_consistency",
    "madke",
    "proclaim",
    "standard_mad",
    "rag",
    "react",
    "isolate",
    "gated",
)
GIVEN = [{"text": "Platypuses lay eggs."}]
ROUNDS = {"tool_mad", "tool_mad_consistency"}


def settings_of(graph: str, *sources: str, **more: Any) -> Any:
    """The settings of a debate in which each source is read by one debater, or all sources by all debaters."""
    kind = load_graph(graph).settings
    names = sources if len(sources) > 1 else sources * 2
    readers = [{"name": f"reader-{number}", "retriever": source} for number, source in enumerate(names, 1)]
    inner = [{"name": f"inner-{number}", "retriever": source} for number, source in enumerate(names, 1)]
    chosen: dict[str, Any] = {"sources": list(sources), "fallback": []} if sources else {}
    if graph in ROUNDS and sources:
        chosen = {"debaters": readers}
    elif graph == "gated" and sources:
        chosen = {"agents": readers, "debate_settings": {"debaters": inner}}
    small = {"max_rounds": 2, "switched_rounds": 1, "attempts": 1, "embedder": "openai:stub-embedding"}
    chosen |= {key: value for key, value in small.items() if key in kind.model_fields}
    return kind.model_validate({"model": "openai:stub", **chosen, **more})


async def debate(graph: str, *sources: str, given: Any = None, **more: Any) -> dict[str, Any]:
    document: dict[str, Any] = await load_graph(graph).graph.ainvoke(
        {"claim": CLAIM, "given": given}, context=settings_of(graph, *sources, **more)
    )
    return document


def check_outage(document: dict[str, Any], *words: str) -> None:
    """Check that a debate failed because of its sources, that its error has these words, and that it has no verdict."""
    error = document["error"]
    assert (document["status"], error["kind"], error["retryable"]) == ("failed", "retrieval_failed", True)
    assert all(word in error["detail"] for word in (*words, " again"))
    empty = ("answer", "raw_verdict", "confidence", "confidence_parts", "stop_reason", "prediction_set", "decision")
    assert [document[key] for key in empty] == [None] * len(empty)
    assert outcome_of(document) is None  # missing data for `moot eval`, not an abstention


def answers(stub: StubEndpoint) -> list[str]:
    """The prompts that ask for an answer to the claim, not for a query or for the premises."""
    return [prompt for prompt in stub.prompts() if "your `answer`" in prompt]


@pytest.fixture(autouse=True)
def stub(start_stub: StartStub, monkeypatch: pytest.MonkeyPatch) -> StubEndpoint:
    monkeypatch.setenv("WIKIPEDIA_BASE_URL", f"http://127.0.0.1:{free_port()}")
    return start_stub()


@pytest.mark.parametrize("graph", SEARCHING)
async def test_if_every_search_fails_there_is_no_verdict_unless_texts_were_given(
    graph: str, stub: StubEndpoint
) -> None:
    check_outage(await debate(graph, "wikipedia"), "`wikipedia`", "could not be reached")
    assert len(answers(stub)) == (2 if graph in (*ROUNDS, "gated") else 0)  # the answers of one round, or none
    document = await debate(graph, "wikipedia", given=GIVEN)
    assert (document["status"], document["error"]) == ("done", None)
    assert "retrieval_failed" in {one["kind"] for one in document["warnings"]}


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda one: one.name)
@pytest.mark.parametrize("status", [400, 503], ids=str)
async def test_an_outage_of_any_web_source_is_no_verdict(
    vendor: Vendor,
    status: int,
    serve: Serve,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await starter(serve, monkeypatch)(vendor, lambda n: web.Response(status=status, headers={"retry-after": "0"}))
    for graph in ("tool_mad", "rag"):
        check_outage(await debate(graph, vendor.name), f"`{vendor.name}`")


async def test_an_outage_of_a_used_up_account_a_retriever_or_a_chroma_server_is_no_verdict(
    serve: Serve,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check_outage(await debate("rag", "web"), "Wikipedia could not")
    for vendor in VENDORS:
        if vendor.used_up:
            status, body = vendor.used_up
            await starter(serve, monkeypatch)(vendor, lambda n: web.Response(status=status, text=body))  # noqa: B023
            check_outage(await debate("tool_mad", vendor.name), vendor.name)
    check_outage(await debate("tool_mad", DOWN), DOWN, "the source is down")
    check_outage(await debate("tool_mad", DOWN, "wikipedia"), DOWN, "`wikipedia`", "the source is down", "reached")
    monkeypatch.setenv("MOOT_CHROMA_URL", f"http://127.0.0.1:{free_port()}")
    check_outage(await debate("tool_mad", "chroma:facts"), "chroma:facts", "MOOT_CHROMA_URL")


@pytest.mark.parametrize("graph", SEARCHING)
async def test_if_some_searches_succeed_there_is_a_verdict_with_a_warning(graph: str) -> None:
    """An empty result is a success. So is a fallback's result."""
    fallback: dict[str, Any] = {"fallback": [SHELF]}
    cases: list[tuple[tuple[str, ...], dict[str, Any]]] = [
        ((DOWN, SHELF), {}),
        ((DOWN, EMPTY), {}),
        ((DOWN,), fallback),
    ]
    for sources, more in cases:
        if more and graph in (*ROUNDS, "gated"):
            reader = {"name": "a", "retriever": DOWN, "fallback": [SHELF]}
            more = {"agents" if graph == "gated" else "debaters": [reader, {"name": "b"}]}
        if graph == "react" and not more:
            continue  # the scripted agent calls its first tool only
        document = await debate(graph, *sources, **more)
        assert (document["status"], document["error"]) == ("done", None), sources
        assert "retrieval_failed" in {one["kind"] for one in document["warnings"]}


async def test_the_report_of_an_outage_has_no_dissent() -> None:
    document = await debate("tool_mad", DOWN)
    assert len(document["votes"]) == 2
    assert "Dissent" not in report(document, "md") + report(document, "html")


@pytest.mark.parametrize("graph", SEARCHING)
async def test_if_wikipedia_cannot_replace_a_source_given_texts_or_another_source_are_enough(graph: str) -> None:
    failed = await debate(graph, "web", "bm25")
    check_outage(failed, "Wikipedia would be read", "TAVILY_API_KEY", "No corpus is set for `bm25`")
    assert failed["calls"] == []
    documents = [await debate(graph, given=GIVEN), await debate(graph, "web", given=GIVEN)]
    if graph != "react":  # the scripted agent calls its first tool only
        documents += [await debate(graph, SHELF, "web")]
    for document in documents:
        assert (document["status"], document["error"]) == ("done", None)
        assert "retrieval_failed" in {one["kind"] for one in document["warnings"]}


async def test_if_each_source_fails_the_error_says_why_wikipedia_was_searched() -> None:
    document = await debate("tool_mad", DOWN, "web")
    check_outage(document, DOWN, "`wikipedia`", "TAVILY_API_KEY", "`--corpus NAME`")


async def test_a_fallback_that_stands_for_the_failed_source_does_not_prolong_a_debate() -> None:
    readers = [{"name": "a", "retriever": "wikipedia", "fallback": ["web"]}, {"name": "b", "retriever": DOWN}]
    document = await debate("tool_mad", debaters=readers, max_rounds=3, scoring="all_rounds")
    check_outage(document, "`wikipedia`")
    assert document["rounds"] == 1


async def test_an_empty_result_before_a_day_names_the_day() -> None:
    document = await debate("rag", "bm25:demo-news", published_before="1900-01-01")
    details = {one["kind"]: one["detail"] for one in document["warnings"]}
    assert "found nothing published before 1900-01-01 for" in details["empty_retrieval"]
    assert details["no_evidence"].endswith("the searches found nothing published before 1900-01-01.")


async def test_searches_that_fail_only_in_later_rounds_do_not_end_the_debate(monkeypatch: pytest.MonkeyPatch) -> None:
    for fails, status in (({3, 4}, "done"), ({1, 2}, "failed")):
        monkeypatch.setattr(unsteady, "count", 0)
        monkeypatch.setattr(unsteady, "fails", fails)
        document = await debate("tool_mad", UNSTEADY, scoring="all_rounds", query_formulation=False)
        assert (document["status"], document["rounds"]) == (status, 2 if status == "done" else 1)


async def test_a_debate_behind_a_gate_goes_on_with_sources_that_were_not_tried(stub: StubEndpoint) -> None:
    inner = [{"name": f"inner-{number}", "retriever": SHELF} for number in (1, 2)]
    document = await debate("gated", DOWN, debate_settings={"debaters": inner})
    assert (document["status"], bool(document["evidence"])) == ("done", True)
    inner = [{"name": f"inner-{number}", "retriever": "wikipedia"} for number in (1, 2)]
    check_outage(await debate("gated", DOWN, debate_settings={"debaters": inner}), "`wikipedia`")


@pytest.mark.parametrize("graph", [*SEARCHING, "society_of_minds", "chain_of_thought"])
async def test_debates_that_never_search_have_a_verdict(graph: str) -> None:
    closed: dict[str, Any] = {"retrieval": "none"} if graph in SEARCHING else {}
    closed |= {"debate_settings": dict(closed)} if graph == "gated" else {}
    document = await debate(graph, **({"sources": []} if graph in ("proclaim", "react") else closed))
    assert (document["status"], document["corpora"]) == ("done", [])
