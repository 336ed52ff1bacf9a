"""What ``langgraph.json`` names as ``http.app``: the local page, and what stands before every route of the server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from moot.core.garbage import collected_seldom
from moot.web.caller import check_auth
from moot.web.cancelling import listen_on
from moot.web.checks import Checks
from moot.web.docs import Docs
from moot.web.guard import Guard
from moot.web.login import Login
from moot.web.pages import ROUTES
from starlette.applications import Starlette
from starlette.middleware import Middleware


@asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[None]:
    """As long as the server runs; it may hold many debates."""
    check_auth()
    with collected_seldom():
        yield


app = Starlette(routes=ROUTES, middleware=[Middleware(one) for one in (Guard, Login, Checks, Docs)], lifespan=lifespan)
listen_on()
