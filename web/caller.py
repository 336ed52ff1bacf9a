"""What the server asks itself for somebody, as whoever it is: they find only what they may see. What they sent."""

from __future__ import annotations

import json
import os
import sys
from contextvars import ContextVar
from typing import Any

import httpx
from langgraph_sdk.client import LangGraphClient
from moot.core.errors import UserError
from pydantic_core import from_json
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Scope

USERS, DATABASE = "MOOT_USERS", "MOOT_DATABASE"
EVERYBODY = "everybody"
"""Who asks a server that names no users."""
asking: ContextVar[str | None] = ContextVar("asking", default=None)
"""The user who asks, by name, if `MOOT_USERS` names users: nobody sees another's debates."""
OF_THE_BODY = ("content-length", "content-type", "transfer-encoding", "connection", "upgrade", "accept")


def caller_client(scope: Scope) -> LangGraphClient:
    """A client of this server, in this process, that says of itself what a request says: its token, its cookies.

    LangGraph's own (`get_client` without an address) is let in as nobody in particular, past the hook that a server's
    `Auth` object is: it finds everybody's threads.
    """
    headers = {name: value for name, value in Headers(scope=scope).items() if name not in OF_THE_BODY}
    transport = httpx.ASGITransport(scope["app"], raise_app_exceptions=False)
    return LangGraphClient(httpx.AsyncClient(base_url="http://moot", transport=transport, headers=headers))


def has_users() -> bool:
    """Whether each user sees their own threads alone: there are users, or the server has an `Auth` object."""
    return bool(os.environ.get(USERS)) or has_auth()


def has_auth() -> bool:
    """Whether LangGraph's own server has an `Auth` object."""
    return bool(_config() and _config().LANGGRAPH_AUTH)


def _config() -> Any:
    return sys.modules.get("langgraph_api.config")


def check_auth() -> None:
    """Makes sure that a server whose `Auth` object says who may ask it says so of the page, too.

    Raises:
        UserError: the page's routes are open to everybody; or users are named, whom LangGraph's server does not know.
    """
    if _config() and os.environ.get(USERS):
        raise UserError(
            f"{USERS} names users, whom this server cannot keep apart: start it with `moot service`.",
            kind="invalid_environment",
        )
    if not has_auth() or (_config().HTTP_CONFIG or {}).get("enable_custom_route_auth"):
        return
    raise UserError(
        "langgraph.json names an Auth object, which LangGraph asks only about its own routes: everybody could read the "
        'debates that the page keeps. Set "http": {"app": "moot.web.app:app", "enable_custom_route_auth": true}.',
        kind="invalid_environment",
    )


def json_in(content: bytes) -> Any:
    """What a request's body holds.

    Raises:
        UserError: it is no JSON.
    """
    try:
        value = from_json(content, allow_inf_nan=False)  # takes no half characters either: no answer could repeat them
        json.dumps(value, allow_nan=False)  # 1e999
        return value
    except ValueError as error:
        raise UserError(f"This is no valid JSON ({str(error)[:200]}).", kind="bad_request") from error


async def body_of(request: Request, most: int) -> bytes:
    """A request's body.

    Raises:
        UserError: it is too large.
    """
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > most:
            raise UserError(f"More than {most:,} bytes were sent.", kind="bad_request")
    return bytes(content)
