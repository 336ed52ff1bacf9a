"""Hybrid search: the formula of the scores, matches by words and by meaning, reranking, and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moot.retrievers import Passage, index_passages, open_retriever
from moot.retrievers._cross_encoders import CrossScorer
from moot.retrievers._local import LexicalIndex, fuse

PASSAGES = [
    Passage(id="code", title="Part list", text="Spare part QX-1187 fits the pump.", source="list"),
    Passage(id="pump", title="Pumps", text="A machine that moves water uphill needs power.", source="book"),
    Passage(id="lake", title="Lakes", text="Still water gathers in a hollow.", source="book"),
]


def test_a_hybrid_score_is_the_weighted_sum_of_normalised_scores() -> None:
    # By hand, with a weight of 0.65: a is 0.65 * 0.8 / 0.8, b 0.65 * 0.4 / 0.8 + 0.35 * 6 / 6, c 0.65 * -0.1 / 0.8.
    fused = fuse({"a": 0.8, "b": 0.4, "c": -0.1}, {"b": 6.0})
    assert list(fused) == ["b", "a", "c"]
    assert list(fused.values()) == pytest.approx([0.675, 0.65, -0.08125])


SCORES = st.dictionaries(st.sampled_from("abcdef"), st.floats(0.01, 1), min_size=1)


@given(SCORES, SCORES)
def test_a_passage_that_is_best_in_both_searches_has_the_best_fused_score(
    dense: dict[str, float], lexical: dict[str, float]
) -> None:
    """If all scores are positive, the fused scores are between 0 and 1."""
    both = {i: lexical.get(i, 0.0) for i in dense}
    fused = fuse(dense, both)
    assert set(fused) == set(dense)
    assert all(0 <= score <= 1 + 1e-9 for score in fused.values())
    leader = max(dense, key=dense.__getitem__)
    if both[leader] == max(both.values()):
        assert fused[leader] == max(fused.values())


def test_different_words_with_the_same_stem_match_only_with_stemming() -> None:
    texts = [p.text for p in PASSAGES]
    assert LexicalIndex("x", texts, stem=True).scores("moving machines")[1] > 0
    assert LexicalIndex("x", texts, stem=False).scores("moving machines").max() == 0


async def test_passages_are_found_by_words_and_by_meaning(empty_home: Path) -> None:
    await index_passages("parts", PASSAGES)
    hybrid = await open_retriever("hybrid:parts")
    assert (hybrid.name, getattr(hybrid, "passages", 0)) == ("hybrid:parts", 3)
    assert (await hybrid.search("QX-1187", 1))[0]["title"] == "Part list"
    assert (await hybrid.search("carrying liquid to a higher place", 1))[0]["title"] == "Pumps"
    assert len(await hybrid.search("zzyzx", 5)) == 3  # no word matches, but the dense search finds all passages


async def test_a_lexical_match_outside_the_dense_candidates_is_fused(empty_home: Path) -> None:
    await index_passages("parts", PASSAGES)
    hybrid: Any = await open_retriever("hybrid:parts")
    query = "carrying liquid to a higher place, fits"  # the pump matches by meaning, the part list by words
    assert set(hybrid._fused(query, await hybrid._dense.embed(query), 1)) == {"pump", "code"}


async def test_a_cross_encoder_reranks_the_results(empty_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def by_length(self: CrossScorer, text: str, others: list[str]) -> list[float]:
        return [float(-len(other)) for other in others]

    async def open_scorer(name: str) -> CrossScorer:
        return CrossScorer(name, None)

    monkeypatch.setattr(CrossScorer, "compare", by_length)
    monkeypatch.setattr("moot.retrievers._local.open_cross_encoder", open_scorer)
    await index_passages("parts", PASSAGES)
    found = await (await open_retriever("hybrid:parts", reranker="short-first")).search("pump", 2)
    assert [p["title"] for p in found] == ["Lakes", "Part list"]
    assert found[0]["retrievals"][0]["score"] == -len("Lakes. Still water gathers in a hollow.")
