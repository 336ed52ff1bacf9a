"""Protects a server with tokens: programs send a token, and browsers log in with a token.

``/metrics`` may have a separate token that is valid for nothing else. The metrics cover the debates of all users. So if
a server has users (``MOOT_USERS`` or an ``Auth`` object) but no ``MOOT_TOKEN``, the metrics need the separate token.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import re
import secrets
import time
from collections.abc import Callable
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template
from typing import Protocol
from urllib.parse import parse_qs, quote

from moot.core.errors import UserError
from moot.web.caller import EVERYBODY, body_of, has_users
from moot.web.guard import is_own
from moot.web.kept import current_user
from moot.web.metrics import METRICS
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

TOKEN = "MOOT_TOKEN"
METRICS_TOKEN = "MOOT_METRICS_TOKEN"
MIN_TOKEN_LENGTH = 16
"""Minimum length of a token, in characters."""
COOKIE = "moot_session"
SESSION_SECONDS = 7 * 24 * 3600
"""Seconds until a browser has to log in again."""
MAX_SESSIONS = 1000
"""Maximum number of browsers that are logged in with the server's token; a further log-in ends the oldest session."""
LOG_IN, LOG_OUT = "/moot/login", "/moot/logout"
USER_HEADER = "moot-asks"
"""The header in which this middleware passes the user's name on; a header of this name in the request is dropped."""
PUBLIC_PATHS = ("/ok", "/ready", "/live", "/moot/static/page.css")
"""Paths readable without a token: health checks and the style of the log-in page."""
NEXT = re.compile(r"/(?:moot|docs)(?:[/?][\w/?=&%.-]*)?")
"""Paths to which a log-in may redirect."""
LARGEST = 4096
"""Maximum size of a form, in bytes."""
PAGE = Template(files("moot.web").joinpath("templates/login.html").read_text(encoding="utf-8"))
LOG_IN_FORM = """<h1>Log in</h1>
<form method="post" action="/moot/login"><input type="hidden" name="next" value="{then}">
<div class="field"><label for="token">Token for this server</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus></div>
<button>Log in</button></form>"""
LOG_OUT_FORM = """<h1>You are logged in</h1>
<form method="post" action="/moot/logout"><button>Log out</button></form>"""
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def read_token(variable: str = TOKEN) -> str:
    """The token in an environment variable; empty if the variable is not set or blank."""
    token = os.environ.get(variable, "").strip()
    if token and len(token) < MIN_TOKEN_LENGTH:
        raise UserError(
            f"{variable} has {len(token)} characters, and needs at least {MIN_TOKEN_LENGTH}. Make one with: "
            "openssl rand -hex 32",
            kind="invalid_environment",
        )
    if not re.fullmatch(r"[!-~]*", token):
        raise UserError(
            f"{variable} contains a space or another character that is not visible ASCII.", kind="invalid_environment"
        )
    return token


class Attempts:
    """Wrong tokens of the current minute, by client address. A valid token is accepted from every address.

    The same wrong token counts only once for an address. The address is that of the connection, or the one that a proxy
    names in X-Forwarded-For if the server's variable ``FORWARDED_ALLOW_IPS`` lists the proxy.
    """

    MOST_PER_MINUTE = 20
    MOST_ADDRESSES = 1000

    def __init__(self) -> None:
        self._wrong: dict[str, set[bytes]] = {}
        self._since = time.monotonic()

    def are_too_many(self, address: str) -> bool:
        """Whether an address has sent `MOST_PER_MINUTE` different wrong tokens in this minute.

        Also true for a new address after wrong tokens from `MOST_ADDRESSES` addresses.
        """
        if time.monotonic() - self._since > 60:
            self._wrong, self._since = {}, time.monotonic()
        if address not in self._wrong:
            return len(self._wrong) >= self.MOST_ADDRESSES
        return len(self._wrong[address]) >= self.MOST_PER_MINUTE

    def add(self, address: str, token: bytes) -> None:
        """Records the digest of a wrong token."""
        self._wrong.setdefault(address, set()).add(sha256(token).digest())


class Sessions:
    """The browsers that are logged in with the server's token, by the random ids in their cookies."""

    def __init__(self) -> None:
        self._ends: dict[str, float] = {}

    def begin(self) -> str:
        """Begins a session and returns its id. If there are `MAX_SESSIONS` already, the oldest one ends."""
        if len(self._ends) >= MAX_SESSIONS:
            del self._ends[next(iter(self._ends))]
        id = secrets.token_urlsafe(32)
        self._ends[id] = time.monotonic() + SESSION_SECONDS
        return id

    def is_valid(self, id: str) -> bool:
        """Whether this is the id of a session that has neither ended nor expired."""
        return self._ends.get(id, 0.0) > time.monotonic()

    def end(self, id: str) -> None:
        """Ends a session."""
        self._ends.pop(id, None)


class Callers(Protocol):
    """Those who may use the server, each with a token, and the browsers that they are logged in with."""

    def user_of_token(self, token: bytes) -> str | None:
        """The name of the caller with this token; None if nobody has it."""

    def session_cookie(self, name: str, seconds: int) -> str:
        """The cookie of a caller's new session, which expires after some seconds."""

    def user_of_session(self, cookie: str) -> str | None:
        """The name of the caller whose session has this cookie; None if it is not valid or has expired."""

    def end_session(self, cookie: str) -> None:
        """Ends the session with this cookie."""

    def about(self, name: str) -> str:
        """Sentences for the logged-in caller; may be empty. Blocking."""


class Everybody:
    """All callers of a server with ``MOOT_TOKEN``. They are one: `EVERYBODY`."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        self._sessions = Sessions()

    def user_of_token(self, token: bytes) -> str | None:
        return EVERYBODY if hmac.compare_digest(token, self._token) else None

    def session_cookie(self, name: str, seconds: int) -> str:
        return self._sessions.begin()

    def user_of_session(self, cookie: str) -> str | None:
        return EVERYBODY if self._sessions.is_valid(cookie) else None

    def end_session(self, cookie: str) -> None:
        self._sessions.end(cookie)

    def about(self, name: str) -> str:
        return ""


def callers_with_token() -> Callers | None:
    """The callers of a server with ``MOOT_TOKEN``; None without it. Raises UserError as `read_token`."""
    token = read_token()
    return Everybody(token) if token else None


class Login:
    """Middleware that refuses requests without a valid token or session, if the server has tokens.

    `PUBLIC_PATHS`, the log-in page and CORS preflights need no token.

    """

    def __init__(self, app: ASGIApp, read_callers: Callable[[], Callers | None] = callers_with_token) -> None:
        self.app = app
        self.callers = read_callers()
        self.metrics_token = read_token(METRICS_TOKEN).encode()
        self.attempts = Attempts()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, refuses it, or answers it if it is for logging in or out."""
        if scope["type"] == "lifespan" or is_own(scope):
            return await self.app(scope, receive, send)
        path, method = scope["path"], scope.get("method")
        if self.callers is None and not (path == METRICS and (self.metrics_token or has_users())):
            return await self.app(with_user_header(EVERYBODY, scope), receive, send)
        connection = HTTPConnection(scope)
        if self.callers and method and path in (LOG_IN, LOG_OUT):
            answer = await self.log_in_or_out(self.callers, Request(scope, receive))
            return await answer(scope, receive, send)
        if (path in PUBLIC_PATHS and method in ("GET", "HEAD")) or is_preflight(connection, method):
            return await self.app(scope, receive, send)
        name, status, fault = self.identify(connection)
        if name:
            current_user.set(None if name == EVERYBODY else name)
            return await self.app(with_user_header(name, scope), receive, send)
        if method is None:
            return await send({"type": "websocket.close", "code": 1008, "reason": fault})
        return await refusal_response(connection, path, method, status, fault)(scope, receive, send)

    def identify(self, connection: HTTPConnection) -> tuple[str, int, str]:
        """The user of a request, 0 and ""; if it is refused, "", the HTTP status and the message."""
        covers_others = connection.scope["path"] == METRICS and not isinstance(self.callers, Everybody)
        if covers_others and not self.metrics_token:
            return "", 403, f"{METRICS} covers all users' debates: set {METRICS_TOKEN}, and send it."
        if not covers_others and self.callers and (name := self.callers.user_of_session(cookie_of(connection))):
            return name, 0, ""
        scheme, _, sent = connection.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and sent:
            return self.identify_by_token(connection, sent.strip())
        return "", 401, f"This server needs a token: send Authorization: Bearer TOKEN, or log in at {LOG_IN}."

    def identify_by_token(self, connection: HTTPConnection, sent: str) -> tuple[str, int, str]:
        """As `identify`, for a request with a token. A wrong token is recorded."""
        token = sent.encode("utf-8", "surrogateescape")
        is_metrics = connection.scope["path"] == METRICS
        if is_metrics and self.metrics_token and hmac.compare_digest(token, self.metrics_token):
            return EVERYBODY, 0, ""
        may_name = self.callers if isinstance(self.callers, Everybody) or not is_metrics else None
        if may_name and (name := may_name.user_of_token(token)):
            return name, 0, ""
        address = connection.client.host if connection.client else ""
        if self.attempts.are_too_many(address):
            return "", 429, "Too many wrong tokens came from your address. Wait for a minute."
        self.attempts.add(address, token)
        return "", 401, "This token is not valid here."

    async def log_in_or_out(self, callers: Callers, request: Request) -> Response:
        """Shows the log-in page, logs a browser in, or logs it out."""
        path, cookie = request.scope["path"], cookie_of(request)
        if request.method not in (("POST",) if path == LOG_OUT else ("GET", "HEAD", "POST")):
            return JSONResponse({"detail": "Method Not Allowed"}, 405)
        if path == LOG_OUT:
            callers.end_session(cookie)
            answer: Response = RedirectResponse(LOG_IN, 303)
            answer.delete_cookie(COOKIE)
            return answer
        if request.method != "POST":
            then, user = request.query_params.get("next", ""), callers.user_of_session(cookie)
            about = await asyncio.to_thread(callers.about, user) if user else ""
            return log_in_page(is_logged_in=bool(user), then=then, about=about)
        try:
            content = await body_of(request, LARGEST)
        except UserError as error:
            return log_in_page(fault=error.detail, status=413)
        fields = parse_qs(content.decode("utf-8", "surrogateescape"))
        then = fields.get("next", [""])[0]
        name, status, fault = self.identify_by_token(request, fields.get("token", [""])[0].strip())
        if not name:
            return log_in_page(fault=fault, then=then, status=status)
        answer = RedirectResponse(then if NEXT.fullmatch(then) else "/moot", 303)
        secure = request.url.scheme == "https"
        cookie = callers.session_cookie(name, SESSION_SECONDS)
        answer.set_cookie(COOKIE, cookie, SESSION_SECONDS, httponly=True, samesite="strict", secure=secure)
        return answer


def cookie_of(connection: HTTPConnection) -> str:
    """The cookie of a browser's session; empty if it sent none."""
    return connection.cookies.get(COOKIE, "")


def with_user_header(name: str, scope: Scope) -> Scope:
    """A request's scope with the user's name in the header `USER_HEADER`."""
    others = [(key, value) for key, value in scope["headers"] if key != USER_HEADER.encode()]
    return {**scope, "headers": [*others, (USER_HEADER.encode(), name.encode())]}


def is_preflight(connection: HTTPConnection, method: str | None) -> bool:
    """Whether this is a CORS preflight. Browsers send it without a token; it gives access to no route."""
    return method == "OPTIONS" and {"origin", "access-control-request-method"} <= set(connection.headers)


def refusal_response(connection: HTTPConnection, path: str, method: str, status: int, fault: str) -> Response:
    """The response to a refused request. A browser that is not logged in is redirected to the log-in page."""
    if (
        status == 401
        and method == "GET"
        and "text/html" in connection.headers.get("accept", "")
        and NEXT.fullmatch(path)
    ):
        return RedirectResponse(f"{LOG_IN}?next={quote(path)}", 303)
    headers = {401: {"WWW-Authenticate": "Bearer"}, 429: {"Retry-After": "60"}}.get(status, {})
    return JSONResponse({"detail": fault, "kind": "authentication"}, status, headers)


def log_in_page(
    *, fault: str = "", then: str = "", is_logged_in: bool = False, about: str = "", status: int = 200
) -> Response:
    """The log-in page. A logged-in browser gets the form for logging out in place of the form for logging in."""
    note = f"<p>{escape(about)}</p>" if about else ""
    error_text = f'<p class="bad" role="alert">{escape(fault)}</p>' if fault else ""
    form = LOG_OUT_FORM if is_logged_in else LOG_IN_FORM.format(then=escape(then if NEXT.fullmatch(then) else "/moot"))
    return HTMLResponse(PAGE.substitute(main=error_text + note + form), status, HEADERS)
