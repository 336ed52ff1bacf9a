"""The ``http.app`` of ``langgraph.json``: the local page, and middleware before every route of the server.

It is a FastAPI application, because Aegra, the server of `moot service`, requires one. FastAPI's own API pages are off,
because `moot.web.docs` serves ``/docs``.
"""

from __future__ import annotations

import asyncio
import os
import traceback
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from typing import Any

from fastapi import FastAPI
from moot.core.callers import serving_callers
from moot.core.config import usual_settings
from moot.core.errors import MootError
from moot.core.home import private_files, tighten_home
from moot.graphs._registry import installed_systems
from moot.nodes._models.replies import current_use
from moot.nodes._models.session import current_recorder, report_to
from moot.web.batches.running import BATCHES
from moot.web.bounds import Bounds, read_limit
from moot.web.caller import check_auth, has_users
from moot.web.cancelling import patch_cancellation
from moot.web.checks import Checks, check_maxima_names
from moot.web.docs import Docs
from moot.web.guard import Guard, check_mount_prefix
from moot.web.idempotency import IdempotencyKeys
from moot.web.login import Login, read_token
from moot.web.mcp import Tools
from moot.web.metrics import Metrics, begin_server_telemetry
from moot.web.pages import ROUTES
from moot.web.table import TABLE
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Receive, Scope, Send

Stores = Callable[[], AbstractAsyncContextManager[Any]]
"""A context inside which the process uses other stores than the files of this machine."""


@asynccontextmanager
async def record_debates(stores: Stores) -> AsyncIterator[None]:
    """Context manager: inside it, and inside ``stores``, `TABLE` records the row and the document of every debate.

    Inside it, the process is a server, whose callers may name only what its operator lists (`serving_callers`). All
    files that it creates are private. Before recording starts, it checks the environment, starts the requested
    telemetry and imports the debate systems.

    """
    check_auth()
    check_mount_prefix()
    current_use()  # raises an error if MOOT_REPLIES is not valid
    await asyncio.to_thread(begin_server_telemetry)
    await asyncio.to_thread(installed_systems)  # imports the systems now, so that no request waits for it
    usual = await asyncio.to_thread(usual_settings)
    async with AsyncExitStack() as stack:
        stack.enter_context(private_files())
        await asyncio.to_thread(tighten_home)
        stack.enter_context(serving_callers(usual, any_model=not (read_token() or has_users())))
        read_limit()  # raises an error if MOOT_MAX_BODY_MIB is not valid
        await asyncio.to_thread(check_maxima_names)
        await stack.enter_async_context(stores())
        with report_to(TABLE):
            yield


class DebateRecording:
    """Middleware that starts to record debates before the server's first run, and stops after the last run.

    `lifespan` cannot do this. A server enters `lifespan` after it has started its workers, which may already run
    debates. It leaves `lifespan` before it stops the workers.
    """

    def __init__(self, app: ASGIApp, stores: Stores) -> None:
        self.app, self.stores = app, stores

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes requests on; starts recording when the server starts, and ends it when the server stops.

        If recording cannot start, the server gets a message with the error. Then the error is raised.
        """
        if scope["type"] != "lifespan":
            return await self.app(scope, receive, send)
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(record_debates(self.stores))
            except Exception as error:
                message = error.detail if isinstance(error, MootError) else traceback.format_exc()
                await receive()
                await send({"type": "lifespan.startup.failed", "message": message})
                raise
            return await self.app(scope, receive, send)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Context manager: starts the background work of the page, and ends it when the server stops.

    If the server skips the middleware `DebateRecording`, this context manager also enters `record_debates`. If
    `moot serve` started the server, it also calls `restore`. The errors of `record_debates` and
    `restore` are raised.
    """
    async with AsyncExitStack() as stack:
        if current_recorder() is not TABLE:  # LangGraph's server skips our middleware under a mount prefix
            await stack.enter_async_context(record_debates(app.state.stores))
        if os.environ.get("LANGGRAPH_CHECKPOINTER"):  # set by `moot serve`
            from moot.web.threads import prune_daily, restore

            await restore()
            stack.callback(asyncio.create_task(prune_daily()).cancel)
        resuming = asyncio.create_task(BATCHES.resume())
        yield
        resuming.cancel()
        await BATCHES.close()


def make_app(
    *, login: Middleware, limits: Iterable[Any] = (), stores: Stores = nullcontext, lifespan: Any = lifespan
) -> FastAPI:
    """The application, with the middleware in the order in which requests pass through it."""
    checks = [*map(Middleware, (Bounds, Metrics, Checks, IdempotencyKeys, *limits, Docs, Tools))]
    app = FastAPI(
        title="moot",
        routes=[*ROUTES],
        middleware=[Middleware(DebateRecording, stores=stores), Middleware(Guard), login, *checks],
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # FastAPI's telemetry would contain users' texts
    )
    app.state.stores = stores
    return app


app = make_app(login=Middleware(Login))
patch_cancellation()
