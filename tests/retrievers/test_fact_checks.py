"""Fact checks by others, from Google's Fact Check Tools."""

from __future__ import annotations

import json

import pytest
from moot.retrievers import open_retriever

from .conftest import Serve
from .vendors import CHECKED, FACT_CHECKS, KEY, REVIEW, starter


async def test_each_review_becomes_evidence_that_is_marked(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = {
        "text": "A lake.",
        "claimReview": [{"url": "https://other.example/", "publisher": {"site": "other.example"}}],
    }
    unchecked = {"text": "Nobody checked this."}
    reply = json.dumps({"claims": [CHECKED, bare, unchecked], "nextPageToken": "x"})
    server = await starter(serve, monkeypatch)(FACT_CHECKS, found={"/v1alpha1/claims:search": reply})
    first, second = await (await open_retriever("fact_checks")).search("lake baikal", 3)
    assert first["text"] == ("Lake Facts rated the claim “Lake Baikal is 5,000 metres deep.” by A travel blog: False.")
    assert (first["url"], first["published"], first["source"]) == (REVIEW["url"], "2024-03-01", "Lake Facts")
    assert first["fact_check"]
    assert second["text"] == "other.example rated the claim “A lake.”: without a rating."
    assert (server.queries[0]["query"], server.queries[0]["key"]) == ("lake baikal", KEY)


async def test_fact_checks_from_the_limit_on_are_left_out(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    await starter(serve, monkeypatch)(FACT_CHECKS)
    assert await (await open_retriever("fact_checks", published_before="2024-03-01")).search("baikal", 3) == []
    assert await (await open_retriever("fact_checks", published_before="2024-03-02")).search("baikal", 3)
