"""Fixtures and helpers for tests of retrievers: HTTP servers on loopback, a new home folder, a quick encoder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from moot.retrievers import Passage, UserError, open_retriever

from .quick import open_quick_encoder

Answer = Callable[[int, dict[str, Any]], web.Response | None]
"""Takes the number of a request (from 1) and its JSON body, and returns the response.

The body of a request without content is {}. If the function returns None, the request gets no response until the test
ends.
"""


@dataclass
class Server:
    """A running server: its address, and the paths, queries, headers and bodies of its requests."""

    url: str = ""
    paths: list[str] = field(default_factory=list)
    queries: list[dict[str, str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)


Serve = Callable[[Answer], Awaitable[Server]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """A function that starts a server: ``await serve(lambda n, body: web.json_response(...))``.

    All started servers stop when the test ends.
    """
    runners: list[web.AppRunner] = []
    test_ended = asyncio.Event()

    async def start(answer: Answer) -> Server:
        server = Server()

        async def handle(request: web.Request) -> web.Response:
            server.paths.append(request.path)
            server.queries.append(dict(request.query))
            server.headers.append(dict(request.headers))
            server.bodies.append(await request.json() if request.can_read_body else {})
            response = answer(len(server.bodies), server.bodies[-1])
            if response is None:
                await test_ended.wait()
            return response or web.Response()

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handle)
        runners.append(web.AppRunner(app, shutdown_timeout=0))
        await runners[-1].setup()
        site = web.TCPSite(runners[-1], "127.0.0.1", 0)
        await site.start()
        server.url = f"http://127.0.0.1:{runners[-1].addresses[0][1]}"
        return server

    yield start
    test_ended.set()
    for runner in runners:
        await runner.cleanup()


@pytest.fixture
def endpoint(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> Serve:
    """A function like `serve`. Models and encoders with the prefix ``openai:`` use the server that it starts."""

    async def start(answer: Answer) -> Server:
        server = await serve(answer)
        monkeypatch.setenv("OPENAI_BASE_URL", server.url + "/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-0123456789")
        return server

    return start


@pytest.fixture
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of a new home folder without corpora. The folder does not exist until a test writes to it."""
    home = tmp_path / "empty home"
    monkeypatch.setenv("MOOT_HOME", str(home))
    return home


@pytest.fixture
def quick_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make corpora and local searches use `QuickEncoder`, whatever encoder they name."""
    for module in ("corpus", "local"):
        monkeypatch.setattr(f"moot.retrievers._{module}.open_encoder", open_quick_encoder)


def passage(i: int | str, text: str = "", **more: Any) -> Passage:
    """A passage with the id ``i``; by default, its text is a sentence that contains the id."""
    return Passage(id=str(i), title=f"Entry {i}", text=text or f"Entry {i} of the ledger.", source="ledger", **more)


async def refusal_of(name: str) -> UserError:
    """Open a corpus for dense search and for BM25, which must fail with errors of one kind; return the first error."""
    errors = []
    for kind in ("chroma", "bm25"):
        with pytest.raises(UserError) as caught:
            await open_retriever(f"{kind}:{name}")
        errors.append(caught.value)
    assert errors[0].kind == errors[1].kind
    return errors[0]
