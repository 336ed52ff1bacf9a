"""Sends the requests of Tool-MAD debates with aiohttp alone. The time they take is a lower bound (floor) for moot.

A debate has three rounds. It makes 31 chat calls (9 in the longest chain) and 9 embedding requests. Each request is as
long as Tool-MAD's requests of the same step are on average. As in Tool-MAD, a request is sent after the responses to
the requests on which it depends.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp

CALLS = {
    "query-1": (1315, 277),
    "answer-1": (4093, 1691),
    "query-2": (3694, 278),
    "answer-2": (7684, 1720),
    "query-3": (3726, 275),
    "answer-3": (7744, 1737),
    "statements": (1753, 39),
    "verdicts": (3165, 174),
    "questions": (1932, 839),
    "judge": (19706, 1734),
}
"""The bytes of a request and the characters of its reply, by step. They are means of 40 debates of Tool-MAD."""
EMBEDDED = {1: 330, 4: 904}
"""Bytes of an embedding request, by its number of texts."""
RULES = [{"model": f"^floor-{step}$", "reply": "x" * length} for step, (_, length) in CALLS.items()]
"""The scripted endpoint's replies."""
HEADERS = {"Authorization": "Bearer x", "Content-Type": "application/json"}
PAD = "..."


def pad_body(body: dict[str, Any], length: int) -> bytes:
    """The body as JSON with this length in bytes. Letters replace the ``...`` in the body to reach the length."""
    text = json.dumps(body)
    return text.replace(PAD, "w" * (length - len(text) + len(PAD))).encode()


async def debate(session: aiohttp.ClientSession, url: str, i: int) -> int:
    """Send the requests of the debate with number ``i``; return the number of chat calls."""

    async def call(step: str) -> int:
        messages = [{"role": "system", "content": "You are a debater."}, {"role": "user", "content": f"Claim {i}{PAD}"}]
        body = pad_body({"model": f"floor-{step}", "temperature": 0, "messages": messages}, CALLS[step][0])
        async with session.post(f"{url}/chat/completions", data=body, headers=HEADERS) as reply:
            return len((await reply.json())["choices"])

    async def embed(count: int) -> None:
        texts = [f"Claim {i}, {n}?" for n in range(count - 1)]
        body = pad_body({"model": "floor", "input": [*texts, PAD], "encoding_format": "float"}, EMBEDDED[count])
        async with session.post(f"{url}/embeddings", data=body, headers=HEADERS) as reply:
            await reply.json()

    async def turn(number: int, by_vectors: bool) -> int:
        made = await call(f"query-{number}")
        if by_vectors:
            await embed(1)
        return made + await call(f"answer-{number}")

    async def faithfulness() -> int:
        return await call("statements") + await call("verdicts")

    async def relevance() -> int:
        made = await call("questions")
        await embed(4)
        return made

    made = 0
    for number in (1, 2, 3):
        # One of the two debaters searches by vectors.
        made += sum(await asyncio.gather(turn(number, True), turn(number, False)))
    made += sum(await asyncio.gather(*(score() for _ in range(6) for score in (faithfulness, relevance))))
    return made + await call("judge")
