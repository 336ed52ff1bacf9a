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
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template
from urllib.parse import parse_qs, quote

from moot.core.errors import MootError, UserError
from moot.web.caller import DATABASE, EVERYBODY, body_of, current_user, has_users, public_text
from moot.web.guard import is_own
from moot.web.metrics import METRICS
from moot.web.service.users import read_users
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
    """The token in an environment variable; empty if the variable is not set or blank.

    Args:
        variable: the variable's name; by default ``MOOT_TOKEN``.

    Raises:
        UserError: the token is too short, or contains a character that is not visible ASCII.
    """
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


class Login:
    """Middleware that refuses requests without a valid token or session, if the server has tokens.

    `PUBLIC_PATHS`, the log-in page and CORS preflights need no token. ``MOOT_TOKEN`` is one token for all callers.
    ``MOOT_USERS`` names a file of users, each with a token.

    Raises:
        UserError: ``MOOT_TOKEN`` and ``MOOT_USERS`` are both set, or a token or the file of users is not valid.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.token = read_token().encode()
        self.metrics_token = read_token(METRICS_TOKEN).encode()
        self.users = read_users()
        if self.token and self.users:
            raise UserError(f"{TOKEN} and MOOT_USERS are both set: unset one of them.", kind="invalid_environment")
        self.attempts = Attempts()
        self.sessions = Sessions()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, refuses it, or answers it if it is for logging in or out."""
        if scope["type"] == "lifespan" or is_own(scope):
            return await self.app(scope, receive, send)
        path, method = scope["path"], scope.get("method")
        if not (self.token or self.users or (path == METRICS and (self.metrics_token or has_users()))):
            return await self.app(with_user_header(EVERYBODY, scope), receive, send)
        connection = HTTPConnection(scope)
        if (self.token or self.users) and method and path in (LOG_IN, LOG_OUT):
            answer = await self.log_in_or_out(Request(scope, receive), path, method)
            return await answer(scope, receive, send)
        if (path in PUBLIC_PATHS and method in ("GET", "HEAD")) or is_preflight(connection, method):
            return await self.app(scope, receive, send)
        name, status, fault = self.identify(connection)
        if name:
            current_user.set(name if self.users else None)
            return await self.app(with_user_header(name, scope), receive, send)
        if method is None:
            return await send({"type": "websocket.close", "code": 1008, "reason": fault})
        return await refusal_response(connection, path, method, status, fault)(scope, receive, send)

    def identify(self, connection: HTTPConnection) -> tuple[str, int, str]:
        """Finds the user of a request.

        Returns:
            The user's name, 0 and an empty text. If the request is refused: an empty name, the HTTP status and the
            message.
        """
        covers_all_users = connection.scope["path"] == METRICS and not self.token
        if covers_all_users and not self.metrics_token:
            return "", 403, f"{METRICS} covers all users' debates: set {METRICS_TOKEN}, and send it."
        if not covers_all_users and (name := self.user_of_cookie(connection)):
            return name, 0, ""
        scheme, _, sent = connection.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and sent:
            return self.identify_by_token(connection, sent.strip())
        return "", 401, f"This server needs a token: send Authorization: Bearer TOKEN, or log in at {LOG_IN}."

    def user_of_cookie(self, connection: HTTPConnection) -> str:
        """The name of the browser's logged-in user; empty if none is logged in."""
        cookie = connection.cookies.get(COOKIE, "")
        if self.users:
            return self.users.user_of_session(cookie) or ""
        return EVERYBODY if self.sessions.is_valid(cookie) else ""

    def identify_by_token(self, connection: HTTPConnection, sent: str) -> tuple[str, int, str]:
        """As `identify`, for a request with a token. A wrong token is recorded."""
        token = sent.encode("utf-8", "surrogateescape")
        is_metrics = connection.scope["path"] == METRICS
        if is_metrics and self.metrics_token and hmac.compare_digest(token, self.metrics_token):
            name: str | None = EVERYBODY
        elif self.users:
            name = None if is_metrics else self.users.user_of_token(token)
        else:
            name = EVERYBODY if self.token and hmac.compare_digest(token, self.token) else None
        if name:
            return name, 0, ""
        address = connection.client.host if connection.client else ""
        if self.attempts.are_too_many(address):
            return "", 429, "Too many wrong tokens came from your address. Wait for a minute."
        self.attempts.add(address, token)
        return "", 401, "This token is not valid here."

    async def log_in_or_out(self, request: Request, path: str, method: str) -> Response:
        """Shows the log-in page, logs a browser in, or logs it out."""
        id = request.cookies.get(COOKIE, "")
        if method not in (("POST",) if path == LOG_OUT else ("GET", "HEAD", "POST")):
            return JSONResponse({"detail": "Method Not Allowed"}, 405)
        if path == LOG_OUT:
            self.sessions.end(id)
            answer: Response = RedirectResponse(LOG_IN, 303)
            answer.delete_cookie(COOKIE)
            return answer
        if method != "POST":
            return await self._show_log_in_page(self.user_of_cookie(request), request.query_params.get("next", ""))
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
        cookie = self.users.session_cookie(name, SESSION_SECONDS) if self.users else self.sessions.begin()
        answer.set_cookie(COOKIE, cookie, SESSION_SECONDS, httponly=True, samesite="strict", secure=secure)
        return answer

    async def _show_log_in_page(self, name: str, then: str) -> Response:
        """The log-in page. In a service, it shows the usage of a logged-in user, or why the usage is unknown."""
        if not (name and self.users and os.environ.get(DATABASE)):
            return log_in_page(is_logged_in=bool(name), then=then)
        from moot.web.service.quotas import describe_usage  # importing it at the top would be circular

        try:
            usage = await asyncio.to_thread(describe_usage, name)
        except MootError as error:
            usage = f"Your usage is not known. {public_text(error)}"
        return log_in_page(is_logged_in=True, about=f"You are {name}. {usage}")


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
    """The log-in page. A logged-in browser gets the form for logging out in place of the form for logging in.

    Args:
        fault: why the log-in was refused; empty if it was not refused.
        then: the path to which the browser is redirected after the log-in.
        is_logged_in: whether the browser is logged in.
        about: a text about the logged-in user; empty for no text.
        status: the response's HTTP status.
    """
    note = f"<p>{escape(about)}</p>" if about else ""
    error_text = f'<p class="bad" role="alert">{escape(fault)}</p>' if fault else ""
    form = LOG_OUT_FORM if is_logged_in else LOG_IN_FORM.format(then=escape(then if NEXT.fullmatch(then) else "/moot"))
    return HTMLResponse(PAGE.substitute(main=error_text + note + form), status, HEADERS)
