"""What ``langgraph.json`` names as ``http.app``: the local page, and what stands before every route of the server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from moot.core.garbage import collected_seldom
from moot.nodes.models.keeping import current_use
from moot.nodes.models.session import recorded_in
from moot.web.batches.running import BATCHES
from moot.web.caller import check_auth
from moot.web.cancelling import listen_on
from moot.web.checks import Checks
from moot.web.docs import Docs
from moot.web.guard import Guard
from moot.web.login import Login
from moot.web.mcp import Tools
from moot.web.metrics import Metrics, begin_server_telemetry
from moot.web.once import Once
from moot.web.pages import ROUTES
from moot.web.table import TABLE
from starlette.applications import Starlette
from starlette.middleware import Middleware


@asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[None]:
    """As long as the server runs; it may hold many debates."""
    check_auth()
    current_use()  # refuses a mode that is none
    await asyncio.to_thread(begin_server_telemetry)
    async with AsyncExitStack() as stack:
        if os.environ.get("LANGGRAPH_CHECKPOINTER"):  # as `moot serve` starts it
            from moot.web.threads import prune_daily, restore

            await restore()
            stack.callback(asyncio.create_task(prune_daily()).cancel)
        with recorded_in(TABLE), collected_seldom():
            resuming = asyncio.create_task(BATCHES.resume())
            yield
            resuming.cancel()
            await BATCHES.close()


BEFORE = (Guard, Login, Metrics, Checks, Once, Docs, Tools)
app = Starlette(routes=ROUTES, middleware=[Middleware(one) for one in BEFORE], lifespan=lifespan)
listen_on()
