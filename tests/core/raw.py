"""An HTTP server for tests that choose every byte of the responses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

Respond = Callable[[asyncio.StreamWriter, "Raw"], Awaitable[None]]
"""A handler of requests. It may close the connection; otherwise the connection stays open."""

CHOICE = {"index": 0, "message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}
REPLY = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [CHOICE]}


@dataclass
class Raw:
    """A running server.

    Args:
        url: its address.
        heads: the heads of the requests: request line and headers.
        bodies: the JSON bodies of the requests; None for a request without a body.
        connections: the number of connections that clients have opened.
        closed: has an item for each connection that has been closed.
    """

    url: str = ""
    heads: list[str] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    connections: int = 0
    closed: asyncio.Queue[None] = field(default_factory=asyncio.Queue)


@asynccontextmanager
async def raw_server(respond: Respond, **options: Any) -> AsyncIterator[Raw]:
    """Context manager: runs a server on a loopback port. ``options`` are arguments of `asyncio.start_server`."""
    raw = Raw()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raw.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                sizes = [line.split(":")[1] for line in head.lower().splitlines() if line.startswith("content-length:")]
                raw.heads.append(head)
                raw.bodies.append(json.loads(await reader.readexactly(int(sizes[0]))) if sizes else None)
                handling = asyncio.ensure_future(respond(writer, raw))
                disconnected = asyncio.ensure_future(reader.read(1)) if not writer.is_closing() else handling
                disconnected.add_done_callback(lambda done: done.cancelled() or done.exception())
                await asyncio.wait([handling, disconnected], return_when=asyncio.FIRST_COMPLETED)
                if not handling.done():  # the client has disconnected
                    handling.cancel()
                    return
                if not disconnected.done():
                    disconnected.cancel()
                    await asyncio.wait([disconnected])
                if writer.is_closing():
                    return
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            raw.closed.put_nowait(None)
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, **options)
    scheme = "https" if options.get("ssl") else "http"
    raw.url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield raw
    finally:
        server.close()


def answer(
    body: bytes | dict[str, Any] = b"", status: str = "200 OK", kind: str = "application/json", **headers: Any
) -> bytes:
    """Build a whole HTTP response. In names of headers, underscores stand for hyphens."""
    content = json.dumps(body).encode() if isinstance(body, dict) else body
    lines = {"Content-Type": kind, "Content-Length": len(content), **headers}
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + content


def event(**fields: Any) -> bytes:
    """Build a server-sent event."""
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def stream_chunk(content: str, finish: str | None = None) -> bytes:
    """Build a server-sent event with a chunk of a streamed reply."""
    return event(id="1", model="m", choices=[{"index": 0, "delta": {"content": content}, "finish_reason": finish}])


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
"""The head of a streamed response that ends when the connection closes."""


def respond_with(*parts: bytes, close: bool = False) -> Respond:
    """A handler that answers every request with these bytes. If ``close`` is true, it then closes the connection."""

    async def respond(writer: asyncio.StreamWriter, raw: Raw) -> None:
        writer.writelines(parts)
        if close:
            await writer.drain()
            writer.close()

    return respond
