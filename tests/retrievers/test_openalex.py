"""OpenAlex: abstracts rebuilt from their index, and the requests."""

from __future__ import annotations

import json

import pytest
from moot.retrievers import open_retriever
from moot.retrievers._openalex import abstract_of

from .conftest import Serve
from .vendors import KEY, OPENALEX, WORK, starter


def test_an_abstract_is_rebuilt_from_its_index() -> None:
    assert abstract_of({"b": [1], "a": [0, 2]}) == "a b a"
    assert abstract_of({}) == ""


async def test_abstracts_become_evidence(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = {"id": "https://openalex.org/W2", "abstract_inverted_index": {"Other.": [0]}, "doi": None}
    empty = {"id": "https://openalex.org/W3", "abstract_inverted_index": None}
    reply = json.dumps({"results": [WORK, empty, bare]})
    server = await starter(serve, monkeypatch)(OPENALEX, found={"/works": reply})
    monkeypatch.setenv("OPENALEX_MAILTO", "us@example.org")
    first, second = await (await open_retriever("openalex")).search("hydrocele\x00", 3)
    assert (first["title"], first["text"]) == ("Hydrocele in the newborn", "Less is more. Less surgery.")
    assert (first["url"], first["source"], first["published"]) == (WORK["doi"], WORK["doi"], "2016-01-21")
    assert first["retrievals"] == [{"query": "hydrocele", "score": None, "retriever": "openalex"}]
    assert (second["title"], second["source"]) == ("(no title)", "https://openalex.org/W2")
    sent = server.queries[0]
    assert (sent["search"], sent["filter"], sent["per-page"]) == ("hydrocele", "has_abstract:true", "3")
    assert (sent["api_key"], sent["mailto"]) == (KEY, "us@example.org")


async def test_the_last_date_in_a_request_is_one_day_before_the_limit(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await starter(serve, monkeypatch)(OPENALEX)
    await (await open_retriever("openalex", published_before="2024-03-01")).search("hydrocele", 3)
    assert server.queries[0]["filter"] == "has_abstract:true,to_publication_date:2024-02-29"
