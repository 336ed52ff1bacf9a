"""Compares the requests of the speed tests' floor with those of a Tool-MAD debate.

The floor is a program that sends similar requests without moot. Its time is a lower bound for the time of a debate.
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


EMBEDDED = "embedded"
"""The step of requests for vectors. Several debaters may share a request, so their number depends on the moment."""


def steps_of(calls: list[dict[str, Any]], sent: dict[int, dict[str, Any]]) -> list[str]:
    """The name of each request's step, such as ``query-2`` in round 2. ``sent`` has the chat requests by id."""
    steps, rounds = [], Counter[str]()
    for call in calls:
        request = sent.get(call["id"])
        if request is None:
            step = EMBEDDED
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
    """The length of the longest chain of requests. In a chain, each request is sent after the previous response."""
    depth, end = 0, 0.0
    for call in sorted(calls, key=lambda call: call["end"]):
        if call["recv"] >= end:
            depth, end = depth + 1, call["end"]
    return depth


async def run_debates(way: str, stub: StubEndpoint, number: int) -> tuple[dict[str, list[dict[str, Any]]], int]:
    """Run ``number`` debates; return their requests by step, and the smallest result of `depth_of`."""
    debates = []
    async with ways.WAYS[way]({}) as run_one:
        await run_one(-1)  # loads modules and fills caches
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
    """By step, the mean size of the requests (``bytes``) or of their replies (``reply_chars``)."""
    return {step: mean(call[what] for call in of_step) for step, of_step in calls.items() if what in of_step[0]}


async def test_the_floor_sends_requests_like_those_of_a_debate(start_stub: StartStub) -> None:
    """In each step, the floor sends as many requests as moot. Their sizes, and those of the replies, are similar."""
    stub = start_stub(ways.ENDPOINT_RULES)
    expected, _ = await run_debates("moot", stub, 5)
    found, _ = await run_debates("bare_aiohttp", stub, 5)
    counts = [{s: len(calls) for s, calls in steps.items() if s != EMBEDDED} for steps in (found, expected)]
    assert counts[0] == counts[1]
    texts = [sum(call["inputs"] for call in steps[EMBEDDED]) for steps in (found, expected)]
    assert texts[0] == pytest.approx(texts[1], rel=0.1)  # equal texts at the same moment are sent once or twice
    del found[EMBEDDED], expected[EMBEDDED]
    assert sizes(found, "bytes") == pytest.approx(sizes(expected, "bytes"), rel=0.1)
    # The tolerance is higher, because replies to moot have random lengths and each step has few replies.
    assert sizes(found, "reply_chars") == pytest.approx(sizes(expected, "reply_chars"), rel=0.2)
    for what in ("bytes", "reply_chars"):
        of_debates, of_floor = (
            sum(c.get(what, 0) for calls_of_step in calls.values() for c in calls_of_step)
            for calls in (expected, found)
        )
        assert of_floor == pytest.approx(of_debates, rel=0.04), what


async def test_the_longest_chains_of_floor_and_debate_have_the_same_length(start_stub: StartStub) -> None:
    # A latency that is longer than the delays of a busy core.
    stub = start_stub(ways.ENDPOINT_RULES, latency_ms=150, embedding_latency_ms=150)
    _, expected = await run_debates("moot", stub, 2)
    _, depth = await run_debates("bare_aiohttp", stub, 2)
    assert depth == expected == 12  # nine chat calls, and the embedding of a query in each of three rounds
