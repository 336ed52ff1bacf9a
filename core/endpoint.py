"""What every call over the network shares: where it goes, how its errors read, the retry loop, the limiter.

Chat models and embeddings of every OpenAI-compatible endpoint go through here; web sources share the retry loop.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from aiolimiter import AsyncLimiter  # not later: it reads a file when first imported, which must not block a loop
from moot.core.errors import MootError, ReplyError, UserError, WorldError
from moot.core.lazy import imported
from moot.core.redaction import redact

T = TypeVar("T")

LONGEST_WAIT = 60.0
"""Seconds that we wait at most because an endpoint asked for it; beyond that the call fails and says so."""


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
    """Where calls go. ``key_variable`` is empty where no key is read from the environment."""

    base_url: str
    api_key: str
    key_variable: str = ""

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
    return _endpoint(known, os.environ.get(known.base_url_variable, ""), os.environ.get(known.key_variable, ""))


@lru_cache(maxsize=256)
def _endpoint(known: Provider, base_url: str, key: str) -> Endpoint:
    base_url, key = (base_url or known.base_url).strip(), key.strip()
    check_address(base_url, known.base_url_variable)
    if not (key.isascii() and key.isprintable()):
        raise UserError(
            f"{known.key_variable} holds characters that no key has. Copy the key again, without line breaks.",
            kind="invalid_environment",
        )
    if not key and base_url == PROVIDERS["openai"].base_url:
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
    """How an endpoint may be called: requests per call, seconds per request, calls at once and in a minute."""

    attempts: int = 3
    timeout: float = 60.0
    max_concurrency: int = 16
    requests_per_minute: int | None = None


DEFAULT_LIMITS = Limits()


# --- errors ---------------------------------------------------------------------------------------------------------


def retry_after_seconds(value: str | None) -> float | None:
    """Seconds from a Retry-After header (a number, or an HTTP date); None where there is none that can be read."""
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            moment = parsedate_to_datetime(value)
        except (ValueError, OverflowError):  # the latter: a year or an offset of many digits
            return None
        zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)  # "-0000" means UTC of an unknown place
        seconds = (zoned - datetime.now(UTC)).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else None


def explain(error: Exception, endpoint: Endpoint, model: str) -> MootError:
    """An exception of the OpenAI client, as an error of ours that says what to do."""
    openai = imported("openai")
    if isinstance(error, openai.APITimeoutError):
        return too_slow(endpoint, model)
    if isinstance(error, openai.APIConnectionError):
        return unreachable(endpoint, error)
    if isinstance(error, openai.APIStatusError):
        return explain_status(error.status_code, error.response.headers, error.body, endpoint, model)
    return unreadable(endpoint, model, type(error).__name__)


def too_slow(endpoint: Endpoint, model: str) -> WorldError:
    """The error for a request that took longer than it may."""
    return WorldError(
        f"{endpoint.shown} did not answer for {model} in time. Try again, or raise the setting `timeout`.",
        kind="timeout",
        retryable=True,
    )


def unreachable(endpoint: Endpoint, error: Exception) -> WorldError:
    """The error for a request that got no answer, or not the whole of it."""
    return WorldError(
        f"{endpoint.shown} could not be reached ({error.__cause__ or error}). "
        "Check the address and that the server runs.",
        kind="unreachable",
        retryable=True,
    )


def unreadable(endpoint: Endpoint, model: str, why: str, retryable: bool = True) -> WorldError:
    """The error for an answer that is not what an OpenAI-compatible API gives."""
    return WorldError(
        f"{endpoint.shown} sent an answer for {model} that cannot be read ({why}). "
        "Check that the address is an OpenAI-compatible API (it usually ends in /v1).",
        kind="bad_response",
        retryable=retryable,
    )


def explain_status(status: int, headers: Any, body: Any, endpoint: Endpoint, model: str) -> MootError:
    """An HTTP error of an endpoint, as an error of ours that says what to do."""
    at, said = endpoint.shown, said_by(body)
    code = str(body.get("code") or "") if isinstance(body, dict) else ""
    if status in (401, 403):
        mend = f"Check {endpoint.key_variable}." if endpoint.key_variable else "Check its key."
        return UserError(f"{at} refused the key for {model} (HTTP {status}{said}). {mend}", kind="authentication")
    if status == 404:
        return UserError(
            f"{at} does not know the model {model} (HTTP 404{said}). Check its name and the address.",
            kind="unknown_model",
        )
    words = f"{code} {said}".casefold()
    if status in (400, 413, 422) and any(w in words for w in ("context", "too long", "too large", "maximum length")):
        return UserError(
            f"{at} finds the prompt for {model} too long (HTTP {status}{said}). Use a model that reads more, a smaller "
            "`k`, or shorter passages.",
            kind="too_long",
        )
    if status in (400, 422) and "content_filter" in words:
        return ReplyError(f"{at} refused the prompt for {model} (HTTP {status}{said}).", "refused")
    if status == 429 and code == "insufficient_quota":
        return UserError(f"The quota at {at} is used up (HTTP 429{said}). Check the account's billing.", kind="quota")
    if status == 429:
        wait = retry_after_seconds(headers.get("retry-after"))
        asked = "" if wait is None else f", asking for {wait:.0f} s of patience"
        return WorldError(
            f"{at} is receiving too many requests for {model} (HTTP 429{asked}{said}). "
            "Try again later, or lower `max_concurrency` or `requests_per_minute`.",
            kind="rate_limited",
            retryable=True,
            retry_after=wait,
        )
    if status in (408, 409) or status >= 500:
        return WorldError(
            f"{at} failed while answering for {model} (HTTP {status}{said}). Try again later.",
            kind="server_error",
            retryable=True,
            retry_after=retry_after_seconds(headers.get("retry-after")),
        )
    return UserError(
        f"{at} did not accept the request for {model} (HTTP {status}{said}). The model may not support a setting: "
        "try another `structured_output`, `temperature` null, or fewer `max_tokens`.",
        kind="bad_request",
    )


OF_LLAMA_CPP = ("n_prompt_tokens", "n_ctx")
"""Figures beside the message, where llama.cpp refuses a prompt for its length."""


def said_by(body: Any) -> str:
    """The endpoint's own words, cut to what fits a sentence."""
    message = body.get("message") if isinstance(body, dict) else body
    counted = (
        [f"{key} {body[key]}" for key in OF_LLAMA_CPP if type(body.get(key)) is int] if isinstance(body, dict) else []
    )
    return f": {'; '.join([redact(str(message))[:200], *counted])}" if message else ""


# --- one retry loop -------------------------------------------------------------------------------------------------


async def with_retries(call: Callable[[], Awaitable[T]], attempts: int) -> tuple[T, int]:
    """Runs a call until it succeeds, fails for good, or ``attempts`` are used; waits as long as the other side asks.

    A call whose other side asks for more than `LONGEST_WAIT` seconds is not tried again.

    Returns:
        The call's result, and the number of attempts that it took.

    Raises:
        MootError: the last attempt's error, with ``attempts`` set.
    """
    try:
        return await call(), 1
    except MootError as error:
        first = error
    from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, wait_random_exponential

    backoff = wait_random_exponential(multiplier=0.5, max=8)

    def wait(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = error.retry_after if isinstance(error, MootError) else None
        return asked if asked is not None else backoff(state)

    def worth_it(error: BaseException) -> bool:
        return isinstance(error, MootError) and error.retryable and (error.retry_after or 0.0) <= LONGEST_WAIT

    retrying = AsyncRetrying(
        retry=retry_if_exception(worth_it),
        stop=stop_after_attempt(attempts),
        wait=wait,
        reraise=True,
    )
    used = 0
    try:
        async for attempt in retrying:
            with attempt:
                used = attempt.retry_state.attempt_number
                if used == 1:  # it was made above, as most calls need no loop, and making one takes time
                    raise first
                result = await call()
    except MootError as error:
        error.attempts = used
        raise
    return result, used


# --- one limiter per endpoint ---------------------------------------------------------------------------------------


class Limiter:
    """Calls to one endpoint, however many debates make them: so many at once, and so many a minute where that is set.

    Each caller brings its own limits, and calls start in the order in which they came: one that may not start yet, as
    its caller allows fewer at once, is not overtaken. Calls of a minute are spaced evenly, and callers of one rate
    share it.
    """

    def __init__(self) -> None:
        self._running = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._rates: dict[int, AsyncLimiter] = {}

    @asynccontextmanager
    async def slot(self, limits: Limits) -> AsyncIterator[None]:
        """A place for one call."""
        await self._enter(limits.max_concurrency)
        try:
            if asked := limits.requests_per_minute:
                await self._rates.setdefault(asked, AsyncLimiter(1, 60 / asked)).acquire()
            yield
        finally:
            self._leave()

    async def _enter(self, most: int) -> None:
        if self._running < most and not self._waiting:
            self._running += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((most, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._start_waiting()  # if it was the first, others may start now
            else:
                self._leave()
            raise

    def _leave(self) -> None:
        self._running -= 1
        self._start_waiting()

    def _start_waiting(self) -> None:
        while self._waiting:
            most, turn = self._waiting[0]
            if not turn.cancelled():
                if self._running >= most:
                    return
                self._running += 1
                turn.set_result(None)
            self._waiting.popleft()


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
        task.add_done_callback(forget_failure)
        return task

    def forget_failure(task: asyncio.Future[T]) -> None:
        if (task.cancelled() or task.exception()) and values.get(key) is task:
            del values[key]

    made = once_per_loop(key, start)
    return made.result() if made.done() else await asyncio.shield(made)


async def made_in_thread(key: Any, make: Callable[[], T]) -> T:
    """As `made_once`, for what blocks while it is made."""
    return await made_once(key, lambda: asyncio.to_thread(make))


def limiter(base_url: str) -> Limiter:
    """The limiter that all calls to one endpoint share in the running event loop."""
    return once_per_loop(("limiter", base_url), Limiter)


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
    for key, value in values.items():
        if key[0].startswith("http"):
            client = await value
            await (client.aclose() if hasattr(client, "aclose") else client.close())
