"""Faulty HTTP responses over real sockets.

They are cut off, are not valid HTTP, or contain an error although their status is 200.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any

import pytest

from .raw import REPLY, STREAM, Raw, answer, event, raw_server, respond_with, stream_chunk
from .test_transport import connection_to, error_of


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 O", answer(REPLY)[:-9], STREAM + stream_chunk("a")])
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_reset_connection_is_a_retryable_error(sent: bytes, streamed: bool) -> None:
    async def respond(writer: asyncio.StreamWriter, raw: Raw) -> None:
        writer.write(sent)
        await writer.drain()
        no_linger = struct.pack("ii", 1, 0)  # with a linger time of 0 s, the connection is reset
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_linger)
        writer.transport.abort()

    async with raw_server(respond) as raw:
        error = await error_of(connection_to(raw.url), streamed)
    assert (error.kind in ("unreachable", "bad_response"), error.retryable) == (True, True)


@pytest.mark.parametrize(
    "sent",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\na",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 2**18,
    ],
)
async def test_a_response_that_is_not_valid_http_is_a_retryable_error(sent: bytes) -> None:
    async with raw_server(respond_with(sent, close=True)) as raw:
        error = await error_of(connection_to(raw.url))
    assert (error.kind, error.retryable, "\n" in error.detail) == ("bad_response", True, False)
    assert "it is not valid HTTP" in error.detail


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("error_body", "kind", "text"),
    [
        ({"message": "Busy."}, "bad_response", "instead of a reply: Busy. Try again later"),
        ("Busy", "bad_response", "instead of a reply: Busy. Try again later"),
        ({"message": "Busy.", "code": 429}, "rate_limited", "HTTP 429, retry after 7 s: Busy."),
        ({"message": "Busy.", "code": "502"}, "server_error", "HTTP 502: Busy."),
        ({"message": "No.", "code": 401}, "authentication", "refused the key"),
    ],
)
async def test_an_error_in_a_response_with_status_200_is_raised(
    error_body: Any, kind: str, text: str, streamed: bool
) -> None:
    """A code in the error counts like an HTTP status."""
    head = STREAM.replace(b"\r\n\r\n", b"\r\nRetry-After: 7\r\n\r\n")
    response = (head, event(error=error_body)) if streamed else (answer({"error": error_body}, Retry_After=7),)
    async with raw_server(respond_with(*response, close=streamed)) as raw:
        error = await error_of(connection_to(raw.url), streamed)
    assert (error.kind, text in error.detail) == (kind, True)
