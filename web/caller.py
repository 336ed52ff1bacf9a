"""Helpers for requests: a client with the caller's rights, checks of users, error texts, and the request's body."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Callable, Collection
from contextvars import ContextVar
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from langgraph_sdk.client import LangGraphClient
from moot.core.errors import MootError, UserError
from pydantic_core import from_json
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Scope

log = logging.getLogger(__name__)

USERS, DATABASE = "MOOT_USERS", "MOOT_DATABASE"
EVERYBODY = "everybody"
"""The user's name in every request to a server without `MOOT_USERS`."""
readable_corpora: ContextVar[Collection[str] | None] = ContextVar("readable_corpora", default=None)
"""The corpora that the current user may read; None for all."""
TOO_LARGE = "too_large"
"""The kind of the error for a body that is too large; the response has status 413."""
STATUSES = {"missing_file": 404, "not_allowed": 403, "review_conflict": 409, TOO_LARGE: 413}
"""The HTTP statuses of some kinds of errors."""
DISCARDED = 2**30
"""The number of bytes of a body that are read and thrown away. Most clients read no response before their body is sent.
"""
READING = asyncio.Semaphore(2)
"""At most two files are read at the same time, because most kinds of files need a new process each."""
BODY_HEADERS = ("content-length", "content-type", "transfer-encoding", "connection", "upgrade", "accept")
"""Headers of a request that are not copied to other requests, because they belong to its body or connection."""


def caller_client(scope: Scope) -> LangGraphClient:
    """A client that calls this server inside the process, with a request's headers, such as its token and cookies.

    LangGraph's own client (`get_client` without an address) bypasses the server's `Auth` object. So it would see the
    threads of all users.
    """
    headers = {name: value for name, value in Headers(scope=scope).items() if name not in BODY_HEADERS}
    transport = httpx.ASGITransport(scope["app"], raise_app_exceptions=False)
    return LangGraphClient(httpx.AsyncClient(base_url="http://moot", transport=transport, headers=headers))


def has_users() -> bool:
    """Whether each user sees only their own threads: `MOOT_USERS` is set, or the server has an `Auth` object."""
    return bool(os.environ.get(USERS)) or has_auth()


def has_auth() -> bool:
    """Whether LangGraph's own server has an `Auth` object."""
    return bool(_config() and _config().LANGGRAPH_AUTH)


def _config() -> Any:
    """The configuration module of LangGraph's server; None if another server runs."""
    return sys.modules.get("langgraph_api.config")


def webhook_policy() -> bool:
    """Whether the operator has set which private or local hosts, or which domains, webhooks of callers may name."""
    policy = (getattr(_config(), "WEBHOOKS_CONFIG", None) or {}).get("url") or {}
    own = (policy.get("disable_private_ips"), policy.get("disable_loopback"))
    return bool(policy.get("allowed_domains")) or False in own


def check_auth() -> None:
    """Checks that users cannot see each other's debates on the page."""
    for variable, lack in ((USERS, "cannot separate users"), (DATABASE, "stores debates on this machine")):
        if _config() and os.environ.get(variable):
            raise UserError(
                f"{variable} is set, but this server {lack}: start it with `moot service`, or unset the variable.",
                kind="invalid_environment",
            )
    if not has_auth() or (_config().HTTP_CONFIG or {}).get("enable_custom_route_auth"):
        return
    raise UserError(
        "langgraph.json names an Auth object, but LangGraph applies it only to its own routes. Everyone could read the "
        'debates on the page. Set "http": {"app": "moot.web.app:app", "enable_custom_route_auth": true}.',
        kind="invalid_environment",
    )


def public_text(error: MootError) -> str:
    """An error's text for callers.

    For a database error, this is a general text. The error's own text may contain the database's address, so it is only
    logged.
    """
    if error.kind != "queue":
        return error.detail
    log.error("%s", error.detail)
    return "The server's database cannot be reached. Try again in a minute."


def http_status(error: MootError) -> int:
    """The HTTP status of the response for an error."""
    return STATUSES.get(error.kind) or (422 if isinstance(error, UserError) else 502)


def file_name(request: Request) -> str:
    """The ``name`` of an uploaded file in a request's query, without folders."""
    name = PurePath(request.query_params.get("name", "").strip()).name
    if "\0" in name:
        raise UserError("The name of a file cannot contain a zero character.", kind="bad_request")
    return name


async def read_upload(request: Request, most: int, read: Callable[[Path, str], Any], usual: str = "") -> Any:
    """What ``read`` makes of an uploaded file and its name; the file has the name's ending, or the ``usual`` one.

    An encoding before the ending, as in ``a.windows-1251.txt``, stays.
    """
    name, content = file_name(request), await body_of(request, most)

    def read_file() -> Any:
        with TemporaryDirectory(prefix="moot-file-") as folder:
            file = Path(folder) / f"file{''.join(PurePath(name).suffixes[-2:]) or usual}"
            file.write_bytes(content)
            return read(file, name)

    async with READING:
        return await run_in_threadpool(read_file)


def parse_json(content: bytes) -> Any:
    """Parses a request's body as JSON."""
    try:
        value = from_json(content, allow_inf_nan=False)  # also refuses lone surrogates, which no response could contain
        json.dumps(value, allow_nan=False)  # refuses 1e999, which is read as infinity
        return value
    except ValueError as error:
        raise UserError(f"This is not valid JSON ({str(error)[:200]}).", kind="bad_request") from error


async def body_of(request: Request, most: int) -> bytes:
    """A request's body."""
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size <= most:
            chunks.append(chunk)
        else:
            chunks.clear()
        if size > most + DISCARDED:
            break
    if size > most:
        raise UserError(f"The body of this request may have at most {most:,} bytes.", kind=TOO_LARGE)
    return b"".join(chunks)
