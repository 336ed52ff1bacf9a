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
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit
from urllib.request import getproxies

from moot.core.endpoint import client_error, tls
from moot.core.errors import MootError, UserError, WorldError
from moot.core.files import storage_error, write_atomically
from moot.core.home import moot_home, private_folder
from moot.core.lazy import imported
from moot.retrievers._documents.charsets import decode
from moot.retrievers._documents.parsed import UnreadableDocument

HOSTS = "MOOT_FETCH_HOSTS"
"""The environment variable with hosts in private networks that may be fetched, separated by commas."""
LARGEST = 50 * 2**20
"""The maximum size of a decompressed answer, in bytes."""
SECONDS = 60.0
"""Time limit of a fetch in seconds, from the first connection to the stored file."""
REDIRECTS = 5
"""The maximum number of redirects."""
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


def is_url(text: str) -> bool:
    """Whether a text begins with http:// or https://."""
    return bool(re.match(r"https?://", text, re.IGNORECASE))


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
    try:
        async with asyncio.timeout(SECONDS):
            current = url
            for _ in range(REDIRECTS + 1):
                address = check_address(current)
                async with (
                    _session(address.raw_host) as session,
                    session.get(address, allow_redirects=False) as answer,
                ):
                    if answer.status not in (301, 302, 303, 307, 308) or "location" not in answer.headers:
                        return await asyncio.to_thread(_store_answer, url, current, answer, await _content(url, answer))
                    current = urljoin(current, answer.headers["location"])
    except TimeoutError as error:
        raise WorldError(f"{url} took longer than {SECONDS:.0f} seconds.", kind="timeout", retryable=True) from error
    except (imported("aiohttp").ClientError, OSError, ValueError) as error:
        if isinstance(cause := error.__cause__ or error, MootError):
            raise cause from None
        proxy = " moot fetches without the environment's proxies." if getproxies() else ""
        raise WorldError(f"{url} cannot be reached ({error}).{proxy}", kind="unreachable", retryable=True) from error
    raise WorldError(f"{url} redirects more than {REDIRECTS} times.", kind="bad_response")


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
        connector = aiohttp.TCPConnector(
            resolver=aiohttp.ThreadedResolver(), socket_factory=checked_socket, ssl=await asyncio.to_thread(tls)
        )
    except (ValueError, OSError) as error:
        raise client_error(error) from error
    headers = {"User-Agent": "moot", "Accept": "text/html,application/pdf;q=0.9,*/*;q=0.5"}
    # The environment's proxies are not used, because a proxy would look up host names without the check.
    async with aiohttp.ClientSession(connector=connector, headers=headers, trust_env=False) as session:
        yield session


async def _content(url: str, answer: Any) -> bytes:
    """The bytes of an answer; an error if its status is not 200, or if it has more than `LARGEST` bytes."""
    if answer.status != 200:
        raise WorldError(f"{url} answered with HTTP {answer.status} {answer.reason or ''}.", kind="bad_response")
    parts, size = [], 0
    async for part in answer.content.iter_chunked(2**16):
        parts.append(part)
        size += len(part)
        if size > LARGEST:
            raise WorldError(f"{url} has more than {LARGEST // 2**20} MiB.", kind="bad_response")
    return b"".join(parts)


def _store_answer(url: str, from_url: str, answer: Any, content: bytes) -> FetchedDocument:
    """Stores an answer under ``MOOT_HOME/fetched``, with a description as JSON; blocking."""
    kind = answer.content_type.lower()
    suffix = Path(unquote(urlsplit(from_url).path)).suffix.lower()
    # Another media type is refused, unless the content or the end of the address shows what it is.
    suffix = _suffix_of(content) or SUFFIXES.get(kind) or (suffix if suffix in SUFFIXES.values() else "")
    if not suffix:
        raise UserError(f"{url} is {kind or 'of an unknown kind'}, which is not supported.", kind="invalid_file")
    digest = hashlib.sha256(content).hexdigest()
    folder = moot_home() / "fetched"
    moment = datetime.now(UTC).isoformat(timespec="seconds")
    recoded = in_utf8(content, answer.charset) if suffix in TEXTS and answer.charset else None
    file = folder / f"{digest}{suffix}"
    text = file if recoded is None else folder / f"{digest}.utf-8{suffix}"
    found = FetchedDocument(url, from_url, moment, kind, digest, file, text)
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
    """The suffix of a PDF or Word file, which servers often send as another kind; otherwise empty."""
    if b"%PDF-" in content[:1024]:
        return ".pdf"
    return ".docx" if content.startswith(b"PK\x03\x04") and b"[Content_Types].xml" in content else ""


def in_utf8(content: bytes, charset: str) -> bytes | None:
    """A text converted to UTF-8 with a byte order mark; None if it needs no conversion, or cannot be decoded."""
    try:
        found = decode(content, charset)
    except UnreadableDocument:  # whoever reads the file reports it
        return None
    return None if found.misfits == 0 and found.charset == "utf-8" else codecs.BOM_UTF8 + found.text.encode()
