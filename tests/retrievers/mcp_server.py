"""An MCP server with search tools: ``python mcp_server.py`` speaks on its standard streams, with a port over HTTP.

Over HTTP, it wants the header ``X-Key: open``.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from starlette.applications import Starlette
from starlette.middleware import Middleware

server = MCPServer("lakes")


@server.tool()
def search(query: str, count: int = 5, language: str = "en") -> list[dict[str, Any]]:
    """Searches for lakes."""
    found = {"title": "Baikal", "url": "https://example.org/baikal", "snippet": f"Deep: {query} in {language}."}
    return [found, *[{"title": f"Lake {n}", "text": "Wet."} for n in range(1, count)]]


@server.tool()
def words(q: str) -> str:
    """Says the query in a sentence."""
    return f"{q} is wet. KEY={os.environ.get('LAKE_KEY')}, HOME={bool(os.environ.get('HOME'))}"


@server.tool()
def nothing(query: str) -> list[dict[str, Any]]:
    """Finds nothing."""
    return []


@server.tool()
def odd(query: str) -> list[dict[str, Any]]:
    """Answers without a text."""
    return [{"colour": "blue"}]


@server.tool()
def broken(query: str) -> str:
    """Fails."""
    raise RuntimeError("The lake is frozen.")


@server.tool()
def slow(query: str) -> str:
    """Answers after a minute."""
    time.sleep(60)
    return query


@server.tool()
def two(query: str, place: str) -> str:
    """Needs two arguments."""
    return f"{query} in {place}"


class Locked:
    """Middleware that refuses requests without the key."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and (b"x-key", b"open") not in scope["headers"]:
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"No key."})
            return
        await self.app(scope, receive, send)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        print("The lakes are open.", file=sys.stderr)
        server.run()
    else:
        app: Starlette = server.streamable_http_app()
        app.user_middleware.append(Middleware(Locked))
        uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
