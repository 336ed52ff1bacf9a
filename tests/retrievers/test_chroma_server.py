"""Corpora on a Chroma server (MOOT_CHROMA_URL). The server is real, or a stub that gives unusable responses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from moot.core.lazy import imported
from moot.retrievers import MootError, UserError, index_passages, known_corpora, open_retriever
from moot.retrievers._corpus import DEMO_CORPORA, corpus_state, read_manifest
from moot.retrievers._files import read_passages
from moot.retrievers._stores import server_api

from tests.chroma_server import running_chroma

from .conftest import Serve
from .quick import is_found, numbered_passages

pytestmark = pytest.mark.usefixtures("empty_home", "quick_encoder")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of this module's Chroma server."""
    with running_chroma(tmp_path_factory.mktemp("chroma")) as (url, _):
        yield url


@pytest.fixture
def chroma(server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Store corpora on this module's server; return its address.

    A proxy that does not work is set, because requests to loopback addresses must not use a proxy.
    """
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    monkeypatch.setenv("MOOT_CHROMA_URL", server)
    return server


def chroma_api(url: str) -> Any:
    """Chroma's API for a server. Tests use it to change collections as other programs would."""
    return server_api(url, {}, lambda response: None)


def collection(url: str, name: str) -> Any:
    """The collection with this name on a server."""
    api = chroma_api(url)
    return imported("chromadb.api.models.Collection").Collection(api, api.get_collection(name), None)


async def error_of(call: Coroutine[Any, Any, Any]) -> MootError:
    """The error that a call raises."""
    with pytest.raises(MootError) as caught:
        await call
    return caught.value


# --- corpora ----------------------------------------------------------------------------------------------------------


async def test_a_corpus_on_a_server_is_found_from_another_home_folder(
    chroma: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = await index_passages("everywhere", numbered_passages(0, 1100))
    assert (manifest.passages, manifest.complete) == (1100, True)
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "elsewhere"))
    assert read_manifest("everywhere") == manifest
    assert "everywhere" in known_corpora()
    assert [await is_found("everywhere", 1050, kind) for kind in ("chroma", "bm25", "hybrid")] == [True] * 3


async def test_a_local_corpus_may_have_the_name_of_a_corpus_on_a_server(
    chroma: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await index_passages("namesake", numbered_passages(0, 20))
    state = corpus_state("namesake")
    monkeypatch.delenv("MOOT_CHROMA_URL")
    assert known_corpora() == sorted(DEMO_CORPORA)
    assert (await error_of(open_retriever("chroma:namesake"))).kind == "unknown_corpus"
    await index_passages("namesake", numbered_passages(0, 2))
    assert corpus_state("namesake") != state
    assert len(await (await open_retriever("chroma:namesake")).search("Entry", 5)) == 2
    monkeypatch.setenv("MOOT_CHROMA_URL", chroma)
    assert await is_found("namesake", 15)


async def test_a_shortened_document_loses_its_old_passages_on_a_server(chroma: str, tmp_path: Path) -> None:
    file = tmp_path / "report.txt"
    file.write_text("It opened in 1869.\n\nIt has no locks.")
    assert (await index_passages("reports", read_passages(file))).passages == 2
    file.write_text("It opened in 1869.")
    assert (await index_passages("reports", read_passages(file))).passages == 1


async def test_an_interrupted_build_on_a_server_can_be_completed(chroma: str) -> None:
    """Until then, the corpus cannot be opened."""

    def passages_then_error() -> Iterator[Any]:
        yield from numbered_passages(0, 600)
        raise OSError("the disk went away")

    with pytest.raises(OSError, match="went away"):
        await index_passages("broken", passages_then_error())
    error = await error_of(open_retriever("bm25:broken"))
    assert (error.kind, "interrupted after 512 passages" in error.detail) == ("unfinished_corpus", True)
    done = [(0, 0)]
    await index_passages("broken", numbered_passages(0, 600), progress=lambda *so_far: done.append(so_far))
    assert done[-1] == (600, 88)
    assert await is_found("broken", 555)


# --- changes by other programs on the server --------------------------------------------------------------------------


async def test_a_collection_of_another_program_is_refused_as_a_corpus(chroma: str) -> None:
    chroma_api(chroma).create_collection("theirs")
    assert "theirs" not in known_corpora()
    for attempt in (open_retriever("chroma:theirs"), index_passages("theirs", numbered_passages(0, 2))):
        error = await error_of(attempt)
        assert (error.kind, "not created by moot" in error.detail) == ("invalid_corpus", True)
    assert collection(chroma, "theirs").count() == 0


async def test_a_corpus_that_another_program_damaged_or_deleted_is_refused(chroma: str) -> None:
    await index_passages("lost", numbered_passages(0, 5))
    dense = await open_retriever("chroma:lost")
    collection(chroma, "lost").delete(ids=["3"])
    error = await error_of(open_retriever("bm25:lost"))
    assert (error.kind, "should have 5 passages and has 4" in error.detail) == ("damaged_corpus", True)
    assert "Delete the collection" in error.detail
    collection(chroma, "lost").modify(metadata={"moot": "{"})
    assert (await error_of(open_retriever("bm25:lost"))).kind == "damaged_corpus"
    chroma_api(chroma).delete_collection("lost")
    assert (await error_of(dense.search("Entry", 1))).kind == "unknown_corpus"
    assert (await error_of(open_retriever("bm25:lost"))).kind == "unknown_corpus"


# --- servers that fail ------------------------------------------------------------------------------------------------


async def test_corpora_are_unreachable_after_their_server_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_chroma(tmp_path) as (url, server):
        monkeypatch.setenv("MOOT_CHROMA_URL", url)
        await index_passages("mortal", numbered_passages(0, 20))
        dense, both = await open_retriever("chroma:mortal"), await open_retriever("hybrid:mortal")
        assert len(await dense.search("Entry", 3)) == 3
        server.kill()
        await asyncio.to_thread(server.wait)
        more = index_passages("mortal", numbered_passages(20, 30))
        for call in (dense.search("Entry", 3), both.search("Entry", 3), open_retriever("bm25:mortal"), more):
            error = await error_of(call)
            assert (error.kind, error.exit_code, error.retryable) == ("unreachable", 3, True)
            assert "MOOT_CHROMA_URL" in error.detail
            assert "`chroma run` is running" in error.detail
        with pytest.raises(MootError, match="cannot be reached"):
            known_corpora()


Response = Callable[[], web.Response]
COLLECTION = {"id": "07755b67-bfb2-4e2f-be94-b54a15130210", "name": "odd", "tenant": "t", "database": "d"}
MANIFEST = (
    '{"name": "odd", "encoder": "all-MiniLM-L6-v2", "dimension": 64, "passages": 2, "complete": true, "digest": "0f"}'
)
ODD = COLLECTION | {"configuration_json": {}, "metadata": {"moot": MANIFEST}, "version": 0, "log_position": 0}


@pytest.mark.parametrize(
    "response",
    [
        lambda: web.Response(text="<html>Welcome</html>"),
        lambda: web.json_response([]),
        lambda: web.json_response({}),
        lambda: web.json_response({"error": "InternalError", "message": "disk full"}, status=500),
        lambda: web.Response(text="no such page", status=404),
        lambda: web.Response(status=302, headers={"location": "/login"}),
        lambda: web.Response(body=b"\xff\xfe", content_type="application/json"),
    ],
    ids=["web page", "list", "empty object", "status 500", "status 404", "redirect", "not UTF-8"],
)
async def test_an_unusable_response_to_a_request_for_a_corpus_is_an_error(
    response: Response, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOOT_CHROMA_URL", (await serve(lambda n, body: response())).url)
    for call in (
        open_retriever("chroma:any"),
        index_passages("any", numbered_passages(0, 2)),
        open_retriever("bm25:demo"),
    ):
        error = await error_of(call)
        assert (error.kind, error.exit_code) == ("bad_response", 3)
        assert "Check MOOT_CHROMA_URL and that `chroma run` is running" in error.detail


@pytest.mark.parametrize(
    ("ids", "first_number"),
    [([], 0.5), ([[]], 0.5), ([["1", "2"]], 0.5), (None, 0.5), ([["1"]], None), ([["1"]], "x"), ([["1"]], 0.0)],
)
async def test_an_invalid_response_to_a_search_is_an_error(
    ids: Any, first_number: Any, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's other responses are valid. ``first_number`` is the first number of the vector that it returns."""
    server = await serve(lambda n, body: web.json_response(answer(server.paths[-1])))

    def answer(path: str) -> Any:
        if path.endswith("/query"):
            vectors = [[[first_number] + [0.0] * 63]]
            about = {"documents": [["a"]], "metadatas": [[{"source": "s"}]], "distances": [[0.5]]}
            return {"ids": ids, "embeddings": vectors, **about}
        if path.endswith("/get"):
            return {"ids": ["1"], "embeddings": [[0.0] * 64], "documents": ["a"], "metadatas": [{"source": "s"}]}
        return 2 if path.endswith("/count") else ODD

    monkeypatch.setenv("MOOT_CHROMA_URL", server.url)
    dense = await open_retriever("chroma:odd")
    assert (await error_of(dense.search("Entry", 3))).kind == "bad_response"


@pytest.mark.parametrize(
    ("user", "token", "sent"),
    [("", "secret-0123456789", "Bearer secret-0123456789"), ("user:secret@", "", "Basic dXNlcjpzZWNyZXQ=")],
)
async def test_tokens_and_passwords_are_sent_but_are_not_in_error_messages(
    user: str, token: str, sent: str, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await serve(lambda n, body: web.json_response({"error": token}, status=401 if n == 1 else 500))
    monkeypatch.setenv("MOOT_CHROMA_URL", server.url.replace("//", f"//{user}"))
    monkeypatch.setenv("MOOT_CHROMA_TOKEN", token)
    refused, failed = await error_of(open_retriever("chroma:any")), await error_of(open_retriever("chroma:any"))
    assert [headers["Authorization"] for headers in server.headers] == [sent, sent]
    assert (refused.kind, "Check MOOT_CHROMA_TOKEN" in refused.detail) == ("authentication", True)
    assert failed.kind == "bad_response"
    assert "secret" not in refused.detail + failed.detail


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("MOOT_CHROMA_URL", "127.0.0.1:8000"),
        ("MOOT_CHROMA_URL", "http://"),
        ("MOOT_CHROMA_URL", "http://user@127.0.0.1:9"),
        ("MOOT_CHROMA_TOKEN", "t\u00f6ken-0123"),
    ],
)
def test_an_invalid_server_address_or_token_is_refused(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOOT_CHROMA_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("MOOT_CHROMA_TOKEN", "ken-0123")
    monkeypatch.setenv(variable, value)
    with pytest.raises(UserError, match=variable) as caught:
        known_corpora()
    assert caught.value.kind == "invalid_environment"
    assert "ken-0123" not in caught.value.detail
