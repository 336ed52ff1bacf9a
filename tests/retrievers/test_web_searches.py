"""Searches of the web: SearXNG, Brave and ddgs, and which of them ``web`` stands for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from moot.core.endpoint import Limits
from moot.retrievers import MootError, UserError, open_retriever
from moot.retrievers._ddgs import ENGINES

from .conftest import Serve, Server
from .vendors import (
    BRAVE,
    BRAVE_RESULT,
    FOUND,
    KEY,
    SEARXNG,
    SEARXNG_RESULT,
    StartVendor,
    brave_error,
    brave_reply,
    searxng_reply,
    starter,
)

KEYS = ("SEARXNG_BASE_URL", "TAVILY_API_KEY", "SERPER_API_KEY", "BRAVE_API_KEY")


@pytest.fixture
def start(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> StartVendor:
    return starter(serve, monkeypatch)


async def test_results_of_searxng_become_evidence(start: StartVendor) -> None:
    bare = {"url": "https://example.org/2", "title": None, "content": None}
    late = {"url": "https://example.org/3", "title": "Late", "content": "Cold."}
    server = await start(SEARXNG, found={"/search": searxng_reply(SEARXNG_RESULT, bare, late)})
    first, second = await (await open_retriever("searxng")).search("deepest lake", 5)
    assert (first["title"], first["text"]) == ("Lake Baikal", "The deepest lake & the oldest.")
    assert first["url"] == first["source"] == SEARXNG_RESULT["url"]
    assert (first["published"], first["retrievals"][0]["score"]) == ("2024-05-01T00:00:00", 2.5)
    assert second["title"] == "Late"
    assert server.queries == [{"q": "deepest lake", "format": "json", "pageno": "1"}]


@pytest.mark.parametrize(
    ("status", "words"),
    [(403, "Add `json` to `formats`"), (429, "`limiter: false`")],
)
async def test_a_refusal_of_searxng_says_what_to_set(start: StartVendor, status: int, words: str) -> None:
    page = f"<!doctype html>\n<title>{status}</title>"
    await start(SEARXNG, lambda n: web.Response(text=page, status=status, headers={"Retry-After": "3600"}))
    with pytest.raises(MootError, match=words) as caught:
        await (await open_retriever("searxng")).search("deepest lake", 5)
    assert "<" not in caught.value.detail


async def test_results_of_brave_become_evidence(start: StartVendor) -> None:
    server = await start(BRAVE, found={"/res/v1/web/search": brave_reply(BRAVE_RESULT)})
    [piece] = await (await open_retriever("brave", published_before="2024-03-01")).search("lake " * 60, 30)
    assert piece["text"] == "The deepest lake & the oldest. It freezes in January."
    assert (piece["url"], piece["published"]) == (BRAVE_RESULT["url"], "2024-05-01T10:00:00")
    sent = server.queries[0]
    assert (len(sent["q"].split()), sent["count"], sent["freshness"]) == (50, "20", "1900-01-01to2024-02-29")
    assert server.headers[0]["X-Subscription-Token"] == KEY


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (422, "SUBSCRIPTION_TOKEN_INVALID", "authentication"),
        (402, "PAYMENT", "quota"),
        (422, "VALIDATION", "search_refused"),
    ],
)
async def test_refusals_of_brave_are_told_apart(start: StartVendor, status: int, code: str, kind: str) -> None:
    await start(BRAVE, lambda n: web.Response(text=brave_error(status, code, "No."), status=status))
    with pytest.raises(MootError) as caught:
        await (await open_retriever("brave")).search("deepest lake", 5)
    assert caught.value.kind == kind


# --- ddgs -------------------------------------------------------------------------------------------------------------

RESULTS = """<html><body><div class="result results_links results_links_deep web-result "><div class="links_main
links_deep result__body"><h2><a href="https://example.org/{n}">Lake {n}</a></h2><a href="https://example.org/{n}">A deep
<b>lake</b>.</a></div></div></body></html>"""
"""A page of results in the form that ddgs reads from DuckDuckGo."""


async def start_engines(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, answer: Callable[[], web.Response | None]
) -> Server:
    """Start a server in place of all engines; ddgs itself sends the requests and reads the pages."""
    engines = pytest.importorskip("ddgs.engines").ENGINES["text"]
    server = await serve(lambda n, body: answer())
    for name in ENGINES.split(","):
        monkeypatch.setattr(engines[name], "search_url", f"{server.url}/{name}")
        monkeypatch.setattr(engines[name], "search_method", "GET")
    return server


async def test_ddgs_searches_without_a_key(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = await start_engines(serve, monkeypatch, lambda: web.Response(text=RESULTS.format(n=1)))
    monkeypatch.setenv("MOOT_WEB_SEARCH", "ddgs")
    retriever = await open_retriever("web")
    [piece] = await retriever.search("deepest lake", 3)
    assert (piece["title"], piece["text"]) == ("Lake 1", "A deep lake.")
    assert piece["url"] == piece["source"] == "https://example.org/1"
    assert piece["retrievals"] == [{"query": "deepest lake", "score": None, "retriever": "ddgs"}]
    assert set(server.paths) <= {f"/{name}" for name in ENGINES.split(",")}


@pytest.mark.parametrize(
    ("answer", "timeout", "kind"),
    [
        (lambda: web.Response(status=403, text="a captcha"), 60, "search_refused"),
        (lambda: web.Response(text="<html><body><p>Nothing.</p></body></html>"), 60, "search_refused"),
        (lambda: None, 1, "timeout"),
    ],
    ids=["refused", "nothing", "silent"],
)
async def test_ddgs_without_results_is_an_error(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, answer: Any, timeout: float, kind: str
) -> None:
    await start_engines(serve, monkeypatch, answer)
    retriever = await open_retriever("ddgs", limits=Limits(attempts=1, timeout=timeout))
    with pytest.raises(MootError) as caught:
        await retriever.search("deepest lake", 3)
    assert caught.value.kind == kind


async def test_ddgs_does_not_block_the_event_loop(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test's server answers in the same event loop."""
    await start_engines(serve, monkeypatch, lambda: web.Response(text=RESULTS.format(n=1)))
    retriever = await open_retriever("ddgs")
    found = await asyncio.gather(*(retriever.search(f"lake {n}", 1) for n in range(3)))
    assert [len(pieces) for pieces in found] == [1, 1, 1]


async def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moot.retrievers._ddgs.IS_INSTALLED", False)
    with pytest.raises(UserError, match="needs the package ddgs") as caught:
        await open_retriever("ddgs")
    assert caught.value.kind == "missing_package"


# --- web --------------------------------------------------------------------------------------------------------------


async def test_web_is_the_first_search_that_is_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOOT_WEB_SEARCH")
    for installed in (False, True):
        monkeypatch.setattr("moot.retrievers._ddgs.IS_INSTALLED", installed)
        names = []
        for variable in (None, *reversed(KEYS)):
            if variable:
                monkeypatch.setenv(variable, "http://127.0.0.1:9" if variable.endswith("URL") else KEY)
            names.append((await open_retriever("web")).name)
        for variable in KEYS:
            monkeypatch.delenv(variable)
        others = ["ddgs"] * 4 if installed else ["wikipedia", "brave", "serper", "tavily"]
        assert names == [*others, "searxng"]


async def test_the_operator_names_the_searches_of_web(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRAVE_API_KEY", KEY)
    monkeypatch.setenv("SERPER_API_KEY", KEY)
    monkeypatch.setenv("MOOT_WEB_SEARCH", "tavily, brave,serper")
    assert (await open_retriever("web")).name == "brave"
    monkeypatch.setenv("MOOT_WEB_SEARCH", "brave,google")
    with pytest.raises(UserError, match="'google', which is no web search. Known: searxng, ddgs") as caught:
        await open_retriever("web")
    assert caught.value.kind == "invalid_environment"


async def test_an_answer_after_a_failure_of_searxng_is_found(start: StartVendor) -> None:
    failed = web.Response(text=SEARXNG.failed)
    await start(SEARXNG, lambda n: FOUND if n > 1 else failed)
    assert await (await open_retriever("searxng", limits=Limits(attempts=2))).search("deepest lake", 3)
