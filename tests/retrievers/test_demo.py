"""The demo data: its passages and claims are complete, and searches find most passages that a claim lists."""

from __future__ import annotations

import json
from collections import Counter
from importlib import resources
from typing import Any

import pytest
from moot.retrievers import open_retriever
from moot.retrievers._corpus import DEMO_CORPORA, demo_passages
from moot.retrievers._evidence import clean, evidence_id

CLAIMS: list[dict[str, Any]] = [
    json.loads(line)
    for line in (resources.files("moot.retrievers") / "demo" / "claims.jsonl").read_text(encoding="utf-8").splitlines()
]
PASSAGES = {name: demo_passages(name) for name in DEMO_CORPORA}


def test_demo_passages_are_complete_and_unique() -> None:
    """In the demo news, the first sentence of each passage contains the year of publication."""
    everything = [p for passages in PASSAGES.values() for p in passages]
    assert all(p.title and p.source and clean(p.text) == p.text for p in everything)
    assert len({p.id for p in everything}) == len({p.text for p in everything}) == len(everything)
    assert all(p.published and p.published[:4] in p.text.split(".")[0] for p in PASSAGES["demo-news"])


def test_demo_claims_have_balanced_labels_and_known_passages() -> None:
    """A claim lists passages unless its label is NOT ENOUGH INFO."""
    known = {p.id for passages in PASSAGES.values() for p in passages}
    assert len({c["id"] for c in CLAIMS}) == len({c["claim"] for c in CLAIMS}) == len(CLAIMS)
    assert set(Counter(c["label"] for c in CLAIMS).values()) == {14}
    assert {e for c in CLAIMS for e in c["evidence"]} <= known
    assert all(bool(c["evidence"]) == (c["label"] != "NOT ENOUGH INFO") for c in CLAIMS)


@pytest.mark.parametrize(
    ("kind", "corpus", "measured"),
    [
        ("chroma", "demo-encyclopaedia", 1.0),
        ("chroma", "demo-news", 1.0),
        ("bm25", "demo-encyclopaedia", 18 / 19),
        ("bm25", "demo-news", 1.0),
    ],
)
async def test_recall_in_the_demo_corpora_has_not_dropped(kind: str, corpus: str, measured: float) -> None:
    """Recall is averaged over the claims that list passages of the corpus.

    A claim's recall is the share of these passages that are among the first three results of a search. The mean may be
    at most 0.1 below ``measured``, an earlier mean.
    """
    retriever = await open_retriever(f"{kind}:{corpus}")
    ids = {evidence_id(clean(p.source), clean(p.text)): p.id for p in PASSAGES[corpus]}
    recalls = []
    for claim in CLAIMS:
        if wanted := set(claim["evidence"]) & set(ids.values()):
            found = {ids[piece["id"]] for piece in await retriever.search(claim["claim"], 3)}
            recalls.append(len(wanted & found) / len(wanted))
    assert sum(recalls) / len(recalls) >= measured - 0.1
