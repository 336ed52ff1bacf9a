"""Requests over real sockets, with faults such as timeouts, huge answers, redirects and bad certificates."""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import socket
import ssl
import subprocess
import sys
import threading
import time
import weakref
import zlib
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from moot.core import transport
from moot.core.endpoint import Endpoint, close_clients, tls
from moot.core.errors import MootError, UserError, WorldError
from moot.core.transport import Connection, open_connection, proxy_for

from .raw import REPLY, STREAM, Raw, answer, event, raw_server, respond_with, stream_chunk

PATH = "/chat/completions"
CURRENT_STATE: ContextVar[object] = ContextVar("current_state")


def connection_to(url: str, timeout: float = 20, key: str = "sk-x") -> Connection:
    return open_connection(Endpoint(url, key), "openai:m", timeout)


async def error_of(connection: Connection, streamed: bool = False) -> MootError:
    """Send a request that fails; return its error."""
    with pytest.raises(MootError) as caught:
        await (events_of(connection) if streamed else connection.post(PATH, {}))
    return caught.value


async def events_of(connection: Connection) -> list[Any]:
    return [event async for event in connection.stream(PATH, {})]


# --- time -------------------------------------------------------------------------------------------------------------

LONG_HEAD = answer().replace(b"Length: 0", b"Length: 999")
"""The head of a response with a body of 999 bytes."""
ENDLESS_RESPONSES = {
    "spaces": (LONG_HEAD, b" "),
    "tokens": (STREAM, stream_chunk("a")),
    "comments": (STREAM, b": keep-alive\n\n"),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"X: a\r\n"),
    "interim responses": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "error": (LONG_HEAD.replace(b"200", b"500"), b" "),
}
"""The first bytes of a response, and the bytes that the server then repeats without end."""


@pytest.mark.parametrize("name", ENDLESS_RESPONSES)
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_response_without_end_is_a_timeout(streamed: bool, name: str) -> None:
    first, repeated = ENDLESS_RESPONSES[name]

    async def respond(writer: asyncio.StreamWriter, raw: Raw) -> None:
        writer.write(first)
        while True:
            writer.write(repeated)
            await asyncio.sleep(0.02)

    async with raw_server(respond) as raw:
        started = time.perf_counter()
        error = await error_of(connection_to(raw.url, 0.3), streamed)
        assert (error.kind, error.retryable) == ("timeout", True)
        assert time.perf_counter() - started < 3
        await raw.closed.get()  # the connection is not reused


async def test_an_attempt_to_connect_times_out_if_the_server_does_not_accept_it() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        address = server.getsockname()
        pending = []
        for _ in range(3):  # these connections fill the server's queue, so the next attempt gets no answer
            pending.append(socket.socket())
            pending[-1].setblocking(False)
            pending[-1].connect_ex(address)
        error = await error_of(connection_to(f"http://127.0.0.1:{address[1]}", 0.2))
        for client in pending:
            client.close()
    assert error.kind == "timeout"


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_cancelled_request_closes_its_connection(streamed: bool) -> None:
    started, first = asyncio.Event(), True

    async def respond(writer: asyncio.StreamWriter, raw: Raw) -> None:
        nonlocal first
        if not first:
            writer.write(answer(REPLY))
            return
        first = False
        writer.write(STREAM + stream_chunk("a") if streamed else answer(REPLY)[:-5])
        started.set()
        await asyncio.Event().wait()

    async with raw_server(respond) as raw:
        connection = connection_to(raw.url)
        task = asyncio.ensure_future(events_of(connection) if streamed else connection.post(PATH, {}))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await raw.closed.get()
        assert await connection.post(PATH, {}) == REPLY
        assert raw.connections == 2


async def test_closing_an_unfinished_stream_closes_its_connection() -> None:
    async def respond(writer: asyncio.StreamWriter, raw: Raw) -> None:
        writer.write(STREAM + stream_chunk("a"))
        await asyncio.Event().wait()

    async with raw_server(respond) as raw:
        events = connection_to(raw.url).stream(PATH, {})
        await anext(events)
        await events.aclose()  # type: ignore[attr-defined]
        await raw.closed.get()


# --- connections ------------------------------------------------------------------------------------------------------


async def test_requests_one_after_another_use_the_same_connection() -> None:
    """A lone surrogate in a body arrives unchanged."""
    async with raw_server(respond_with(answer(REPLY))) as raw:
        for _ in range(5):
            assert await connection_to(raw.url).post(PATH, {"a": "\ud800"}) == REPLY
        assert (raw.connections, raw.bodies) == (1, [{"a": "\ud800"}] * 5)


async def test_an_idle_connection_that_the_server_has_closed_is_not_used() -> None:
    """The next request starts before the event loop could notice that the connection is closed."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        received: list[bytes] = []
        closed = threading.Event()

        def serve() -> None:
            for _ in range(2):
                client, _ = server.accept()
                with client:
                    received.append(client.recv(65536))
                    client.sendall(answer(REPLY))
                    go_on.wait()
                closed.set()

        go_on, thread = threading.Event(), threading.Thread(target=serve)
        thread.start()
        connection = connection_to(f"http://127.0.0.1:{server.getsockname()[1]}")
        assert await connection.post(PATH, {}) == REPLY
        go_on.set()
        assert closed.wait(20)
        assert await connection.post(PATH, {}) == REPLY
        await asyncio.to_thread(thread.join)
        assert len(received) == 2


async def test_a_request_whose_connection_is_dropped_is_sent_once() -> None:
    async with raw_server(respond_with(close=True)) as raw:
        error = await error_of(connection_to(raw.url))
        assert (error.kind, len(raw.heads)) == ("unreachable", 1)


def test_several_event_loops_send_requests_without_resource_warnings(recwarn: pytest.WarningsRecorder) -> None:
    """Three event loops run one after another; then four event loops run at once, in threads."""
    replies: list[Any] = []

    async def serve_and_ask() -> None:
        async with raw_server(respond_with(answer(REPLY))) as raw:
            url = raw.url
            replies.extend(await asyncio.gather(*(connection_to(url).post(PATH, {}) for _ in range(4))))
            await close_clients()

    for _ in range(3):
        asyncio.run(serve_and_ask())
    threads = [threading.Thread(target=lambda: asyncio.run(serve_and_ask())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert replies == [REPLY] * 28
    assert not [w for w in recwarn if issubclass(w.category, ResourceWarning)]


UNCLOSED_LOOPS = """
import asyncio, sys, threading
from moot.core.endpoint import Endpoint
from moot.core.transport import open_connection

connection = open_connection(Endpoint(sys.argv[1], "sk-x"), "openai:m", 20)
ask = lambda: connection.post("/chat/completions", {})
assert asyncio.run(ask()) == asyncio.run(ask())
loop = asyncio.new_event_loop()  # keeps running, in a thread that is not joined
threading.Thread(target=loop.run_forever, daemon=True).start()
asyncio.run_coroutine_threadsafe(ask(), loop).result()
left = asyncio.new_event_loop()  # is stopped, but not closed
left.run_until_complete(ask())
print("done")
"""


async def test_a_process_with_unclosed_event_loops_ends_without_warnings() -> None:
    async with raw_server(respond_with(answer(REPLY))) as raw:
        command = [sys.executable, "-c", UNCLOSED_LOOPS, raw.url]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "done", "")


async def test_a_keep_alive_connection_does_not_keep_its_debate_in_memory() -> None:
    class DebateState:
        pass

    async def call() -> weakref.ref[DebateState]:
        state = DebateState()
        CURRENT_STATE.set(state)
        await connection_to(raw.url).post(PATH, {})
        return weakref.ref(state)

    async with raw_server(respond_with(answer(REPLY))) as raw:
        calls = await asyncio.gather(*(call() for _ in range(300)))
        await asyncio.sleep(0)
        gc.collect()
        assert (raw.connections, raw.closed.empty()) == (300, True)
        alive = sum(state_ref() is not None for state_ref in calls)
        assert alive < 150  # asyncio keeps up to a hundred cancelled timers


# --- size -------------------------------------------------------------------------------------------------------------

PRINT_ERROR_AND_MEMORY = """
import asyncio, re, sys
from pathlib import Path
from moot.core.endpoint import Endpoint
from moot.core.errors import WorldError
from moot.core.transport import open_connection

async def main(url, streamed):
    connection = open_connection(Endpoint(url, "sk-x"), "openai:m", 60)
    try:
        if streamed:
            async for _ in connection.stream("/chat/completions", {}): pass
        else:
            await connection.post("/chat/completions", {})
    except WorldError as error:
        print(error.kind, error.retryable, error.detail)
    print(int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) // 1024)

asyncio.run(main(sys.argv[1], sys.argv[2] == "True"))
"""


def compressed_gigabyte(coding: str) -> bytes:
    """A gigabyte of spaces, or of comment lines and spaces, compressed without the checksum at the end."""
    pack = zlib.compressobj(9, wbits={"gzip": 31, "deflate": 15}[coding.split()[0]])
    piece = b" " * 2**20 if "lines" not in coding else b": \n" * 2**18 + b" " * 2**18
    first, second = (pack.compress(piece) + pack.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    return first + second * 1023  # after a full flush, equal pieces have equal compressed bytes


async def error_and_megabytes(url: str, streamed: bool) -> tuple[str, int]:
    """Send a request from a new process; return the request's error and the process's peak memory in MB."""
    command = [sys.executable, "-c", PRINT_ERROR_AND_MEMORY, url, str(streamed)]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=120)
    message, megabytes = done.stdout.splitlines()
    return message, int(megabytes)


@pytest.mark.parametrize(("coding", "streamed"), [("gzip", False), ("deflate", False), ("gzip lines", True)])
async def test_a_compressed_gigabyte_is_refused_before_it_fills_the_memory(coding: str, streamed: bool) -> None:
    packed = compressed_gigabyte(coding)
    assert len(packed) < 2**23
    async with raw_server(respond_with(answer(packed, Content_Encoding=coding.split()[0]))) as raw:
        message, megabytes = await error_and_megabytes(raw.url, streamed)
    assert message.startswith("bad_response False")
    assert "is longer than" in message
    assert megabytes < 300


@pytest.mark.parametrize("status", ["200 OK", "500 Busy"])
@pytest.mark.parametrize("streamed", [False, True])
async def test_an_uncompressed_answer_of_800_megabytes_is_not_read_to_its_end(status: str, streamed: bool) -> None:
    written = 0

    async def respond(writer: asyncio.StreamWriter, raw: Raw) -> None:
        nonlocal written
        writer.write(answer(status=status, Content_Length=8 * 10**8).replace(b"Content-Length: 0\r\n", b""))
        while written < 8 * 10**8:
            writer.write(b" " * 2**20)
            written += 2**20
            await writer.drain()

    async with raw_server(respond) as raw:
        message, megabytes = await error_and_megabytes(raw.url, streamed)
    assert message.startswith("server_error True" if status != "200 OK" else "bad_response False")
    assert megabytes < 300
    assert written < 10**8


async def test_a_compressed_answer_is_read() -> None:
    packed = gzip.compress(json.dumps(REPLY).encode())
    async with raw_server(respond_with(answer(packed, Content_Encoding="gzip"))) as raw:
        assert await connection_to(raw.url).post(PATH, {}) == REPLY
        assert "gzip" in raw.heads[0].lower()


@pytest.mark.parametrize("piece", [b"a", b"\ndata: a"])
async def test_an_event_longer_than_the_limit_is_refused(piece: bytes) -> None:
    async with raw_server(respond_with(STREAM, b"data: ", piece * transport.LONGEST_EVENT, close=True)) as raw:
        error = await error_of(connection_to(raw.url), streamed=True)
        assert (error.kind, "longer than 1 MiB" in error.detail) == ("bad_response", True)


# --- streams ----------------------------------------------------------------------------------------------------------


async def test_server_sent_events_are_read_in_unusual_spellings() -> None:
    """There are comments, other fields, empty events, and lines with CRLF. Text after ``[DONE]`` is ignored."""
    parts = [b": hello\n\n", b'data: {"a":\r\ndata:  1}\r\n\r\n', b"event: x\nid: 3\n", b'data:{"b":2}\n\n', b"\n\n"]
    body = STREAM + b"".join(parts) + b"data: [DONE]\n\nrubbish"

    async def respond(writer: asyncio.StreamWriter, raw: Raw) -> None:
        for byte in body:  # no line arrives in one piece
            writer.write(bytes([byte]))
            await asyncio.sleep(0)
        writer.close()

    async with raw_server(respond) as raw:
        assert await events_of(connection_to(raw.url)) == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((stream_chunk("a"),), "ended early"),
        ((b'{"choices": []}',), "ended early"),
        ((stream_chunk("a"), event(error={"message": "busy"})), "instead of a reply: busy. Try"),
        ((stream_chunk("a"), b"data: {half\n\n"), "JSONDecodeError"),
    ],
    ids=["ends early", "no events", "error", "not JSON"],
)
async def test_a_stream_without_a_complete_reply_is_a_retryable_error(parts: tuple[bytes, ...], message: str) -> None:
    async with raw_server(respond_with(STREAM, *parts, close=True)) as raw:
        error = await error_of(connection_to(raw.url), streamed=True)
        assert (error.kind, error.retryable, message in error.detail) == ("bad_response", True, True)


async def test_a_complete_reply_may_end_without_a_done_event() -> None:
    async with raw_server(respond_with(STREAM, stream_chunk("a"), stream_chunk("", "stop"), close=True)) as raw:
        assert len(await events_of(connection_to(raw.url))) == 2


async def test_a_stream_that_breaks_off_within_an_http_chunk_is_an_error() -> None:
    head = STREAM.replace(b"Connection: close", b"Transfer-Encoding: chunked")
    async with raw_server(respond_with(head, b"fff\r\n", stream_chunk("a"), close=True)) as raw:
        assert (await error_of(connection_to(raw.url), streamed=True)).kind == "bad_response"


# --- redirects, proxies, certificates ---------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_redirect_is_refused(status: int, streamed: bool) -> None:
    """The error shows the new address without its login and its query."""
    async with raw_server(respond_with(answer(REPLY))) as other:
        to = other.url.replace("//", "//user:word@") + "/v1?key=sk-secret"
        async with raw_server(respond_with(answer(status=f"{status} Moved", Location=to))) as raw:
            error = await error_of(connection_to(raw.url), streamed)
    assert (error.kind, error.retryable, other.heads) == ("bad_response", False, [])
    assert f"HTTP {status} to {other.url}/v1)" in error.detail


async def test_requests_go_through_the_configured_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with raw_server(respond_with(answer(REPLY))) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url.replace("//", "//me:word@"))
        assert await connection_to("http://models.test/v1").post(PATH, {}) == REPLY
        head = proxy.heads[0]
        assert head.startswith("POST http://models.test/v1/chat/completions ")
        assert "proxy-authorization: basic bwu6d29yza==" in head.lower()
        assert "authorization: bearer sk-x" in head.lower()


async def test_an_encrypted_request_asks_the_proxy_for_a_tunnel(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy does not see the key. If it refuses the tunnel, the endpoint counts as unreachable."""
    async with raw_server(respond_with(answer(status="502 No"), close=True)) as proxy:
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        error = await error_of(connection_to("https://models.test/v1"))
        assert (error.kind, proxy.heads[0].split(" HTTP")[0]) == ("unreachable", "CONNECT models.test:443")
        assert "sk-x" not in proxy.heads[0]


@pytest.mark.parametrize(
    ("url", "variables", "proxy"),
    [
        ("http://a.test/v1", {}, None),
        ("http://a.test/v1", {"HTTP_PROXY": "http://p:1"}, "http://p:1"),
        ("http://a.test/v1", {"HTTP_PROXY": "p:1"}, "http://p:1"),
        ("https://a.test/v1", {"HTTP_PROXY": "http://p:1"}, None),
        ("https://a.test/v1", {"https_proxy": "http://p:1", "ALL_PROXY": "http://q:1"}, "http://p:1"),
        ("https://a.test/v1", {"ALL_PROXY": "http://q:1"}, "http://q:1"),
        ("https://a.test/v1", {"ALL_PROXY": "http://q:1", "NO_PROXY": "a.test"}, None),
        ("https://x.a.test/v1", {"ALL_PROXY": "http://q:1", "NO_PROXY": "b, a.test"}, None),
        ("https://xa.test/v1", {"ALL_PROXY": "http://q:1", "NO_PROXY": "a.test"}, "http://q:1"),
        ("https://a.test/v1", {"ALL_PROXY": "http://q:1", "NO_PROXY": "*"}, None),
        ("http://10.0.0.9:80/v1", {"ALL_PROXY": "http://q:1", "NO_PROXY": "10.0.0.9"}, None),
        ("http://127.a.test/v1", {"ALL_PROXY": "http://q:1"}, "http://q:1"),
        *((f"http://{host}/v1", {"ALL_PROXY": "http://q:1"}, None) for host in ("localhost:1", "127.0.0.9", "[::1]:8")),
    ],
)
def test_the_proxy_of_an_address_comes_from_the_environment(
    url: str, variables: dict[str, str], proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert proxy_for(url) == proxy


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:9", "foo://p", "http://", "http://p:70000", "http://[::bad"])
def test_an_unusable_proxy_is_a_user_error(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(UserError, match=r"No HTTP client can be created .* Check the variables HTTP_PROXY"):
        connection_to("http://a.test/v1")


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
                assert await connection_to(raw.url).post(PATH, {}) == REPLY
            else:
                error = await error_of(connection_to(raw.url))
                assert (error.kind, "CERTIFICATE_VERIFY_FAILED" in error.detail) == ("unreachable", True)
            await close_clients()
    finally:
        tls.cache_clear()


# --- headers ----------------------------------------------------------------------------------------------------------


async def test_keys_and_configured_headers_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A login in the address is sent instead of the key."""
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-One: 1\nX-Two: a:b")
    async with raw_server(respond_with(answer(REPLY))) as raw:
        await connection_to(raw.url).post(PATH, {})
        await connection_to(raw.url.replace("//", "//me:w%40rd@")).post(PATH, {})
    first, second = (head.splitlines() for head in raw.heads)
    for sent in ("Authorization: Bearer sk-x", "OpenAI-Organization: org-1", "OpenAI-Project: proj-1"):
        assert sent in first
    assert {"X-One: 1", "X-Two: a:b", "Content-Type: application/json"} < set(first)
    assert [line for line in second if line.startswith("Authorization")] == ["Authorization: Basic bWU6d0ByZA=="]


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7.0), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0), ("soon", None), ("90000", 90000.0), ("1e300", 1e9)],
)
async def test_retry_after_is_read_as_seconds_or_a_date(header: str, seconds: float | None) -> None:
    """Any other text is ignored. A date in the past means 0 seconds, and a very long wait is shortened."""
    async with raw_server(respond_with(answer({"error": {"message": "busy"}}, "429 Busy", Retry_After=header))) as raw:
        error = await error_of(connection_to(raw.url))
    assert isinstance(error, WorldError)
    assert (error.kind, error.retry_after, ": busy)" in error.detail) == ("rate_limited", seconds, True)
