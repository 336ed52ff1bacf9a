"""Every web source is tested with a vendor that refuses, fails, is silent, or answers in a wrong format."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from aiohttp import web
from moot.core.endpoint import Limits
from moot.retrievers import MootError, UserError, WorldError, open_retriever

from .conftest import Serve
from .vendors import FOUND, KEY, OTHER_KEY, VENDORS, StartVendor, Vendor, starter

RETRY_AT_ONCE = {"Retry-After": "0"}

every_vendor = pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.name)
every_vendor_with_key = pytest.mark.parametrize("vendor", [v for v in VENDORS if v.key], ids=lambda vendor: vendor.name)


@pytest.fixture
def start(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> StartVendor:
    return starter(serve, monkeypatch)


async def error_of(vendor: Vendor, **options: Any) -> MootError:
    with pytest.raises(MootError) as caught:
        await (await open_retriever(vendor.name, limits=Limits(**options))).search("deepest lake", 3)
    assert KEY not in caught.value.detail
    assert caught.value.detail.endswith(".")
    assert len(caught.value.detail) < 500
    return caught.value


@every_vendor
async def test_an_empty_result_is_not_an_error(vendor: Vendor, start: StartVendor) -> None:
    """A blank query finds nothing and sends no request."""
    server = await start(vendor, lambda n: web.Response(text=vendor.nothing))
    retriever = await open_retriever(vendor.name)
    assert await retriever.search("deepest lake", 3) == []
    assert await retriever.search(" \u200b\n", 3) == []
    assert len(server.paths) == 1
    assert server.headers[0]["User-Agent"].startswith("moot/")


@every_vendor_with_key
async def test_keys_stay_out_of_logs(vendor: Vendor, start: StartVendor, caplog: pytest.LogCaptureFixture) -> None:
    server = await start(vendor)
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.DEBUG, "httpx"):  # inspect_ai sets httpx's level
        assert await (await open_retriever(vendor.name)).search("deepest lake", 3)
    assert KEY in f"{server.headers}{server.queries}{server.bodies}"
    # Only the test's server writes to aiohttp's loggers.
    logged = "\n".join(r.getMessage() for r in caplog.records if not r.name.startswith("aiohttp"))
    assert "HTTP Request" in logged
    assert KEY not in logged


@every_vendor
async def test_long_queries_are_cut(vendor: Vendor, start: StartVendor) -> None:
    """The request also names the maximum number of results."""
    server = await start(vendor)
    retriever = await open_retriever(vendor.name)
    assert len(await retriever.search("lake\x00 " * 1000, 1)) == 1
    sent = {**server.queries[0], **server.bodies[0]}
    longest = max(len(str(value)) for value in sent.values())
    assert 200 < longest <= 2048
    assert [v for v in sent.values() if str(v) == "1"]


@every_vendor
@pytest.mark.parametrize(
    ("status", "kind", "error", "requests"),
    [
        (400, "search_refused", WorldError, 1),
        (401, "authentication", UserError, 1),
        (404, "search_refused", WorldError, 1),
        (429, "rate_limited", WorldError, 1),
        (500, "server_error", WorldError, 3),
        (503, "server_error", WorldError, 3),
    ],
)
async def test_http_errors_name_the_status_and_hide_the_key(
    vendor: Vendor, start: StartVendor, status: int, kind: str, error: type, requests: int
) -> None:
    message = f"{'no ' * 20}{KEY} \x00" + "<p>" * 1000
    server = await start(vendor, lambda n: web.Response(text=message, status=status, headers=RETRY_AT_ONCE))
    caught = await error_of(vendor, max_wait=0)
    assert (caught.kind, type(caught), caught.attempts, len(server.paths)) == (kind, error, requests, requests)
    assert f"HTTP {status}" in caught.detail
    assert f"[{vendor.key or OTHER_KEY}]" in caught.detail


@every_vendor
async def test_a_key_is_hidden_if_the_message_is_cut_inside_the_key(vendor: Vendor, start: StartVendor) -> None:
    await start(vendor, lambda n: web.Response(text="x" * 180 + KEY, status=400))
    assert KEY[:6] not in (await error_of(vendor)).detail


@pytest.mark.parametrize("vendor", [v for v in VENDORS if v.used_up], ids=lambda vendor: vendor.name)
async def test_a_used_up_quota_is_a_user_error(vendor: Vendor, start: StartVendor) -> None:
    assert vendor.used_up
    status, body = vendor.used_up
    server = await start(vendor, lambda n: web.Response(text=body, status=status, headers={"Retry-After": "50000"}))
    caught = await error_of(vendor)
    assert (caught.kind, type(caught), len(server.paths)) == ("quota", UserError, 1)
    assert "account's plan" in caught.detail


@every_vendor
@pytest.mark.parametrize("status", [429, 502])
async def test_a_transient_failure_is_retried(vendor: Vendor, start: StartVendor, status: int) -> None:
    server = await start(vendor, lambda n: FOUND if n > 2 else web.Response(status=status, headers=RETRY_AT_ONCE))
    assert await (await open_retriever(vendor.name)).search("deepest lake", 3)
    assert len(server.paths) == 2 + (vendor.requests or len(vendor.found))


@every_vendor
async def test_a_retry_after_longer_than_the_maximum_wait_is_an_error(vendor: Vendor, start: StartVendor) -> None:
    server = await start(vendor, lambda n: web.Response(status=429, headers={"Retry-After": "3600"}))
    caught = await error_of(vendor)
    assert (caught.kind, caught.retry_after, len(server.paths)) == ("rate_limited", 3600, 1)


@every_vendor
async def test_silent_and_unreachable_servers_are_retryable_errors(
    vendor: Vendor, start: StartVendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await start(vendor, lambda n: None)
    caught = await error_of(vendor, attempts=1, timeout=0.2)
    assert (caught.kind, caught.retryable, len(server.paths)) == ("timeout", True, 1)
    monkeypatch.setenv(vendor.address, "http://127.0.0.1:9")
    caught = await error_of(vendor, attempts=1)
    assert (caught.kind, caught.retryable) == ("unreachable", True)
    assert vendor.address in caught.detail


@every_vendor
@pytest.mark.parametrize(
    "body",
    ["<html><body>Sign in</body></html>", "<!DOCTYPE html><p>Sign in", "[]", "", "\ufeff"],
    ids=["html", "broken html", "list", "empty", "byte order mark"],
)
async def test_an_unreadable_response_is_an_error_and_not_an_empty_result(
    vendor: Vendor, start: StartVendor, body: str
) -> None:
    server = await start(vendor, lambda n: web.Response(text=body, content_type="text/html"))
    caught = await error_of(vendor)
    assert (caught.kind, type(caught), len(server.paths)) == ("bad_response", WorldError, 1)
    assert "cannot be read" in caught.detail


@every_vendor
async def test_a_response_above_five_megabytes_is_an_error(vendor: Vendor, start: StartVendor) -> None:
    body = next(iter(vendor.found.values())) + " " * 10_000_000
    server = await start(vendor, lambda n: web.Response(text=body))
    caught = await error_of(vendor)
    assert (caught.kind, len(server.paths)) == ("bad_response", 1)
    assert "longer than 5000000 bytes" in caught.detail


@pytest.mark.parametrize(("vendor", "body"), [(v, body) for v in VENDORS for body in v.odd])
async def test_a_response_in_a_wrong_format_is_an_error_and_not_an_empty_result(
    vendor: Vendor, start: StartVendor, body: str
) -> None:
    server = await start(vendor, lambda n: web.Response(text=body))
    assert ((await error_of(vendor)).kind, len(server.paths)) == ("bad_response", 1)


@every_vendor
async def test_a_failed_search_with_status_200_is_an_error_and_not_an_empty_result(
    vendor: Vendor, start: StartVendor
) -> None:
    await start(vendor, lambda n: web.Response(text=vendor.failed))
    caught = await error_of(vendor, attempts=1)
    assert (caught.kind, caught.retryable) == ("server_error", True)


@every_vendor
@pytest.mark.parametrize("status", [301, 302, 307])
async def test_redirects_are_not_followed(vendor: Vendor, start: StartVendor, serve: Serve, status: int) -> None:
    elsewhere = await serve(lambda n, body: web.Response())
    to = {"Location": f"{elsewhere.url}/?{KEY}"}
    server = await start(vendor, lambda n: web.Response(status=status, headers=to))
    caught = await error_of(vendor)
    assert (caught.kind, len(server.paths), len(elsewhere.paths)) == ("bad_response", 1, 0)
    assert f"HTTP {status}: a redirect" in caught.detail


@every_vendor
async def test_invalid_environment_variables_are_user_errors(vendor: Vendor, monkeypatch: pytest.MonkeyPatch) -> None:
    if vendor.key:
        monkeypatch.setenv(vendor.key, KEY)
    monkeypatch.setenv(vendor.address, "https://search.example.org")  # a proxy is not used for loopback
    monkeypatch.setenv("ALL_PROXY", "foo://127.0.0.1:9")
    caught = await error_of(vendor)
    assert (caught.kind, type(caught), "ALL_PROXY" in caught.detail) == ("invalid_environment", UserError, True)
    monkeypatch.setenv(vendor.address, "not an address")
    caught = await error_of(vendor)
    assert (caught.kind, type(caught), vendor.address in caught.detail) == ("invalid_environment", UserError, True)


@every_vendor_with_key
async def test_an_invalid_key_is_not_sent(vendor: Vendor, start: StartVendor, monkeypatch: pytest.MonkeyPatch) -> None:
    server = await start(vendor)
    monkeypatch.setenv(vendor.key, "two\nlines")
    caught = await error_of(vendor)
    assert (caught.kind, len(server.paths)) == ("invalid_environment", 0)


@pytest.mark.parametrize("name", ["tavily", "serper", "brave"])
async def test_a_missing_key_is_named(name: str) -> None:
    with pytest.raises(UserError, match=f"{name.upper()}_API_KEY is not set") as caught:
        await open_retriever(name)
    assert caught.value.kind == "missing_key"


@every_vendor
@pytest.mark.parametrize("day", ["", "yesterday", "2024-02-30", "0001-01-01", "2024-05-01T00:00:00Z"])
async def test_invalid_dates_are_refused(
    vendor: Vendor, start: StartVendor, monkeypatch: pytest.MonkeyPatch, day: str
) -> None:
    await start(vendor)
    with pytest.raises(UserError, match="published_before") as caught:
        await open_retriever(vendor.name, published_before=day)
    assert caught.value.kind == "invalid_setting"
