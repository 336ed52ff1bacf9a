"""Searching corpora: names, models that cannot be loaded, unusual queries, and simultaneous searches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from moot.retrievers import UserError, open_encoder, open_retriever
from moot.retrievers._cross_encoders import open_cross_encoder
from moot.retrievers._summariser import open_summariser

from .conftest import Serve, Server

NAMES = ["chroma:demo-encyclopaedia", "bm25:demo-encyclopaedia", "hybrid:demo-encyclopaedia"]


async def test_each_name_opens_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("web", "chroma", "bm25", "hybrid"):
        assert (await open_retriever(name)).name == "wikipedia"  # without a corpus
    assert (await open_retriever("web", corpus="demo-encyclopaedia")).name == "bm25:demo-encyclopaedia"
    assert (await open_retriever("bm25", corpus="demo-news")) is (await open_retriever("bm25:demo-news"))
    with pytest.raises(UserError, match="TAVILY_API_KEY is not set") as caught:
        await open_retriever("tavily")
    assert caught.value.kind == "missing_key"
    monkeypatch.setenv("TAVILY_API_KEY", "tvly-0123456789")
    assert (await open_retriever("web")).name == "tavily"


@pytest.mark.parametrize("name", ["", "google", "Chroma", "tavily:demo-news", "web:demo-news", "web:", "wikipedia:en"])
async def test_unknown_names_are_refused(name: str) -> None:
    with pytest.raises(UserError, match="Known: chroma, bm25, hybrid") as caught:
        await open_retriever(name)
    assert caught.value.kind == "unknown_retriever"


async def test_unknown_encoders_are_refused() -> None:
    for name in ("no-such/model", ""):
        with pytest.raises(UserError, match="cannot be loaded") as caught:
            await open_encoder(name)
        assert caught.value.kind == "unknown_encoder"


def count_look_ups(hub: Server) -> int:
    """How often a model was looked up. Other requests of the hub's client are not counted."""
    return sum("/models/" in path for path in hub.paths)


@pytest.mark.parametrize("open_model", [open_encoder, open_cross_encoder, open_summariser])
async def test_a_model_that_failed_to_load_is_looked_up_again_after_a_pause(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, open_model: Any
) -> None:
    hub = await serve(lambda n, body: web.Response(status=503))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.url)
    monkeypatch.chdir(tmp_path)
    failures = []
    for _ in range(3):
        with pytest.raises(UserError, match="'nobody/down' cannot be loaded") as caught:
            await open_model("nobody/down")
        failures.append(caught.value)
    assert count_look_ups(hub) == 1
    assert {failure.kind for failure in failures} == {failures[0].kind}
    assert failures[1].detail.startswith(failures[0].detail)
    assert failures[1].detail.endswith("(moot tries again 5 minutes after this failure, or after a restart.)")
    monkeypatch.setattr("moot.retrievers._local_models.RETRY_SECONDS", 0)  # as if five minutes had passed
    with pytest.raises(UserError, match="or a folder"):
        await open_model("nobody/down")
    assert count_look_ups(hub) == 2
    monkeypatch.setattr("moot.retrievers._local_models.RETRY_SECONDS", 300)
    (tmp_path / "nobody/down").mkdir(parents=True)
    with pytest.raises(UserError) as caught:  # a folder is read again at once, because its files may have been repaired
        await open_model("nobody/down")
    assert "tries again" not in caught.value.detail


@pytest.mark.parametrize("name", NAMES)
async def test_a_search_returns_results_in_descending_order_of_scores(name: str) -> None:
    """A dense or hybrid search can return all 175 passages. BM25 returns only passages that match a word."""
    retriever = await open_retriever(name)
    found = await retriever.search("Which is the deepest lake?", 1000)
    assert found[0]["title"] == "Lake Baikal"
    assert len({p["id"] for p in found}) == len(found) <= 175
    assert (len(found) == 175) != name.startswith("bm25")
    scores = [r["score"] for p in found for r in p["retrievals"] if r["score"] is not None]
    assert len(scores) == len(found)
    assert scores == sorted(scores, reverse=True)
    assert found[0]["retrievals"] == [{"query": "Which is the deepest lake?", "score": scores[0], "retriever": name}]


@pytest.mark.parametrize("query", ["the and of", "zzyzx quux", "\u202e\U0001f600", "", " \x00\ud800"])
async def test_a_lexical_search_without_matching_words_finds_nothing(query: str) -> None:
    assert await (await open_retriever("bm25:demo-news")).search(query, 3) == []
