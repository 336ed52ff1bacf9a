"""What the server asks itself for somebody: as whoever it is, so that they find only what they may see."""

from __future__ import annotations

import sys
from typing import Any

import httpx
from langgraph_sdk.client import LangGraphClient
from moot.core.errors import UserError
from starlette.datastructures import Headers
from starlette.types import Scope

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
    """Whether the server has an `Auth` object, so that each user sees their own threads alone."""
    return bool(_config() and _config().LANGGRAPH_AUTH)


def _config() -> Any:
    return sys.modules.get("langgraph_api.config")


def check_auth() -> None:
    """Makes sure that a server whose `Auth` object says who may ask it says so of the page, too.

    Raises:
        UserError: the page's routes are open to everybody.
    """
    if not has_users() or (_config().HTTP_CONFIG or {}).get("enable_custom_route_auth"):
        return
    raise UserError(
        "langgraph.json names an Auth object, which LangGraph asks only about its own routes: everybody could read the "
        'debates that the page keeps. Set "http": {"app": "moot.web.app:app", "enable_custom_route_auth": true}.',
        kind="invalid_environment",
    )
