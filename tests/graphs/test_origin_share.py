"""The setting `max_origin_share`: near-duplicates leave places to other results, and nothing else is lost."""

from __future__ import annotations

import re
from typing import Any

import pytest
from moot.graphs import DESCRIPTIONS, load_graph
from moot.nodes._runtime.settings import EvidenceSettings

from tests.conftest import CLAIM, StartStub, reading_demo
from tests.graphs.origin_shelf import COPIES, DISPUTED, RATES, SHORT, SITE
from tests.graphs.test_react import search_call, tool_calls

SHELF = "langchain:tests.graphs.origin_shelf"
SEARCHING = [name for name in DESCRIPTIONS if issubclass(load_graph(name).settings, EvidenceSettings)]
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
    ("name", "source"), [*((name, "mixed") for name in SEARCHING), ("rag", "mixed_short"), ("rag", "loaded")]
)
async def test_five_near_duplicates_leave_a_place_to_another_website(
    start_stub: StartStub, name: str, source: str
) -> None:
    """Of three or five places, two go to the near-duplicates, and the debate warns. Without a limit, all do."""
    stub = start_stub(rules(source))
    document = await run_debate(name, source)
    planted = {page.page_content for page in (SHORT if source == "mixed_short" else COPIES)}
    assert len(texts(document) & planted) == 2 < len(texts(document))
    assert not any(text in prompt for prompt in stub.prompts() for text in planted - texts(document))
    details = {w["detail"] for w in document["warnings"] if w["kind"] == "origin_share"}
    start = re.compile(r"Other results were preferred to near-duplicates: [13] from planted\.com\.")
    assert details
    assert all(map(start.match, details))
    start_stub(rules(source))
    assert texts(await run_debate(name, source, max_origin_share=1)) <= planted


@pytest.mark.parametrize(("k", "most"), [(1, 1), (2, 2), (3, 2), (5, 2), (6, 3), (8, 5)])
async def test_near_duplicates_get_half_of_the_places_but_always_two(start_stub: StartStub, k: int, most: int) -> None:
    """With eight places, nothing else is found, so all five near-duplicates are shown."""
    start_stub([FIELDS])
    document = await run_debate("rag", "mixed", k=k)
    planted = {page.page_content for page in COPIES}
    assert (len(texts(document) & planted), len(texts(document))) == (most, min(k, most + 3))


@pytest.mark.parametrize(("name", "source"), [*((name, "one_site") for name in SEARCHING), ("rag", "rates")])
@pytest.mark.parametrize("k", [3, 5])
async def test_a_source_with_one_website_gives_all_its_places_to_it(
    start_stub: StartStub, name: str, source: str, k: int
) -> None:
    """Short facts that differ in a number or a name are no near-duplicates, even if all other words are the same."""
    start_stub(rules(source))
    document = await run_debate(name, source, k=k)
    assert texts(document) == {page.page_content for page in (SITE if source == "one_site" else RATES)[:k]}
    assert "origin_share" not in {warning["kind"] for warning in document["warnings"]}


@pytest.mark.parametrize("name", ["rag", "standard_mad", "isolate", "madke"])
async def test_results_of_another_source_are_preferred_to_near_duplicates(start_stub: StartStub, name: str) -> None:
    """Two near-duplicates are left, and other results take further places as long as there are any."""
    for k, most in ((2, 4), (3, 6), (5, 9)):
        start_stub([FIELDS])
        document = await run_debate(name, "copies", sources=[f"{SHELF}:copies", f"{SHELF}:rates"], k=k)
        assert len(texts(document) & {page.page_content for page in COPIES}) == 2
        assert len(texts(document)) == most


def share_warnings(document: dict[str, Any]) -> list[str]:
    return [w["detail"] for w in document["warnings"] if (w["kind"], w["where"]) == ("origin_share", "close")]


@pytest.mark.parametrize("name", SEARCHING)
async def test_near_duplicates_in_the_evidence_of_a_debate_give_a_warning(start_stub: StartStub, name: str) -> None:
    for share in (0.5, 1):
        start_stub(rules("copies"))
        document = await run_debate(name, "copies", max_origin_share=share)
        number = len(texts(document))
        start = f"Of the {number} pieces of evidence, {number} are near-duplicates of one another, from planted.com. "
        expected = [f"{start}This is more than a share of 0.5 (max_origin_share)."]
        assert number >= 3
        assert share_warnings(document) == (expected if share < 1 else [])


async def test_near_duplicates_of_several_searches_count_together(start_stub: StartStub) -> None:
    """Each debater's search finds two, which is not too many; the debate has four among five."""
    start_stub([FIELDS])
    debaters = [
        {"name": source, "retriever": f"{SHELF}:{source}", "model": "openai:stub"}
        for source in ("two_copies", "other_copies")
    ]
    document = await run_debate("tool_mad", "copies", debaters=debaters)
    assert [warning["kind"] for warning in document["warnings"]].count("origin_share") == 1
    assert share_warnings(document)[0].startswith("Of the 5 pieces of evidence, 4 are near-duplicates")


async def test_a_copy_with_one_changed_word_does_not_hide_the_original(start_stub: StartStub) -> None:
    start_stub([FIELDS])
    assert {page.page_content for page in DISPUTED} < texts(await run_debate("rag", "disputed"))


@pytest.mark.parametrize("name", ["tool_mad", "tool_mad_consistency", "gated"])
async def test_agents_who_search_alike_see_the_same_passages(start_stub: StartStub, name: str) -> None:
    """Neither another agent's search, an earlier round nor a given text takes a passage away; the judge sees all."""
    start_stub([{"model": "stub-(one|r1)", "fields": FIELDS["fields"] | {"answer": "SUPPORTS"}}, FIELDS])
    given = [{"text": "The museum has a platypus.", "url": SITE[0].metadata["url"]}]
    document = await run_debate(name, "one_site", given)
    found = {piece["id"]: piece["text"] for piece in document["evidence"]}
    seen = [{found[id] for id in turn["evidence_ids"]} for turn in document["turns"] if turn["step"] != "query"]
    assert len(seen) > 3
    assert all({page.page_content for page in SITE} <= each for each in seen)
