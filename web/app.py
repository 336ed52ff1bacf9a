"""What ``langgraph.json`` names as ``http.app``: the local page, and what stands before every route of the server.

Aegra takes FastAPI's applications alone. Routes of FastAPI's own are not served: the server has them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from fastapi import FastAPI
from moot.core.garbage import collected_seldom
from moot.nodes.models.keeping import current_use
from moot.nodes.models.session import recorded_in
from moot.web.batches.running import BATCHES
from moot.web.caller import DATABASE, check_auth
from moot.web.cancelling import listen_on
from moot.web.checks import Checks
from moot.web.docs import Docs
from moot.web.guard import Guard
from moot.web.login import Login
from moot.web.mcp import Tools
from moot.web.metrics import Metrics, begin_server_telemetry
from moot.web.once import Once
from moot.web.pages import ROUTES
from moot.web.service.quotas import Quotas
from moot.web.service.stores import shared_stores
from moot.web.table import TABLE
from starlette.middleware import Middleware


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """As long as the server runs; it may hold many debates."""
    check_auth()
    current_use()  # refuses a mode that is none
    await asyncio.to_thread(begin_server_telemetry)
    async with AsyncExitStack() as stack:
        if os.environ.get("LANGGRAPH_CHECKPOINTER"):  # as `moot serve` starts it
            from moot.web.threads import prune_daily, restore

            await restore()
            stack.callback(asyncio.create_task(prune_daily()).cancel)
        if os.environ.get(DATABASE):
            await stack.enter_async_context(shared_stores(os.environ[DATABASE]))
        with recorded_in(TABLE), collected_seldom():
            resuming = asyncio.create_task(BATCHES.resume())
            yield
            resuming.cancel()
            await BATCHES.close()


BEFORE = (Guard, Login, Metrics, Checks, Once, Quotas, Docs, Tools)
app = FastAPI(
    title="moot",
    routes=[*ROUTES],
    middleware=[Middleware(one) for one in BEFORE],
    lifespan=lifespan,
    docs_url=None,
    redoc_url=None,
)
listen_on()
