"""Makes the record of `moot demo` anew: the replies of a model to the requests of the demo's debates.

    OPENAI_BASE_URL=http://127.0.0.1:8000/v1 .venv/bin/python -m tests.demo NAME
    OPENAI_BASE_URL=... .venv/bin/python -m tests.demo planner=NAME encyclopaedia=NAME news=NAME scorer=NAME judge=NAME
    .venv/bin/python -m tests.demo example

The first command sends all requests to one model of an OpenAI-compatible endpoint. The second one names a model for
each role. So people can answer, too: the endpoint shows each of them only the prompts of one role. Both end as the
third one does: it makes the page's example (`web/example.json`) from the record.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from moot.cli.demo import CLAIMS, SETTINGS, debate
from moot.graphs import load_graph
from rich.console import Console

RECORD = Path(__file__).parents[1] / "retrievers" / "demo" / "record.jsonl"
EXAMPLE = Path(__file__).parents[1] / "web" / "example.json"
ROLES = ("planner", "encyclopaedia", "news", "scorer", "judge")
SECONDS = 3600
"""Maximum time for a reply."""


class Recorder:
    """An endpoint that passes requests on to another one, and records them with their replies.

    Args:
        models: the name of the model for each role, at the other endpoint.
        base_url: the address of the other endpoint.
    """

    def __init__(self, models: Mapping[str, str], base_url: str) -> None:
        self.models, self.base_url = models, base_url
        self.replies: list[dict[str, Any]] = []

    async def chat(self, request: web.Request) -> web.Response:
        """Passes on a chat request. The name of its model is a role."""
        body = await request.json()
        role = body["model"]
        headers = {"Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY') or 'not-needed'}"}
        timeout = aiohttp.ClientTimeout(total=SECONDS)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(
                f"{self.base_url}/chat/completions", json={**body, "model": self.models[role]}, headers=headers
            ) as answer,
        ):
            reply = await answer.json(content_type=None)
            if answer.status == 200:
                sent = {"messages": body["messages"], "response_format": body.get("response_format")}
                text = reply["choices"][0]["message"]["content"]
                self.replies.append({"role": role, **sent, "reply": text, "usage": usage_of(reply)})
            return web.json_response(reply, status=answer.status)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """Runs the endpoint, and yields its address."""
        app = web.Application(client_max_size=2**26)
        app.router.add_post("/v1/chat/completions", self.chat)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        finally:
            await runner.cleanup()


def usage_of(reply: Mapping[str, Any]) -> dict[str, int]:
    """The numbers of tokens of a reply's prompt and text."""
    usage = reply.get("usage") or {}
    return {name: usage.get(name) or 0 for name in ("prompt_tokens", "completion_tokens")}


async def record(claims: Sequence[str], models: Mapping[str, str], base_url: str) -> list[dict[str, Any]]:
    """Debates claims one after the other, and returns the lines of the record.

    Raises:
        SystemExit: a debate failed.
    """
    recorder = Recorder(models, base_url)
    system = load_graph("tool_mad")
    settings = system.settings(**SETTINGS, models={role: f"openai:{role}" for role in ROLES}, timeout=SECONDS)
    async with recorder.running() as os.environ["OPENAI_BASE_URL"]:
        for claim in claims:
            document = await system.graph.ainvoke({"claim": claim}, context=settings)
            if document["error"]:
                raise SystemExit(f"{claim}: {document['error']['detail']}")
            answers = [
                (turn["agent"], turn["round"], turn["answer"]) for turn in document["turns"] if turn.get("answer")
            ]
            print(claim, document["raw_verdict"], document["stop_reason"], answers, sep="\n  ")
    return recorder.replies


def write_example() -> None:
    """Writes the page's example: the result document of a debate of the demo."""
    document = debate(load_graph("tool_mad"), CLAIMS["space-station"][0], Console(file=io.StringIO()))
    EXAMPLE.write_text(f"{json.dumps(document, ensure_ascii=False, indent=2)}\n", encoding="utf-8")
    print(f"The page's example is {EXAMPLE}. Make its picture anew: python -m tests.web.pictures")


def main(words: Sequence[str]) -> None:
    """Makes the record with the models that the command line names, and the page's example from the record."""
    if list(words) == ["example"]:
        write_example()
        return
    named = dict(word.partition("=")[::2] for word in words)
    models = dict.fromkeys(ROLES, words[0]) if len(words) == 1 and "=" not in words[0] else named
    base_url = os.environ.get("OPENAI_BASE_URL", "")
    if sorted(models) != sorted(ROLES) or not base_url:
        raise SystemExit(__doc__)
    lines = asyncio.run(record([claim for claim, _ in CLAIMS.values()], models, base_url.rstrip("/")))
    RECORD.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    print(f"{len(lines)} lines are in {RECORD}.")
    write_example()


if __name__ == "__main__":
    main(sys.argv[1:])
