"""Idempotency keys: equal requests with the same key start one debate, so that a double click or a retry is free.

The header ``Idempotency-Key`` applies to routes that start runs: ``/runs``, ``/threads/ID/runs``, and their ``/wait``
and ``/stream``. A second request gets the run of the first request. With ``/stream``, it joins the run's stream; with
``/wait``, it waits for the debate's document. If the debate was interrupted or failed, the second request resumes the
debate. If another server with the same ``MOOT_HOME`` runs the debate, the second request is refused. A key is valid as
long as its debate's row is in the table.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import APIError
from moot.core.errors import MootError, UserError
from moot.core.fingerprints import fingerprint_of
from moot.core.store import Run, open_store
from moot.core.tables import keys
from moot.graphs import load_graph
from moot.graphs._registry import graph_names
from moot.nodes._models.replies import stored_input
from moot.nodes._runtime.opening import INPUT
from moot.nodes._runtime.settings import checked_settings
from moot.web import debates
from moot.web.caller import caller_client, public_text
from moot.web.checks import graph_and_settings, replay
from moot.web.guard import is_own
from moot.web.kept import current_user
from moot.web.table import GOING, RESUMABLE, TABLE, RunRequest, find_debate, run_status, user_key
from sqlalchemy import Connection, delete, insert, select, update
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = "idempotency-key"
KEY = re.compile(r"[!-~]{1,200}")
START_ROUTE = re.compile(r"(?:/threads/(?P<thread>[^/]+))?/runs(?P<how>/wait|/stream)?/?")
"""Routes that start one debate."""
JOINED = {"": "", "/wait": "/join", "/stream": "/stream"}
"""Maps the suffix of each route that starts a run to the suffix of the route that returns or joins this run."""
RUN = re.compile(r"/runs/([^/]+)")
WAIT_SECONDS = 10.0
"""Maximum number of seconds that a request waits until another request has started the debate of its key."""
ABANDONED_SECONDS = 60.0
"""Seconds after which a key is free again if no run was started for it."""


@dataclass(frozen=True)
class KeyState:
    """An idempotency key in the store."""

    fingerprint: str  # of its first request
    thread: str  # of its debate
    run: str | None  # of its debate; None as long as the run has not started
    taken: float  # when the last request that starts or resumes the debate took it, in seconds since 1970
    is_ours: bool  # whether this request starts or resumes the debate

    @property
    def is_abandoned(self) -> bool:
        """Whether the process that took the key has probably died before it started the run."""
        return time.time() - self.taken > ABANDONED_SECONDS


def take(key: str, fingerprint: str, thread: str, over: str | None) -> KeyState:
    """Takes a key for a request, unless an earlier request has it. Blocking.

    The key of an equal request is free again if its run is over, or if no run was started for it for a minute.

    """
    store = open_store()

    def job(connection: Connection) -> KeyState:
        store.lock(connection, f"key {key}")
        row = connection.execute(select(keys).where(keys.c.key == key)).first()
        if row is not None:
            found = KeyState(row.fingerprint, row.thread, row.run, row.taken, is_ours=False)
            is_free = found.run == over if found.run else found.is_abandoned
            if found.fingerprint != fingerprint or not is_free:
                return found
            connection.execute(delete(keys).where(keys.c.key == key))
        ours = KeyState(fingerprint, thread, None, time.time(), is_ours=True)
        connection.execute(insert(keys).values(key=key, fingerprint=fingerprint, thread=thread, taken=ours.taken))
        return ours

    return store.do(job, is_lookup=True)


class IdempotencyKeys:
    """Middleware that turns equal requests with one idempotency key into one debate."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on. If the request starts a run and has a key, `_answer` handles it."""
        if scope["type"] != "http" or scope["method"] != "POST" or is_own(scope):
            return await self.app(scope, receive, send)
        key, route = Headers(scope=scope).get(HEADER), START_ROUTE.fullmatch(scope["path"])
        if key is None or route is None:
            return await self.app(scope, receive, send)
        try:
            await self._answer(key, route, scope, receive, send)
        except MootError as error:
            status = 409 if error.kind == "debate_running" else 422 if isinstance(error, UserError) else 503
            await JSONResponse({"detail": public_text(error), "kind": error.kind}, status)(scope, receive, send)

    async def _answer(self, sent_key: str, route: re.Match[str], scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request with an idempotency key: starts, resumes or joins the debate, or sends its document."""
        body = parse_body(sent_key, await Request(scope, receive).body())
        client, how, thread = caller_client(scope), route["how"] or "", route["thread"] or str(uuid4())
        key, fingerprint = user_key(sent_key, current_user.get()), await request_fingerprint(body, client)
        over, until = None, time.monotonic() + WAIT_SECONDS
        while True:
            state = await asyncio.to_thread(take, key, fingerprint, thread, over)
            if state.fingerprint != fingerprint:
                raise used_key_error()
            row = await run_of_key(key)
            if state.is_ours:
                break
            if state.run is None:  # another request starts the debate now
                if time.monotonic() > until:
                    raise other_server_error()
                await asyncio.sleep(0.1)
            elif row is not None and row.status in ("waiting", "done"):
                return await (await stored_response(row, how, client))(scope, receive, send)
            elif place := await place_of(state, row, client):
                join_run(scope, f"/threads/{place[0]}/runs/{place[1]}{JOINED[how]}", body)
                return await self.app(scope, replay(b"", receive), send)
            else:
                over = state.run
        prepare_first(body, row, sent_key, route)
        rewrite(scope, f"/threads/{thread}/runs{how}")
        recorder = RunRecorder(key, thread, send)
        try:
            await self.app(scope, replay(json.dumps(body).encode(), receive), recorder)
        finally:
            await recorder.end()


async def place_of(state: KeyState, row: Run | None, client: LangGraphClient) -> tuple[str, str] | None:
    """The thread and the run of a key's debate that requests can join; None if the debate is over without a result."""
    last, first = row.served if row else None, (state.thread, state.run or "")
    if row is not None and row.status in RESUMABLE:
        for place in {first, last or first}:
            if (TABLE.is_shared or place != last) and await run_status(*place, client) in GOING:
                return place
        if first == last or state.is_abandoned or await run_status(*first, client):
            return None
        raise other_server_error()
    for place in (last or first, first):
        if await run_status(*place, client):
            return place
    if row is None and state.is_abandoned:
        return None
    raise other_server_error()


class RunRecorder:
    """Wraps ``send`` for the first request of a key, to store the response's run as the run of the key."""

    def __init__(self, key: str, thread: str, send: Send) -> None:
        self.key, self.thread, self.send = key, thread, send
        self.is_accepted = self.is_stored = False
        self.content = b""

    async def __call__(self, message: Message) -> None:
        """Stores the run if this part of the response names it, then sends the part."""
        if message["type"] == "http.response.start":
            self.is_accepted = message["status"] < 300
            await self._store_run(RUN.search(Headers(raw=message["headers"]).get("content-location", "")))
        elif not self.is_stored and self.is_accepted:  # the run's id is only in the body
            self.content += message.get("body", b"")
            if not message.get("more_body"):
                await self._store_run(RUN.match(f"/runs/{json.loads(self.content)['run_id']}"))
        await self.send(message)

    async def _store_run(self, run: re.Match[str] | None) -> None:
        if run and self.is_accepted:
            await self._change(update(keys).values(run=run[1]))
            self.is_stored = True

    async def end(self) -> None:
        """Releases the key if no run was stored for it."""
        if not self.is_stored:
            await self._change(delete(keys).where(keys.c.run.is_(None)))

    async def _change(self, change: Any) -> None:
        own = change.where(keys.c.key == self.key, keys.c.thread == self.thread)
        await asyncio.to_thread(open_store().do, lambda connection: connection.execute(own))


def prepare_first(body: dict[str, Any], row: Run | None, key: str, route: re.Match[str]) -> None:
    """Changes the body of a key's first request, so that it starts the key's debate, or resumes the debate of ``row``.

    Other requests can then join the run. If the route names no thread, the request creates one.
    """
    for name, more in TABLE.run_arguments(RunRequest(row.id if row else None, key)).items():
        body[name] = merge_values(body.get(name) or {}, more)
    body |= {"stream_resumable": True} | ({} if route["thread"] else {"if_not_exists": "create"})
    body.pop("on_completion", None)


def merge_values(values: Any, more: Mapping[str, Any]) -> Any:
    """A request's values, merged with further values, which take precedence.

    Objects under the same key are merged in the same way. If only the further value under a key is an object, the
    request's value stays, and the server refuses the request.
    """
    if not isinstance(values, dict):
        return values
    both = {
        name: merge_values(values[name], more[name])
        for name in values.keys() & more.keys()
        if isinstance(more[name], dict)
    }
    return {**values, **more, **both}


def used_key_error() -> UserError:
    """The error for a key that was used for another request."""
    return UserError(
        "This idempotency key was used for another request. Use a new one for each debate.", kind="bad_request"
    )


def other_server_error() -> UserError:
    """The error for a request that waited too long for another request, usually one with the same key."""
    return UserError(
        "The debate of this idempotency key is being started, or runs on another server. Send the request again later.",
        kind="debate_running",
    )


def parse_body(key: str, content: bytes) -> dict[str, Any]:
    """Parses the body of a request with an idempotency key."""
    if not KEY.fullmatch(key):
        raise UserError("An Idempotency-Key has 1 to 200 visible ASCII characters.", kind="bad_request")
    body = json.loads(content or "null")
    if not isinstance(body, dict) or not isinstance(body.get("input"), dict):
        raise UserError(
            'An idempotency key is for a request that starts a debate: {"input": {...}}.', kind="bad_request"
        )
    return body


async def request_fingerprint(body: Mapping[str, Any], client: LangGraphClient) -> str:
    """The fingerprint of the requested debate, for comparison with the table."""
    named = body.get("assistant_id")
    graph, own = await graph_and_settings(named, client) if isinstance(named, str) else ("", {})
    if graph not in graph_names():
        raise UserError("`assistant_id` must name a debate system or an assistant of one.", kind="unknown_graph")
    config = body.get("config")
    context = body.get("context") or (config.get("configurable") if isinstance(config, dict) else None) or {}
    if not isinstance(context, dict):
        raise UserError("`context` must be an object with settings.", kind="bad_request")
    kind = load_graph(graph).settings
    known = {name: value for name, value in context.items() if name in kind.model_fields}
    settings = checked_settings(kind, {**own, **known}, graph)
    return fingerprint_of(graph, stored_input({k: body["input"].get(k) for k in INPUT}), settings.recorded())


async def run_of_key(key: str) -> Run | None:
    """The run in the store that an idempotency key began; None if there is none."""
    store = open_store()
    return next(iter(await store.soon(store.runs, idempotency_key=key)), None)


async def stored_response(row: Run, how: str, client: LangGraphClient) -> Response:
    """The response for a finished or waiting debate, in the form that the route returns."""
    if row.status == "running":
        raise other_server_error()
    thread, run = row.served or ("", "")
    headers = {"Content-Location": f"/threads/{thread}/runs/{run}"}
    if not how:
        try:
            return JSONResponse(await client.runs.get(thread, run), headers=headers)
        except APIError:  # the server has restarted and no longer has the run
            known = {"run_id": run, "thread_id": thread, "status": "success", "metadata": {"debate": row.id}}
            return JSONResponse(known, headers=headers)
    stem, _ = await find_debate(row.id, client)
    if stem is None:
        raise UserError("The debate of this idempotency key has no document.", kind="missing_file")
    document = await asyncio.to_thread(debates.load, stem)
    if how == "/wait":
        return JSONResponse(document, headers=headers)
    event = f"event: values\ndata: {json.dumps(document)}\n\n"
    return Response(event, media_type="text/event-stream", headers=headers)


def rewrite(scope: Scope, path: str) -> None:
    """Changes a request's path, and removes headers that no longer apply."""
    scope["path"], scope["raw_path"] = path, path.encode()
    headers = MutableHeaders(scope=scope)
    for name in ("content-length", HEADER):
        if name in headers:
            del headers[name]


def join_run(scope: Scope, path: str, body: Mapping[str, Any]) -> None:
    """Changes a request for a new run into a request that joins an existing run, from the run's first event on."""
    rewrite(scope, path)
    modes = body.get("stream_mode") or "values"
    named = modes if isinstance(modes, list) else [modes]
    scope["method"] = "GET"
    scope["query_string"] = urlencode({"stream_mode": json.dumps(named)}).encode()
    MutableHeaders(scope=scope)["last-event-id"] = "0"
