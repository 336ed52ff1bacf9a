"""The setting `max_origin_share`: near-duplicates leave places to other results, and nothing else is lost."""

from __future__ import annotations

import re
from typing import Any

import pytest
from moot.graphs import load_graph

from tests.conftest import CLAIM, StartStub, reading_demo
from tests.graphs.origin_shelf import COPIES
from tests.graphs.test_react import search_call, tool_calls

SHELF = "langchain:tests.graphs.origin_shelf"
FIELDS: dict[str, Any] = {
    "fields": {"answer": "REFUTES", "rationale": "So it says.", "query": "eggs", "citations": [], "selected": [1, 2, 3]}
    | {"premises": ["It lays eggs."], "relevance": 1, "credibility": 1, "gap": "Its young.", "needed": False}
    | {"supporting_query": "lays eggs", "challenging_query": "born alive", "challenges": [], "argument": "So it is."}
    | {"verdict": "NOT SUPPORTED", "reason": "So.", "logic": 0.5, "novelty": 0.5, "rebuttal": 0.5, "close": False}
}


def rules(source: str) -> list[dict[str, Any]]:
    """Rules for all systems; the model of `react` searches the source once."""
    call = search_call("eggs", f"search_langchain_tests_graphs_origin_shelf_{source}")
    return [tool_calls(call, times=1), FIELDS]


def reading(name: str, source: str) -> dict[str, Any]:
    """The settings with which every agent of a system reads this source. Each agent has its own model."""
    first, second, *readers = (
        {"name": who, "retriever": source, "model": f"openai:stub-{who}"} for who in ("one", "two", "r1", "r2", "r3")
    )
    found = reading_demo(load_graph(name).settings)
    if "agents" in found:
        return {"agents": readers, "debate_settings": {"debaters": [first, second]}}
    if "debaters" in found:
        return {"debaters": [first, second], "max_rounds": 2}
    return {"sources": [source]} | ({"switched_rounds": 1, "max_rounds": 1} if name == "proclaim" else {})


async def run_debate(name: str, source: str, given: list[dict[str, str]] | None = None, **more: Any) -> dict[str, Any]:
    """Run a debate that searches this source, and check that the debate is done."""
    system = load_graph(name)
    chosen = {"model": "openai:stub", "embedder": "openai:stub-embedding", **reading(name, f"{SHELF}:{source}")}
    settings = system.settings.model_validate(chosen | more)
    document: dict[str, Any] = await system.graph.ainvoke({"claim": CLAIM, "given": given}, context=settings)
    assert document["status"] == "done", document["error"]
    return document


def texts(document: dict[str, Any]) -> set[str]:
    return {piece["text"] for piece in document["evidence"]}


@pytest.mark.parametrize(
    ("name", "source"), [("rag", "mixed"), ("react", "mixed"), ("proclaim", "mixed"), ("rag", "loaded")]
)
async def test_five_near_duplicates_leave_a_place_to_another_website(
    start_stub: StartStub, name: str, source: str
) -> None:
    """Of three or five places, two go to the near-duplicates, and the debate warns. Without a limit, all do."""
    stub = start_stub(rules(source))
    document = await run_debate(name, source, max_origin_share=0.5)
    planted = {page.page_content for page in COPIES}
    assert len(texts(document) & planted) == 2 < len(texts(document))
    assert not any(text in prompt for prompt in stub.prompts() for text in planted - texts(document))
    details = {w["detail"] for w in document["warnings"] if w["kind"] == "origin_share"}
    start = re.compile(r"Other results were preferred to near-duplicates: [13] from planted\.com\.")
    assert details
    assert all(map(start.match, details))
    start_stub(rules(source))
    assert texts(await run_debate(name, source)) <= planted
