"""The page ``/docs``, which lists the server's routes and loads nothing from other servers.

LangGraph's own page loads a script from another website. Such a script could send any request to this server.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from langgraph_sdk import get_client
from moot.core.lazy import imported
from starlette.types import ASGIApp, Receive, Scope, Send

PLACE = "/moot/docs"
"""The page's path. A route at ``/docs`` would have no effect, because the server's own route there comes first."""
PAGE = Template(files("moot.web").joinpath("templates/docs.html").read_text(encoding="utf-8"))
METHODS = ("get", "post", "put", "patch", "delete")


class Docs:
    """Middleware that makes the server answer ``/docs`` with the page at `PLACE`."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on; if its path is ``/docs``, changes the path to `PLACE` first."""
        if scope["type"] == "http" and scope["path"] == "/docs":
            scope = {**scope, "path": PLACE, "raw_path": PLACE.encode()}
        await self.app(scope, receive, send)


async def docs_page(app: Any) -> str:
    """The HTML of the page, made from the server's OpenAPI document."""
    if "langgraph_api" not in sys.modules:
        return PAGE.substitute(main="\n".join(listing(app.openapi())))
    spec: Any = await get_client(url=None, api_key=None).http.get("/openapi.json")
    # LangGraph's server leaves the descriptions of its own routes out of this document if it also runs an app.
    own = imported("langgraph_api.validation").openapi["paths"]
    for path, known in spec["paths"].items():
        known |= {method: about or own.get(path, {}).get(method, {}) for method, about in known.items()}
    return PAGE.substitute(main="\n".join(listing(spec)))


def listing(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yields the routes and then the schemas of an OpenAPI document as HTML."""
    tagged: dict[str, list[str]] = {}
    for path, known in spec["paths"].items():
        for method in METHODS:
            if method in known:
                tagged.setdefault((known[method].get("tags") or ["Others"])[0], []).append(
                    route(path, method, known[method])
                )
    for tag, routes in tagged.items():
        yield f"<h2>{escape(tag)}</h2>"
        yield from routes
    yield "<h2>Schemas</h2>"
    for name, schema in (spec.get("components", {}).get("schemas") or {}).items():
        yield folded(f'<code id="{escape(name)}">{escape(name)}</code>', code(schema))


def route(path: str, method: str, known: Mapping[str, Any]) -> str:
    """One method of a route as HTML: its summary, description, parameters, request body and responses."""
    about = f"<p>{escape(known.get('description') or '')}</p>"
    parts = {name: known[name] for name in ("parameters", "requestBody", "responses") if known.get(name)}
    title = f"<code>{method.upper()} {escape(path)}</code> {escape(known.get('summary') or '')}"
    return folded(title, about + (code(parts) if parts else ""))


def folded(title: str, content: str) -> str:
    """HTML content that is hidden until the reader clicks on its title."""
    return f"<details><summary>{title}</summary>{content}</details>"


def code(value: Any) -> str:
    """A value as indented JSON, in HTML."""
    return f"<pre>{escape(json.dumps(value, indent=2, ensure_ascii=False))}</pre>"
