"""A scripted endpoint with Anthropic's Messages API, which also streams its replies if a request asks for it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass
class MessagesEndpoint:
    """The endpoint: its replies, its address, and the bodies and headers of the requests that it received.

    The endpoint returns ``replies`` in order, and the last reply again for further requests. A reply is a text or a
    dictionary. With the key ``status``, it is an error; ``error`` (type and message) and ``headers`` are optional.
    Without ``status``, it is a message with ``text``. It may have ``stop`` (the stop reason) or ``breaks`` (an error
    that ends a streamed reply).
    """

    replies: Sequence[Any]
    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Record a request and send the next reply."""
        body = await request.json()
        self.requests.append(body)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        assert {"model", "max_tokens", "messages"} <= set(body)
        assert all(message["role"] in ("user", "assistant") for message in body["messages"])
        reply = self.replies[min(len(self.requests), len(self.replies)) - 1]
        reply = {"text": reply} if isinstance(reply, str) else reply
        if "status" in reply:
            error = {"type": "error", "error": reply.get("error", {"type": "api_error", "message": "No."})}
            return web.json_response(error, status=reply["status"], headers=reply.get("headers"))
        usage = {"input_tokens": 20, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 0, "output_tokens": 7}
        content = [{"type": "text", "text": reply["text"]}]
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "usage": usage}
        message |= {"stop_sequence": None}
        stop = reply.get("stop", "end_turn")
        if not body.get("stream"):
            return web.json_response(message | {"content": content, "stop_reason": stop})
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        half = len(reply["text"]) // 2
        started = message | {"content": [], "stop_reason": None, "usage": usage | {"output_tokens": 1}}
        events: list[dict[str, Any]] = [{"type": "message_start", "message": started}]
        events.append({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
        for part in (reply["text"][:half], reply["text"][half:]):
            events.append({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": part}})
        if "breaks" in reply:
            events.append({"type": "error", "error": reply["breaks"]})
        else:
            events.append({"type": "content_block_stop", "index": 0})
            delta = {"stop_reason": stop, "stop_sequence": None}
            events.append({"type": "message_delta", "delta": delta, "usage": usage})
            events.append({"type": "message_stop"})
        for event in events:
            await response.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        await response.write_eof()
        return response


@asynccontextmanager
async def messages_api(*replies: Any) -> AsyncIterator[MessagesEndpoint]:
    """Context manager: runs an endpoint with at least one reply."""
    api = MessagesEndpoint(replies)
    app = web.Application()
    app.router.add_post("/v1/messages", api.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    api.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield api
    finally:
        await runner.cleanup()
