"""LangSmith traces of debates, as the client uploads them to a local collector."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote

import langsmith
import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from langsmith import utils
from moot.core.errors import UserError
from moot.core.store import open_store
from moot.graphs import load_graph
from moot.nodes._runtime import tracing
from moot.nodes._runtime.tracing import NO_TIME, client_of_process, wait_until_sent, with_costs

from tests.collector import PROJECT, Collector, collecting
from tests.conftest import MODELS, StartStub, reading_demo, says, supports
from tests.graphs.scripted_trial import LIBRARY

CLAIM = "The kilogram is no longer defined by a metal cylinder kept in France."
TIME_LIMIT = 60.0
"""The maximum time to wait for uploads, in seconds. Uploads in these tests take less."""

Run = dict[str, Any]


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A local LangSmith server, to which this process sends its traces."""
    with collecting() as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("LANGSMITH_DISABLE_RUN_COMPRESSION", "false")  # LangSmith's default; moot's is true
        forget_client()
        yield running
        wait_until_sent(client_of_process(), TIME_LIMIT)
        monkeypatch.undo()
        forget_client()


def forget_client() -> None:
    """Close LangSmith's client, so that a new client reads the environment variables again."""
    client_of_process().close()
    langsmith.configure(client=None)
    utils.get_env_var.cache_clear()  # type: ignore[attr-defined]
    utils.get_tracer_project.cache_clear()


async def run_debate(
    name: str, given: Mapping[str, Any] | None = None, config: Any = None, **settings: Any
) -> dict[str, Any]:
    """Run a debate, wait until its trace is uploaded, and return its document.

    ``given`` replaces the claim or adds other inputs.
    """
    system = load_graph(name)
    chosen = {
        "model": "openai:stub",
        "embedder": "openai:stub-embedding",
        "attempts": 1,
        **reading_demo(system.settings),
        **settings,
    }
    document: dict[str, Any] = await system.graph.ainvoke(
        {"claim": CLAIM, **(given or {})}, config, context=system.settings.model_validate(chosen)
    )
    assert wait_until_sent(client_of_process(), TIME_LIMIT)
    return document


# --- the structure of a trace --------------------------------------------------------------------------------------


def run_path(collector: Collector, run: Run) -> str:
    """The names of a run and its ancestors, from the root down, joined by ``>``."""
    parent = collector.runs.get(run.get("parent_run_id") or "")
    return f"{run_path(collector, parent)} > {run['name']}" if parent else str(run["name"])


def tags(run: Run) -> set[str]:
    """A run's tags without the tags for steps that LangGraph adds, such as ``graph:step:1``."""
    return {tag for tag in run["tags"] if ":step:" not in tag}


def metadata(run: Run) -> Run:
    found: Run = run["extra"]["metadata"]
    return found


async def test_a_trace_has_the_calls_searches_and_metadata_of_its_debate(
    start_stub: StartStub, collector: Collector
) -> None:
    """Each call and each search is a run under its node. Those of an agent have its name in their tags and metadata."""
    start_stub([says("rag", "SUPPORTS"), says("search", "REFUTES"), says("judge", "SUPPORTS")])
    document = await run_debate("tool_mad", models=MODELS, max_rounds=1, scoring="consensus_only")
    sources = {"rag": "chroma:demo-encyclopaedia", "search": "bm25:demo-news"}
    calls_and_searches = [run for run in collector.runs.values() if run["run_type"] != "chain"]
    assert [run_path(collector, run) for run in calls_and_searches if "round:1" not in run["tags"]] == []
    expected = [("Tool-MAD > judge > judge, round 1", "llm")]
    for agent, source in sources.items():
        prefix = f"Tool-MAD > debater > {agent}, round 1 >"
        expected += [
            (f"{prefix} formulate_query > {agent}: formulate_query, round 1", "llm"),
            (f"{prefix} retrieve > {source}", "retriever"),
            (f"{prefix} respond > {agent}: respond, round 1", "llm"),
        ]
    assert sorted((run_path(collector, run), run["run_type"]) for run in calls_and_searches) == sorted(expected)

    [root] = (run for run in collector.runs.values() if run["name"] == "Tool-MAD")
    assert tags(root) == {"tool_mad"}
    facts = metadata(root)
    assert (facts["graph"], facts["status"], facts["stop_reason"]) == ("tool_mad", "done", "max_rounds")
    assert facts["corpora"] == ["bm25:demo-news", "chroma:demo-encyclopaedia"]
    assert [facts["moot_version"], facts["langgraph_version"]] == [version("moot"), version("langgraph")]
    assert root["outputs"]["answer"] == document["answer"] == "SUPPORTS"

    of_rag = [run for run in collector.runs.values() if "agent:rag" in run["tags"]]
    assert {run["run_type"] for run in of_rag} == {"llm", "retriever"}
    assert all({"tool_mad", "round:1"} <= tags(run) and metadata(run)["agent"] == "rag" for run in of_rag)
    [search] = (run for run in of_rag if run["run_type"] == "retriever")
    assert search["inputs"]["query"] == next(t["query"] for t in document["turns"] if t["agent"] == "rag")
    found = search["outputs"]["documents"]
    texts = {piece["id"]: piece["text"] for piece in document["evidence"] if piece["retrievals"][0]["agent"] == "rag"}
    assert {(d["type"], d["metadata"]["id"], d["page_content"]) for d in found} >= {
        ("Document", *piece) for piece in texts.items()
    }


async def test_searches_are_retriever_runs_in_events_and_each_debater_is_there_once(start_stub: StartStub) -> None:
    """A retriever of LangChain has a run of its own, below that of its search."""

    class Shelf(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return [Document("The cylinder was retired in 2019.", metadata={"title": "Units"})]

    start_stub([{"fields": {"query": CLAIM, "citations": []}}])
    debaters = [{"name": "own", "retriever": Shelf()}, {"name": "news", "retriever": "bm25:demo-news"}]
    settings: Any = {"model": "openai:stub", "debaters": debaters, "max_rounds": 1, "scoring": "consensus_only"}
    graph = load_graph("tool_mad").graph
    events: list[Any] = [event async for event in graph.astream_events({"claim": CLAIM}, context=settings)]
    ended = {event["name"]: event for event in events if event["event"] == "on_retriever_end"}
    assert ended.keys() == {"object:Shelf", "Shelf", "bm25:demo-news"}
    assert ended["object:Shelf"]["run_id"] == ended["Shelf"]["parent_ids"][-1]
    found = ended["object:Shelf"]["data"]
    assert (found["input"]["query"], found["output"][0].metadata["title"]) == (CLAIM, "Units")
    assert ended["object:Shelf"]["metadata"]["agent"] == "own"
    started = Counter(event["name"] for event in events if event["event"] == "on_chain_start")
    assert [started[name] for name in ("own, round 1", "news, round 1", "debater")] == [1, 1, 2]


async def test_a_debate_that_raises_its_failure_is_an_error_in_the_trace(
    start_stub: StartStub, collector: Collector
) -> None:
    start_stub([{"status": 400, "raw": "The model is not loaded."}])
    with pytest.raises(UserError):
        await run_debate("rag", on_failure="raise")
    assert wait_until_sent(client_of_process(), TIME_LIMIT)
    failed = {run["name"] for run in collector.runs.values() if run.get("error")}
    assert {"RAG", "answer"} <= failed


@pytest.mark.parametrize("name", ["tool_mad", "society_of_minds", "proclaim", "react"])
async def test_every_call_is_a_run_tagged_with_its_role(start_stub: StartStub, collector: Collector, name: str) -> None:
    """Each run has the fields and the token counts of its call. The test also checks searches and compression."""
    start_stub([{"fields": {"citations": []}}])
    rounds: dict[str, Any] = {"max_rounds": 1} if name in ("tool_mad", "proclaim") else {}
    document = await run_debate(name, **rounds)
    assert document["status"] == "done"
    runs = [run for run in collector.runs.values() if run["run_type"] == "llm"]

    def call_key(run: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(run.get(key) for key in ("node", "role", "agent", "round", "phase", "number", "model"))

    assert Counter(call_key(metadata(run)) for run in runs) == Counter(map(call_key, document["calls"]))
    for run in runs:
        fields, parent = metadata(run), collector.runs[run["parent_run_id"]]
        assert {name, f"role:{fields['role']}"} <= tags(run)
        assert fields["node"] in run["name"]
        assert fields["node"] in (parent["name"], collector.runs[parent["parent_run_id"]]["name"])
        assert run["outputs"]["generations"]
        assert f"round:{fields['round']}" in run["tags"] or not fields["round"]
        assert f"phase:{fields['phase']}" in run["tags"] or fields["phase"] == "primary"
    counted = [metadata(run)["usage_metadata"] for run in runs]
    for ours, theirs in (("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens")):
        assert sum(usage[theirs] for usage in counted) == document["usage"][ours] > 0
    assert not any("total_cost" in usage for usage in counted)  # because the scripted model has no price
    searches = [run for run in collector.runs.values() if run["run_type"] == "retriever"]
    retrievers = {reading["retriever"] for reading in document["corpora"]}
    assert {run["name"] for run in searches} == retrievers
    assert all({name, f"agent:{metadata(run)['agent']}"} <= tags(run) for run in searches)
    assert "zstd" in collector.encodings


def set_price(monkeypatch: pytest.MonkeyPatch, folder: Path, model: str) -> None:
    """Write a file of prices with this model only, and set ``MOOT_PRICES`` to its path."""
    (folder / "prices.jsonl").write_text(json.dumps({"model": model, "input": 2.0, "output": 10.0}))
    monkeypatch.setenv("MOOT_PRICES", str(folder / "prices.jsonl"))


async def test_a_stored_reply_costs_nothing(
    start_stub: StartStub, collector: Collector, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    set_price(monkeypatch, tmp_path, "openai:stub")
    monkeypatch.setenv("MOOT_HOME", str(tmp_path))
    start_stub([])
    for mode in ("record", "replay"):
        monkeypatch.setenv("MOOT_REPLIES", mode)
        await run_debate("standard_prompting", model="openai:stub")
    await asyncio.to_thread(open_store().close)
    calls = [metadata(run) for run in collector.runs.values() if run["run_type"] == "llm"]
    costs = {call.get("from_store", False): call["usage_metadata"]["total_cost"] for call in calls}
    assert costs[False] > 0
    assert costs[True] == 0


async def test_calls_have_costs_after_another_process_resumes_the_debate(
    start_stub: StartStub, collector: Collector, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    set_price(monkeypatch, tmp_path, "openai:stub")
    start_stub([{"fields": {"citations": []}}])
    graph: Any = load_graph("rag").graph.builder.compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    context = {"model": "openai:stub", "attempts": 1, "sources": [LIBRARY], "ask_person": ["evidence"]}
    await graph.ainvoke({"claim": CLAIM}, config, context=context)
    assert wait_until_sent(client_of_process(), TIME_LIMIT)
    forget_client()  # as in another process, which starts without a client
    tracing.guard_traces()
    await graph.ainvoke(Command(resume=True), config)
    assert wait_until_sent(client_of_process(), TIME_LIMIT)
    [call] = (run for run in collector.runs.values() if run["run_type"] == "llm")
    assert metadata(call)["usage_metadata"]["total_cost"] > 0


def test_costs_equal_a_calculation_by_hand() -> None:
    """Without a price, no costs are added."""
    # Prices are in USD per million tokens: 300 x 2 / 1,000,000 = 0.0006, 50 x 10 / 1,000,000 = 0.0005.
    usage = {"input_tokens": 300, "output_tokens": 50, "total_tokens": 350}
    costs = {"input_cost": 0.0006, "output_cost": 0.0005, "total_cost": pytest.approx(0.0011)}
    assert with_costs(usage, {"input": 2.0, "output": 10.0}) == usage | costs
    assert with_costs(usage, None) == usage


# --- scores -----------------------------------------------------------------------------------------------------------


async def test_scores_are_uploaded_as_feedback_on_the_debate(start_stub: StartStub, collector: Collector) -> None:
    start_stub([says("rag", "SUPPORTS"), says("search", "SUPPORTS"), *supports([True, True, True, False], CLAIM)])
    document = await run_debate("tool_mad", models=MODELS, claim_form="question")
    [root] = (run for run in collector.runs.values() if run.get("parent_run_id") is None)
    uploaded = {(f.get("comment"), f["key"]): f["score"] for f in collector.feedback}
    expected = {(agent, key): score for agent, scores in document["scores"].items() for key, score in scores.items()}
    assert uploaded == pytest.approx(expected | {(None, "confidence"): 1.0})  # because each answer equals the verdict
    assert {f["key"] for f in collector.feedback} == {"faithfulness", "answer_relevance", "confidence"}
    assert {(f["run_id"], f["trace_id"], f["session_id"]) for f in collector.feedback} == {
        (root["id"], root["id"], PROJECT)
    }


# --- keys -------------------------------------------------------------------------------------------------------------


def planted_key(place: str) -> str:
    """The key that the tests plant in a place of `PLACES`."""
    return f"canary/{place}+1234567890"


PLACES = (
    "input",
    "output",
    "error",
    "tag",
    "metadata",
    "header",
    "configurable",
    "run_name",
    "address",
    "document",
    "exception",
)
"""The places with planted keys.

Each key is the whole value of an environment variable, except the keys in the header and the address.
"""


class Leaky(BaseRetriever):
    """A source whose documents contain a key, and whose errors contain another key."""

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        if "fail" in query:
            raise ConnectionError(f"https://shop.test/?key={quote(planted_key('exception'), safe='')} is closed")
        return [Document(f"Our key is {planted_key('document')}.")]


leaky = Leaky()


async def run_debates_with_keys(start_stub: StartStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a key in every place of `PLACES`, and run three debates."""
    for place in set(PLACES) - {"header", "address"}:
        monkeypatch.setenv(f"{place.upper()}_API_KEY", planted_key(place))
    refused = {"error": {"message": f"Incorrect API key provided: {planted_key('error')}"}}
    stub = start_stub([
        {"match": "wrong", "status": 401, "raw": json.dumps(refused)},
        {"fields": {"rationale": f"I know {planted_key('output')}.", "citations": []}},
    ])  # fmt: skip
    user = quote(planted_key("address"), safe="")
    monkeypatch.setenv("OPENAI_BASE_URL", stub.url.replace("//", f"//me:{user}@"))
    config = {
        "run_name": f"Debate {planted_key('run_name')}",
        "tags": [f"of-{planted_key('tag')}"],
        "metadata": {"who": planted_key("metadata"), "headers": {"X-Api-Key": planted_key("header")}},
        "configurable": {"shop": planted_key("configurable")},
    }
    sources = {"sources": [f"langchain:{__name__}:leaky"]}
    await run_debate("rag", {"claim": f"It is {planted_key('input')}."}, config, **sources)
    for claim, kind in (("It is wrong.", "authentication"), ("It will fail.", "retrieval_failed")):
        assert (await run_debate("rag", {"claim": claim}, config, **sources))["error"]["kind"] == kind


def uploaded_places(collector: Collector) -> set[str]:
    """The places whose keys were uploaded, verbatim or URL-encoded."""
    sent = b"\n".join(collector.raw).decode() + json.dumps([collector.feedback, collector.posted])
    return {place for place in PLACES if planted_key(place) in sent or quote(planted_key(place), safe="") in sent}


@pytest.mark.parametrize("hide", ["false", "true"])
async def test_no_key_is_uploaded(
    start_stub: StartStub, collector: Collector, monkeypatch: pytest.MonkeyPatch, hide: str
) -> None:
    monkeypatch.setenv("LANGSMITH_HIDE_INPUTS", hide)
    monkeypatch.setenv("LANGSMITH_HIDE_OUTPUTS", hide)
    await run_debates_with_keys(start_stub, monkeypatch)
    assert len([run for run in collector.runs.values() if run.get("parent_run_id") is None]) == 3
    assert uploaded_places(collector) == set()


async def test_without_our_filter_keys_would_be_uploaded(
    start_stub: StartStub, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without this test, `test_no_key_is_uploaded` could pass because the keys were not planted."""
    monkeypatch.setattr(tracing, "hide_secrets", lambda value, keys=None: value)
    await run_debates_with_keys(start_stub, monkeypatch)
    assert uploaded_places(collector) == set(PLACES) - {"address"}  # a login in the address is sent as a header


async def test_the_users_own_langsmith_client_is_kept(start_stub: StartStub, collector: Collector) -> None:
    theirs = langsmith.Client()
    langsmith.configure(client=theirs)
    start_stub([{"fields": {"citations": []}}])
    await run_debate("standard_prompting")
    assert client_of_process() is theirs
    assert collector.runs


async def test_without_tracing_no_langsmith_client_is_created(start_stub: StartStub) -> None:
    assert os.environ["LANGSMITH_TRACING"] == "false"
    start_stub([{"fields": {"citations": []}}])
    await run_debate("rag", sources=[LIBRARY])
    assert client_of_process().timeout_ms == NO_TIME
