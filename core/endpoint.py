"""Endpoints of network calls: addresses, keys, limits and HTTP clients, and a cache of objects for each event loop."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import os
import re
from base64 import b64encode
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib.metadata import version
from ipaddress import ip_address
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit
from weakref import WeakKeyDictionary

from moot.core.errors import UserError
from moot.core.lazy import imported
from moot.core.redaction import redact
from moot.core.refusal_words import error_text

T = TypeVar("T")


@dataclass(frozen=True)
class Provider:
    """An OpenAI-compatible provider."""

    name: str
    title: str  # in messages
    base_url: str  # the default address
    example: str = "meta-llama/Llama-3.3-70B-Instruct"  # a model

    @property
    def base_url_variable(self) -> str:
        """The environment variable of the address."""
        return f"{self.name.upper()}_BASE_URL"

    @property
    def key_variable(self) -> str:
        """The environment variable of the key."""
        return f"{self.name.upper()}_API_KEY"


PROVIDERS = {
    provider.name: provider
    for provider in (
        Provider("openai", "OpenAI, or any compatible endpoint", "https://api.openai.com/v1", "gpt-4o-mini"),
        Provider("ollama", "Ollama", "http://127.0.0.1:11434/v1", "qwen3:8b"),
        Provider("lmstudio", "LM Studio", "http://127.0.0.1:1234/v1", "qwen/qwen3-8b"),
        Provider("llamacpp", "llama.cpp", "http://127.0.0.1:8080/v1"),
        Provider("vllm", "vLLM", "http://127.0.0.1:8000/v1"),
        Provider("jan", "Jan", "http://127.0.0.1:1337/v1"),
    )
}


@dataclass(frozen=True)
class Endpoint:
    """The address and the key of an endpoint."""

    base_url: str
    api_key: str
    key_variable: str = ""  # the environment variable of the key; empty if the key comes from elsewhere
    api: str = ""  # the API's name in messages; empty if the API is OpenAI's or compatible with it

    @property
    def is_ollama(self) -> bool:
        """Whether the endpoint is that of the provider ``ollama``."""
        return self.key_variable == PROVIDERS["ollama"].key_variable

    @property
    def display_url(self) -> str:
        """The address without a user's name and password."""
        return without_user(self.base_url)


def without_user(url: str) -> str:
    """A valid URL without a user's name and password."""
    return re.sub(r"//[^/?#]*@", "//", url)  # a password may contain @


def without_possible_user(url: str) -> str:
    """A URL, which may be invalid, without the text before its last @: a password may contain any character."""
    return re.sub(r"//.*@", "//", url, flags=re.DOTALL)


def find_endpoint(provider: str) -> Endpoint:
    """The endpoint of a provider, as the environment sets it up; UserError if it cannot be used."""
    found = PROVIDERS[provider]
    key = os.environ.get(found.key_variable, "").strip()
    base_url, variable = address_of(found)
    check_address(base_url, variable)
    if not (key.isascii() and key.isprintable()):
        raise UserError(
            f"{found.key_variable} contains characters that are not allowed in a key. Copy the key again, without "
            "line breaks.",
            kind="invalid_environment",
        )
    # Any other address may work without a key.
    if not key and base_url == PROVIDERS["openai"].base_url and not replaying.get():
        raise UserError(
            f"{found.key_variable} is not set, so models of {found.name} cannot be called. Set it: "
            f"export {found.key_variable}=... (for a server of your own, set {found.base_url_variable} instead).",
            kind="missing_key",
        )
    return Endpoint(base_url, key or "not-needed", found.key_variable)


OLLAMA_HOST = "OLLAMA_HOST"
"""Ollama's own variable of its server's address; ``OLLAMA_BASE_URL`` overrides it."""


def address_of(provider: Provider) -> tuple[str, str]:
    """A provider's address, and the environment variable that has it or may have it."""
    named = os.environ.get(variable := provider.base_url_variable, "").strip()
    if not named and provider.name == "ollama" and (host := os.environ.get(OLLAMA_HOST, "").strip()):
        return ollama_address(host), OLLAMA_HOST
    with contextlib.suppress(ValueError):  # `check_address` refuses it
        # Only for this machine: at any other address, a key would be sent without encryption.
        if "://" not in named and is_loopback(f"http://{named}"):
            named = f"http://{named}"
    return named or provider.base_url, variable


def ollama_address(host: str) -> str:
    """The address to call for a value of `OLLAMA_HOST`, which may lack the scheme, the host and the port."""
    try:
        parts = urlsplit(host if "://" in host else f"//{host}")
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 11434)
    except ValueError:
        return host  # `check_address` refuses it
    user, at, _ = parts.netloc.rpartition("@")
    name = parts.hostname or "127.0.0.1"
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(name, f"[{name}]" if ":" in name else name)
    return f"{parts.scheme or 'http'}://{user}{at}{name}:{port}{parts.path}"


replaying: ContextVar[bool] = ContextVar("replaying", default=False)
"""Whether the running debate is a replay. A replay sends no requests, so it needs no key."""


def check_address(url: str, variable: str) -> None:
    """Checks that a URL is a web address; ``variable`` is the environment variable with the URL."""
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise UserError(
            f"{variable} is {redact(without_possible_user(url))[:200]!r}, which is not a web address such as "
            "http://localhost:1234/v1. An address begins with http:// or https://.",
            kind="invalid_environment",
        )


def is_loopback(url: str) -> bool:
    """Whether an address is a loopback address of this machine; ValueError if it cannot be parsed."""
    host = urlsplit(url).hostname or ""
    with contextlib.suppress(ValueError):  # the host is a name
        return ip_address(host).is_loopback
    return host == "localhost" or bool(re.fullmatch(r"127(\.\d+){1,3}", host))  # also short forms such as 127.1


@dataclass(frozen=True)
class Limits:
    """Limits of the calls to an endpoint."""

    attempts: int = 3  # for each call; a request that is refused with HTTP 429 is not counted
    timeout: float = 60.0  # seconds for each attempt
    max_concurrency: int = 16
    requests_per_minute: int | None = None  # calls per minute; None: no limit
    max_wait: float = 600.0  # seconds for which a call is repeated after refusals with HTTP 429


DEFAULT_LIMITS = Limits()


# --- objects of an event loop ---------------------------------------------------------------------------------------

_per_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Any, Any]] = WeakKeyDictionary()


def _loop_values() -> dict[Any, Any]:
    """The values of the running event loop, by their keys."""
    return _per_loop.setdefault(asyncio.get_running_loop(), {})


def once_per_loop(key: Any, make: Callable[[], T]) -> T:
    """The value of a key in the running event loop, created on first use."""
    # Clients and locks, for example, work only in the event loop in which they were created.
    values = _loop_values()
    if key not in values:
        values[key] = make()
    found: T = values[key]
    return found


async def create_once(key: Any, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The same as `once_per_loop`, but a coroutine creates the value; if it fails, the next caller starts a new one."""
    values = _loop_values()

    def start() -> asyncio.Future[T]:
        task = asyncio.ensure_future(make())
        task.add_done_callback(store_value)
        return task

    def store_value(task: asyncio.Future[T]) -> None:
        if values.get(key) is not task:
            return
        del values[key]
        if not (task.cancelled() or task.exception()):
            # Only the result is stored, because the task would keep a debate in memory.
            once_per_loop(key, asyncio.Future).set_result(task.result())

    # The coroutine continues if a caller that waits for it is cancelled.
    future = once_per_loop(key, start)
    return future.result() if future.done() else await asyncio.shield(future)


async def create_once_in_thread(key: Any, make: Callable[[], T]) -> T:
    """The same as `create_once`, but a blocking function creates the value, in a thread."""
    return await create_once(key, lambda: asyncio.to_thread(make))


@lru_cache(maxsize=1)
def tls() -> Any:
    """The TLS settings of all HTTP clients, cached because loading the certificates is slow; blocking."""
    import ssl

    return ssl.create_default_context()


def header_text(variable: str) -> str:
    """An environment variable's value, for a header; empty if the variable is not set, or if no variable is named."""
    value = os.environ.get(variable, "").strip() if variable else ""
    if not (value.isascii() and value.isprintable()):
        raise UserError(
            f"{variable} contains characters that cannot be sent. Copy it again, without line breaks.",
            kind="invalid_environment",
        )
    return value


def user_agent(contact_variable: str) -> str:
    """moot's User-Agent header, with the contact of an environment variable if it is set; blocking."""
    contact = header_text(contact_variable)
    return f"moot/{version('moot')}" + (f" ({contact})" if contact else "")


def make_client(kind: Any, base_url: str, **options: Any) -> Any:
    """Creates an HTTP client that follows no redirects, and uses proxies except for this machine; blocking."""
    certificates = os.environ.get("SSL_CERT_FILE")
    try:
        if certificates and not base_url.startswith("http:") and not os.path.isfile(certificates):
            raise FileNotFoundError(f"SSL_CERT_FILE names {certificates}, which is not a file")
        return kind(
            verify=tls(), trust_env=not is_loopback(base_url), follow_redirects=False, cookies=no_cookies(), **options
        )
    except Exception as error:  # httpx's own errors have no common class
        raise client_error(error) from error


class ErrorInReply(Exception):  # noqa: N818 - named by what it reports
    """An answer with HTTP status 200 that is an error, or whose choice is one; ``body`` has the error's fields."""

    def __init__(self, body: Any) -> None:
        super().__init__("an error in a reply")
        self.body = body


class ArgumentsAsObjects(Exception):  # noqa: N818 - named by what it reports
    """A reply with calls of tools whose arguments are objects instead of texts; ``body`` is the corrected answer."""

    def __init__(self, body: Any) -> None:
        super().__init__("arguments that are objects")
        self.body = body


async def check_choice(response: Any) -> None:
    """A hook of HTTP clients: raises an exception for a reply that LangChain's clients ignore or cannot read.

    These are errors (`ErrorInReply`) and calls of tools in another form (`ArgumentsAsObjects`).
    """
    if response.status_code != 200 or not response.url.path.endswith("/chat/completions"):
        return
    if not response.headers.get("content-type", "").startswith("application/json"):
        return  # a stream
    await response.aread()
    try:
        body = response.json()
    except ValueError:
        return  # the client says why it cannot be read
    if not isinstance(body, dict):
        return
    choices, state = body.get("choices"), body.get("base_resp")
    if isinstance(state, dict) and state.get("status_code"):  # as MiniMax sends errors
        raise ErrorInReply(state)
    if not choices and error_text(body):
        raise ErrorInReply(body.get("error") or body)
    choice = choices[0] if choices and isinstance(choices, list) else None
    if not isinstance(choice, dict):
        return
    if choice.get("error"):
        raise ErrorInReply(choice["error"])
    if not choice.get("message") and choice.get("finish_reason"):  # as Google Gemini sends a reply that it blocked
        raise ErrorInReply({"message": f"no message; finish_reason {choice['finish_reason']}"})
    asked = (choice.get("message") or {}).get("tool_calls") or []
    functions = [call.get("function") for call in asked if isinstance(call, dict)]
    as_objects = [one for one in functions if isinstance(one, dict) and isinstance(one.get("arguments"), dict)]
    for one in as_objects:
        one["arguments"] = json.dumps(one["arguments"])
    if as_objects:
        raise ArgumentsAsObjects(body)


def causes_of(error: BaseException) -> list[BaseException]:
    """An exception and its causes, outermost first."""
    causes = [error]
    while (cause := causes[-1].__cause__) is not None and cause not in causes:
        causes.append(cause)
    return causes


def no_cookies() -> CookieJar:
    """A jar that keeps no cookie, because debates of several users may share a client."""
    return CookieJar(DefaultCookiePolicy(allowed_domains=[]))


def client_error(error: Exception) -> UserError:
    """The error if the environment's proxies or certificates cannot be used."""
    return UserError(
        f"No HTTP client can be created ({type(error).__name__}: {error}). Check the variables HTTP_PROXY, "
        "HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE.",
        kind="invalid_environment",
    )


def check_proxy(url: str) -> str | None:
    """The proxy which the environment names for an address, if any; UserError if it is not an HTTP proxy."""
    from urllib.request import getproxies, proxy_bypass

    proxies, parts = getproxies(), urlsplit(url)
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or is_loopback(url) or proxy_bypass(parts.netloc):
        return None
    try:
        found = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        if found.scheme not in ("http", "https") or not found.hostname or found.port == 0:
            # aiohttp would send HTTP to a SOCKS proxy.
            raise ValueError(f"{without_possible_user(proxy)} is not an HTTP proxy; other proxies are not supported")
    except ValueError as error:
        raise client_error(error) from error
    return found.geturl()


async def sdk_options(endpoint: Endpoint, timeout: float) -> dict[str, Any]:
    """The options of the openai SDK's asynchronous clients for an endpoint; the clients of a loop share connections."""
    for name in HEADER_VARIABLES:
        if not re.fullmatch(r"[\n\x20-\x7e]*", os.environ.get(name, "")):
            raise UserError(f"{name} contains a character that is not allowed in a header.", kind="invalid_environment")
    check_proxy(endpoint.base_url)
    parts = urlsplit(endpoint.base_url)
    # A user's name and password in the address are sent as a header instead of the key.
    login = ":".join(unquote(part or "") for part in (parts.username, parts.password))
    basic = {"Authorization": f"Basic {b64encode(login.encode()).decode()}"}

    async def make() -> Any:
        forget_loops()
        hooks = {"response": [check_choice]}
        return await asyncio.to_thread(
            lambda: make_client(imported("openai").DefaultAioHttpClient, endpoint.base_url, event_hooks=hooks)
        )

    return {
        "base_url": endpoint.display_url,
        "api_key": endpoint.api_key,
        "default_headers": basic if login != ":" else None,
        "timeout": timeout,
        "max_retries": 0,  # moot repeats failed calls itself
        "http_client": await create_once(("http", is_loopback(endpoint.base_url)), make),
    }


HEADER_VARIABLES = ("OPENAI_ORG_ID", "OPENAI_ORGANIZATION", "OPENAI_PROJECT_ID", "OPENAI_CUSTOM_HEADERS")
"""Environment variables that the openai SDK sends as headers."""


def forget_loops(ended: bool = True) -> None:
    """Drops the values of event loops that ended without `close_clients`; of all loops if ``ended`` is false."""
    for loop in [reference() for reference in _per_loop.keyrefs()]:
        if loop is not None and (loop.is_closed() or not ended):
            # Otherwise, each HTTP session that was not closed would cause a warning.
            loop.set_exception_handler(lambda *_: None)
            _per_loop.pop(loop, None)


async def close_clients() -> None:
    """Closes the HTTP clients of the running loop, and drops all its values; to be called before the loop ends."""
    values = _per_loop.pop(asyncio.get_running_loop(), {})
    # The key of a client is a tuple whose first element begins with "http".
    clients = [value for key, value in values.items() if key[0].startswith("http")]
    for client in await asyncio.gather(*clients, return_exceptions=True):
        if not isinstance(client, BaseException):  # otherwise the call that opened the client has raised this error
            await client.aclose()


atexit.register(forget_loops, ended=False)
