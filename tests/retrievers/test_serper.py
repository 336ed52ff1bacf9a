"""Serper: Google's results in order, dates in ISO format, and the requests."""

from __future__ import annotations

import pytest
from aiohttp import web
from moot.retrievers import UserError, open_retriever
from moot.retrievers._serper import iso_google_date

from .conftest import Serve
from .vendors import KEY, SERPER, SERPER_RESULT, StartVendor, serper_reply, starter


@pytest.fixture
def start(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> StartVendor:
    return starter(serve, monkeypatch)


async def test_results_become_evidence(start: StartVendor) -> None:
    later = {"link": "https://example.org/2", "snippet": "Cold.", "position": 2, "date": "3 days ago"}
    reply = serper_reply(later, SERPER_RESULT, {"link": "https://example.org/3", "title": "Bare", "position": 3})
    server = await start(SERPER, found={"/search": reply})
    first, second = await (await open_retriever("serper")).search("deepest lake", 5)
    assert (first["title"], first["text"]) == ("Lake Baikal - Encyclopaedia", "The deepest lake.")
    assert (first["url"], first["source"], first["published"]) == (*[SERPER_RESULT["link"]] * 2, "2024-01-05")
    assert (second["title"], second["published"]) == ("(no title)", "3 days ago")
    assert server.bodies == [{"q": "deepest lake", "num": 5}]
    assert server.headers[0]["X-API-KEY"] == KEY


async def test_the_last_date_in_a_request_is_one_day_before_the_limit(start: StartVendor) -> None:
    server = await start(SERPER)
    await (await open_retriever("serper", published_before="2024-03-01")).search("deepest lake", 3)
    assert server.bodies[0]["tbs"] == "cdr:1,cd_min:1/1/1900,cd_max:2/29/2024"


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (403, '{"message": "Unauthorized.", "statusCode": 403}', "authentication"),
        (403, '{"message": "Not enough credits", "statusCode": 403}', "quota"),
    ],
)
async def test_a_refused_key_and_a_used_up_quota_are_different_user_errors(
    start: StartVendor, status: int, body: str, kind: str
) -> None:
    await start(SERPER, lambda n: web.Response(text=body, status=status))
    with pytest.raises(UserError) as caught:
        await (await open_retriever("serper")).search("deepest lake", 3)
    assert caught.value.kind == kind


@pytest.mark.parametrize(
    ("given", "expected"),
    [("Jan 5, 2024", "2024-01-05"), ("September 30, 1999", "1999-09-30"), ("5 hours ago", "5 hours ago"), (None, None)],
)
def test_dates_with_a_day_become_iso_dates(given: str | None, expected: str | None) -> None:
    """Other dates are not changed."""
    assert iso_google_date(given) == expected


async def test_web_uses_serper_if_tavily_has_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERPER_API_KEY", KEY)
    assert (await open_retriever("web")).name == "serper"
    monkeypatch.setenv("TAVILY_API_KEY", KEY)
    assert (await open_retriever("web")).name == "tavily"
