"""Refuses requests whose body is too large, or is not valid JSON, before a route reads the body."""

from __future__ import annotations

import math
import os
from typing import Any

from moot.core.errors import UserError
from moot.web.caller import TOO_LARGE, body_of, parse_json
from moot.web.checks import replay
from moot.web.guard import is_own
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

LIMIT = "MOOT_MAX_BODY_MIB"
"""The environment variable with the maximum size of the body of every request, in MiB."""
USUAL_LIMIT, UPLOAD_LIMIT = 8, 64
"""The limits if `LIMIT` is not set, in MiB. The second one is for our own routes, whose handlers may allow less."""
OWN_ROUTES = "/moot/"
MCP = "/mcp"
INVALID_REQUEST = -32600
"""JSON-RPC's code for a message that is not a valid request."""


def read_limit() -> float | None:
    """The operator's limit of the size of a body, in bytes; None if `LIMIT` is not set or blank."""
    if not (text := os.environ.get(LIMIT, "").strip()):
        return None
    try:
        most = float(text)
    except ValueError:
        most = math.nan
    if not 0 < most < math.inf:
        raise UserError(f"{LIMIT} is {text[:40]!r}; it must be a number of MiB, such as 8.", kind="invalid_environment")
    return most * 2**20


class Bounds:
    """Middleware that reads the body of a request, up to a limit, and passes it on. Larger bodies get status 413.

    Bodies for routes that take JSON are parsed, so that no route sees malformed or very deeply nested JSON.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on or refuses it."""
        if scope["type"] != "http" or is_own(scope):
            return await self.app(scope, receive, send)
        path = scope["path"]
        most = int(read_limit() or (UPLOAD_LIMIT if path.startswith(OWN_ROUTES) else USUAL_LIMIT) * 2**20)
        try:
            content = await body_of(Request(scope, receive), most)
            if content and not path.startswith((OWN_ROUTES, MCP)):
                parse_json(content)
        except ClientDisconnect:
            return None
        except UserError as error:
            status = 413 if error.kind == TOO_LARGE else 422
            return await JSONResponse(refusal_of(error, path), status)(scope, receive, send)
        return await self.app(scope, replay(content, receive), send)


def refusal_of(error: UserError, path: str) -> dict[str, Any]:
    """The body of the response to a refused request. For MCP, it is an error of JSON-RPC."""
    if path.rstrip("/") == MCP:
        return {"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": error.detail}}
    return {"detail": error.detail, "kind": error.kind}
