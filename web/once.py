"""Equal requests with one idempotency key are one debate: a double click, or a request that is sent again, pays once.

The header ``Idempotency-Key`` is heard where runs begin: ``/runs``, ``/threads/ID/runs``, and either's ``/wait`` and
``/stream``. The second request gets the first one's run, joins its stream, or waits for its document; of a debate that
was interrupted or failed it is the one that goes on. If another server on this home runs the debate, it is refused. A
key lives as long as its debate's row in the table.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

from filelock import FileLock, Timeout
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import APIError
from moot.core.errors import MootError, UserError
from moot.core.home import moot_home
from moot.core.ledger import Debate, open_ledger
from moot.core.ledger.records import fingerprint_of
from moot.graphs import DESCRIPTIONS, load_graph
from moot.nodes.models.keeping import asked_with
from moot.nodes.runtime.opening import INPUT
from moot.nodes.runtime.settings import checked_settings
from moot.web import debates
from moot.web.caller import asking, caller_client
from moot.web.checks import assistant, replay
from moot.web.guard import is_own
from moot.web.table import OVER, TABLE, Claim, found, own_key
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = "idempotency-key"
KEY = re.compile(r"[!-~]{1,200}")
BEGINS = re.compile(r"(?:/threads/(?P<thread>[^/]+))?/runs(?P<how>/wait|/stream)?/?")
"""Where one debate begins."""
JOINED = {"": "", "/wait": "/join", "/stream": "/stream"}
"""By how a debate was asked for, where under its run it is found again."""
RUN = re.compile(r"/runs/([^/]+)")
PATIENCE = 10.0
"""Seconds that a request waits for another server's debate with the same key to begin."""


@dataclass
class First:
    """The first request of a key: what it asks, on which thread, and its run once it has one."""

    fingerprint: str
    thread: str
    run: asyncio.Future[str] = field(default_factory=asyncio.Future)


class Once:
    """Middleware that makes equal requests with one idempotency key one debate."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.first: dict[str, First] = {}
        self.deciding = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on as it is, as the first of its key, or as one that joins the first; or answers it."""
        if scope["type"] != "http" or scope["method"] != "POST" or is_own(scope):
            return await self.app(scope, receive, send)
        key, place = Headers(scope=scope).get(HEADER), BEGINS.fullmatch(scope["path"])
        if key is None or place is None:
            return await self.app(scope, receive, send)
        try:
            await self._answer(key, place, scope, receive, send)
        except MootError as error:
            status = 409 if error.kind == "debate_running" else 422
            await JSONResponse({"detail": error.detail, "kind": error.kind}, status)(scope, receive, send)

    async def _held(self, key: str) -> FileLock | None:
        """The lock that one server on this home has for a key, until the key's debate has its row; None if this has it.

        Raises:
            UserError: another server has it, and its debate has not begun within `PATIENCE`.
        """
        # Two bytes of a hash: no more than 65,536 such files are ever made.
        file = moot_home() / "keys" / f"{hashlib.sha256(key.encode()).hexdigest()[:4]}.lock"
        await asyncio.to_thread(file.parent.mkdir, mode=0o700, parents=True, exist_ok=True)
        lock = FileLock(file, mode=0o600, thread_local=False)
        until = time.monotonic() + PATIENCE
        while key not in TABLE.locks:
            with suppress(Timeout):
                await asyncio.to_thread(lock.acquire, timeout=0)
                return lock
            if time.monotonic() > until:
                raise elsewhere()
            await asyncio.sleep(0.05)
        return None

    async def _answer(self, key: str, place: re.Match[str], scope: Scope, receive: Receive, send: Send) -> None:
        body = read(key, await Request(scope, receive).body())
        said = key
        if TABLE.is_shared:
            key = own_key(said, asking.get())
        client = caller_client(scope)
        fingerprint = await meant(body, client)
        how = place["how"] or ""
        lock = await self._held(key)
        try:
            async with self.deciding:
                row = await open_ledger().of_key(key)
                first = self.first.get(key)
                same = first.fingerprint if first else row.fingerprint if row and "messages" not in row.input else None
                if same not in (None, fingerprint):
                    raise UserError(
                        "This idempotency key was used for another request. Use a new one for each debate.",
                        kind="bad_request",
                    )
                if first and lock and first.run.done() and row and row.status != "running":
                    del self.first[key]
                    first = None
                begins = first is None and (row is None or row.status in OVER)
                if begins and lock is None:  # whoever had it was refused just now
                    raise elsewhere()
                if begins and lock:
                    thread = place["thread"] or str(uuid4())
                    first = self.first[key] = First(fingerprint, thread)
                    TABLE.locks[key], lock = lock, None
        finally:
            if lock:
                await asyncio.to_thread(lock.release)
        if first is None:
            assert row is not None  # else a debate would begin
            return await (await stored(row, how, client))(scope, receive, send)
        if not begins:
            joined(scope, f"/threads/{first.thread}/runs/{await asyncio.shield(first.run)}{JOINED[how]}", body)
            return await self.app(scope, replay(b"", receive), send)
        for name, more in TABLE.claiming(Claim(row.id if row else None, said)).items():
            body[name] = merged(body.get(name) or {}, more)
        body |= {"stream_resumable": True} | ({} if place["thread"] else {"if_not_exists": "create"})
        body.pop("on_completion", None)
        try:
            rewrite(scope, f"/threads/{first.thread}/runs{how}")
            await self.app(scope, replay(json.dumps(body).encode(), receive), noting(first, send))
        finally:
            if how or TABLE.is_shared or not first.run.done():
                await TABLE.unlock(key)
            if not first.run.done():  # it was refused
                self.first.pop(key, None)
                first.run.set_exception(UserError("The first request of this key was refused.", kind="bad_request"))
                first.run.exception()


def merged(said: Any, more: Mapping[str, Any]) -> Any:
    """What a request says, with what we say; what is no object is left for the server to refuse."""
    if not isinstance(said, dict):
        return said
    both = {name: merged(said[name], more[name]) for name in said.keys() & more.keys() if isinstance(more[name], dict)}
    return {**said, **more, **both}


def elsewhere() -> UserError:
    """The error for a debate that another server runs."""
    return UserError("The debate of this idempotency key is going on elsewhere.", kind="debate_running")


def read(key: str, content: bytes) -> dict[str, Any]:
    """The body of a request with an idempotency key.

    Raises:
        UserError: the key cannot be one, or the request begins no debate.
    """
    if not KEY.fullmatch(key):
        raise UserError("An Idempotency-Key has 1 to 200 visible ASCII characters.", kind="bad_request")
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UserError("The request's body is no JSON.", kind="bad_request") from error
    if not isinstance(body, dict) or not isinstance(body.get("input"), dict):
        raise UserError('An idempotency key is for a debate that begins: {"input": {...}}.', kind="bad_request")
    return body


async def meant(body: Mapping[str, Any], client: LangGraphClient) -> str:
    """The fingerprint of the debate that a request asks for, as the table has it.

    Raises:
        UserError: there is no such graph, or it does not take these settings.
    """
    named = body.get("assistant_id")
    graph, own = await assistant(named, client) if isinstance(named, str) else ("", {})
    if graph not in DESCRIPTIONS:
        raise UserError("`assistant_id` names a graph of moot's or an assistant.", kind="unknown_graph")
    context = body.get("context") or (body.get("config") or {}).get("configurable") or {}
    kind = load_graph(graph).settings
    known = {name: value for name, value in context.items() if name in kind.model_fields}
    settings = checked_settings(kind, {**own, **known})
    return fingerprint_of(graph, asked_with({k: body["input"].get(k) for k in INPUT}), settings.recorded())


async def stored(row: Debate, how: str, client: LangGraphClient) -> Response:
    """What there is of a debate that is over or waits, in the form in which it is asked for.

    Raises:
        UserError: it runs in another process, or has no document.
    """
    if row.status == "running":
        raise elsewhere()
    thread, run = await open_ledger().place_of(row.id) or ("", "")
    headers = {"Content-Location": f"/threads/{thread}/runs/{run}"}
    if not how:
        try:
            return JSONResponse(await client.runs.get(thread, run), headers=headers)
        except APIError:  # from before the server was started
            known = {"run_id": run, "thread_id": thread, "status": "success", "metadata": {"debate": row.id}}
            return JSONResponse(known, headers=headers)
    stem, _ = await found(row.id, client)
    if stem is None:
        raise UserError("The debate of this idempotency key has no document.", kind="missing_file")
    document = await asyncio.to_thread(debates.load, stem)
    if how == "/wait":
        return JSONResponse(document, headers=headers)
    event = f"event: values\ndata: {json.dumps(document)}\n\n"
    return Response(event, media_type="text/event-stream", headers=headers)


def rewrite(scope: Scope, path: str) -> None:
    """Has a request ask elsewhere."""
    scope["path"], scope["raw_path"] = path, path.encode()
    headers = MutableHeaders(scope=scope)
    for name in ("content-length", HEADER):
        if name in headers:
            del headers[name]


def joined(scope: Scope, path: str, body: Mapping[str, Any]) -> None:
    """Makes of a request for a run one that asks for a run that there is, from its first event on."""
    rewrite(scope, path)
    modes = body.get("stream_mode") or "values"
    named = modes if isinstance(modes, list) else [modes]
    scope["method"] = "GET"
    scope["query_string"] = urlencode({"stream_mode": json.dumps(named)}).encode()
    MutableHeaders(scope=scope)["last-event-id"] = "0"


def noting(first: First, send: Send) -> Send:
    """Sends an answer, and notes the run that it is about."""

    async def noted(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] < 300 and not first.run.done():
            run = RUN.search(Headers(raw=message["headers"]).get("content-location", ""))
            if run:
                first.run.set_result(run[1])
        await send(message)

    return noted
