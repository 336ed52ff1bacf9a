"""Tavily: results, scores, and requests."""

from __future__ import annotations

import pytest
from aiohttp import web
from moot.retrievers import UserError, open_retriever

from .conftest import Serve
from .vendors import KEY, TAVILY, TAVILY_RESULT, StartVendor, starter, tavily_reply


@pytest.fixture
def start(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> StartVendor:
    return starter(serve, monkeypatch)


async def test_results_become_evidence(start: StartVendor) -> None:
    plain = {"url": "https://example.org/2", "content": "Cold.", "title": None}
    blank = {**TAVILY_RESULT, "content": " "}
    reply = tavily_reply(TAVILY_RESULT, plain, blank, TAVILY_RESULT)
    server = await start(TAVILY, found={"/search": reply})
    first, second = await (await open_retriever("web")).search("deepest lake\x00 " + "x" * 1000, 3)
    assert (first["title"], first["text"]) == ("Lake Baikal", "The deepest lake.")
    assert (first["url"], first["source"], first["published"]) == (*[TAVILY_RESULT["url"]] * 2, "2024-05-01")
    query = server.bodies[0]["query"]
    assert first["retrievals"] == [{"query": query, "score": 0.91, "retriever": "tavily"}]
    assert (second["title"], second["retrievals"][0]["score"]) == ("(no title)", None)
    assert (query[:14], len(query)) == ("deepest lake x", 400)
    assert (server.bodies[0]["max_results"], "end_date" in server.bodies[0]) == (3, False)
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"


async def test_a_request_asks_for_at_most_20_results_published_before_the_date(start: StartVendor) -> None:
    server = await start(TAVILY)
    await (await open_retriever("tavily", published_before="2024-03-01")).search("deepest lake", 99)
    assert (server.bodies[0]["max_results"], server.bodies[0]["end_date"]) == (20, "2024-02-29")


@pytest.mark.parametrize("status", [403, 432, 433])
async def test_a_used_up_quota_is_recognised_by_the_http_status(start: StartVendor, status: int) -> None:
    await start(TAVILY, lambda n: web.Response(status=status))
    with pytest.raises(UserError, match="used up") as caught:
        await (await open_retriever("tavily")).search("deepest lake", 3)
    assert caught.value.kind == "quota"


async def test_a_search_uses_the_current_key(start: StartVendor, monkeypatch: pytest.MonkeyPatch) -> None:
    server = await start(TAVILY)
    for key in (KEY, "another-key"):
        monkeypatch.setenv("TAVILY_API_KEY", key)
        await (await open_retriever("tavily")).search("deepest lake", 3)
    assert [h["Authorization"] for h in server.headers] == [f"Bearer {KEY}", "Bearer another-key"]
