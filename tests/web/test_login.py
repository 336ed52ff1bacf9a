"""A server with a token: programs send the token, browsers log in with it, and other requests are refused."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

import pytest
from fastapi import FastAPI
from moot.core.errors import UserError
from moot.core.postgres.connection import Postgres
from moot.core.postgres.store import PostgresStore
from moot.core.store import use_store
from moot.graphs import DESCRIPTIONS
from moot.service.app import read_callers
from moot.web.login import Attempts, Login, Sessions, read_token
from moot.web.serve import check_token
from starlette.requests import HTTPConnection
from starlette.testclient import TestClient

from tests.commands import COMMAND, moot
from tests.conftest import CLAIM, free_port, running_stub
from tests.serving import Server, running
from tests.web.test_guard import ROUTES

if TYPE_CHECKING:
    from playwright.async_api import Browser

TOKEN = "correct-horse-battery-staple"
BEARER = {"authorization": f"Bearer {TOKEN}"}
STUDIO = "https://smith.langchain.com"


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """``moot serve`` with a token, at an address that other machines can reach."""
    folder = tmp_path_factory.mktemp("locked")
    port = free_port()
    command = [*COMMAND[1:], "serve", "--host", "0.0.0.0", "--studio", "--port", str(port)]
    with running_stub(folder / "stub", []) as stub:
        yield from running(command, folder, port, stub, MOOT_TOKEN=TOKEN)


def ask(server: Server, path: str, method: str = "GET", body: str | None = None, **headers: str) -> Any:
    """Status, headers and body of a response; redirects are not followed."""
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        reply = connection.getresponse()
        return reply.status, reply.headers, reply.read().decode()
    finally:
        connection.close()


def log_in(server: Server, token: str, **fields: str) -> Any:
    """Send the log-in form; return the response as `ask` does."""
    form = "application/x-www-form-urlencoded"
    return ask(server, "/moot/login", "POST", urlencode({"token": token, **fields}), content_type=form)


@pytest.mark.parametrize(("method", "path", "body"), [*ROUTES, ("GET", "/moot/api/debates", None), ("GET", "/", None)])
def test_a_request_without_the_token_is_refused(locked: Server, method: str, path: str, body: Any) -> None:
    sent = None if body is None else json.dumps(body)
    for headers in ({}, {"authorization": "Bearer"}, {"authorization": TOKEN}, {"cookie": f"moot_session={TOKEN}"}):
        status, response_headers, response_body = ask(locked, path, method, sent, **headers)
        assert (status, response_headers["www-authenticate"]) == (401, "Bearer")
        assert "send Authorization: Bearer TOKEN, or log in at /moot/login" in response_body


def test_a_program_that_sends_the_token_is_answered(locked: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    run = {"assistant_id": "standard_prompting", "input": {"claim": CLAIM}, "context": {"model": "fake:1"}}
    assert json.loads(locked.send("/runs/wait", run, BEARER))["status"] == "done"
    tools = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    assert b"neighbor_debate" in locked.send("/mcp?tools=all", tools, BEARER)
    assert b"<!doctype html>" in locked.send("/moot", headers={"authorization": f"bearer {TOKEN}"})
    monkeypatch.setenv("MOOT_TOKEN", TOKEN)
    done = moot("assistants", "--url", locked.url)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(DESCRIPTIONS)


def test_health_checks_and_preflights_need_no_token(locked: Server) -> None:
    """An OPTIONS request that is not a preflight needs the token. The page's script also needs it."""
    assert ask(locked, "/ok")[0] == 200
    asks = {
        "origin": STUDIO,
        "access_control_request_method": "POST",
        "access_control_request_headers": "authorization",
    }
    status, response_headers, _ = ask(locked, "/runs/stream", "OPTIONS", **asks)
    assert (status, "authorization" in response_headers["access-control-allow-headers"].lower()) == (200, True)
    assert ask(locked, "/runs/stream", "OPTIONS")[0] == 401
    assert ask(locked, "/moot/static/page.js")[0] == 401


def test_logging_in_begins_a_session_and_logging_out_ends_it(locked: Server) -> None:
    """A log-in redirects only to pages of this server."""
    status, response_headers, _ = ask(locked, "/moot/debates", accept="text/html")
    assert (status, response_headers["location"]) == (303, "/moot/login?next=/moot/debates")
    assert log_in(locked, "wrong-wrong-wrong-wrong")[0] == 401
    for then, target in (("/moot/debates", "/moot/debates"), ("//evil.example", "/moot"), ("/moot\\evil", "/moot")):
        status, response_headers, _ = log_in(locked, TOKEN, next=then)
        assert (status, response_headers["location"]) == (303, target)
    cookie = response_headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert TOKEN not in cookie
    session = {"cookie": cookie.partition(";")[0]}
    assert ask(locked, "/moot/api/debates", **session)[0] == 200
    assert ask(locked, "/threads/search", "POST", "{}", content_type="application/json", **session)[0] == 200
    assert "You are logged in" in ask(locked, "/moot/login", **session)[2]
    assert ask(locked, "/moot/logout", "GET", **session)[0] == 405  # a link cannot log a user out
    assert ask(locked, "/moot/logout", "POST", **session)[0] == 303
    assert ask(locked, "/moot/api/debates", **session)[0] == 401


def test_another_website_cannot_log_a_user_in(locked: Server) -> None:
    evil = {"origin": "https://evil.example", "content_type": "application/x-www-form-urlencoded"}
    assert ask(locked, "/moot/login", "POST", f"token={TOKEN}", **evil)[0] == 403


async def test_a_browser_sends_requests_only_to_the_server(locked: Server, browser: Browser) -> None:
    """The browser logs in, after a wrong token; it opens the API's docs and the past checks, and logs out."""
    asked: list[str] = []
    refused: list[str] = []
    page = await browser.new_page(base_url=locked.url)
    page.set_default_timeout(30_000)
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda said: refused.append(said.text) if "Content Security Policy" in said.text else None)
    await page.goto("/docs")
    await page.get_by_label("Token for this server").fill(TOKEN + "!")
    await page.get_by_role("button", name="Log in").click()
    await page.get_by_text("This token is not valid here.").wait_for()
    await page.get_by_label("Token for this server").fill(TOKEN)
    await page.get_by_role("button", name="Log in").click()
    await page.get_by_role("heading", name="The server's API").wait_for()
    route = page.locator("details", has=page.get_by_text("POST /runs/wait", exact=True))
    await route.locator("summary").click()
    await route.get_by_text("requestBody").wait_for()
    assert page.url.endswith("/docs")
    await page.goto("/moot/debates")
    await page.get_by_text("Import a check from a file").wait_for()
    assert await page.evaluate("document.cookie") == ""
    await page.get_by_role("link", name="Log out").click()
    await page.get_by_role("button", name="Log out").click()
    await page.get_by_role("button", name="Log in").wait_for()
    await page.goto("/moot")
    await page.get_by_role("button", name="Log in").wait_for()
    await page.context.close()
    assert refused == []
    assert {urlsplit(url).netloc for url in asked if not url.startswith("data:")} == {urlsplit(locked.url).netloc}


def test_the_api_docs_list_every_route_and_load_nothing_from_elsewhere(locked: Server) -> None:
    _, response_headers, body = ask(locked, "/docs", **BEARER)
    assert "default-src 'none'" in response_headers["content-security-policy"]
    assert "https://" not in response_headers["content-security-policy"]
    assert "<script" not in body
    paths = json.loads(locked.send("/openapi.json", headers=BEARER))["paths"]
    assert all(f" {path}</code>" in body for path in paths)


# --- without a running server -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "moot.lan", ""])
def test_a_server_that_other_machines_can_reach_needs_a_valid_token(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    """A local server needs no token, but an invalid token is an error for every server."""
    monkeypatch.delenv("MOOT_TOKEN", raising=False)
    with pytest.raises(UserError, match="set MOOT_TOKEN to a token of at least 16 characters"):
        check_token(host)
    for local in ("127.0.0.1", "localhost", "::1", "127.1.2.3"):
        check_token(local)
    for unfit, message in (
        ("short", "has 5 characters"),
        ("a b" * 8, "contains a space"),
        ("ü" * 16, "not visible ASCII"),
    ):
        monkeypatch.setenv("MOOT_TOKEN", unfit)
        for anywhere in (host, "127.0.0.1"):
            with pytest.raises(UserError, match=message):
                check_token(anywhere)
    monkeypatch.setenv("MOOT_TOKEN", TOKEN)
    check_token(host)


def test_moot_serve_fails_at_start_without_a_token_or_a_writable_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").touch()
    monkeypatch.setenv("MOOT_TOKEN", "")
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
    for options, message in ((["--host", "0.0.0.0"], "set MOOT_TOKEN"), ([], "Debates cannot be stored in")):
        done = moot("serve", *options)
        assert (done.returncode, message in " ".join(done.stderr.split())) == (2, True), done.stderr


def test_too_many_different_wrong_tokens_block_an_address_for_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same wrong token counts only once. Wrong tokens from too many addresses block all other addresses."""
    now = 0.0
    monkeypatch.setattr("moot.web.login.time.monotonic", lambda: now)
    attempts = Attempts()
    for number in range(100):
        attempts.add("10.0.0.1", b"an old token, sent again")
        attempts.add("10.0.0.2", b"%d" % min(number, Attempts.MOST_PER_MINUTE - 2))
    assert not attempts.are_too_many("10.0.0.1")
    assert not attempts.are_too_many("10.0.0.2")
    attempts.add("10.0.0.2", b"one more")
    assert attempts.are_too_many("10.0.0.2")
    for number in range(Attempts.MOST_ADDRESSES):
        attempts.add(f"10.1.{number // 256}.{number % 256}", b"guess")
    assert attempts.are_too_many("10.0.0.3")  # an address that has sent no token
    assert not attempts.are_too_many("10.0.0.1")
    now = 61.0
    assert not attempts.are_too_many("10.0.0.2")


def test_a_session_ends_after_a_week_or_after_a_thousand_newer_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("moot.web.login.time.monotonic", lambda: now)
    sessions = Sessions()
    first = sessions.begin()
    assert sessions.is_valid(first)
    others = [sessions.begin() for _ in range(1000)]
    assert (sessions.is_valid(first), sessions.is_valid(others[0]), sessions.is_valid("")) == (False, True, False)
    now = 7 * 24 * 3600.0 - 1
    assert sessions.is_valid(others[0])
    now = 7 * 24 * 3600.0
    assert not sessions.is_valid(others[0])


def test_a_blank_token_counts_as_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOT_TOKEN", "  ")
    assert read_token() == ""


def test_a_users_token_opens_the_page_but_not_the_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = b"token-of-bob-0123456789"
    (tmp_path / "users.toml").write_text(f'[bob]\ntoken_sha256 = "{sha256(token).hexdigest()}"\n')
    monkeypatch.setenv("MOOT_TOKEN", "")
    monkeypatch.setenv("MOOT_USERS", str(tmp_path / "users.toml"))
    monkeypatch.setenv("MOOT_METRICS_TOKEN", "prometheus-battery-staple")
    login = Login(FastAPI(), read_callers)
    sent = {"type": "http", "client": ("10.0.0.1", 1), "headers": [(b"authorization", b"Bearer " + token)]}
    statuses = [login.identify(HTTPConnection({**sent, "path": path}))[1] for path in ("/moot", "/metrics")]
    assert statuses == [0, 401]


def test_the_login_page_opens_if_the_database_cannot_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("psycopg")
    (tmp_path / "users.toml").write_text(f'[bob]\ntoken_sha256 = "{sha256(TOKEN.encode()).hexdigest()}"\n')
    monkeypatch.setenv("MOOT_USERS", str(tmp_path / "users.toml"))
    monkeypatch.setenv("MOOT_HOME", str(tmp_path))
    use_store(PostgresStore(Postgres(f"postgresql://127.0.0.1:{free_port()}/moot")))
    browser = TestClient(Login(FastAPI(), read_callers))
    assert browser.post("/moot/login", data={"token": TOKEN}, follow_redirects=False).status_code == 303
    page = browser.get("/moot/login")
    assert page.status_code == 200
    assert "You are bob. Your usage is not known." in page.text
