"""Wikipedia: articles by rank, errors with status 200, and the requests."""

from __future__ import annotations

import pytest
from aiohttp import web
from moot.core.endpoint import Limits
from moot.retrievers import MootError, UserError, open_retriever

from .conftest import Serve
from .vendors import FOUND, WIKIPEDIA, StartVendor, starter, wiki_error


@pytest.fixture
def start(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> StartVendor:
    return starter(serve, monkeypatch)


async def test_articles_become_evidence(start: StartVendor, monkeypatch: pytest.MonkeyPatch) -> None:
    server = await start(WIKIPEDIA)
    monkeypatch.setenv("WIKIPEDIA_CONTACT", "us@example.org")
    retriever = await open_retriever("wikipedia", published_before="2024-03-01")
    first, second = await retriever.search("deepest lake", 50)
    assert (first["title"], first["text"]) == ("Lake Baikal", "The deepest lake.")
    assert first["url"] == first["source"] == "https://en.wikipedia.org/wiki/Lake_Baikal"
    assert second["title"] == "Lake Tanganyika"
    assert "published" not in first
    sent = server.queries[0]
    assert (sent["gsrsearch"], sent["gsrlimit"], sent["formatversion"]) == ("deepest lake", "20", "2")
    assert server.headers[0]["User-Agent"].endswith(" (us@example.org)")


@pytest.mark.parametrize(
    ("code", "kind", "requests"),
    [
        ("ratelimited", "rate_limited", 1),
        ("maxlag", "server_error", 3),
        ("internal_api_error_DBQueryError", "server_error", 3),
        ("cirrussearch-too-busy-error", "server_error", 3),
        ("badvalue", "search_refused", 1),
    ],
)
async def test_an_error_message_with_status_200_is_an_error(
    start: StartVendor, monkeypatch: pytest.MonkeyPatch, code: str, kind: str, requests: int
) -> None:
    monkeypatch.setattr("moot.core.limiter.backoff", lambda failures: 0.0)
    server = await start(WIKIPEDIA, lambda n: web.Response(text=wiki_error(code, "Waiting: 5 seconds lagged.")))
    with pytest.raises(MootError, match=code) as caught:
        await (await open_retriever("wikipedia", limits=Limits(max_wait=0))).search("deepest lake", 3)
    assert (caught.value.kind, caught.value.retryable) == (kind, kind != "search_refused")
    assert len(server.paths) == requests


async def test_an_invalid_contact_is_refused(start: StartVendor, monkeypatch: pytest.MonkeyPatch) -> None:
    server = await start(WIKIPEDIA, lambda n: FOUND)
    monkeypatch.setenv("WIKIPEDIA_CONTACT", "us\r\nX-Other: 1")
    with pytest.raises(UserError, match="WIKIPEDIA_CONTACT"):
        await (await open_retriever("wikipedia")).search("deepest lake", 3)
    assert server.paths == []
