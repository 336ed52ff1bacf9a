"""The caller of a request: a client that acts with the caller's rights, user checks, and the request's body."""

from __future__ import annotations

import json
import logging
import os
import sys
from contextvars import ContextVar
from typing import Any

import httpx
from langgraph_sdk.client import LangGraphClient
from moot.core.errors import MootError, UserError
from pydantic_core import from_json
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Scope

log = logging.getLogger(__name__)

USERS, DATABASE = "MOOT_USERS", "MOOT_DATABASE"
EVERYBODY = "everybody"
"""The user of every request to a server without users."""
current_user: ContextVar[str | None] = ContextVar("current_user", default=None)
"""The name of the current user; None on a server without `MOOT_USERS`. Users cannot see each other's debates."""
BODY_HEADERS = ("content-length", "content-type", "transfer-encoding", "connection", "upgrade", "accept")


def caller_client(scope: Scope) -> LangGraphClient:
    """A client that calls this server inside the process, with the headers of a request, such as its token and cookies.

    LangGraph's own client (`get_client` without an address) bypasses a server's `Auth` object, and so sees the threads
    of all users.
    """
    headers = {name: value for name, value in Headers(scope=scope).items() if name not in BODY_HEADERS}
    transport = httpx.ASGITransport(scope["app"], raise_app_exceptions=False)
    return LangGraphClient(httpx.AsyncClient(base_url="http://moot", transport=transport, headers=headers))


def has_users() -> bool:
    """Whether users see only their own threads: there are users, or the server has an `Auth` object."""
    return bool(os.environ.get(USERS)) or has_auth()


def has_auth() -> bool:
    """Whether LangGraph's own server has an `Auth` object."""
    return bool(_config() and _config().LANGGRAPH_AUTH)


def _config() -> Any:
    return sys.modules.get("langgraph_api.config")


def check_auth() -> None:
    """Checks that the server keeps its users apart: an `Auth` object must also protect the page's routes.

    Raises:
        UserError: the page's routes are open to everyone, or `MOOT_USERS` is set, which LangGraph's server does not
            support.
    """
    if _config() and os.environ.get(USERS):
        raise UserError(
            f"{USERS} is set, but this server cannot separate users: start it with `moot service`.",
            kind="invalid_environment",
        )
    if not has_auth() or (_config().HTTP_CONFIG or {}).get("enable_custom_route_auth"):
        return
    raise UserError(
        "langgraph.json names an Auth object, which LangGraph applies only to its own routes: everyone could read the "
        'debates on the page. Set "http": {"app": "moot.web.app:app", "enable_custom_route_auth": true}.',
        kind="invalid_environment",
    )


def public_text(error: MootError) -> str:
    """The text of an error for callers. An error of the database is logged instead, because it contains the address."""
    if error.kind != "queue":
        return error.detail
    log.error("%s", error.detail)
    return "The server's database cannot be reached. Try again in a minute."


def parse_json(content: bytes) -> Any:
    """Parses a request's body as JSON.

    Raises:
        UserError: the body is not valid JSON.
    """
    try:
        value = from_json(content, allow_inf_nan=False)  # refuses lone surrogates, too, which no response could contain
        json.dumps(value, allow_nan=False)  # refuses 1e999
        return value
    except ValueError as error:
        raise UserError(f"This is not valid JSON ({str(error)[:200]}).", kind="bad_request") from error


async def body_of(request: Request, most: int) -> bytes:
    """A request's body.

    Raises:
        UserError: the body has more than ``most`` bytes.
    """
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > most:
            raise UserError(f"More than {most:,} bytes were sent.", kind="bad_request")
    return bytes(content)
