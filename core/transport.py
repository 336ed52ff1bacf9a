"""Sends requests to OpenAI-compatible endpoints, with a connection pool for each event loop.

The size of answers is limited. Failures are raised as MootErrors. This module follows no redirects and never retries;
`moot.core.limiter` retries.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from contextvars import Context
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any
from urllib.parse import unquote, urlsplit

from moot.core.endpoint import (
    Endpoint,
    client_error,
    create_once,
    forget_loops,
    is_loopback,
    tls,
    without_possible_user,
    without_user,
)
from moot.core.errors import MootError, UserError, WorldError
from moot.core.lazy import imported
from moot.core.refusals import broken_off, explain_error, explain_status, too_slow, unreachable, unreadable

LONGEST_REPLY = 16 * 2**20
"""Maximum number of bytes of a reply, decompressed."""
LONGEST_STREAM = 64 * 2**20
"""Maximum number of bytes of a streamed reply, decompressed. Each token takes about a hundred bytes of a stream."""
LONGEST_EVENT = 2**20
"""Maximum number of bytes of one event in a stream."""
LONGEST_REFUSAL = 2**20
"""Maximum number of bytes of an HTTP error's body that are read; the rest is ignored."""
STREAM_END_WAIT = 0.05
"""Seconds to wait for the end of a streamed reply after its last event."""
KEEP_ALIVE = 4.0
"""Seconds for which an idle connection stays open: many servers close idle connections after five."""


@dataclass(frozen=True)
class Connection:
    """Sends requests to a model of an OpenAI-compatible endpoint.

    Args:
        endpoint: the endpoint.
        model: the model's name in errors.
        url: the endpoint's address without a user's name and password.
        headers: sent with each request.
        proxy: the proxy's address; None for no proxy.
        timeout: seconds from a request to the last byte of its answer, streamed or not.
    """

    endpoint: Endpoint
    model: str
    url: str
    headers: Mapping[str, str]
    proxy: str | None
    timeout: float

    async def post(self, path: str, body: Mapping[str, Any], most: int = LONGEST_REPLY) -> Any:
        """Sends a request, and returns the JSON of the answer, which may have at most ``most`` bytes.

        Raises:
            UserError, WorldError: the endpoint cannot be reached, refuses the request or times out, or its answer is
                too long, not JSON, or an error.
            ReplyError: the endpoint's content filter refuses the prompt.
            TypeError, ValueError: as `dumps`.
        """
        async with self._answer(path, body) as answer:
            try:
                content = await self._read(answer, most)
            except imported("aiohttp").ClientError as error:
                raise self._unreachable(error) from error
        try:
            reply = loads(content)
        except ValueError as error:
            why = type(error).__name__ if answer.content_type.endswith("json") else "ValueError"
            raise unreadable(self.endpoint, self.model, why) from error
        if isinstance(reply, dict) and reply.get("error"):
            raise explain_error(reply["error"], answer.headers, self.endpoint, self.model)
        return reply

    async def stream(self, path: str, body: Mapping[str, Any]) -> AsyncIterator[Any]:
        """Sends a request, and yields the JSON of each server-sent event in the answer, up to ``[DONE]``.

        An answer may end without ``[DONE]`` if an event has marked the end of the reply (`has_finished`).

        Raises:
            UserError, WorldError: as `post`; or an event is too long, not JSON, or an error, or the answer ends early.
            ReplyError, TypeError, ValueError: as `post`.
        """
        loop = asyncio.get_running_loop()
        deadline, total, begun, finished = loop.time() + self.timeout, 0, False, False
        rest = b""
        data: list[bytes] = []
        async with self._answer(path, body) as answer:
            try:
                async for part in answer.content.iter_any():
                    total += len(part)
                    *lines, rest = (rest + part).split(b"\n")
                    for line in lines:
                        if line.startswith(b"data:"):
                            data.append(line[5:])
                        elif data and not line.strip():
                            if data[0].strip() == b"[DONE]":
                                await drain(answer)
                                return
                            event = self._event(b"\n".join(data), answer.headers, begun)
                            begun = True
                            finished = finished or has_finished(event)
                            yield event
                            data.clear()
                    if total > LONGEST_STREAM or len(rest) + sum(map(len, data)) > LONGEST_EVENT:
                        raise self._too_long(LONGEST_EVENT if total <= LONGEST_STREAM else LONGEST_STREAM)
                    # Decompressed events may all be ready at once. Without this pause, other tasks would not run.
                    await asyncio.sleep(0)
                    if loop.time() > deadline:
                        raise TimeoutError
            except imported("aiohttp").ClientError as error:
                raise unreadable(self.endpoint, self.model, type(error).__name__) from error
        if not finished:
            streamed = answer.content_type == "text/event-stream"
            raise unreadable(self.endpoint, self.model, "it ended early" if streamed else "ValueError")

    def _unreachable(self, error: Exception) -> WorldError:
        """The error for a request that got no complete answer."""
        aiohttp = imported("aiohttp")
        if isinstance(error, aiohttp.ClientPayloadError):
            return broken_off(self.endpoint)
        connected = not isinstance(error, aiohttp.ClientConnectorError | aiohttp.ClientHttpProxyError)
        if self.proxy:
            error = ConnectionError(f"through the proxy {without_user(self.proxy)}: {error.__cause__ or error}")
        elif isinstance(error, aiohttp.ClientResponseError):
            return unreadable(
                self.endpoint, self.model, f"it is not valid HTTP: {' '.join(error.message.split())[:100]}"
            )
        return unreachable(self.endpoint, error, may_cost=connected)

    def _event(self, data: bytes, headers: Any, begun: bool) -> Any:
        """The JSON of an event; raises a MootError if it is an error. ``begun``: whether an event came before it."""
        try:
            event = loads(data)
        except ValueError as error:
            raise unreadable(self.endpoint, self.model, type(error).__name__) from error
        if isinstance(event, dict) and event.get("error"):
            raise explain_error(event["error"], headers, self.endpoint, self.model, begun=begun)
        return event

    @asynccontextmanager
    async def _answer(self, path: str, body: Mapping[str, Any]) -> AsyncIterator[Any]:
        """Context manager: sends a request, and yields its answer. An unsuccessful status is raised as an error.

        At the end the connection is closed, unless the whole answer has been read.
        """
        aiohttp = imported("aiohttp")
        session = await open_session()
        # Two turns of the event loop, so that it notices if the server has closed idle connections.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        try:
            try:
                answer = await session.post(
                    self.url + path,
                    data=dumps(body),
                    headers=self.headers,
                    proxy=self.proxy,
                    timeout=aiohttp.ClientTimeout(self.timeout),
                    allow_redirects=False,
                )
            except TimeoutError:
                raise
            except (aiohttp.ClientError, OSError) as error:
                raise self._unreachable(error) from error
            async with answer:
                if not 200 <= answer.status < 300:
                    raise await self._refusal(answer)
                yield answer
        except TimeoutError as error:
            raise too_slow(self.endpoint, self.model) from error

    async def _refusal(self, answer: Any) -> MootError:
        """The error for an answer with an unsuccessful status."""
        if answer.status < 400:
            to = without_user(answer.headers.get("location", "nowhere").partition("?")[0])[:200]
            return WorldError(
                f"{self.endpoint.display_url} answered with a redirect (HTTP {answer.status} to {to}), and redirects "
                "are not followed. Check the address; the new address may be right.",
                kind="bad_response",
            )
        content = b""
        try:
            content = await self._read(answer, LONGEST_REFUSAL, truncate=True)
            body = loads(content)
        except imported("aiohttp").ClientError as error:
            return self._unreachable(error)
        except ValueError:
            body = content.decode(errors="replace").strip()
        body = body.get("error", body) if isinstance(body, dict) else body
        return explain_status(answer.status, answer.headers, body, self.endpoint, self.model)

    async def _read(self, answer: Any, most: int, truncate: bool = False) -> bytes:
        """The bytes of an answer, decompressed.

        If there are more than ``most`` bytes, this method raises an error or, if ``truncate`` is true, stops reading.
        """
        parts, size = [], 0
        async for part in answer.content.iter_any():
            parts.append(part)
            size += len(part)
            if size > most:
                if truncate:
                    break
                raise self._too_long(most)
        return b"".join(parts)

    def _too_long(self, most: int) -> WorldError:
        return unreadable(self.endpoint, self.model, f"it is longer than {most // 2**20} MiB", retryable=False)


def open_connection(endpoint: Endpoint, model: str, timeout: float) -> Connection:
    """Makes a connection to a model of an endpoint, with the environment's proxy and headers. Blocking.

    Raises:
        UserError: a proxy, certificates or headers in the environment cannot be used.
    """
    parts = urlsplit(endpoint.base_url)
    login = ":".join(unquote(part or "") for part in (parts.username, parts.password))
    basic = f"Basic {b64encode(login.encode()).decode()}"
    headers = {
        "Authorization": f"Bearer {endpoint.api_key}" if login == ":" else basic,
        "Accept": "application/json",
        "Content-Type": "application/json",
        "User-Agent": f"moot/{version('moot')}",
        "OpenAI-Organization": os.environ.get("OPENAI_ORG_ID") or os.environ.get("OPENAI_ORGANIZATION") or "",
        "OpenAI-Project": os.environ.get("OPENAI_PROJECT_ID") or "",
    }
    for line in os.environ.get("OPENAI_CUSTOM_HEADERS", "").splitlines():
        name, colon, value = line.partition(":")
        headers |= {name.strip(): value.strip()} if colon else {}
    sent = {name: value.strip() for name, value in headers.items() if value}
    if not all(value.isprintable() for value in sent.values()):
        raise UserError(
            "OPENAI_ORG_ID, OPENAI_ORGANIZATION, OPENAI_PROJECT_ID or OPENAI_CUSTOM_HEADERS contains a character that "
            "is not allowed in a header.",
            kind="invalid_environment",
        )
    url = without_user(endpoint.base_url).rstrip("/")
    certificates = os.environ.get("SSL_CERT_FILE")
    if certificates and url.startswith("https:") and not os.path.isfile(certificates):
        raise client_error(FileNotFoundError(f"SSL_CERT_FILE names {certificates}, which is not a file"))
    return Connection(endpoint, model, url, sent, proxy_for(url), timeout)


def proxy_for(url: str) -> str | None:
    """The proxy that the environment names for an address; None if it names none.

    Loopback addresses and the addresses in ``NO_PROXY`` have no proxy.

    Raises:
        UserError: the proxy is not an HTTP proxy.
    """
    from urllib.request import getproxies, proxy_bypass

    proxies, parts = getproxies(), urlsplit(url)
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or is_loopback(url) or proxy_bypass(parts.netloc):
        return None
    address = proxy if "://" in proxy else f"http://{proxy}"
    try:
        found = urlsplit(address)
        if found.scheme not in ("http", "https") or not found.hostname or found.port == 0:
            raise ValueError(f"{without_possible_user(address)} is not an HTTP proxy; other proxies are not supported")
    except ValueError as error:
        raise client_error(error) from error
    return address


async def drain(answer: Any) -> None:
    """Reads the rest of an answer after its last event, so that the connection can be used again.

    This stops after `STREAM_END_WAIT` seconds, even if the endpoint has not ended the answer.
    """
    with suppress(TimeoutError, imported("aiohttp").ClientError):
        async with asyncio.timeout(STREAM_END_WAIT):
            async for _ in answer.content.iter_any():
                pass


def has_finished(event: Any) -> bool:
    """Whether a chunk of a streamed reply marks the end of the reply."""
    choices = event.get("choices") if isinstance(event, dict) else None
    return isinstance(choices, list) and any(isinstance(c, dict) and c.get("finish_reason") for c in choices)


# --- one session per event loop -------------------------------------------------------------------------------------

SESSION = ("http session",)


async def open_session() -> Any:
    """The running loop's HTTP session, created on first use. Requests to all endpoints share it."""

    async def make() -> Any:
        forget_loops()
        aiohttp, context = await asyncio.to_thread(lambda: (imported("aiohttp"), tls()))

        class Connector(aiohttp.TCPConnector):  # type: ignore[name-defined,misc]
            """Opens connections in an empty context. In a debate's context, they would keep the debate in memory."""

            async def _create_connection(self, *args: Any) -> Any:
                return await asyncio.create_task(super()._create_connection(*args), context=Context())

        return aiohttp.ClientSession(
            connector=Connector(limit=0, ssl=context, keepalive_timeout=KEEP_ALIVE, ttl_dns_cache=60),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(),
            max_line_size=2**16,
            max_field_size=2**16,
        )

    return await create_once(SESSION, make)


atexit.register(forget_loops, ended=False)

# --- JSON -----------------------------------------------------------------------------------------------------------


def dumps(body: Mapping[str, Any]) -> bytes:
    """Writes a value as JSON, such as the body of a request.

    Raises:
        TypeError: a part of the value, or a key, cannot be written as JSON.
        ValueError: the value contains itself.
    """
    orjson = imported("orjson")
    try:
        content: bytes = orjson.dumps(body)
    except TypeError:  # a lone surrogate, an integer of more than 64 bits, or a key that is not a text
        return json.dumps(body).encode()
    return content


def loads(content: bytes | str) -> Any:
    """Parses a JSON text, such as an answer.

    Raises:
        ValueError: the text is not JSON, or is nested too deeply.
    """
    try:
        return imported("orjson").loads(content)
    except ValueError:  # the text may contain a lone surrogate, or NaN
        try:
            return json.loads(content)
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error
