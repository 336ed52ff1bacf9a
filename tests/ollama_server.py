"""A scripted Ollama, with its own API alone: /api/chat, generate, tags, show, ps and embed, and their errors.

As the real one, it loads a model with the request's ``num_ctx``, else with its default, and cuts a longer prompt
without a word: only ``prompt_eval_count`` tells. `python -m tests.ollama_server 11434` runs it as a program.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from moot.nodes._models.fake import draw

BYTES_PER_TOKEN = 4


def stamped(body: dict[str, Any]) -> dict[str, Any]:
    """The fields with which each answer begins."""
    return {"model": body["model"], "created_at": "2026-01-01T00:00:00.000000Z"}


@dataclass
class Ollama:
    """The server: what it has pulled and loaded, how it behaves, and the requests that it received."""

    models: tuple[str, ...] = ("qwen3:8b",)
    default_context: int = 4096  # OLLAMA_CONTEXT_LENGTH
    longest_context: int = 40_960  # of all its models
    tells_context: bool = True  # whether /api/ps does, as it does since 2025
    cuts_to_half: bool = True  # what is left of a long prompt: half of the context, else all of it
    thinks: bool = False  # whether /api/show says so
    fault: str = ""  # an error in the middle of a reply; "cut": the reply ends without its last line
    reply: str = ""  # a reply's text; by default one that fits the schema in ``format``
    stop: str = "stop"
    load: asyncio.Event | None = None  # until it is set, models are still loading
    url: str = ""
    loaded: dict[str, int] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    cuts: int = 0  # prompts that were cut

    def chats(self) -> list[dict[str, Any]]:
        """The bodies of the requests to /api/chat."""
        return [body for path, body in self.requests if path == "/api/chat"]

    async def body_of(self, request: web.Request) -> dict[str, Any]:
        """The body of a request, which is recorded."""
        body: dict[str, Any] = await request.json()
        self.requests.append((request.path, body))
        return body

    def name_of(self, body: dict[str, Any]) -> str | None:
        """The full name of the model; None if it was not pulled."""
        named = body["model"] if ":" in body["model"] else f"{body['model']}:latest"
        return named if named in self.models else None

    def missing(self, body: dict[str, Any]) -> web.Response:
        """The error for a model that was not pulled."""
        return web.json_response({"error": f"model '{body['model']}' not found"}, status=404)

    async def load_model(self, name: str, body: dict[str, Any]) -> int:
        """Loads a model, as the request wants it; returns its context."""
        if self.load:
            await self.load.wait()
        wanted = (body.get("options") or {}).get("num_ctx") or self.default_context
        self.loaded[name] = min(wanted, self.longest_context)
        return self.loaded[name]

    async def generate(self, request: web.Request) -> web.StreamResponse:
        """Loads a model: moot sends no prompt here."""
        body = await self.body_of(request)
        if not (name := self.name_of(body)):
            return self.missing(body)
        assert not body.get("prompt")
        await self.load_model(name, body)
        return web.json_response({**stamped(body), "response": "", "done": True, "done_reason": "load"})

    async def ps(self, request: web.Request) -> web.Response:
        """The loaded models."""
        found = [
            {"name": name, "model": name, "size": 1} | ({"context_length": context} if self.tells_context else {})
            for name, context in self.loaded.items()
        ]
        return web.json_response({"models": found})

    async def tags(self, request: web.Request) -> web.Response:
        """The models that were pulled."""
        return web.json_response({"models": [{"name": name, "model": name, "size": 1} for name in self.models]})

    async def show(self, request: web.Request) -> web.Response:
        """What a model is: the context here is the largest possible one, not the loaded one."""
        body = await self.body_of(request)
        if not self.name_of(body):
            return self.missing(body)
        info = {"general.architecture": "qwen3", "qwen3.context_length": self.longest_context}
        abilities = ["completion", *["thinking"] * self.thinks]
        return web.json_response({"parameters": "temperature 0.6", "model_info": info, "capabilities": abilities})

    async def embed(self, request: web.Request) -> web.Response:
        """Vectors of texts; a long text is cut without a word, unless ``truncate`` is false."""
        body = await self.body_of(request)
        if not (name := self.name_of(body)):
            return self.missing(body)
        context, texts = await self.load_model(name, body), body["input"]
        texts = [texts] if isinstance(texts, str) else texts
        if body.get("truncate") is False and any(len(text.encode()) > BYTES_PER_TOKEN * context for text in texts):
            return web.json_response({"error": "the input length exceeds the context length"}, status=400)
        vectors = [[random.Random(text).uniform(-1, 1) for _ in range(16)] for text in texts]
        return web.json_response({"model": body["model"], "embeddings": vectors, "prompt_eval_count": 1})

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """A reply, in lines of JSON."""
        body = await self.body_of(request)
        if not (name := self.name_of(body)):
            return self.missing(body)
        context = await self.load_model(name, body)
        prompt = "\n".join(message["content"] for message in body["messages"])
        tokens = len(prompt.encode()) // BYTES_PER_TOKEN + 1
        if tokens > context:
            self.cuts += 1
            tokens = context // 2 + 2 if self.cuts_to_half else context
        schema = body.get("format") or {}
        made = draw(schema, random.Random(prompt), schema.get("$defs", {})) if isinstance(schema, dict) else {}
        text = self.reply or json.dumps(made)
        said = [{"role": "assistant", "content": part} for part in re.findall(r"\S*\s*", text)]
        lines: list[dict[str, Any]] = [{**stamped(body), "message": one, "done": False} for one in said]
        last = {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": self.stop}
        lines.append({**stamped(body), **last, "prompt_eval_count": tokens, "eval_count": len(text) // BYTES_PER_TOKEN})
        if self.fault:
            lines = lines[: len(lines) // 2] + ([] if self.fault == "cut" else [{"error": self.fault}])
        response = web.StreamResponse(headers={"content-type": "application/x-ndjson"})
        await response.prepare(request)
        await response.write("".join(f"{json.dumps(line)}\n" for line in lines).encode())
        await response.write_eof()
        return response

    def app(self) -> web.Application:
        """The server's routes."""
        app = web.Application(client_max_size=2**26)
        for name in ("chat", "generate", "show", "embed"):
            app.router.add_post(f"/api/{name}", getattr(self, name))
        for name in ("ps", "tags"):
            app.router.add_get(f"/api/{name}", getattr(self, name))
        return app


@asynccontextmanager
async def running_ollama(**options: Any) -> AsyncIterator[Ollama]:
    """Context manager: runs a server."""
    server = Ollama(**options)
    runner = web.AppRunner(server.app(), shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()


if __name__ == "__main__":
    web.run_app(Ollama(models=("qwen3:8b", "nomic-embed-text:latest")).app(), host="127.0.0.1", port=int(sys.argv[1]))
