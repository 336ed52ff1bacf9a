"""Debates on an endpoint that refuses calls (HTTP 429): no debate is lost, and most of what it accepts is used."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from moot.graphs import load_graph

from tests.conftest import StartStub, StubEndpoint

ROWS = 40
LATENCY = 0.1
"""The seconds of each call."""


async def run_rows(rows: int = ROWS, system: str = "society_of_minds", **settings: Any) -> list[Any]:
    """The documents of debates that run at once."""
    found = load_graph(system)
    context = found.settings.model_validate({"model": "openai:stub", **settings})
    return await asyncio.gather(*(found.graph.ainvoke({"claim": f"Claim {i}."}, context=context) for i in range(rows)))


async def seconds_of_rows(**settings: Any) -> float:
    """The seconds that 40 debates at once take; each must end with a verdict."""
    started = time.perf_counter()
    documents = await run_rows(**settings)
    assert [document["status"] for document in documents] == ["done"] * ROWS
    return time.perf_counter() - started


def answered_and_refused(stub: StubEndpoint) -> tuple[int, int]:
    """The numbers of calls that the endpoint has answered and refused. There are no other calls."""
    statuses = [call["status"] for call in stub.calls()]
    assert set(statuses) == {200, 429}
    return statuses.count(200), statuses.count(429)


async def test_refusals_at_random_take_at_most_twice_the_time_of_their_requests(start_stub: StartStub) -> None:
    """60% of the requests are refused whatever the load, without Retry-After. So each call takes 2.5 requests.

    The best of three ratios counts: other tests use the same cores.
    """
    for _ in range(3):
        start_stub(latency_ms=2.5 * 1000 * LATENCY)
        slow = await seconds_of_rows()
        stub = start_stub(latency_ms=1000 * LATENCY, rate_429=0.6, retry_after="none")
        refused = await seconds_of_rows()
        answered, refusals = answered_and_refused(stub)
        assert refusals > answered
        if refused <= 2 * slow:
            return
    pytest.fail(f"{refused:.1f} s with refusals, {slow:.1f} s with longer calls")


LIMITS: dict[str, dict[str, Any]] = {
    "calls a second": {"bucket": 40, "bucket_size": 20},
    "calls": {"concurrency_limit": 4, "over_limit": "reject"},
}
"""The options of endpoints that refuse calls beyond a limit."""


@pytest.mark.parametrize(
    ("limit", "known"), [("calls a second", {"requests_per_minute": 2400}), ("calls", {"max_concurrency": 4})]
)
async def test_most_of_what_an_endpoint_accepts_is_used(
    start_stub: StartStub, limit: str, known: dict[str, int]
) -> None:
    """Debates that do not know the endpoint's limit take at most three times as long as debates that know it."""
    start_stub(latency_ms=1000 * LATENCY)
    told = await seconds_of_rows(**known)
    stub = start_stub(latency_ms=1000 * LATENCY, retry_after="none", **LIMITS[limit])
    assert await seconds_of_rows() < 3 * told
    answered, refused = answered_and_refused(stub)
    assert refused < 5 * answered


@pytest.mark.parametrize("limit", LIMITS)
async def test_few_calls_are_refused_if_the_endpoint_asks_for_waits(start_stub: StartStub, limit: str) -> None:
    stub = start_stub(latency_ms=1000 * LATENCY, retry_after="1", **LIMITS[limit])
    await seconds_of_rows()
    answered, refused = answered_and_refused(stub)
    assert refused < answered


async def test_no_request_is_sent_before_retry_after_is_over(start_stub: StartStub) -> None:
    """With one call at a time, no request is on its way when the first one is refused."""
    stub = start_stub([{"status": 429, "retry_after": "1", "times": 1}])
    documents = await run_rows(3, max_concurrency=1)
    assert [document["status"] for document in documents] == ["done"] * 3
    first, *later = sorted(call["recv"] for call in stub.calls())
    assert min(later) >= first + 1


async def test_calls_end_after_max_wait_with_an_error_that_names_it(start_stub: StartStub) -> None:
    """The endpoint refuses every request. Calls that were never sent end, too."""
    stub = start_stub([{"status": 429}], retry_after="none")
    documents = await run_rows(6, "standard_prompting", max_concurrency=2, max_wait=1)
    errors = [document["error"] for document in documents]
    assert {error["kind"] for error in errors} == {"rate_limited"}
    assert all("waits at most 1 s (see the setting `max_wait`)" in error["detail"] for error in errors)
    attempts = [call["attempts"] for document in documents for call in document["calls"]]
    assert sum(attempts) == len(stub.calls()) < 100
    assert 0 in attempts
