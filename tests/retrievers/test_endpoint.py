"""Endpoints: waits and retries, the errors and vectors of an embedding endpoint, and the removal of keys from texts."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from aiohttp import web
from moot.core.endpoint import Limits, create_once
from moot.core.limiter import LONGEST_WAIT, Limiter, limiter, with_retries
from moot.core.redaction import redact
from moot.core.refusals import retry_after_seconds
from moot.retrievers import MootError, UserError, WorldError, open_encoder

from .conftest import Serve


def embedding(vectors: Any) -> web.Response:
    """The response of an embedding endpoint with these vectors."""
    return web.json_response({"data": [{"index": i, "embedding": v} for i, v in enumerate(vectors)], "model": "m"})


async def error_of(texts: int = 1, **options: Any) -> MootError:
    """The error when one to three texts are encoded. ``options`` are the limits."""
    with pytest.raises(MootError) as caught:
        await (await open_encoder("openai:stub-embedding", Limits(**options))).embed(["a", "b", "c"][:texts])
    assert "sk-secret" not in caught.value.detail
    return caught.value


# --- waits and retries ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("0", 0.0),
        ("1.5", 1.5),
        ("-3", 0.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("Wed, 21 Oct 2015 07:28:00 -0000", 0.0),
        ("soon", None),
        ("", None),
        (None, None),
        ("nan", None),
        ("inf", None),
        ("1e999", None),
        ("Wed, 21 Oct 99999999999999999999 07:28:00 GMT", None),
    ],
)
def test_a_retry_after_header_is_parsed(header: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(header) == seconds


@pytest.mark.parametrize(
    ("error", "attempts"),
    [
        (WorldError("down", kind="server_error", retryable=True, retry_after=0), 4),
        (WorldError("busy", kind="server_error", retryable=True, retry_after=LONGEST_WAIT + 1), 1),
        (WorldError("odd", kind="bad_response"), 1),
        (UserError("no", kind="authentication"), 1),
    ],
)
async def test_only_transient_errors_with_a_short_wait_are_retried(error: MootError, attempts: int) -> None:
    calls = 0

    async def call() -> None:
        nonlocal calls
        calls += 1
        raise error

    with pytest.raises(MootError) as caught:
        await with_retries(call, Limits(attempts=4), Limiter())
    assert (caught.value, caught.value.attempts, calls) == (error, attempts, attempts)


async def test_simultaneous_calls_of_create_once_share_one_value() -> None:
    """They also share an error. An error is not cached, but a value is."""
    made = 0

    async def make() -> int:
        nonlocal made
        made += 1
        await asyncio.wait([asyncio.ensure_future(asyncio.sleep(0))])
        if made == 1:
            raise WorldError("busy", kind="unreachable")
        return made

    first = await asyncio.gather(*(create_once("a test", make) for _ in range(5)), return_exceptions=True)
    assert [type(result) for result in first] == [WorldError] * 5
    assert await asyncio.gather(*(create_once("a test", make) for _ in range(5))) == [2] * 5
    assert await create_once("a test", make) == 2


# --- an embedding endpoint --------------------------------------------------------------------------------------------


async def test_vectors_have_unit_length_and_the_order_of_the_response(endpoint: Serve) -> None:
    server = await endpoint(lambda n, body: embedding([[3.0, 4.0], [0.0, -2.0]]))
    vectors = await (await open_encoder("openai:stub-embedding")).embed(["a", "b"])
    assert vectors == [pytest.approx([0.6, 0.8]), [0.0, -1.0]]
    assert server.bodies[0]["input"] == ["a", "b"]


@pytest.mark.parametrize(
    ("status", "kind", "message", "attempts"),
    [
        (400, "bad_request", "did not accept", 1),
        (401, "authentication", "Check OPENAI_API_KEY", 1),
        (404, "unknown_model", "does not know the model openai:stub-embedding", 1),
        (429, "rate_limited", "retry after 0 s", 1),
        (500, "server_error", "Try again later", 3),
    ],
)
async def test_the_error_for_a_status_says_what_to_do(
    endpoint: Serve, status: int, kind: str, message: str, attempts: int
) -> None:
    body = {"error": {"message": "Not with sk-secret-0123456789", "code": "x"}}
    server = await endpoint(lambda n, _: web.json_response(body, status=status, headers={"Retry-After": "0"}))
    caught = await error_of(max_wait=0)
    assert (caught.kind, caught.attempts, len(server.bodies)) == (kind, attempts, attempts)
    assert message in caught.detail
    assert "Not with [OPENAI_API_KEY]" in caught.detail
    assert server.url in caught.detail


@pytest.mark.parametrize("header", [{}, {"Retry-After": "0"}, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}])
async def test_a_call_refused_by_a_rate_limit_does_not_count_as_an_attempt(
    endpoint: Serve, header: dict[str, str]
) -> None:
    busy = web.json_response
    server = await endpoint(lambda n, _: busy({}, status=429, headers=header) if n < 3 else embedding([[1.0, 0.0]]))
    encoder = await open_encoder("openai:stub-embedding", Limits(attempts=1))
    assert await encoder.embed(["a"]) == [[1.0, 0.0]]
    assert len(server.bodies) == 3


async def test_a_used_up_quota_is_not_retried(endpoint: Serve) -> None:
    body = {"error": {"message": "Pay.", "code": "insufficient_quota"}}
    server = await endpoint(lambda n, _: web.json_response(body, status=429))
    assert ((await error_of()).kind, len(server.bodies)) == ("quota", 1)


@pytest.mark.parametrize("status", [429, 503])
async def test_a_call_is_not_retried_if_its_retry_after_is_too_long(endpoint: Serve, status: int) -> None:
    server = await endpoint(lambda n, _: web.json_response({}, status=status, headers={"Retry-After": "86400"}))
    assert (await error_of()).retry_after == 86400
    assert len(server.bodies) == 1


async def test_timeouts_and_refused_connections_are_retryable_errors(
    endpoint: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await endpoint(lambda n, body: None)
    caught = await error_of(attempts=1, timeout=3)  # making the client takes up to a second
    assert (caught.kind, caught.retryable, len(server.bodies)) == ("timeout", True, 1)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    caught = await error_of(attempts=1)
    assert (caught.kind, caught.retryable) == ("unreachable", True)
    assert "Check the address" in caught.detail


@pytest.mark.parametrize(
    "vectors",
    [[], [[1.0], [1.0]], [[0.0, 0.0]], [[math.nan, 1.0]], [[math.inf]], [["a"]], [[[1.0], [1.0, 2.0]]], [None]],
    ids=["no vector", "too many", "zero", "nan", "inf", "words", "nested", "null"],
)
async def test_invalid_vectors_are_refused(endpoint: Serve, vectors: list[Any]) -> None:
    await endpoint(lambda n, body: embedding(vectors))
    caught = await error_of(attempts=1)
    assert isinstance(caught, WorldError)
    assert caught.kind == "bad_response"


async def test_vectors_of_different_lengths_are_refused(endpoint: Serve) -> None:
    await endpoint(lambda n, body: embedding([[1.0], [1.0, 2.0]]))
    caught = await error_of(2, attempts=1)
    assert (caught.kind, "different lengths" in caught.detail) == ("bad_response", True)


async def test_a_web_page_as_the_response_is_an_error(endpoint: Serve) -> None:
    await endpoint(lambda n, body: web.Response(text="<html>", content_type="text/html"))
    caught = await error_of(attempts=1)
    assert caught.kind == "bad_response"
    assert "/v1" in caught.detail


def test_keys_are_removed_from_texts_and_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of fewer than 8 characters are not removed."""
    monkeypatch.setenv("A_API_KEY", "sk-012345")
    monkeypatch.setenv("B_TOKEN", "sk-012345-and-more")
    monkeypatch.setenv("C_SECRET", "short")
    assert redact("sk-012345, sk-012345-and-more, short") == "[A_API_KEY], [B_TOKEN], short"
    assert str(UserError("with sk-012345", kind="quota")) == "with [A_API_KEY]"


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"OPENAI_BASE_URL": "example.org:1234"}, "not a web address"),
        ({"OPENAI_BASE_URL": "http://[::bad/v1"}, "not a web address"),
        ({"OPENAI_BASE_URL": "ftp://example.org"}, "not a web address"),
        ({"OPENAI_API_KEY": "sk-\u2026-1234567"}, "OPENAI_API_KEY contains characters"),
        ({"OPENAI_BASE_URL": "http://example.org/v1", "ALL_PROXY": "foo://127.0.0.1:9"}, "ALL_PROXY"),
        ({"OPENAI_BASE_URL": "http://example.org/v1", "ALL_PROXY": "socks5://127.0.0.1:9"}, "ALL_PROXY"),
    ],
)
async def test_invalid_environment_variables_are_user_errors(
    variables: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError) as caught:
        await open_encoder("openai:m")
    assert (caught.value.kind, message in caught.value.detail) == ("invalid_environment", True)


async def test_calls_with_different_limits_share_one_limiter() -> None:
    """A call waits until fewer calls than its own limit are running. The calls of all debates count."""
    running = most = 0
    server = limiter("http://somewhere")

    async def call(limits: Limits) -> None:
        nonlocal running, most
        async with server.slot(limits):
            running += 1
            most = max(most, running)
            await asyncio.to_thread(int)
            running -= 1

    await asyncio.gather(*(call(Limits(max_concurrency=2)) for _ in range(9)), call(Limits(max_concurrency=1)))
    assert (most, limiter("http://somewhere") is server) == (2, True)
