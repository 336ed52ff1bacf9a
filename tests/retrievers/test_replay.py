"""Searches and embeddings are stored. A replay needs no key and opens no connection."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from moot.core.endpoint import close_clients, find_endpoint, replaying
from moot.core.errors import MootError
from moot.core.store import Store, open_store
from moot.graphs import load_graph
from moot.nodes._models.replies import DebateReplies, StoreUse, store_use
from moot.retrievers import UserError, index_passages, open_encoder
from moot.retrievers._encoders import embeddings

from tests.conftest import running_stub
from tests.graphs.test_replay import comparable

from .conftest import Serve, passage
from .vendors import FOUND, TAVILY, StartVendor, starter


@pytest.fixture
def start(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> StartVendor:
    return starter(serve, monkeypatch)


@pytest.fixture
async def store(empty_home: Path) -> AsyncIterator[Store]:
    opened = open_store()
    yield opened
    await asyncio.to_thread(opened.close)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_recorded_search_is_replayed_without_server_and_keys(
    start: StartVendor, store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fails: bool
) -> None:
    server = await start(TAVILY, lambda n: web.Response(status=432) if fails else FOUND)
    system = load_graph("rag")
    settings = system.settings.model_validate({"model": "openai:stub", "sources": ["tavily"], "attempts": 1})

    async def debate(use: StoreUse) -> dict[str, Any]:
        with store_use(use):
            document: dict[str, Any] = await system.graph.ainvoke({"claim": "Baikal is deep."}, context=settings)
        return document

    with running_stub(tmp_path / "stub") as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", stub.url)
        first = await debate(StoreUse("record"))
    asked = len(server.paths)
    assert asked
    assert (first["error"] or {}).get("kind") == ("retrieval_failed" if fails else None)
    for key in ("TAVILY_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("TAVILY_BASE_URL", "http://127.0.0.1:9")
    again = await debate(StoreUse("replay", id=first["id"]))
    assert (again["status"], again["error"], again["answer"]) == (first["status"], first["error"], first["answer"])
    assert [piece["id"] for piece in again["evidence"]] == [piece["id"] for piece in first["evidence"]]
    assert len(server.paths) == asked


SOURCES = ["chroma:notes", "bm25:notes", "hybrid:notes"]


@pytest.mark.parametrize("corpus_exists", [True, False])
async def test_a_replay_needs_neither_the_corpus_nor_the_endpoint(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, empty_home: Path, corpus_exists: bool
) -> None:
    """A recorded error for a missing corpus is also replayed. If ``k`` has changed, there is a replay miss."""
    system = load_graph("tool_mad")
    debaters = [{"name": name, "retriever": SOURCES if corpus_exists else "bm25:none"} for name in ("rag", "search")]
    given = {"model": "openai:stub", "embedder": "openai:some-embedding", "debaters": debaters, "max_rounds": 2}
    settings = system.settings.model_validate(given)

    async def debate(use: StoreUse) -> dict[str, Any]:
        with store_use(use):
            document: dict[str, Any] = await system.graph.ainvoke({"claim": "Baikal is deep."}, context=settings)
        return document

    with running_stub(tmp_path / "stub") as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", stub.url)
        if corpus_exists:
            notes = [passage(n, f"Note {n} says how deep Baikal is.") for n in range(8)]
            await index_passages("notes", notes, encoder="openai:some-embedding")
        first = await debate(StoreUse("record"))
    assert (first["error"] or {}).get("kind") == (None if corpus_exists else "unknown_corpus")
    assert bool(first["evidence"]) == corpus_exists
    await close_clients()
    await asyncio.to_thread(shutil.rmtree, empty_home / "corpora", ignore_errors=True)
    again = await debate(StoreUse("replay", id=first["id"]))
    assert comparable(again) == comparable(first)
    if corpus_exists:
        changed = settings.model_copy(update={"k": 5})
        with store_use(StoreUse("replay", id=first["id"])):
            other = await system.graph.ainvoke({"claim": "Baikal is deep."}, context=changed)
        assert "replay_miss" in {(other["error"] or {}).get("kind"), *(w["kind"] for w in other["warnings"])}
        assert "no stored reply for the search" in json.dumps([other["warnings"], other["error"]])


async def test_a_stored_failure_of_an_embedding_is_used_only_in_a_replay(
    serve: Serve, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await serve(lambda n, body: web.json_response({"error": {"message": "No."}}, status=400))
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
    start = store.begin("g", {}, {})
    encoder = await open_encoder("openai:some-embedding")
    errors = []
    for mode, calls in (("record", 1), ("record", 2), ("reuse", 3), ("replay", 3)):
        embeddings.set(DebateReplies(mode, store, start.id))  # type: ignore[arg-type]
        with pytest.raises(MootError) as caught:
            await encoder.embed(["a text"])
        errors.append((caught.value.kind, caught.value.detail))
        assert len(server.paths) == calls
    embeddings.set(None)
    assert len(set(errors)) == 1


def test_the_endpoint_of_openai_needs_a_key_except_in_a_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("OPENAI_")]:
        monkeypatch.delenv(name)
    with pytest.raises(UserError, match="OPENAI_API_KEY is not set"):
        find_endpoint("openai")
    token = replaying.set(True)
    try:
        assert find_endpoint("openai").base_url == "https://api.openai.com/v1"
    finally:
        replaying.reset(token)
