"""Endpoints of network calls: addresses, keys and limits, and the objects that belong to one event loop."""

from __future__ import annotations

import asyncio
import os
import re
import threading
import weakref
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from moot.core.errors import UserError
from moot.core.lazy import imported
from moot.core.redaction import redact

T = TypeVar("T")


@dataclass(frozen=True)
class Provider:
    """An OpenAI-compatible provider: its name, the variables that hold its address and key, and its usual address."""

    name: str
    base_url_variable: str
    key_variable: str
    base_url: str


PROVIDERS = {
    "openai": Provider("openai", "OPENAI_BASE_URL", "OPENAI_API_KEY", "https://api.openai.com/v1"),
    "ollama": Provider("ollama", "OLLAMA_BASE_URL", "OLLAMA_API_KEY", "http://127.0.0.1:11434/v1"),
    "vllm": Provider("vllm", "VLLM_BASE_URL", "VLLM_API_KEY", "http://127.0.0.1:8000/v1"),
}


@dataclass(frozen=True)
class Endpoint:
    """The address and key of an endpoint. ``key_variable`` is empty if the key is not read from the environment.

    ``api`` names the API if it is neither OpenAI's nor compatible with it.
    """

    base_url: str
    api_key: str
    key_variable: str = ""
    api: str = ""

    @property
    def shown(self) -> str:
        """The address without a user's name and password."""
        return without_user(self.base_url)


def without_user(url: str) -> str:
    """An address without a user's name and password."""
    return re.sub(r"//[^/@]*@", "//", url)


def find_endpoint(provider: str) -> Endpoint:
    """The endpoint of a provider, from the environment.

    Raises:
        UserError: the provider is unknown, or it is a hosted one and its key is missing.
    """
    known = PROVIDERS.get(provider)
    if known is None:
        raise UserError(
            f"The provider {provider!r} is unknown. Known: embedded, fake, {', '.join(PROVIDERS)}; any other "
            "OpenAI-compatible endpoint works as openai:NAME with OPENAI_BASE_URL set.",
            kind="unknown_provider",
        )
    base_url, key = os.environ.get(known.base_url_variable, ""), os.environ.get(known.key_variable, "")
    return _endpoint(known, base_url, key, needs_key=not replaying.get())


replaying: ContextVar[bool] = ContextVar("replaying", default=False)
"""Whether the debate is a replay: it sends no requests, so it needs no key."""


@lru_cache(maxsize=256)
def _endpoint(known: Provider, base_url: str, key: str, *, needs_key: bool) -> Endpoint:
    base_url, key = (base_url or known.base_url).strip(), key.strip()
    check_address(base_url, known.base_url_variable)
    if not (key.isascii() and key.isprintable()):
        raise UserError(
            f"{known.key_variable} holds characters that are not allowed in a key. Copy the key again, without line "
            "breaks.",
            kind="invalid_environment",
        )
    if needs_key and not key and base_url == PROVIDERS["openai"].base_url:
        raise UserError(
            f"{known.key_variable} is not set, so models of {known.name} cannot be called. Set it, or set "
            f"{known.base_url_variable} to your own endpoint, or use the model embedded:smollm2-135m.",
            kind="missing_key",
        )
    return Endpoint(base_url, key or "not-needed", known.key_variable)


def check_address(url: str, variable: str) -> None:
    """Raises an error if a URL is not a valid web address.

    Raises:
        UserError: no scheme, no host, or an invalid port.
    """
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fine = False
    if not fine:
        raise UserError(
            f"{variable} is {redact(without_user(url))[:200]!r}, which is not a web address. It looks like "
            "http://localhost:1234/v1.",
            kind="invalid_environment",
        )


def is_loopback(url: str) -> bool:
    """Whether the host of an address is this machine (loopback)."""
    host = urlsplit(url).hostname or ""
    return host == "localhost" or host.startswith("127.") or host == "::1"


@dataclass(frozen=True)
class Limits:
    """Limits of an endpoint: requests per call, seconds per request, concurrent calls and calls per minute.

    A request that is refused with HTTP 429 does not count as an attempt; a call is retried for at most ``max_wait``
    seconds.
    """

    attempts: int = 3
    timeout: float = 60.0
    max_concurrency: int = 16
    requests_per_minute: int | None = None
    max_wait: float = 600.0


DEFAULT_LIMITS = Limits()


# --- what belongs to an event loop ---------------------------------------------------------------------------------

_per_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Any, Any]] = WeakKeyDictionary()


class _Here(threading.local):
    """This thread's last event loop and its values: a cache, because each call reads them several times."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.loop: Callable[[], asyncio.AbstractEventLoop | None] = lambda: None
        self.values: dict[Any, Any] = {}


_here = _Here()


def _of_loop() -> dict[Any, Any]:
    """The values of the running event loop."""
    loop = asyncio.get_running_loop()
    if _here.loop() is not loop:
        _here.loop, _here.values = weakref.ref(loop), _per_loop.setdefault(loop, {})
    return _here.values


def once_per_loop(key: Any, make: Callable[[], T]) -> T:
    """The value under a key for the running event loop, created on first use.

    Clients and locks belong to the loop in which they were created: sharing them between loops ends in "Event loop is
    closed".
    """
    values = _of_loop()
    if key not in values:
        values[key] = make()
    found: T = values[key]
    return found


async def made_once(key: Any, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """As `once_per_loop`, with a coroutine that creates the value. Concurrent callers wait for it; errors are not
    cached.
    """
    values = _of_loop()

    def start() -> asyncio.Future[T]:
        task = asyncio.ensure_future(make())
        task.add_done_callback(keep_the_value)
        return task

    def keep_the_value(task: asyncio.Future[T]) -> None:
        if values.get(key) is not task:
            return
        del values[key]
        if not (task.cancelled() or task.exception()):  # not the task itself: its context would keep a debate alive
            once_per_loop(key, asyncio.Future).set_result(task.result())

    made = once_per_loop(key, start)
    return made.result() if made.done() else await asyncio.shield(made)


async def made_in_thread(key: Any, make: Callable[[], T]) -> T:
    """As `made_once`, with a blocking function that creates the value."""
    return await made_once(key, lambda: asyncio.to_thread(make))


@lru_cache(maxsize=1)
def tls() -> Any:
    """The TLS settings that all HTTP clients share, because loading the certificates is slow. Blocking."""
    import ssl

    return ssl.create_default_context()


def make_client(kind: Any, base_url: str, **options: Any) -> Any:
    """Creates an HTTP client of the given class. Blocking.

    The proxies in the environment are used, except for addresses of this machine.

    Raises:
        UserError: the environment names a proxy or certificates that cannot be used.
    """
    try:
        return kind(verify=tls(), trust_env=not is_loopback(base_url), **options)
    except (ImportError, ValueError, OSError) as error:
        raise no_client(error) from error


def no_client(error: Exception) -> UserError:
    """The error raised if no HTTP client can be created from the environment."""
    return UserError(
        f"No HTTP client can be created ({type(error).__name__}: {error}). Check the variables HTTP_PROXY, "
        "HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE.",
        kind="invalid_environment",
    )


async def http_client(timeout: float, base_url: str, model: str) -> Any:
    """The running loop's HTTP client for the openai SDK, which few calls use; ``timeout`` in seconds.

    Each model has its own connections, because a client searches all idle connections at every request.

    Raises:
        UserError: as `make_client`.
    """

    def make() -> Any:
        return make_client(imported("openai").DefaultAsyncHttpxClient, base_url, timeout=timeout)

    return await made_in_thread(("http", timeout, is_loopback(base_url), model), make)


def forget_loops(ended: bool = True) -> None:
    """Drops the values of event loops that ended without `close_clients`, or of all loops.

    Their sessions would otherwise warn that they were not closed.
    """
    _here.forget()
    for loop in [reference() for reference in _per_loop.keyrefs()]:
        if loop is not None and (loop.is_closed() or not ended):
            loop.set_exception_handler(lambda *_: None)
            _per_loop.pop(loop, None)


async def close_clients() -> None:
    """Closes the running loop's HTTP clients (keys that begin with "http"), so that none is open when the loop ends."""
    values = _per_loop.pop(asyncio.get_running_loop(), {})
    _here.forget()
    for key, value in [*values.items()]:  # a value whose creation fails meanwhile removes itself
        if key[0].startswith("http"):
            client = await value
            await (client.aclose() if hasattr(client, "aclose") else client.close())
