"""Finds the page behind an archived, cached, translated or AMP copy: the origin of a copy is that of its page."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import parse_qsl, unquote, urlsplit

COPIES = (
    r"(.+\.)?archive\.org/(web|save)/",
    r"(web|wayback|liveweb|replay|eot\.us)\.archive\.org/",
    r"(.+\.)?archive\.(ph|today|is|li|vn|md|fo)/",
    r"(.+\.)?(archive-it\.org|arquivo\.pt|perma\.cc|webcitation\.org|ghostarchive\.org|megalodon\.jp|vefsafn\.is)/",
    r"webarchive\.(nationalarchives\.gov\.uk|parliament\.uk|nrscotland\.gov\.uk|loc\.gov|nla\.gov\.au)/",
    r"webarchive\.(proni\.gov\.uk|bac-lac\.gc\.ca)/",
    r"(www\.)?(webarchive\.org\.uk|webharvest\.gov|perma-archives\.org)/",
    r"(swap\.stanford\.edu|wayback\.webarchiv\.cz|web\.archive\.bibalex\.org|web-archive\.oecd\.org)/",
    r"archive\.wikiwix\.com/cache/",
    r"(r\.jina\.ai|(www\.)?12ft\.io)/",
    r"timetravel\.mementoweb\.org/",
    r"webcache\.googleusercontent\.com/",
    r"cc\.bingj\.com/cache\.aspx",
    r"(www\.)?(google(\.[a-z]{2,3}){1,2}|bing\.com)/amp/",
    r"(.+\.)?(cdn\.ampproject\.org|bing-amp\.com)/",
    r"translate\.google(\.[a-z]{2,3}){1,2}/translate",
    r"i[0-3]\.wp\.com/",
)
"""Websites of copies, as patterns for the host and the beginning of the path. Most put the page's address after it."""
COPY = re.compile("|".join(COPIES), re.IGNORECASE)
BARE = r"(?:(?:[\w-]+\.)+(?!(?:html?|php|aspx?)\b)[^\W\d_][\w-]*|(?:\d{1,3}\.){3}\d{1,3}(?![\w.-]))"
"""A host without a scheme before it, by name or IPv4 address. It is no time, such as 2020.11.29-141238, and no file."""
IN_PATH = re.compile(
    rf"(?:[\w*+~-]*/|\d{{4}}\.\d\d\.\d\d-\d+/)*(?:(?:https?|ftp):/+([^/?#\s]+.*)|({BARE}(?:[:/?].*)?))", re.IGNORECASE
)
"""A page's address after names, numbers and times. It may have no scheme, or only one slash."""
IN_PARAMETER = re.compile(
    rf"(?:cache:(?:[\w-]{{12}}:)?|url:)?(?:(?:https?|ftp)://)?({BARE}(?:[:/?]\S*)?)(?:\s.*)?", re.IGNORECASE
)
"""A page's address as the value of a parameter, such as ``cache:ID:www.example.com/page words``."""
NO_SCHEME = re.compile(rf"{BARE}(?:[:/?#].*)?")
PARAMETERS = ("url", "u", "q")
TRANSLATED = ".translate.goog"
"""The end of hosts of pages that Google translates. Before it, dots are hyphens, and hyphens are two hyphens."""


@lru_cache(4096)
def page_of(url: str) -> str:
    """The address of the (first) page of which ``url`` is a copy; ``url`` itself if it is no copy, or does not tell."""
    if NO_SCHEME.fullmatch(url):
        url = f"https://{url}"
    # A copy may be a copy of a copy. The addresses of some, as at perma.cc, do not contain that of the page.
    while page := _page_inside(url):
        url = page
    return url


def is_copy(url: str) -> bool:
    """Whether ``url`` is the address of a copy."""
    return COPY.match(_without_scheme(url) or url) is not None


def website_of(url: str) -> str:
    """The host of the page at ``url`` (`page_of`), without ``www.``; empty for an invalid address."""
    return host_of(page_of(url)).removeprefix("www.")


def is_url(text: str) -> bool:
    """Whether a text begins with http:// or https://."""
    return bool(re.match(r"https?://", text, re.IGNORECASE))


def host_of(url: str) -> str:
    """The host of a web address; empty for an invalid address."""
    try:
        return (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return ""


def _without_scheme(url: str) -> str:
    """A valid address without its scheme, user, port and fragment."""
    if not (host := host_of(url)):
        return ""
    parts = urlsplit(url)
    return f"{host}{parts.path or '/'}" + (f"?{parts.query}" if parts.query else "")


def _page_inside(url: str) -> str:
    """The address inside the address of a copy; empty if there is none."""
    address = _without_scheme(url)
    host, slash, path = address.partition("/")
    if host.endswith(TRANSLATED):
        labels = host.removesuffix(TRANSLATED).split("--")
        return f"https://{'-'.join(label.replace('-', '.') for label in labels)}{slash}{path}"
    if not (copy := COPY.match(address)):
        return ""
    rest, encoded = address[copy.end() :], ""
    while rest != encoded:  # an address inside an address may be percent-encoded, even twice
        if found := IN_PATH.fullmatch(rest):
            return f"https://{found[1] or found[2]}"
        encoded, rest = rest, unquote(rest)
    values = [value for name, value in parse_qsl(urlsplit(url).query) if name in PARAMETERS]
    return next((f"https://{found[1]}" for value in values if (found := IN_PARAMETER.fullmatch(value))), "")
