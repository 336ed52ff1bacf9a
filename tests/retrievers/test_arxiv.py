"""arXiv: abstracts become evidence, errors in feeds are raised, and operators are removed from queries."""

from __future__ import annotations

import pytest
from aiohttp import web
from moot.retrievers import WorldError, open_retriever
from moot.retrievers._arxiv import words_of

from .conftest import Serve
from .vendors import ARXIV, ERROR_ENTRY, FEED, StartVendor, starter


@pytest.fixture
def start(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> StartVendor:
    """A function that starts a vendor's server (see `starter`)."""
    return starter(serve, monkeypatch)


async def test_abstracts_become_evidence(start: StartVendor) -> None:
    """The request joins the words of the query with OR."""
    server = await start(ARXIV)
    [piece] = await (await open_retriever("arxiv")).search("electron production", 3)
    assert piece["title"] == "Multi-Electron Production at High Transverse Momenta"
    assert piece["text"] == "Multi-electron production is studied & measured."
    assert piece["url"] == piece["source"] == "https://arxiv.org/abs/hep-ex/0307015v1"
    assert piece["published"] == "2003-07-07"
    sent = server.queries[0]
    assert (sent["search_query"], sent["max_results"]) == ("all:electron OR all:production", "3")


async def test_published_before_is_sent_as_a_range_of_submission_dates(start: StartVendor) -> None:
    server = await start(ARXIV)
    await (await open_retriever("arxiv", published_before="2024-03-01")).search("electron spin", 3)
    asked = "(all:electron OR all:spin) AND submittedDate:[199101010000 TO 202402292359]"
    assert server.queries[0]["search_query"] == asked


async def test_an_error_message_in_a_feed_is_raised(start: StartVendor) -> None:
    """arXiv sends such a feed with status 200. The request is not repeated."""
    server = await start(ARXIV, lambda n: web.Response(text=FEED.format(entries=ERROR_ENTRY)))
    with pytest.raises(WorldError, match="incorrect id format for 1234.1234") as caught:
        await (await open_retriever("arxiv")).search("electron", 3)
    assert (caught.value.kind, len(server.paths)) == ("search_refused", 1)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ('ti:"x" ANDNOT (au:y) OR *', ["ti", "x", "au", "y"]),
        ("] TO [ AND NOT", []),
        ("Einstein's state-of-the-art GPT-4.5?", ["Einstein's", "state-of-the-art", "GPT-4.5"]),
        ("-spin +up \\ / ~ ^2 {a} && || !b", ["spin", "up", "2", "a", "b"]),
        ("Schrödinger 湖", ["Schrödinger", "湖"]),
    ],
)
def test_operators_and_special_characters_are_removed_from_queries(query: str, words: list[str]) -> None:
    assert words_of(query) == words


async def test_a_query_without_words_is_not_sent(start: StartVendor) -> None:
    server = await start(ARXIV)
    assert await (await open_retriever("arxiv")).search('"()" AND :', 3) == []
    assert server.paths == []
