"""What ``langgraph.json`` names as ``http.app``: the local page, and what stands before every route of the server."""

from __future__ import annotations

from moot.web.cancelling import listen_on
from moot.web.checks import Checks
from moot.web.guard import Guard
from moot.web.pages import ROUTES
from starlette.applications import Starlette
from starlette.middleware import Middleware

app = Starlette(routes=ROUTES, middleware=[Middleware(Guard), Middleware(Checks)])
listen_on()
