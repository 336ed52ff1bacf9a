"""Common parts of all web sources: requests, limits on answers, and errors."""

from __future__ import annotations

import asyncio
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sized
from dataclasses import dataclass, replace
from datetime import date, timedelta
from importlib.metadata import version
from typing import Any, Literal, TypeVar
from xml.etree import ElementTree

from moot.core.endpoint import (
    DEFAULT_LIMITS,
    Limits,
    check_address,
    create_once_in_thread,
    make_client,
    replaying,
)
from moot.core.errors import MootError, UserError, WorldError
from moot.core.lazy import imported
from moot.core.limiter import LONGEST_WAIT, limiter, with_retries
from moot.core.redaction import redact
from moot.core.refusals import retry_after_seconds
from moot.retrievers._evidence import Evidence, clean, make_evidence
from pydantic import ValidationError

T = TypeVar("T")
Kind = Literal[
    "authentication",
    "quota",
    "rate_limited",
    "server_error",
    "timeout",
    "unreachable",
    "bad_response",
    "search_refused",
]

LONGEST_ANSWER = 5_000_000
"""Maximum number of bytes of an answer."""
RETRYABLE = ("rate_limited", "server_error", "timeout", "unreachable")
TEXTS: dict[Kind, str] = {
    "authentication": "{name} refused the key{message}. Check {key}.",
    "quota": "The quota at {name} is used up{message}. Check the account's plan, or wait until the quota is renewed.",
    "rate_limited": "{name} is receiving too many searches{message}. Try again later.",
    "server_error": "{name} failed{message}. Try again later.",
    "timeout": "{name} did not answer in time. Try again, or raise the setting `timeout`.",
    "unreachable": "{name} could not be reached{message}. Check the network{and_address}.",
    "bad_response": "{name} sent an answer that cannot be read{message}. Check {address}.",
    "search_refused": "{name} did not accept the search{message}. Check the query and {address}.",
}


@dataclass(frozen=True)
class Source:
    """A web source: its name in errors, its usual address, and the environment variables that configure it.

    ``meanings`` lists the source's special statuses as triples: an HTTP status, a text in lower case, and the kind of
    error. A triple applies if the answer has the status and contains the text. The first triple that applies counts.
    """

    name: str
    base_url: str
    base_url_variable: str
    key_variable: str = ""
    contact_variable: str = ""
    meanings: tuple[tuple[int, str, Kind], ...] = ()

    def address(self) -> str:
        """The source's address. Only the environment can change it, because keys are sent to this address.

        Raises:
            UserError: the environment variable is not a web address.
        """
        base_url = os.environ.get(self.base_url_variable, "").strip() or self.base_url
        check_address(base_url, self.base_url_variable)
        return base_url.rstrip("/")

    def key(self) -> str:
        """The key; empty if it is not set. Raises a UserError as `header_text`."""
        return header_text(self.key_variable)

    def user_agent(self) -> str:
        """moot's User-Agent header. Blocking. Raises a UserError as `header_text`."""
        contact = header_text(self.contact_variable)
        return f"moot/{version('moot')}" + (f" ({contact})" if contact else "")

    def failure(self, kind: Kind, message: str = "", retry_after: float | None = None) -> MootError:
        """An error of this source with advice: a UserError for authentication and quotas, else a WorldError.

        The error includes ``message``, shortened and without keys; but the error for a timeout does not include it.
        """
        excerpt = redact(clean(message)[:2000])[:200]
        text = TEXTS[kind].format(
            name=self.name,
            message=f" ({excerpt})" if excerpt else "",
            key=self.key_variable or self.base_url_variable,
            address=self.base_url_variable,
            and_address=f" and {self.base_url_variable}" if os.environ.get(self.base_url_variable) else "",
        )
        if kind in ("authentication", "quota"):
            return UserError(text, kind=kind)
        return WorldError(text, kind=kind, retryable=kind in RETRYABLE, retry_after=retry_after)

    def check_empty(self, results: Sized, total: int, fault: object = None) -> None:
        """Raises an error if an answer has no results, but says that there are some, or that the search failed.

        Args:
            results: the answer's results.
            total: the number of results that the answer says there are.
            fault: the answer's error message, if it has one.
        """
        if not results and (total or fault):
            raise self.failure("server_error", str(fault or f"it counts {total} results, but sent none"))

    def refusal(self, status: int, message: str, retry_after: float | None = None) -> MootError:
        """The error for an answer with this HTTP status and message. For some sources, ``status`` may even be 200."""
        if 300 <= status < 400:
            return self.failure("bad_response", f"HTTP {status}: a redirect, and redirects are not followed")
        default_kind: Kind = "server_error" if status >= 500 else "search_refused"
        known: tuple[tuple[int, str, Kind], ...] = ((401, "", "authentication"), (429, "", "rate_limited"))
        kinds = (k for code, w, k in self.meanings + known if code == status and w in message.casefold())
        return self.failure(
            next(kinds, default_kind), f"HTTP {status}: {message}" if message else f"HTTP {status}", retry_after
        )

    def explain(self, error: Exception) -> MootError:
        """The MootError for a timeout, an error of httpx, or a ValueError during a request to the source."""
        httpx = imported("httpx")
        if isinstance(error, (TimeoutError, httpx.TimeoutException)):
            return self.failure("timeout")
        if isinstance(error, httpx.TransportError):
            return self.failure("unreachable", str(error) or type(error).__name__)
        if isinstance(error, ValidationError):
            first = error.errors()[0]
            return self.failure("bad_response", ": ".join([*(str(part) for part in first["loc"]), first["msg"]]))
        return self.failure("bad_response", str(error) if type(error) is ValueError else type(error).__name__)


def header_text(variable: str) -> str:
    """An environment variable's value, for a header; empty if the variable is not set, or if no variable is named.

    Raises:
        UserError: the value contains control characters, or characters that are not ASCII.
    """
    value = os.environ.get(variable, "").strip() if variable else ""
    if not (value.isascii() and value.isprintable()):
        raise UserError(
            f"{variable} contains characters that cannot be sent. Copy it again, without line breaks.",
            kind="invalid_environment",
        )
    return value


class KeyRedaction(logging.Filter):
    """Removes keys from httpx's logs. The logs contain addresses, and some sources accept a key only in the address."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Removes keys from the record's message. Always returns True, so no record is dropped."""
        record.msg, record.args = redact(record.getMessage()), ()
        return True


logging.getLogger("httpx").addFilter(KeyRedaction())


# --- requests -------------------------------------------------------------------------------------------------------


async def ask(
    source: Source,
    limits: Limits,
    read: Callable[[bytes], T],
    path: str,
    *,
    params: dict[str, str] | None = None,
    body: dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
) -> T:
    """Sends a request to a source, and parses the answer with ``read``.

    A request with a body is a POST; a request without a body is a GET.

    Raises:
        UserError: the source's configuration is invalid, its key was refused, or its quota is used up.
        WorldError: the source refused the search, failed, or sent an answer that cannot be read.
    """
    url, method = source.address() + path, "GET" if body is None else "POST"
    client = await open_client(source)

    async def call() -> T:
        return read((await client.request(method, url, params=params, json=body, headers=headers)).content)

    return await call_within_limits(source, limits, call)


async def call_within_limits(source: Source, limits: Limits, call: Callable[[], Awaitable[T]]) -> T:
    """The result of a call to a source, within the limits. HTTP errors, timeouts and ValueErrors become MootErrors.

    If the source refuses the call because of too many calls (``rate_limited``), the call is repeated for at most
    `LONGEST_WAIT` seconds, even if ``limits.max_wait`` is longer. A longer wait would keep a debate from searching
    another source.
    """
    httpx, address = imported("httpx"), source.address()

    async def attempt() -> T:
        try:
            async with asyncio.timeout(limits.timeout):
                return await call()
        except (TimeoutError, ValueError, httpx.HTTPError, httpx.InvalidURL) as error:
            raise source.explain(error) from error

    search_limits = replace(limits, max_wait=min(limits.max_wait, LONGEST_WAIT))
    result, _ = await with_retries(attempt, search_limits, limiter(address), source.name)
    return result


async def open_client(source: Source, check: Callable[[bytes], object] = bytes) -> Any:
    """The running loop's HTTP client for a source.

    The client raises an error if an answer is too long, if its status is not 200, or if ``check`` raises one. It does
    not follow redirects, so that an answer cannot make us call another address.

    Raises:
        UserError: an environment variable of the source is invalid; or as `make_client`.
    """
    base_url = source.address()

    def make() -> Any:
        agent = {"User-Agent": source.user_agent()}
        kind = checked_client(source, check)
        return make_client(kind, base_url, timeout=None, headers=agent)

    contact = os.environ.get(source.contact_variable, "")
    return await create_once_in_thread(("http for sources", source.name, base_url, source.key(), contact), make)


def checked_client(source: Source, check: Callable[[bytes], object]) -> Any:
    """An HTTP client class whose requests raise a MootError if an answer is too long, or its status is not 200.

    Otherwise, ``check`` is called with the answer's body. ``check`` may raise its own errors.
    """
    httpx = imported("httpx")
    base: Any = httpx.AsyncClient

    class CheckedClient(base):  # type: ignore[misc]
        async def send(self, request: Any, **options: Any) -> Any:
            response = await super().send(request, **options | {"stream": True})
            try:
                body = await read_body(source, response)
            finally:
                await response.aclose()
            if response.status_code != 200:
                wait = retry_after_seconds(response.headers.get("retry-after"))
                raise source.refusal(response.status_code, body[:2000].decode(errors="replace"), wait)
            check(body)
            return httpx.Response(200, content=body, request=request)

    return CheckedClient


async def read_body(source: Source, response: Any) -> bytes:
    """The answer's bytes. Raises a WorldError if the answer is longer than `LONGEST_ANSWER`."""
    body = bytearray()
    async for part in response.aiter_bytes():
        body += part
        if len(body) > LONGEST_ANSWER:
            raise source.failure("bad_response", f"it is longer than {LONGEST_ANSWER} bytes")
    return bytes(body)


def read_xml(body: bytes, root: str) -> ElementTree.Element:
    """The root element of an XML answer; ``root`` is the required name of this element.

    The parser fetches nothing external (https://docs.python.org/3/library/xml.html#xml-security). An answer that
    declares entities is refused, because entities could expand without limit.

    Raises:
        ValueError: the answer is not UTF-8, not XML, has another root, or declares entities.
    """
    text = body.decode()
    if "<!ENTITY" in text:
        raise ValueError("it declares entities")
    try:
        found = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ValueError(f"it is not XML: {error}") from error
    if found.tag != root:
        raise ValueError(f"its root is <{found.tag[:100]}>, not <{root}>")
    return found


def text_within(element: ElementTree.Element | None) -> str:
    """All text in an element in one line, without markup; empty for None."""
    return "" if element is None else " ".join("".join(element.itertext()).split())


# --- retrievers -----------------------------------------------------------------------------------------------------

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def month_number(name: str) -> int | None:
    """The number of the month (1 to 12) whose English name has the same first three letters; None for no month."""
    return next((n for n, month in enumerate(MONTHS, 1) if name[:3].casefold() == month), None)


@dataclass(frozen=True)
class WebResult:
    """A result of a web source. The text may be empty; `WebRetriever.search` leaves out results without text."""

    text: str
    title: str
    source: str
    url: str
    published: str | None = None
    score: float | None = None


class WebRetriever(ABC):
    """The base class of web sources.

    Args:
        limits: limits of the calls to the source.
        published_before: a day in ISO form. Sources that can filter by date leave out pieces published on this day or
            later. None for no filter.

    Raises:
        UserError: a required key is missing, an environment variable is invalid, or ``published_before`` is not a day.
    """

    name: str
    source: Source
    longest_query: int
    """Maximum number of characters of a query; the rest is cut off."""
    most_results: int
    """Maximum number of results of one search."""
    needs_key = False

    def __init__(self, limits: Limits = DEFAULT_LIMITS, published_before: str | None = None) -> None:
        self.source.address()
        if not self.source.key() and self.needs_key and not replaying.get():
            raise UserError(
                f"{self.source.key_variable} is not set, so {self.source.name} cannot be searched. Set it: "
                f"export {self.source.key_variable}=... Or search `wikipedia`, which needs no key.",
                kind="missing_key",
            )
        self.limits = limits
        self.last_day = day_before(published_before)

    async def search(self, query: str, k: int) -> list[Evidence]:
        """The source's first ``k`` results, without those that have no text. Empty for a blank query.

        There are at most `most_results` results.

        Raises:
            UserError, WorldError: as `ask`.
        """
        query = clean(query)[: self.longest_query].strip()
        if not query:
            return []
        rows = await self.find(query, min(k, self.most_results))
        return [make_evidence(**vars(row), query=query, retriever=self.name) for row in rows[:k] if clean(row.text)]

    @abstractmethod
    async def find(self, query: str, k: int) -> list[WebResult]:
        """The source's first ``k`` results, best first."""


def day_before(published_before: str | None) -> date | None:
    """The day before ``published_before``, which is a day in ISO form; None for None.

    Raises:
        UserError: ``published_before`` is not a day.
    """
    if published_before is None:
        return None
    try:
        return date.fromisoformat(published_before) - timedelta(days=1)
    except (ValueError, OverflowError) as error:
        raise UserError(
            f"published_before is {published_before[:100]!r}, which is not a day such as 2024-05-31.",
            kind="invalid_setting",
        ) from error
