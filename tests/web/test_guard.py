"""A server refuses requests of other websites and for unknown hosts, and answers programs and its own pages."""

from __future__ import annotations

import json
import socket
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moot.web.guard import is_known, refusal
from starlette.datastructures import Headers

from tests.serving import Server

HERE = "localhost:2024"
STUDIO = "https://smith.langchain.com"
FETCH = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"}
LINK = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


def refusal_for(headers: dict[str, str], method: str = "GET", path: str = "/moot") -> str:
    """Why a request is refused if ``moot.lan`` and Studio are allowed; empty if it is not refused.

    The host is `HERE` unless ``headers`` name another.
    """
    return refusal(Headers({"host": HERE, **headers}), method, path, {"moot.lan"}, {STUDIO})


@pytest.mark.parametrize(
    ("headers", "method", "path"),
    [
        ({}, "POST", "/runs"),  # curl, an SDK
        ({"host": "127.0.0.1:2024"}, "GET", "/info"),
        ({"host": "10.0.3.7"}, "GET", "/ok"),  # a load balancer's health check
        ({"host": ""}, "HEAD", "/ok"),
        ({"host": "[::1]:2024"}, "GET", "/info"),
        ({"host": "MOOT.lan"}, "GET", "/ok"),
        ({"origin": f"http://{HERE}", "sec-fetch-site": "same-origin"}, "POST", "/runs"),
        ({"origin": STUDIO, **FETCH}, "OPTIONS", "/runs"),
        ({"sec-fetch-site": "none"}, "GET", "/moot"),
        (LINK, "GET", "/moot/debates/1"),
    ],
)
def test_requests_from_allowed_origins_are_not_refused(headers: dict[str, str], method: str, path: str) -> None:
    """Allowed are programs, the server's own pages, Studio, health checks, and links that open the page."""
    assert refusal_for(headers, method, path) == ""


@pytest.mark.parametrize(
    ("headers", "method", "path", "message"),
    [
        ({"host": "evil.example"}, "GET", "/info", "not known as 'evil.example'"),  # DNS rebinding
        ({"host": "192.0.2.2:2024"}, "GET", "/info", "not known as '192.0.2.2': add that name"),
        ({"host": "localhost.evil.example:2024"}, "GET", "/info", "not known"),
        ({"host": "localhost@evil.example"}, "GET", "/info", "is not valid"),
        ({"host": ""}, "GET", "/", "is not valid"),
        ({"host": "[2001:db8::1]:2024"}, "GET", "/info", "not known as '2001:db8::1': add that name"),
        ({"host": "evil.example"}, "POST", "/ok", "not known"),
        ({"host": "evil.example"}, "GET", "/ok/", "not known"),
        (FETCH, "GET", "/ok", "refuses requests of other websites"),
        ({"origin": "https://evil.example"}, "POST", "/runs", "add https://evil.example to MOOT_ALLOWED_ORIGINS"),
        ({"origin": "null"}, "POST", "/runs", "does not name its website"),  # a sandboxed frame, a file
        ({"origin": "http://localhost:3000"}, "POST", "/runs", "refuses requests of other websites"),
        ({"origin": f"{STUDIO}.evil.example"}, "POST", "/runs", "refuses requests of other websites"),
        (FETCH, "GET", "/threads", "refuses requests of other websites"),  # without an Origin header
        ({**FETCH, "sec-fetch-site": "same-site"}, "GET", "/threads", "refuses requests of other websites"),
        (LINK, "GET", "/runs", "refuses requests of other websites"),
        (LINK, "POST", "/moot", "refuses requests of other websites"),
        ({**LINK, "sec-fetch-dest": "iframe"}, "GET", "/moot", "refuses requests of other websites"),
    ],
)
def test_requests_of_other_websites_or_for_unknown_hosts_are_refused(
    headers: dict[str, str], method: str, path: str, message: str
) -> None:
    assert message in refusal_for(headers, method, path)


def test_two_host_headers_are_refused() -> None:
    headers = Headers(raw=[(b"host", HERE.encode()), (b"host", b"evil.example")])
    assert "is not valid" in refusal(headers, "GET", "/info", (), ())


@given(st.text(max_size=40))
def test_only_loopback_hosts_are_known_by_default(host: str) -> None:
    name = urlsplit(f"//{host}").hostname if host.isascii() and "[" not in host and "]" not in host else None
    assert not is_known(host, ()) or name == "localhost" or str(name).startswith("127.")


@given(st.from_regex(r"https?://[a-z0-9.-]{1,40}(:[0-9]{1,5})?", fullmatch=True))
def test_origins_of_other_websites_are_refused(origin: str) -> None:
    assert refusal_for({"origin": origin}) or origin in (f"http://{HERE}", f"https://{HERE}")


ROUTES: list[tuple[str, str, Any]] = [
    ("GET", "/info", None),
    ("GET", "/docs", None),
    ("GET", "/openapi.json", None),
    ("POST", "/threads", {}),
    ("POST", "/threads/search", {}),
    ("POST", "/runs/wait", {"assistant_id": "rag", "input": {"claim": "A."}}),
    ("POST", "/runs/stream", {"assistant_id": "rag", "input": {"claim": "A."}}),
    ("POST", "/assistants/search", {}),
    ("PUT", "/store/items", {"namespace": ["a"], "key": "b", "value": {}}),
    ("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
    ("POST", "/a2a/rag", {}),
    ("GET", "/moot", None),
    ("GET", "/nowhere", None),
]


@pytest.mark.parametrize(("method", "path", "body"), ROUTES)
def test_routes_refuse_other_websites_and_unknown_hosts(server: Server, method: str, path: str, body: Any) -> None:
    evil = {"origin": "https://evil.example"}
    for status, message in (
        server.refused(path, body, evil, method),
        server.refused(path, None, {**evil, "access-control-request-method": method}, "OPTIONS"),
        server.refused(path, body, {"host": "evil.example"}, method),
    ):
        assert status == 403
        assert "evil.example" in message["detail"]


def test_the_log_names_the_setting_that_allows_studio(server: Server) -> None:
    server.refused("/info", headers={"origin": STUDIO, "sec-fetch-site": "cross-site"})
    assert f"add {STUDIO} to MOOT_ALLOWED_ORIGINS" in server.log()


@pytest.mark.parametrize("origin", ["https://evil.example", ""])
def test_a_websocket_is_refused(server: Server, origin: str) -> None:
    """Also one of the server's own pages: nothing would check its messages."""
    place = urlsplit(server.url)
    lines = ["GET /threads/1/stream HTTP/1.1", f"Host: {place.netloc}", "Upgrade: websocket", "Connection: Upgrade"]
    lines += [
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        f"Origin: {origin or server.url}",
    ]
    with socket.create_connection((str(place.hostname), place.port or 80)) as raw:
        raw.sendall("\r\n".join([*lines, "", ""]).encode())
        assert raw.recv(100).startswith(b"HTTP/1.1 403")


def test_requests_from_the_servers_own_pages_are_answered(server: Server) -> None:
    assert server.send("/threads/search", {}, {"origin": server.url, "sec-fetch-site": "same-origin"})


def test_a_health_check_may_name_any_host(server: Server) -> None:
    for host in ("10.0.3.7:2024", "evil.example", "_"):
        assert json.loads(server.send("/ok", headers={"host": host}))["ok"] is True
        assert server.refused("/info", headers={"host": host})[0] == 403


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/deploy"), ("POST", "/deploy"), ("POST", "/internal/truncate"), ("GET", "/internal/debug/thread/1")],
)
def test_tools_of_the_development_server_are_not_served(server: Server, method: str, path: str) -> None:
    assert server.refused(path, {} if method == "POST" else None, method=method) == (404, {"detail": "Not Found"})
