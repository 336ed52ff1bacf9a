"""What every call over the network shares: where it goes, how often it may, and what belongs to an event loop."""

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
    """Where calls go. ``key_variable`` is empty where no key is read from the environment.

    ``api`` says whose API it is, if it is not OpenAI's or one like it.
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
        UserError: the provider is unknown, or a hosted one has no key.
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
"""Whether a debate is replayed: nothing is sent then, so that no key is needed."""


@lru_cache(maxsize=256)
def _endpoint(known: Provider, base_url: str, key: str, *, needs_key: bool) -> Endpoint:
    base_url, key = (base_url or known.base_url).strip(), key.strip()
    check_address(base_url, known.base_url_variable)
    if not (key.isascii() and key.isprintable()):
        raise UserError(
            f"{known.key_variable} holds characters that no key has. Copy the key again, without line breaks.",
            kind="invalid_environment",
        )
    if needs_key and not key and base_url == PROVIDERS["openai"].base_url:
        raise UserError(
            f"{known.key_variable} is not set, so models of {known.name} cannot be called. Set it, or point "
            f"{known.base_url_variable} at an endpoint of your own, or use the model embedded:smollm2-135m.",
            kind="missing_key",
        )
    return Endpoint(base_url, key or "not-needed", known.key_variable)


def check_address(url: str, variable: str) -> None:
    """Refuses what is no web address.

    Raises:
        UserError: no scheme, no host, or a port that is none.
    """
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fine = False
    if not fine:
        raise UserError(
            f"{variable} is {redact(without_user(url))[:200]!r}, which is no web address. It looks like http://localhost:1234/v1.",
            kind="invalid_environment",
        )


def is_loopback(url: str) -> bool:
    """Whether an address is this machine's own."""
    host = urlsplit(url).hostname or ""
    return host == "localhost" or host.startswith("127.") or host == "::1"


@dataclass(frozen=True)
class Limits:
    """How an endpoint may be called: requests per call, seconds per request, calls at once and in a minute.

    A request that is refused as one too many is not counted; ``max_wait`` is for how many seconds a call is asked anew.
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
    """This thread's last loop with its values: each call asks for them several times."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.loop: Callable[[], asyncio.AbstractEventLoop | None] = lambda: None
        self.values: dict[Any, Any] = {}


_here = _Here()


def _of_loop() -> dict[Any, Any]:
    """The running loop's values."""
    loop = asyncio.get_running_loop()
    if _here.loop() is not loop:
        _here.loop, _here.values = weakref.ref(loop), _per_loop.setdefault(loop, {})
    return _here.values


def once_per_loop(key: Any, make: Callable[[], T]) -> T:
    """The value under a key for the running event loop, made when first asked for.

    Clients and locks belong to the loop that they were made in: sharing them between loops ends in
    "Event loop is closed".
    """
    values = _of_loop()
    if key not in values:
        values[key] = make()
    found: T = values[key]
    return found


async def made_once(key: Any, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """As `once_per_loop`, for what is made by awaiting; whoever asks meanwhile waits, and errors are not kept."""
    values = _of_loop()

    def start() -> asyncio.Future[T]:
        task = asyncio.ensure_future(make())
        task.add_done_callback(keep_the_value)
        return task

    def keep_the_value(task: asyncio.Future[T]) -> None:
        if values.get(key) is not task:
            return
        del values[key]
        if not (task.cancelled() or task.exception()):  # without the task, whose context would keep a debate alive
            once_per_loop(key, asyncio.Future).set_result(task.result())

    made = once_per_loop(key, start)
    return made.result() if made.done() else await asyncio.shield(made)


async def made_in_thread(key: Any, make: Callable[[], T]) -> T:
    """As `made_once`, for what blocks while it is made."""
    return await made_once(key, lambda: asyncio.to_thread(make))


@lru_cache(maxsize=1)
def tls() -> Any:
    """The TLS settings that all HTTP clients share: reading the certificates takes a while. Blocking."""
    import ssl

    return ssl.create_default_context()


def make_client(kind: Any, base_url: str, **options: Any) -> Any:
    """An HTTP client of that class. Blocking.

    Proxies of the environment are used, except for this machine's own addresses.

    Raises:
        UserError: the environment names a proxy or certificates that cannot be used.
    """
    try:
        return kind(verify=tls(), trust_env=not is_loopback(base_url), **options)
    except (ImportError, ValueError, OSError) as error:
        raise no_client(error) from error


def no_client(error: Exception) -> UserError:
    """The error for an environment that no HTTP client can be made in."""
    return UserError(
        f"No HTTP client can be made ({type(error).__name__}: {error}). Check the variables HTTP_PROXY, "
        "HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE.",
        kind="invalid_environment",
    )


async def http_client(timeout: float, base_url: str, model: str) -> Any:
    """The running loop's HTTP client for the openai SDK, which few calls go through; ``timeout`` in seconds.

    Each model has connections of its own: at every request a client looks through all that are idle.

    Raises:
        UserError: as `make_client`.
    """

    def make() -> Any:
        return make_client(imported("openai").DefaultAsyncHttpxClient, base_url, timeout=timeout)

    return await made_in_thread(("http", timeout, is_loopback(base_url), model), make)


def forget_loops(ended: bool = True) -> None:
    """Lets go of what was made for event loops: those that have ended without `close_clients`, or all.

    Their sessions would complain to them of having been left open.
    """
    _here.forget()
    for loop in [reference() for reference in _per_loop.keyrefs()]:
        if loop is not None and (loop.is_closed() or not ended):
            loop.set_exception_handler(lambda *_: None)
            _per_loop.pop(loop, None)


async def close_clients() -> None:
    """Closes the running loop's HTTP clients (keys that begin with "http"), so that a loop can end without any open."""
    values = _per_loop.pop(asyncio.get_running_loop(), {})
    _here.forget()
    for key, value in [*values.items()]:  # what fails to be made meanwhile takes itself away
        if key[0].startswith("http"):
            client = await value
            await (client.aclose() if hasattr(client, "aclose") else client.close())
