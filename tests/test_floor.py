"""The floor of the speed tests is a bare client, whose time is the lower bound for a debate.

It sends as many requests as Tool-MAD, of about the same size, and its longest chain of requests has the same length.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from statistics import mean
from typing import Any

import pytest

from tests.benchmarks import ways
from tests.conftest import StartStub, StubEndpoint

REPLIES = {"Query": "query", "Answer": "answer", "Statements": "statements", "Verdicts": "verdicts"}
REPLIES |= {"Questions": "questions"}


def steps_of(calls: list[dict[str, Any]], sent: dict[int, dict[str, Any]]) -> list[str]:
    """The step of the debate that sent each request. ``sent`` are the chat requests by id."""
    steps, rounds = [], Counter[str]()
    for call in calls:
        request = sent.get(call["id"])
        if request is None:
            step = f"{call['inputs']} embedded"
        elif request["response_format"] is None:
            step = request["model"].removeprefix("floor-")
        elif request["model"] == "stub-judge":
            step = "judge"
        else:
            step = REPLIES[request["response_format"]["json_schema"]["name"].removesuffix("Reply")]
        if step in ("query", "answer"):
            rounds[step] += 1
            step += f"-{(rounds[step] + 1) // 2}"  # two debaters
        steps.append(step)
    return steps


def depth_of(calls: list[dict[str, Any]]) -> int:
    """The number of requests in the longest chain. Each request is sent after the response to the previous one."""
    depth, end = 0, 0.0
    for call in sorted(calls, key=lambda call: call["end"]):
        if call["recv"] >= end:
            depth, end = depth + 1, call["end"]
    return depth


async def sent_by(way: str, stub: StubEndpoint, number: int) -> tuple[dict[str, list[dict[str, Any]]], int]:
    """Run debates; return their requests by step, and the smallest depth of a debate."""
    debates = []
    async with ways.WAYS[way]({}) as run_one:
        await run_one(-1)  # loads modules and caches
        for i in range(number):
            before = len(stub.calls())
            assert await run_one(i) == 31  # chat calls of every debate under these rules
            debates.append(sorted(stub.calls()[before:], key=lambda call: call["recv"]))
    sent, by_step = {request["id"]: request for request in stub.requests()}, defaultdict(list)
    for calls in debates:
        for step, call in zip(steps_of(calls, sent), calls, strict=True):
            by_step[step].append(call)
    return by_step, min(map(depth_of, debates))


def sizes(calls: dict[str, list[dict[str, Any]]], what: str) -> dict[str, float]:
    """The mean size of a request (``bytes``) or of its reply (``reply_chars``), by step."""
    return {step: mean(call[what] for call in of_step) for step, of_step in calls.items() if what in of_step[0]}


async def test_the_floor_sends_equally_many_requests_of_about_the_same_size(start_stub: StartStub) -> None:
    stub = start_stub(ways.ENDPOINT_RULES)
    expected, _ = await sent_by("moot", stub, 5)
    found, _ = await sent_by("bare_aiohttp", stub, 5)
    assert {step: len(calls) for step, calls in found.items()} == {s: len(calls) for s, calls in expected.items()}
    assert sizes(found, "bytes") == pytest.approx(sizes(expected, "bytes"), rel=0.1)
    # The replies to moot have random lengths, and each step has few of them.
    assert sizes(found, "reply_chars") == pytest.approx(sizes(expected, "reply_chars"), rel=0.2)
    for what in ("bytes", "reply_chars"):
        of_debates, of_floor = (
            sum(c.get(what, 0) for calls_of_step in calls.values() for c in calls_of_step)
            for calls in (expected, found)
        )
        assert of_floor == pytest.approx(of_debates, rel=0.04), what


async def test_the_floors_longest_chain_of_requests_is_as_long(start_stub: StartStub) -> None:
    # A latency that is longer than the delays of a busy core.
    stub = start_stub(ways.ENDPOINT_RULES, latency_ms=150, embedding_latency_ms=150)
    _, expected = await sent_by("moot", stub, 2)
    _, depth = await sent_by("bare_aiohttp", stub, 2)
    assert depth == expected == 12  # nine chat calls, and the embedding of a query in each of three rounds
