"""Common parts of all web sources: requests, limits on answers, and errors."""

from __future__ import annotations

import asyncio
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sized
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any, Literal, TypeVar
from xml.etree import ElementTree

from moot.core.endpoint import (
    DEFAULT_LIMITS,
    Limits,
    check_address,
    create_once_in_thread,
    header_text,
    make_client,
    replaying,
    user_agent,
)
from moot.core.errors import MootError, UserError, WorldError
from moot.core.lazy import imported
from moot.core.limiter import LONGEST_WAIT, limiter, with_retries
from moot.core.redaction import redact
from moot.core.refusals import retry_after_seconds
from moot.retrievers._evidence import Evidence, clean, make_evidence
from moot.retrievers._sites import ALL_SITES, Sites
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
    # What to do after a refusal with this HTTP status, in a sentence.
    remedies: tuple[tuple[int, str], ...] = ()
    # What ``{language}`` stands for in the address
    language: str = "en"

    def own_address(self) -> str:
        """The address in the environment; empty if it is not set."""
        return os.environ.get(self.base_url_variable, "").strip()

    def address(self) -> str:
        """The source's address, which only the environment can change, because keys are sent to it."""
        base_url = (self.own_address() or self.base_url).replace("{language}", self.language)
        check_address(base_url, self.base_url_variable)
        return base_url.rstrip("/")

    def key(self) -> str:
        """The key; empty if it is not set."""
        return header_text(self.key_variable)

    def user_agent(self) -> str:
        """moot's User-Agent header; blocking."""
        return user_agent(self.contact_variable)

    def failure(self, kind: Kind, message: str = "", retry_after: float | None = None, remedy: str = "") -> MootError:
        """An error of this source with advice: a UserError for authentication and quotas, else a WorldError."""
        excerpt = redact(clean(message)[:2000])[:200]
        text = TEXTS[kind].format(
            name=self.name,
            message=f" ({excerpt})" if excerpt else "",
            key=self.key_variable or self.base_url_variable,
            address=self.base_url_variable,
            and_address=f" and {self.base_url_variable}" if self.own_address() else "",
        )
        text = f"{text} {remedy}".rstrip()
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
        said = "" if message.lstrip().startswith("<") else message  # a page, which says no more than the status
        remedy = next((text for code, text in self.remedies if code == status), "")
        return self.failure(
            next(kinds, default_kind), f"HTTP {status}: {said}" if said else f"HTTP {status}", retry_after, remedy
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
    form: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
) -> T:
    """Sends a request (a POST with a body or a form, else a GET) to a source, and parses the answer with ``read``."""
    url, method = source.address() + path, "GET" if body is None and form is None else "POST"
    client = await open_client(source)

    async def call() -> T:
        return read((await client.request(method, url, params=params, json=body, data=form, headers=headers)).content)

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
    retracted: str | None = None
    fact_check: bool = False
    heading: str | None = None
    open_copy: str | None = None


class WebRetriever(ABC):
    """The base class of web sources; some can leave out pieces from the day ``published_before`` (ISO) or later."""

    name: str
    source: Source
    longest_query: int
    """Maximum number of characters of a query; the rest is cut off."""
    most_results: int
    """Maximum number of results of one search."""
    needs_key = False
    reads_operators = False
    """Whether a query may name sites (`Sites.as_operators`)."""
    gives_snippets = False
    """Whether the texts of results are a search engine's snippets of the pages at their addresses."""

    def __init__(
        self, limits: Limits = DEFAULT_LIMITS, published_before: str | None = None, sites: Sites = ALL_SITES
    ) -> None:
        if not self.is_set_up() and not replaying.get():
            raise self.not_set_up()
        if self.source.own_address():
            self.source.address()
        self.limits = limits
        self.last_day = day_before(published_before)
        self.sites = sites

    @classmethod
    def is_set_up(cls) -> bool:
        """Whether the source has what it needs before it can be searched."""
        return not cls.needs_key or bool(cls.source.key())

    @classmethod
    def not_set_up(cls) -> UserError:
        """The error that says what the source lacks; blocking."""
        variable = cls.source.key_variable
        return UserError(
            f"{variable} is not set, so {cls.source.name} cannot be searched. Set it: export {variable}=... Or search "
            "`wikipedia`, which needs no key.",
            kind="missing_key",
        )

    async def search(self, query: str, k: int) -> list[Evidence]:
        """The source's first ``k`` results (at most `most_results`), without those that have no text."""
        operators = f" {self.sites.as_operators()}".rstrip() if self.reads_operators else ""
        query = clean(query)[: max(1, self.longest_query - len(operators))].strip()
        if not query:
            return []
        rows = await self.find(query + operators, min(k, self.most_results))
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
