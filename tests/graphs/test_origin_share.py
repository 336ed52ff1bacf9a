"""The setting `max_origin_share` limits the share of one website in the evidence found in a debate."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from moot.graphs import load_graph
from moot.retrievers._evidence import active_evidence
from moot.retrievers._origins import origins

from tests.conftest import CLAIM, StartStub

SHELF = "langchain:tests.graphs.origin_shelf"
FIELDS: dict[str, Any] = {
    "fields": {"answer": "REFUTES", "rationale": "So it says.", "query": "eggs", "citations": [], "selected": [1, 2, 3]}
    | {"premises": ["It lays eggs."], "relevance": 1, "credibility": 1, "gap": "Its young.", "needed": False}
    | {"supporting_query": "lays eggs", "challenging_query": "born alive", "challenges": [], "argument": "So it is."}
    | {"verdict": "NOT SUPPORTED", "reason": "So.", "logic": 0.5, "novelty": 0.5, "rebuttal": 0.5, "close": False}
}


async def run_debate(name: str, source: str, given: list[dict[str, str]] | None = None, **more: Any) -> dict[str, Any]:
    """Run a debate that searches this source, and check that the debate is done."""
    system = load_graph(name)
    sources: dict[str, Any] = {"sources": [source]}
    if name.startswith("tool_mad"):
        sources = {"debaters": [{"name": name, "retriever": source} for name in ("rag", "search")], "max_rounds": 2}
        sources |= {"scoring": "all_rounds"} if name == "tool_mad" else {}
    settings = system.settings.model_validate({"model": "openai:stub", "k": 5, **sources, **more})
    document: dict[str, Any] = await system.graph.ainvoke({"claim": CLAIM, "given": given}, context=settings)
    assert document["status"] == "done", document["error"]
    return document


def count_active_pieces(document: dict[str, Any]) -> tuple[int, int]:
    """The number of active pieces from the most frequent origin, and the number of all active pieces."""
    active = active_evidence(document["evidence"])
    return max(Counter(origins(active).values()).values()), len(active)


@pytest.mark.parametrize("name", ["tool_mad", "tool_mad_consistency", "madke", "standard_mad", "rag"])
async def test_only_one_of_five_copies_from_a_website_is_shown(start_stub: StartStub, name: str) -> None:
    """Without the limit (`max_origin_share=1`), all five are active."""
    stub = start_stub([FIELDS])
    document = await run_debate(name, f"{SHELF}:copies", max_origin_share=1)
    assert count_active_pieces(document) == (5, 5)
    before = len(stub.prompts())
    document = await run_debate(name, f"{SHELF}:copies")
    assert count_active_pieces(document) == (1, 1)
    first, *others = document["evidence"]
    assert [all(r["left_out"] for r in piece["retrievals"]) for piece in others] == [True] * 4
    assert not any("left_out" in r for r in first["retrievals"])
    assert any(first["text"] in prompt for prompt in stub.prompts()[before:])
    assert not any(piece["text"] in prompt for prompt in stub.prompts()[before:] for piece in others)
    assert all(turn["evidence_ids"] in ([], [first["id"]]) for turn in document["turns"])
    details = {w["detail"] for w in document["warnings"] if w["kind"] == "origin_share"}
    message = "One origin may have at most a share of 0.5 of the evidence (max_origin_share)."
    assert details == {f"Pieces left out: 4 from planted.com. {message}"}


@pytest.mark.parametrize("name", ["tool_mad", "madke", "rag", "proclaim"])
async def test_pieces_of_other_origins_replace_pieces_beyond_the_limit(start_stub: StartStub, name: str) -> None:
    start_stub([FIELDS])
    more: dict[str, Any] = (
        {"max_rounds": 1, "switched_rounds": 1, "min_request_similarity": 0} if name == "proclaim" else {}
    )
    document = await run_debate(name, f"{SHELF}:mixed", **more)
    most, size = count_active_pieces(document)
    assert size >= 4
    assert most <= size / 2


async def test_the_limit_holds_for_the_judge_if_two_debaters_search_in_parallel(start_stub: StartStub) -> None:
    """Each debater finds one piece. The judge is shown only one of the two."""
    start_stub([FIELDS])
    debaters = [{"name": "one", "retriever": f"{SHELF}:copies"}, {"name": "two", "retriever": f"{SHELF}:later_copies"}]
    document = await run_debate("tool_mad", "", debaters=debaters, max_rounds=1, k=1)
    assert count_active_pieces(document) == (2, 2)
    [judged] = [turn for turn in document["turns"] if turn["step"] == "judge"]
    assert len(judged["evidence_ids"]) == 1


async def test_given_texts_use_up_the_share_of_their_origin(start_stub: StartStub) -> None:
    """All given texts are shown, but no piece that a search finds at their origin."""
    stub = start_stub([FIELDS])
    given = [{"text": f"Page {n} says so.", "url": f"https://planted.com/g{n}"} for n in range(3)]
    document = await run_debate("tool_mad", f"{SHELF}:mixed", given, k=3, max_rounds=1)
    assert [piece["url"] for piece in active_evidence(document["evidence"])].count("https://honest-1.org/1") == 1
    assert not [
        p for p in active_evidence(document["evidence"]) if p.get("url", "").startswith("https://www.planted.com")
    ]
    assert all(text["text"] in stub.prompts()[-1] for text in given)
