"""OpenAlex in the shape that its documentation gives (https://docs.openalex.org/api-entities/works/work-object)."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web
from moot.retrievers import MootError, UserError, WorldError, open_retriever
from moot.retrievers.endpoint import Limits
from moot.retrievers.openalex import abstract_of

from .conftest import Answer, Serve, Server

KEY = "alex-0123456789"
WORK = {
    "id": "https://openalex.org/W1",
    "doi": "https://doi.org/10.1000/1",
    "display_name": "Hydrocele in the newborn",
    "publication_date": "2016-01-21",
    "abstract_inverted_index": {"Less": [0, 3], "is": [1], "more.": [2], "surgery.": [4]},
}


@pytest.fixture
def openalex(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> Serve:
    async def start(answer: Answer) -> Server:
        server = await serve(answer)
        monkeypatch.setenv("OPENALEX_BASE_URL", server.url)
        monkeypatch.setenv("OPENALEX_API_KEY", KEY)
        return server

    return start


async def fails(**options: Any) -> MootError:
    with pytest.raises(MootError) as caught:
        await (await open_retriever("openalex", limits=Limits(**options))).search("hydrocele", 3)
    assert KEY not in caught.value.detail
    return caught.value


def test_an_abstract_is_put_together() -> None:
    assert abstract_of({"b": [1], "a": [0, 2]}) == "a b a"
    assert abstract_of({}) == ""


async def test_abstracts_become_evidence(openalex: Serve) -> None:
    bare = {"id": "https://openalex.org/W2", "abstract_inverted_index": {"Other.": [0]}, "doi": None}
    empty = {"id": "https://openalex.org/W3", "abstract_inverted_index": None}
    server = await openalex(lambda n, body: web.json_response({"results": [WORK, empty, bare]}))
    first, second = await (await open_retriever("openalex")).search("hydrocele\x00", 3)
    assert (first["title"], first["text"]) == ("Hydrocele in the newborn", "Less is more. Less surgery.")
    assert (first["url"], first["source"], first["published"]) == (WORK["doi"], WORK["doi"], "2016-01-21")
    assert (second["title"], second["source"]) == ("(no title)", "https://openalex.org/W2")
    assert len(server.headers) == 1
    assert await (await open_retriever("openalex")).search(" ", 3) == []


@pytest.mark.parametrize(
    ("status", "kind", "error", "requests"),
    [
        (400, "search_refused", WorldError, 1),
        (401, "authentication", UserError, 1),
        (403, "search_refused", WorldError, 1),
        (429, "rate_limited", WorldError, 3),
        (500, "server_error", WorldError, 3),
    ],
)
async def test_refusals(openalex: Serve, status: int, kind: str, error: type, requests: int) -> None:
    server = await openalex(
        lambda n, body: web.Response(text=f"not with {KEY}", status=status, headers={"retry-after": "0"})
    )
    caught = await fails()
    assert (caught.kind, type(caught), len(server.headers)) == (kind, error, requests)


@pytest.mark.parametrize(
    "body",
    ["<html>", "[]", '{"results": [{}]}', '{"results": "x"}', "x" * 6_000_000],
    ids=["html", "list", "no id", "text", "big"],
)
async def test_other_shapes_are_errors_and_not_no_results(openalex: Serve, body: str) -> None:
    await openalex(lambda n, sent: web.Response(text=body))
    assert (await fails()).kind == "bad_response"


async def test_silence_and_absence(openalex: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    await openalex(lambda n, body: None)
    assert (await fails(attempts=1, timeout=0.2)).kind == "timeout"
    monkeypatch.setenv("OPENALEX_BASE_URL", "http://127.0.0.1:9")
    assert (await fails(attempts=1)).kind == "unreachable"
