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
    """A web source: its name in errors, its usual address, and the environment variables that configure it."""

    name: str
    base_url: str
    base_url_variable: str
    key_variable: str = ""
    contact_variable: str = ""
    # Special statuses: an HTTP status, a text in lower case in the answer, and the kind of error. The first that
    # applies counts.
    meanings: tuple[tuple[int, str, Kind], ...] = ()

    def address(self) -> str:
        """The source's address, which only the environment can change, because keys are sent to it."""
        base_url = os.environ.get(self.base_url_variable, "").strip() or self.base_url
        check_address(base_url, self.base_url_variable)
        return base_url.rstrip("/")

    def key(self) -> str:
        """The key; empty if it is not set."""
        return header_text(self.key_variable)

    def user_agent(self) -> str:
        """moot's User-Agent header; blocking."""
        contact = header_text(self.contact_variable)
        return f"moot/{version('moot')}" + (f" ({contact})" if contact else "")

    def failure(self, kind: Kind, message: str = "", retry_after: float | None = None) -> MootError:
        """An error of this source with advice: a UserError for authentication and quotas, else a WorldError."""
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
        """Raises an error if an answer has no results, but says that there are some, or that the search failed."""
        if not results and (total or fault):
            raise self.failure("server_error", str(fault or f"it counts {total} results, but sent none"))

    def refusal(self, status: int, message: str, retry_after: float | None = None) -> MootError:
        """The error for an answer with this HTTP status (for some sources even 200) and message."""
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
    """An environment variable's value, for a header; empty if the variable is not set, or if no variable is named."""
    value = os.environ.get(variable, "").strip() if variable else ""
    if not (value.isascii() and value.isprintable()):
        raise UserError(
            f"{variable} contains characters that cannot be sent. Copy it again, without line breaks.",
            kind="invalid_environment",
        )
    return value


class KeyRedaction(logging.Filter):
    """Removes keys from httpx's logs, which contain addresses: some sources accept a key only in the address."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Removes keys from the record's message; always returns True, so no record is dropped."""
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
    """Sends a request (a POST if it has a body, otherwise a GET) to a source, and parses the answer with ``read``."""
    url, method = source.address() + path, "GET" if body is None else "POST"
    client = await open_client(source)

    async def call() -> T:
        return read((await client.request(method, url, params=params, json=body, headers=headers)).content)

    return await call_within_limits(source, limits, call)


async def call_within_limits(source: Source, limits: Limits, call: Callable[[], Awaitable[T]]) -> T:
    """The result of a call to a source, within the limits; its errors become MootErrors."""
    httpx, address = imported("httpx"), source.address()

    async def attempt() -> T:
        try:
            async with asyncio.timeout(limits.timeout):
                return await call()
        except (TimeoutError, ValueError, httpx.HTTPError, httpx.InvalidURL) as error:
            raise source.explain(error) from error

    # A longer wait after a refusal (``rate_limited``) would keep a debate from searching another source.
    search_limits = replace(limits, max_wait=min(limits.max_wait, LONGEST_WAIT))
    result, _ = await with_retries(attempt, search_limits, limiter(address), source.name)
    return result


async def open_client(source: Source, check: Callable[[bytes], object] = bytes) -> Any:
    """The running loop's HTTP client for a source; see `checked_client`."""
    base_url = source.address()

    def make() -> Any:
        agent = {"User-Agent": source.user_agent()}
        kind = checked_client(source, check)
        return make_client(kind, base_url, timeout=None, headers=agent)

    contact = os.environ.get(source.contact_variable, "")
    return await create_once_in_thread(("http for sources", source.name, base_url, source.key(), contact), make)


def checked_client(source: Source, check: Callable[[bytes], object]) -> Any:
    """An HTTP client class that raises a MootError for an answer that is too long or has not the status 200."""
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
    """The answer's bytes; WorldError if the answer is longer than `LONGEST_ANSWER`."""
    body = bytearray()
    async for part in response.aiter_bytes():
        body += part
        if len(body) > LONGEST_ANSWER:
            raise source.failure("bad_response", f"it is longer than {LONGEST_ANSWER} bytes")
    return bytes(body)


def read_xml(body: bytes, root: str) -> ElementTree.Element:
    """The root element, named ``root``, of an XML answer; ValueError if it cannot be read."""
    text = body.decode()
    # The parser fetches nothing external (https://docs.python.org/3/library/xml.html#xml-security), but entities could
    # expand without limit.
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
    """A result of a web source, which `WebRetriever.search` leaves out if its text is empty."""

    text: str
    title: str
    source: str
    url: str
    published: str | None = None
    score: float | None = None


class WebRetriever(ABC):
    """The base class of web sources; some can leave out pieces from the day ``published_before`` (ISO) or later."""

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
        """The source's first ``k`` results (at most `most_results`), without those that have no text."""
        query = clean(query)[: self.longest_query].strip()
        if not query:
            return []
        rows = await self.find(query, min(k, self.most_results))
        return [make_evidence(**vars(row), query=query, retriever=self.name) for row in rows[:k] if clean(row.text)]

    @abstractmethod
    async def find(self, query: str, k: int) -> list[WebResult]:
        """The source's first ``k`` results, best first."""


def day_before(published_before: str | None) -> date | None:
    """The day before ``published_before``, a day in ISO form (else UserError); None for None."""
    if published_before is None:
        return None
    try:
        return date.fromisoformat(published_before) - timedelta(days=1)
    except (ValueError, OverflowError) as error:
        raise UserError(
            f"published_before is {published_before[:100]!r}, which is not a day such as 2024-05-31.",
            kind="invalid_setting",
        ) from error
