"""Fetches pages and files from addresses that users give, without access to private networks.

The IP address of each connection is checked before the connection is made, also after each redirect. So neither the
spelling of an address nor a host name that is looked up again can lead into a private network.
"""

from __future__ import annotations

import asyncio
import codecs
import hashlib
import json
import os
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from html.parser import HTMLParser
from http.client import responses
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit
from urllib.request import getproxies

from moot.core.endpoint import client_error, tls, user_agent
from moot.core.errors import MootError, UserError, WorldError
from moot.core.files import storage_error, write_atomically
from moot.core.home import moot_home, private_folder
from moot.core.lazy import imported
from moot.retrievers._documents.charsets import decode, is_refuted
from moot.retrievers._documents.parsed import UnreadableDocument

HOSTS = "MOOT_FETCH_HOSTS"
"""The environment variable with hosts in private networks that may be fetched, separated by commas."""
LARGEST = 50 * 2**20
"""The maximum size of a decompressed answer, in bytes."""
CONTACT = "MOOT_FETCH_CONTACT"
"""The environment variable with an address for the operators of websites, which every request names."""
SECONDS = 60.0
"""Time limit of a fetch in seconds, from the first connection to the last byte."""
REDIRECTS = 5
"""The maximum number of redirects."""
REFRESH = re.compile(r"\s*\d(?:\.\d*)?\s*[;,]\s*(?:url\s*=)?\s*[\"']?([^\"']+)[\"']?\s*", re.IGNORECASE)
"""What a page says that goes on to another address by itself: after how many seconds, and where."""
REFRESH_WITHIN = 8192
"""The number of bytes at the beginning of a page in which this is looked for: such pages are short."""
TEXTS = (".html", ".csv", ".md", ".txt", ".jsonl")
"""Suffixes of text files. `in_utf8` may convert their texts."""
NAT64 = IPv6Network("64:ff9b::/96")
"""IPv6 addresses of NAT64. Their last four bytes are an IPv4 address, which may be private."""
UNICAST = IPv6Network("2000::/3")
"""All public IPv6 addresses, apart from those that contain an IPv4 address (RFC 4291)."""
SUFFIXES = {
    "application/pdf": ".pdf",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ".docx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ".xlsx",
    "application/xhtml+xml": ".html",
    "text/html": ".html",
    "text/csv": ".csv",
    "text/markdown": ".md",
    "text/plain": ".txt",
    "application/jsonl": ".jsonl",
    "application/x-ndjson": ".jsonl",
}
"""The suffix of the stored file, by the media type of the answer."""


@dataclass(frozen=True)
class FetchedDocument:
    """The result of a fetch."""

    url: str  # as the user gave it
    from_url: str  # that answered, after redirects
    retrieved: str  # the time in ISO form, UTC
    kind: str  # the media type
    sha256: str  # of the answer's bytes, in hexadecimal
    file: Path  # with these bytes
    text: Path  # converted to UTF-8, if `in_utf8` converted it; otherwise ``file``


@dataclass(frozen=True)
class Answer:
    """The answer to a request, after redirects."""

    url: str  # that answered
    status: int
    kind: str  # the media type
    charset: str | None  # as the server declares it
    content: bytes

    @property
    def suffix(self) -> str:
        """The suffix of a file with the content: by content, media type or address; empty if it is not supported."""
        suffix = Path(unquote(urlsplit(self.url).path)).suffix.lower()
        known = suffix if suffix in SUFFIXES.values() else ""
        return _suffix_of(self.content) or SUFFIXES.get(self.kind) or known


async def allow_all(url: str) -> None:
    """Allows every address."""


def is_public(address: str) -> bool:
    """Whether an IP address is public: not of a private, local, reserved or multicast network."""
    known = ip_address(address.partition("%")[0])
    # An IPv4 address in an IPv6 address (mapped, 6to4, NAT64) decides. Teredo is not public.
    if isinstance(known, IPv6Address):
        inner = IPv4Address(known.packed[-4:]) if known in NAT64 else known.ipv4_mapped or known.sixtofour
        if inner is not None:
            return is_public(str(inner))
        if known not in UNICAST or known.teredo is not None:
            return False
    return known.is_global and not known.is_multicast and not known.is_reserved


def fetch(url: str) -> FetchedDocument:
    """Fetches an address (see `check_public`), and stores the answer unchanged in ``MOOT_HOME/fetched``; blocking."""
    return asyncio.run(fetch_page(url))


async def fetch_page(url: str) -> FetchedDocument:
    """Does the same as `fetch`, within a running event loop."""
    answer = await get(url)
    if answer.status != 200:
        raise WorldError(f"{url} answered with {in_words(answer.status)}.", kind="bad_response")
    return await asyncio.to_thread(_store_answer, url, answer)


async def get(
    url: str,
    *,
    largest: int | None = None,
    seconds: float | None = None,
    allow: Callable[[str], Awaitable[None]] = allow_all,
) -> Answer:
    """The answer for an address, after redirects; without content if the status is not 200; else a MootError."""
    # ``allow`` is called with each address before it is requested, and raises a MootError if it must not be requested.
    # ``largest`` is `LARGEST` bytes and ``seconds`` is `SECONDS` by default.
    largest, seconds, current = largest or LARGEST, seconds or SECONDS, url
    try:
        async with asyncio.timeout(seconds):
            for _ in range(REDIRECTS + 1):
                address = check_address(current)
                await allow(current)
                async with (
                    _session(address.raw_host) as session,
                    session.get(address, allow_redirects=False) as answer,
                ):
                    if answer.status not in (301, 302, 303, 307, 308) or "location" not in answer.headers:
                        content = await _content(url, answer, largest) if answer.status == 200 else b""
                        place = urljoin(current, _refreshed_to(content, answer.headers.get("refresh", "")))
                        if place == current:
                            return Answer(current, answer.status, answer.content_type.lower(), answer.charset, content)
                        current = place
                    else:
                        current = urljoin(current, answer.headers["location"])
    except TimeoutError as error:
        raise WorldError(f"{url} took longer than {seconds:.0f} seconds.", kind="timeout", retryable=True) from error
    except (imported("aiohttp").ClientError, OSError, ValueError) as error:
        if isinstance(cause := error.__cause__ or error, MootError):
            raise cause from None
        proxy = " moot fetches without the environment's proxies." if getproxies() else ""
        raise WorldError(f"{url} cannot be reached ({error}).{proxy}", kind="unreachable", retryable=True) from error
    raise WorldError(f"{url} redirects more than {REDIRECTS} times.", kind="bad_response")


def in_words(status: int) -> str:
    """An HTTP status with its phrase, such as ``HTTP 404 Not Found``."""
    return f"HTTP {status} {responses.get(status, '')}".rstrip()


def check_address(url: str) -> Any:
    """A checked web address as ``yarl.URL``, as the HTTP client parses it; IP addresses are checked on connecting."""
    try:
        parsed = imported("yarl").URL(url)
    except ValueError as error:
        raise UserError(f"{url} is not a valid address ({error}).", kind="invalid_file") from error
    if parsed.scheme not in ("http", "https") or not parsed.raw_host:
        raise UserError(f"{url} is not a web address: it must begin with http:// or https://.", kind="invalid_file")
    if parsed.raw_user or parsed.raw_password:
        raise UserError(
            f"The address of {parsed.raw_host} contains a user name or a password. Leave it out.", kind="invalid_file"
        )
    return parsed


def check_public(host: str, address: str) -> None:
    """Checks that a host's IP address is public, or that the host is listed in ``MOOT_FETCH_HOSTS``."""
    named = {name.strip().lower() for name in os.environ.get(HOSTS, "").split(",")}
    if host.lower() not in named and not is_public(address):
        raise UserError(
            f"{host} is in a private network ({address}) and is not fetched. To allow it, add it to {HOSTS}.",
            kind="invalid_file",
        )


def private_address_of(url: str) -> str:
    """The first IP address of a URL's host that is not public; empty if there is none; blocking."""
    host = check_address(url).raw_host.partition("%")[0].rstrip(".")
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, ValueError):
        # No client can connect to a host that cannot be looked up.
        return ""
    return next((str(one[4][0]) for one in found if not is_public(str(one[4][0]))), "")


@asynccontextmanager
async def _session(host: str) -> AsyncIterator[Any]:
    """Context manager: an HTTP session for a host, which connects only to addresses that `check_public` accepts."""
    aiohttp = imported("aiohttp")

    def checked_socket(found: Any) -> socket.socket:
        family, kind, protocol, _, address = found
        check_public(host, address[0])
        return socket.socket(family, kind, protocol)

    try:
        certificates, agent = await asyncio.to_thread(lambda: (tls(), user_agent(CONTACT)))
        connector = aiohttp.TCPConnector(
            resolver=aiohttp.ThreadedResolver(), socket_factory=checked_socket, ssl=certificates
        )
    except (ValueError, OSError) as error:
        raise client_error(error) from error
    headers = {"User-Agent": agent, "Accept": "text/html,application/pdf;q=0.9,*/*;q=0.5"}
    # The environment's proxies are not used, because a proxy would look up host names without the check.
    async with aiohttp.ClientSession(connector=connector, headers=headers, trust_env=False) as session:
        yield session


async def _content(url: str, answer: Any, largest: int) -> bytes:
    """The bytes of an answer; an error if it has more than ``largest`` bytes."""
    parts, size = [], 0
    async for part in answer.content.iter_chunked(2**16):
        parts.append(part)
        size += len(part)
        if size > largest:
            raise WorldError(f"{url} has more than {largest // 2**20} MiB.", kind="bad_response")
    return b"".join(parts)


class _Refresh(HTMLParser):
    """Finds the address to which a page without scripts sends its readers (``<meta http-equiv=refresh>``)."""

    place = ""
    is_for_others = False  # in <noscript>

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.is_for_others |= tag == "noscript"
        is_refresh = tag == "meta" and given.get("http-equiv", "").lower() == "refresh" and not self.is_for_others
        if is_refresh and not self.place and (found := REFRESH.fullmatch(given.get("content", ""))):
            self.place = found[1].strip()

    def handle_endtag(self, tag: str) -> None:
        self.is_for_others &= tag != "noscript"


def _refreshed_to(content: bytes, header: str) -> str:
    """Where a page goes on by itself after at most nine seconds; empty if it stays."""
    if found := REFRESH.fullmatch(header):
        return found[1].strip()
    beginning = content[:REFRESH_WITHIN]
    if b"refresh" not in beginning.lower():
        return ""
    parser = _Refresh()
    parser.feed(beginning.decode(errors="replace"))
    return parser.place


def _store_answer(url: str, answer: Answer) -> FetchedDocument:
    """Stores an answer under ``MOOT_HOME/fetched``, with a description as JSON; blocking."""
    content, suffix = answer.content, answer.suffix
    if not suffix:
        raise UserError(f"{url} is {answer.kind or 'of an unknown kind'}, which is not supported.", kind="invalid_file")
    digest = hashlib.sha256(content).hexdigest()
    folder = moot_home() / "fetched"
    moment = datetime.now(UTC).isoformat(timespec="seconds")
    recoded = in_utf8(content, answer.charset) if suffix in TEXTS and answer.charset else None
    file = folder / f"{digest}{suffix}"
    text = file if recoded is None else folder / f"{digest}.utf-8{suffix}"
    found = FetchedDocument(url, answer.url, moment, answer.kind, digest, file, text)
    about = {**asdict(found), "file": file.name, "text": text.name}
    try:
        private_folder(folder)
        write_atomically(file, content, private=True)
        if recoded is not None:
            write_atomically(text, recoded, private=True)
        write_atomically(file.with_suffix(".json"), json.dumps(about), private=True)
    except OSError as error:
        raise storage_error("Web pages", folder, error) from error
    return found


def _suffix_of(content: bytes) -> str:
    """The suffix of a PDF, Word or Excel file, which servers often send as another kind; otherwise empty."""
    if b"%PDF-" in content[:1024]:
        return ".pdf"
    if not content.startswith(b"PK\x03\x04") or b"[Content_Types].xml" not in content:
        return ""
    return ".xlsx" if b"xl/worksheets/" in content else ".docx"


def in_utf8(content: bytes, charset: str) -> bytes | None:
    """A text converted to UTF-8 with a byte order mark; None if it needs no conversion, or cannot be decoded.

    None, too, if it is probably not in the encoding that its server names: what the page itself says may be right.
    """
    try:
        found = decode(content, charset)
    except UnreadableDocument:  # whoever reads the file reports it
        return None
    is_kept = (found.misfits == 0 and found.charset == "utf-8") or is_refuted(content, found)
    return None if is_kept else codecs.BOM_UTF8 + found.text.encode()
