"""Web search against a server that speaks as Tavily's documentation says."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web
from moot.retrievers import MootError, UserError, WorldError, open_retriever
from moot.retrievers.endpoint import Limits

from .conftest import Answer, Serve, Server

KEY = "tvly-dev-0123456789"
RESULT: dict[str, Any] = {
    "title": "Lake Baikal",
    "url": "https://example.org/baikal",
    "content": "The deepest\u200b lake.",
    "score": 0.91,
    "raw_content": None,
    "published_date": "2024-05-01",
}


def reply(results: Any) -> web.Response:
    fields: dict[str, Any] = {"query": "q", "answer": None, "images": [], "response_time": 0.1, "request_id": "r"}
    return web.json_response({**fields, "results": results})


def failure(status: int, **headers: str) -> web.Response:
    return web.json_response({"detail": {"error": f"no {KEY}"}}, status=status, headers=headers)


@pytest.fixture
def tavily(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> Serve:
    async def start(answer: Answer) -> Server:
        server = await serve(answer)
        monkeypatch.setenv("TAVILY_BASE_URL", server.url)
        monkeypatch.setenv("TAVILY_API_KEY", KEY)
        return server

    return start


async def fails(**options: Any) -> MootError:
    with pytest.raises(MootError) as caught:
        await (await open_retriever("tavily", limits=Limits(**options))).search("deepest lake", 3)
    assert KEY not in caught.value.detail
    assert caught.value.detail.endswith(".")
    return caught.value


async def test_a_proxy_that_is_none_is_the_users_to_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", KEY)
    monkeypatch.setenv("ALL_PROXY", "foo://127.0.0.1:9")
    for name in ("tavily", "openalex"):
        with pytest.raises(UserError, match="ALL_PROXY") as caught:
            await (await open_retriever(name)).search("lake", 1)
        assert caught.value.kind == "invalid_environment"


async def test_results_become_evidence(tavily: Serve) -> None:
    plain = {"url": "https://example.org/2", "content": "Cold.", "title": None}
    server = await tavily(lambda n, body: reply([RESULT, plain, {**RESULT, "content": " "}, RESULT]))
    first, second = await (await open_retriever("web")).search("deepest lake\x00 " + "x" * 1000, 3)
    assert (first["title"], first["text"], first["source"]) == ("Lake Baikal", "The deepest lake.", RESULT["url"])
    assert (first["url"], first["published"]) == (RESULT["url"], "2024-05-01")
    query = server.bodies[0]["query"]
    assert first["retrievals"] == [{"query": query, "score": 0.91, "retriever": "tavily"}]
    assert (second["title"], second["retrievals"][0]["score"]) == ("(no title)", None)
    assert query.startswith("deepest lake x")
    assert len(query) == 400
    assert server.bodies[0]["max_results"] == 3
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"


async def test_no_results_are_no_evidence(tavily: Serve) -> None:
    server = await tavily(lambda n, body: reply([]))
    retriever = await open_retriever("tavily")
    assert await retriever.search("deepest lake", 99) == []
    assert await retriever.search(" ", 3) == []
    assert [body["max_results"] for body in server.bodies] == [20]


@pytest.mark.parametrize(
    ("status", "kind", "error", "said", "attempts"),
    [
        (400, "bad_request", UserError, "did not accept", 1),
        (401, "authentication", UserError, "Check TAVILY_API_KEY", 1),
        (403, "quota", UserError, "Check the plan's quota", 1),
        (432, "quota", UserError, "Check the plan's quota", 1),
        (429, "rate_limited", WorldError, "too many searches", 3),
        (503, "server_error", WorldError, "HTTP 503", 3),
    ],
)
async def test_refusals_say_what_to_do(
    tavily: Serve, status: int, kind: str, error: type, said: str, attempts: int
) -> None:
    server = await tavily(lambda n, body: failure(status, **{"Retry-After": "0"}))
    caught = await fails()
    assert isinstance(caught, error)
    assert said in caught.detail
    assert "no [TAVILY_API_KEY]" in caught.detail
    assert (caught.kind, caught.attempts, len(server.bodies)) == (kind, attempts, attempts)


@pytest.mark.parametrize("status", [429, 500])
async def test_a_passing_failure_is_tried_again(tavily: Serve, status: int) -> None:
    server = await tavily(lambda n, body: failure(status, **{"Retry-After": "0"}) if n < 3 else reply([RESULT]))
    assert len(await (await open_retriever("tavily")).search("deepest lake", 3)) == 1
    assert len(server.bodies) == 3


@pytest.mark.parametrize("status", [429, 503])
async def test_a_long_wait_is_not_waited_for(tavily: Serve, status: int) -> None:
    server = await tavily(lambda n, body: failure(status, **{"Retry-After": "3600"}))
    assert (await fails()).retry_after == 3600
    assert len(server.bodies) == 1


async def test_silence_and_absence(tavily: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = await tavily(lambda n, body: None)
    caught = await fails(attempts=1, timeout=0.2)
    assert (caught.kind, caught.retryable, len(server.bodies)) == ("timeout", True, 1)
    monkeypatch.setenv("TAVILY_BASE_URL", "http://127.0.0.1:9")
    assert (await fails(attempts=1)).kind == "unreachable"


@pytest.mark.parametrize(
    "answer",
    [
        web.Response(text="<html>Sign in</html>", content_type="text/html"),
        web.json_response([RESULT]),
        web.json_response({"answer": "no results here"}),
        web.json_response({"results": None}),
        web.json_response({"results": {"0": RESULT}}),
        web.json_response({"results": ["https://example.org"]}),
        web.json_response({"results": [RESULT, {"url": "https://example.org", "title": "no content"}]}),
        web.json_response({"results": [{**RESULT, "content": None}]}),
        web.json_response({"results": [{**RESULT, "score": "high"}]}),
    ],
    ids=["html", "list", "no results", "null", "object", "strings", "no content", "null content", "score"],
)
async def test_other_shapes_are_errors_and_not_no_results(tavily: Serve, answer: web.Response) -> None:
    body = answer.body
    server = await tavily(lambda n, _: web.Response(body=body, content_type=answer.content_type))
    caught = await fails()
    assert isinstance(caught, WorldError)
    assert (caught.kind, len(server.bodies)) == ("bad_response", 1)
    assert "cannot be read" in caught.detail


async def test_html_with_an_error_status(tavily: Serve) -> None:
    await tavily(lambda n, body: web.Response(text="<html>", status=502, headers={"Retry-After": "0"}))
    assert (await fails()).kind == "server_error"
