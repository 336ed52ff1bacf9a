"""Refuses requests of other websites, and passes on requests of programs and of the server's own pages.

A browser lets any website send requests to a server on the user's machine. LangGraph's development server would answer
all these requests, and would use the user's API keys for them.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Collection
from ipaddress import ip_address

from moot.core.errors import UserError
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

log = logging.getLogger(__name__)

HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::\d+)?", re.IGNORECASE)
PRIVATE = b"access-control-request-private-network"
"""With this header, a browser asks if a public website may access this server. LangGraph's server would allow that."""
UNSERVED = re.compile(r"/(?:deploy|internal)(?:/|$)")
"""Routes of the development server that start programs, or delete or read any thread without authentication."""
PAGES = ("/moot", "/docs")
"""Beginnings of the paths that links on other websites may open."""


def refusal(headers: Headers, method: str, path: str, hosts: Collection[str], origins: Collection[str]) -> str:
    """The reason why a request is refused, as a sentence; empty if the request is allowed."""
    host = ", ".join(headers.getlist("host")).lower()
    if not (is_known(host, hosts) or is_health(path, method)):
        name = name_in(host)
        if name is None:
            return f"The Host header {host!r} is not valid."
        return f"This server is not known as {name!r}: add that name to MOOT_ALLOWED_HOSTS to allow it."
    for origin in map(str.lower, headers.getlist("origin")):
        if origin == "null" and origin not in origins:
            # Any website can send the origin `null`, so the text does not say how to allow it.
            return "This server refuses requests of other websites. This request does not name its website."
        if origin not in (f"http://{host}", f"https://{host}", *origins):
            return f"This server refuses requests of other websites: add {origin} to MOOT_ALLOWED_ORIGINS to allow it."
    site = headers.get("sec-fetch-site", "none").lower()
    if "origin" in headers or site in ("none", "same-origin"):
        return ""
    followed = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    if followed and method == "GET" and path.startswith(PAGES):
        return ""
    return "This server refuses requests of other websites. To see a page, type its address into the browser."


def is_health(path: str, method: str) -> bool:
    """Whether a request is a health check. Health checks of load balancers may have any host name."""
    return path in ("/ok", "/ready", "/live") and method in ("GET", "HEAD")


def name_in(host: str) -> str | None:
    """The name or address in a Host header, without its port, brackets and last dot; None if it is not valid."""
    found = HOST.fullmatch(host)
    return None if found is None else (found[1] or found[2]).removesuffix(".")


def is_known(host: str, hosts: Collection[str]) -> bool:
    """Whether the name in a Host header is ``localhost``, a loopback address, or in ``hosts``.

    False if the header is not valid. ``host`` and ``hosts`` are in lower case.
    """
    name = name_in(host)
    if name is None:
        return False
    if name in hosts or name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def lowercase_names(variable: str) -> frozenset[str]:
    """The comma-separated names in an environment variable, in lower case and without slashes at their ends."""
    return frozenset(n for name in os.environ.get(variable, "").split(",") if (n := name.strip().rstrip("/").lower()))


def check_mount_prefix() -> None:
    """Refuses to serve below a path, because the patterns of checked and refused routes begin at the root."""
    http = json.loads(os.environ.get("LANGGRAPH_HTTP") or "{}")
    named = {name: os.environ.get(name) for name in ("MOUNT_PREFIX", "LANGGRAPH_MOUNT_PREFIX")}
    for name, prefix in (named | {"http.mount_prefix": http.get("mount_prefix")}).items():
        if prefix:
            raise UserError(
                f"{name}: moot is not served below a path, because its checks know the paths of routes. Unset it, and "
                "let a proxy remove the path.",
                kind="invalid_environment",
            )


def is_own(scope: Scope) -> bool:
    """Whether a request comes from this server itself.

    It does if its root path is ``/noauth``. Only the server's own client can set this root path.
    """
    return bool(scope.get("root_path") == "/noauth")


async def not_found(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers that there is no such route; closes a websocket."""
    if scope["type"] == "websocket":
        return await send({"type": "websocket.close", "code": 1008, "reason": "Not Found"})
    return await JSONResponse({"detail": "Not Found"}, 404)(scope, receive, send)


class Guard:
    """Middleware that answers `UNSERVED` routes with 404, and other requests with 403 if `refusal` refuses them.

    Websockets are closed: LangGraph's server would start runs by their messages, which no check reads. The same routes
    answer HTTP requests. The header `PRIVATE` is removed from allowed requests.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.hosts = lowercase_names("MOOT_ALLOWED_HOSTS")
        self.origins = lowercase_names("MOOT_ALLOWED_ORIGINS")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on or refuses it."""
        if scope["type"] == "lifespan" or is_own(scope):
            return await self.app(scope, receive, send)
        if scope["type"] == "websocket" or UNSERVED.match(scope["path"]):
            return await not_found(scope, receive, send)
        fault = refusal(Headers(scope=scope), scope["method"], scope["path"], self.hosts, self.origins)
        if not fault:
            scope["headers"] = [(name, value) for name, value in scope["headers"] if name != PRIVATE]
            return await self.app(scope, receive, send)
        # A browser hides the answer from the website, so the reason is also logged.
        log.warning("%s %r was refused: %r", scope["method"], scope["path"], fault)
        return await JSONResponse({"detail": fault}, 403)(scope, receive, send)
