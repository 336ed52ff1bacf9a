"""Requests over real sockets through `ChatOpenAI`, with faults such as slow drips, redirects, proxies and bad HTTP."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, HumanMessage
from moot.core.endpoint import Limits, check_proxy, close_clients, tls
from moot.core.errors import MootError, UserError, WorldError
from moot.graphs import load_graph
from moot.nodes._models.chat_models import open_chat_model
from moot.nodes._models.speaker import Speaker
from moot.retrievers._encoders import open_encoder

from tests.core.raw import REPLY, STREAM, Raw, answer, event, raw_server, respond_with, stream_chunk

DEPRECATED = pytest.mark.filterwarnings("ignore:.* deprecated and will be removed in:DeprecationWarning")
"""openai's client on aiohttp sends a proxy's password in a way that aiohttp 4 will not have."""
BOTH = pytest.mark.parametrize("streamed", [False, True])


@pytest.fixture(autouse=True)
async def own_endpoint(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets the key, and closes the clients after the test."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    monkeypatch.setenv("OPENAI_BASE_URL", "")  # `call` sets it; restored at the end
    yield monkeypatch
    await close_clients()


async def call(url: str, streamed: bool = False, timeout: float = 20) -> str:
    """Make one call without retries, and return the text of its reply; a MootError is raised."""
    pytest.MonkeyPatch().setenv("OPENAI_BASE_URL", url)
    model = await open_chat_model("openai:m", timeout=timeout)
    speaker = Speaker("rag", model, limits=Limits(attempts=1, max_wait=0, timeout=timeout))

    async def send(chat: Any, asked: Any) -> BaseMessage:
        if not streamed:
            return await chat.ainvoke(asked)  # type: ignore[no-any-return]
        parts = [part async for part in chat.astream(asked)]
        return sum(parts[1:], parts[0])  # type: ignore[no-any-return]

    reply = await speaker.converse(send, [HumanMessage("Is it so?")])
    assert reply is not None
    return str(reply.content)


async def error_of(url: str, streamed: bool = False, timeout: float = 20) -> MootError:
    with pytest.raises(MootError) as caught:
        await call(url, streamed, timeout)
    return caught.value


# --- time and connections ---------------------------------------------------------------------------------------------

LONG_HEAD = answer().replace(b"Length: 0", b"Length: 999")
"""The head of a response with a body of 999 bytes."""
ENDLESS_RESPONSES = {
    "nothing": (b"", b""),
    "spaces": (LONG_HEAD, b" "),
    "tokens": (STREAM, stream_chunk("a")),
    "comments": (STREAM, b": keep-alive\n\n"),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"X: a\r\n"),
    "error": (LONG_HEAD.replace(b"200", b"500"), b" "),
}
"""The first bytes of a response, and the bytes that the server then repeats without end."""


@BOTH
@pytest.mark.parametrize("name", ENDLESS_RESPONSES)
async def test_a_response_without_end_is_a_timeout(name: str, streamed: bool) -> None:
    """Its connection is closed. The endpoint may charge for the request."""
    first, repeated = ENDLESS_RESPONSES[name]

    async def respond(writer: asyncio.StreamWriter, raw: Raw) -> None:
        writer.write(first)
        while True:
            writer.write(repeated)
            await asyncio.sleep(0.02)

    async with raw_server(respond) as raw:
        error = await error_of(raw.url, streamed, 0.3)
        assert (error.kind, error.retryable, error.may_cost) == ("timeout", True, True)
        assert "raise the setting `timeout`" in error.detail
        if raw.connections:  # none if the first call of the process was slow to start
            await raw.closed.get()


@BOTH
async def test_a_cancelled_call_closes_its_connection(streamed: bool) -> None:
    started = asyncio.Event()

    async def respond(writer: asyncio.StreamWriter, raw: Raw) -> None:
        writer.write(STREAM + stream_chunk("a") if streamed else answer(REPLY)[:-5])
        started.set()
        await asyncio.Event().wait()

    async with raw_server(respond) as raw:
        task = asyncio.ensure_future(call(raw.url, streamed))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await raw.closed.get()


async def test_calls_one_after_another_use_the_same_connection() -> None:
    """Other models of the endpoint and embeddings use it, too. A lone surrogate in a reply arrives unchanged."""
    reply = REPLY | {"data": [{"index": 0, "embedding": [1.0]}]}
    async with raw_server(respond_with(answer(reply))) as raw:
        for timeout in (20, 21, 22):
            assert await call(raw.url, timeout=timeout) == "Yes."
        assert await (await open_encoder("openai:m")).embed(["a"]) == [[1.0]]
        assert (raw.connections, len(raw.bodies)) == (1, 4)


def test_event_loops_one_after_another_and_at_once_make_calls_without_warnings() -> None:
    replies: list[str] = []

    async def serve_and_ask() -> None:
        async with raw_server(respond_with(answer(REPLY))) as raw:
            replies.extend(await asyncio.gather(*(call(raw.url) for _ in range(4))))
            await close_clients()

    asyncio.run(serve_and_ask())
    asyncio.run(serve_and_ask())
    threads = [threading.Thread(target=lambda: asyncio.run(serve_and_ask())) for _ in range(3)]
    for thread in threads:
        thread.start()
        thread.join()
    assert replies == ["Yes."] * 20


# --- faulty HTTP ------------------------------------------------------------------------------------------------------


async def test_an_endpoint_that_does_not_listen_is_unreachable_at_no_cost() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    error = await error_of(f"http://127.0.0.1:{port}/v1")
    assert (error.kind, error.retryable, error.may_cost) == ("unreachable", True, False)
    assert "Start the server there. Check the address, too." in error.detail


@BOTH
async def test_a_request_whose_connection_is_dropped_is_sent_once_and_may_cost(streamed: bool) -> None:
    async with raw_server(respond_with(close=True)) as raw:
        error = await error_of(raw.url, streamed)
        assert (error.kind, error.retryable, error.may_cost, len(raw.heads)) == ("unreachable", True, True, 1)


@BOTH
@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 O", answer(REPLY)[:-9], STREAM + stream_chunk("a")])
async def test_a_reset_connection_is_a_retryable_error_that_may_cost(sent: bytes, streamed: bool) -> None:
    async def respond(writer: asyncio.StreamWriter, raw: Raw) -> None:
        writer.write(sent)
        await writer.drain()
        no_linger = struct.pack("ii", 1, 0)  # with a linger time of 0 s, the connection is reset
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_linger)
        writer.transport.abort()

    async with raw_server(respond) as raw:
        error = await error_of(raw.url, streamed)
    assert error.kind in ("unreachable", "bad_response")
    assert (error.retryable, error.may_cost) == (True, True)


@BOTH
@pytest.mark.parametrize(
    "sent",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\na",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 2**18,
        answer(b"no gzip", Content_Encoding="gzip"),
    ],
)
async def test_a_response_that_is_not_valid_http_is_a_retryable_error(sent: bytes, streamed: bool) -> None:
    async with raw_server(respond_with(sent, close=True)) as raw:
        error = await error_of(raw.url, streamed)
    assert (error.kind, error.retryable, "\n" in error.detail) == ("bad_response", True, False)
    assert "it is not valid HTTP" in error.detail


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7.0), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0), ("soon", None), ("90000", 90000.0), ("1e300", 1e9)],
)
async def test_retry_after_is_read_as_seconds_or_a_date(header: str, seconds: float | None) -> None:
    """Any other text is ignored. A date in the past means 0 seconds, and a very long wait is shortened."""
    async with raw_server(respond_with(answer({"error": {"message": "busy"}}, "429 Busy", Retry_After=header))) as raw:
        error = await error_of(raw.url)
    assert isinstance(error, WorldError)
    assert (error.kind, error.retry_after, ": busy)" in error.detail) == ("rate_limited", seconds, True)


@BOTH
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_refused(status: int, streamed: bool) -> None:
    """The error shows the new address without its login and its query."""
    async with raw_server(respond_with(answer(REPLY))) as other:
        to = other.url.replace("//", "//user:word@") + "/v1?key=sk-secret"
        async with raw_server(respond_with(answer(status=f"{status} Moved", Location=to))) as raw:
            error = await error_of(raw.url, streamed)
    assert (error.kind, error.retryable, other.heads) == ("bad_response", False, [])
    assert f"HTTP {status} to {other.url}/v1)" in error.detail


# --- streams ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [b"data: [DONE]\n\nrubbish", b""])
async def test_server_sent_events_are_read_in_unusual_spellings(end: bytes) -> None:
    """There are comments, other fields, empty lines, and lines with CRLF; the last event may be missing."""
    yes, so = (stream_chunk(text).replace(b"\n\n", b"\r\n\r\n") for text in ("It is ", "so."))
    odd = so.replace(b'"choices"', b'\r\ndata: "choices"').replace(b"data: ", b"data:")
    body = b": hello\n\n" + yes + b"\n\nevent: x\n" + odd + b"id: 3\n" + stream_chunk("", "stop") + end

    async def respond(writer: asyncio.StreamWriter, raw: Raw) -> None:
        writer.write(STREAM)
        for byte in body:  # no line arrives in one piece
            writer.write(bytes([byte]))
            await asyncio.sleep(0)
        writer.close()

    async with raw_server(respond) as raw:
        assert await call(raw.url, streamed=True) == "It is so."


async def test_tokens_that_each_chunk_reports_are_counted_once() -> None:
    """Each chunk reports the tokens so far."""
    texts = ("", '{"answer": "SUPPORTS", "rationale": "So.", ', '"citations": []}', "")
    parts = [
        event(
            id="1",
            model="m",
            choices=[{"index": 0, "delta": {"content": text}, "finish_reason": "stop" if n == 3 else None}],
            usage={"prompt_tokens": 9, "completion_tokens": n, "total_tokens": 9 + n},
        )
        for n, text in enumerate(texts)
    ]
    system = load_graph("standard_prompting")
    context = system.settings.model_validate({"model": "openai:m", "attempts": 1})
    async with raw_server(respond_with(STREAM, *parts, close=True)) as raw:
        pytest.MonkeyPatch().setenv("OPENAI_BASE_URL", raw.url)
        async for mode, value in system.graph.astream(
            {"claim": "It is so."}, context=context, stream_mode=["messages", "values"]
        ):
            document: Any = value if mode == "values" else None
    [call] = document["calls"]
    assert (document["answer"], call["prompt_tokens"], call["completion_tokens"]) == ("SUPPORTS", 9, 3)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((stream_chunk("a"),), "ended early"),
        ((b'{"choices": []}',), "cannot be read"),
        ((stream_chunk("a"), event(error={"message": "busy"})), "instead of a reply: busy. Try"),
        ((stream_chunk("a"), b"data: {half\n\n"), "JSONDecodeError"),
        ((stream_chunk("a"), event(error={"message": "busy", "code": 502})), "HTTP 502: busy"),
    ],
)
async def test_a_stream_without_a_complete_reply_is_a_retryable_error(parts: tuple[bytes, ...], message: str) -> None:
    async with raw_server(respond_with(STREAM, *parts, close=True)) as raw:
        error = await error_of(raw.url, streamed=True)
        assert (error.retryable, error.may_cost, message in error.detail) == (True, True, True)


async def test_a_stream_that_breaks_off_within_an_http_chunk_is_an_error() -> None:
    head = STREAM.replace(b"Connection: close", b"Transfer-Encoding: chunked")
    async with raw_server(respond_with(head, b"fff\r\n", stream_chunk("a"), close=True)) as raw:
        error = await error_of(raw.url, streamed=True)
    assert (error.kind, error.may_cost) == ("unreachable", True)
    assert "before its answer was complete" in error.detail


@pytest.mark.parametrize(
    ("error_body", "kind", "text"),
    [
        ({"message": "Busy."}, "bad_response", "instead of a reply: Busy. Try again later"),
        ("Busy", "bad_response", "Busy"),
        ({"message": "Busy.", "code": 429}, "rate_limited", "HTTP 429: Busy."),
        ({"message": "Busy.", "code": "502"}, "server_error", "HTTP 502: Busy."),
        ({"message": "No.", "code": 401}, "authentication", "refused the key"),
    ],
)
@BOTH
async def test_an_error_in_a_response_with_status_200_is_raised(
    error_body: Any, kind: str, text: str, streamed: bool
) -> None:
    """A code in the error counts like an HTTP status."""
    response = (STREAM, event(error=error_body)) if streamed else (answer({"error": error_body}),)
    async with raw_server(respond_with(*response, close=streamed)) as raw:
        error = await error_of(raw.url, streamed)
    assert (error.kind, text in error.detail) == (kind, True)


# --- proxies, certificates, headers -----------------------------------------------------------------------------------


@DEPRECATED
async def test_requests_go_through_the_configured_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with raw_server(respond_with(answer(REPLY))) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url.replace("//", "//me:word@"))
        assert await call("http://models.test/v1") == "Yes."
        head = proxy.heads[0]
        assert head.startswith("POST http://models.test/v1/chat/completions ")
        assert "proxy-authorization: basic bwu6d29yza==" in head.lower()
        assert "authorization: bearer sk-x" in head.lower()


async def test_loopback_addresses_and_those_in_no_proxy_have_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with raw_server(respond_with(close=True)) as proxy, raw_server(respond_with(answer(REPLY))) as raw:
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", "models.invalid")
        assert await call(raw.url) == "Yes."
        assert (await error_of("http://models.invalid/v1")).kind == "unreachable"
        assert proxy.heads == []


@DEPRECATED
async def test_an_encrypted_request_asks_the_proxy_for_a_tunnel(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy does not see the key. If it refuses the tunnel, the endpoint counts as unreachable."""
    async with raw_server(respond_with(answer(status="502 No"), close=True)) as proxy:
        monkeypatch.setenv("ALL_PROXY", proxy.url.replace("//", "//me:word@"))
        error = await error_of("https://models.test/v1")
        assert (error.kind, proxy.heads[0].split(" HTTP")[0]) == ("unreachable", "CONNECT models.test:443")
        assert (error.may_cost, "through a proxy" in error.detail, "word" in error.detail) == (False, True, False)
        assert "sk-x" not in proxy.heads[0]


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:9", "foo://p", "http://", "http://p:70000", "http://[::bad"])
async def test_an_unusable_proxy_is_a_user_error(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    error = await error_of("http://a.test/v1")
    assert "No HTTP client can be created" in error.detail
    assert "Check the variables HTTP_PROXY" in error.detail
    monkeypatch.setenv("NO_PROXY", "a.test")
    check_proxy("http://a.test/v1")


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A file with a self-signed certificate for 127.0.0.1 and its key; cert.pem next to it has no key."""
    path = tmp_path / "own.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    made += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(path), "-out", str(tmp_path / "cert.pem")]
    subprocess.run(made, check=True, capture_output=True)
    path.write_text(path.read_text() + (tmp_path / "cert.pem").read_text())
    return path


@pytest.mark.parametrize("variable", [None, "SSL_CERT_FILE", "SSL_CERT_DIR"])
async def test_certificates_are_verified_against_the_configured_authorities(
    variable: str | None, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable == "SSL_CERT_DIR":
        digest = subprocess.check_output(["openssl", "x509", "-hash", "-noout", "-in", str(certificate)], text=True)
        (certificate.parent / f"{digest.strip()}.0").write_text((certificate.parent / "cert.pem").read_text())
    if variable:
        monkeypatch.setenv(variable, str(certificate if variable == "SSL_CERT_FILE" else certificate.parent))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    tls.cache_clear()
    try:
        async with raw_server(respond_with(answer(REPLY)), ssl=context) as raw:
            if variable:
                assert await call(raw.url) == "Yes."
            else:
                error = await error_of(raw.url)
                assert (error.kind, "CERTIFICATE_VERIFY_FAILED" in error.detail) == ("unreachable", True)
                assert error.may_cost is False
            await close_clients()
    finally:
        tls.cache_clear()


async def test_a_missing_file_of_certificates_is_a_user_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/no/such/file.pem")
    with pytest.raises(UserError, match=r"No HTTP client .* names /no/such/file.pem, which is not a file"):
        await call("https://models.test/v1")


async def test_keys_and_configured_headers_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A login in the address is sent instead of the key, for embeddings, too."""
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-One: 1\nX-Two: a:b")
    reply = REPLY | {"data": [{"index": 0, "embedding": [1.0]}]}
    async with raw_server(respond_with(answer(reply))) as raw:
        await call(raw.url)
        await call(raw.url.replace("//", "//me:w%40rd@"))
        await (await open_encoder("openai:m")).embed(["a"])
    first, *others = ({line.lower() for line in head.splitlines()} for head in raw.heads)
    assert {"authorization: bearer sk-x", "openai-organization: org-1", "openai-project: proj-1"} < first
    assert {"x-one: 1", "x-two: a:b", "content-type: application/json"} < first
    for head in others:
        assert [line for line in head if line.startswith("authorization")] == ["authorization: basic bwu6d0byza=="]


@pytest.mark.parametrize("value", ["é", "a\tb", "a\rb"])
async def test_an_invalid_header_in_the_environment_is_a_user_error(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", f"X-One: {value}")
    with pytest.raises(UserError, match="OPENAI_CUSTOM_HEADERS contains a character that is not allowed"):
        await call("http://127.0.0.1:9/v1")
