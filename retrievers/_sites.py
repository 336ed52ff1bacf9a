"""The sites from which evidence may come, a user's own labels for sites, and the page on which the claim appeared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from moot.core.errors import UserError
from moot.retrievers._archives import is_copy, page_of, website_of
from moot.retrievers._evidence import Evidence
from moot.retrievers._normalise import origin_of
from moot.retrievers._origins import COLLECTIONS, address_of, document_name, near_duplicates, registered_domain

MOST_NAMED = 10
"""Maximum number of sites that are named to a search engine. With more, its results are only filtered."""
DOMAIN = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")

ClaimPage = Literal["left_out", "marked", "evidence"]
"""What becomes of results from the page and the site on which the claim appeared, and of near-copies of them.

``left_out``: they are no evidence. ``marked``: they are shown, and agents are told that they show only what was said.
``evidence``: they are as all others.
"""


@dataclass(frozen=True)
class Sites:
    """The sites from which web results may come; a site includes all hosts below it."""

    only: tuple[str, ...] = ()  # empty: all
    never: tuple[str, ...] = ()

    def admit(self, url: str) -> bool:
        """Whether a result with this address is allowed; a copy is judged by the page that it copies."""
        host = website_of(url)
        if self.only and not is_within(host, self.only):
            return False
        return not is_within(host, self.never)

    def named(self) -> Sites:
        """The same sites for a search engine; none if there are more than `MOST_NAMED`."""
        few = len(self.only) <= MOST_NAMED, len(self.never) <= MOST_NAMED
        return Sites(self.only if few[0] else (), self.never if few[1] else ())

    def as_operators(self) -> str:
        """The sites as operators of a search engine's query: ``(site:a.org OR site:b.org) -site:c.org``."""
        named = self.named()
        only = " OR ".join(f"site:{site}" for site in named.only)
        never = [f"-site:{site}" for site in named.never]
        return " ".join([*([f"({only})"] if only else []), *never])


ALL_SITES = Sites()


def is_within(host: str, sites: Iterable[str]) -> bool:
    """Whether a host is one of these sites, or below one of them."""
    host = ascii_host(host)
    return any(host == site or host.endswith(f".{site}") for site in sites)


def ascii_host(host: str) -> str:
    """A host in lower case and, if it can be encoded, in ASCII (IDNA)."""
    host = host.strip().rstrip(".").lower()
    try:
        return host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        return host


def site_of(text: str) -> str:
    """A site as a user writes it (``*.example.org``, an address ...) as a host in ASCII; else a UserError."""
    named = re.sub(r"^[a-z][a-z0-9+.-]*://", "", text.strip(), flags=re.IGNORECASE)
    named = re.sub(r":\d+$", "", re.split(r"[/?#]", named, maxsplit=1)[0].rpartition("@")[2])
    site = ascii_host(named.removeprefix("*").removeprefix(".")).removeprefix("www.")
    if not DOMAIN.fullmatch(site):
        raise UserError(f"{text[:100]!r} is not a site. Write its domain, such as example.org.", kind="invalid_setting")
    return site


def label_of(url: str, labels: Mapping[str, str]) -> str:
    """The user's label for the site of an address: that of the longest domain; empty if there is none."""
    host = ascii_host(website_of(url))
    found = [site for site in labels if is_within(host, (site,))]
    return labels[max(found, key=len)] if found else ""


@dataclass
class Sifted:
    """Results of sources that remain, by source, and those that were left out."""

    found: list[list[Evidence]] = field(default_factory=list)
    left_out: list[Evidence] = field(default_factory=list)


def sift(found: Sequence[Sequence[Evidence]], sites: Sites, labels: Mapping[str, str]) -> Sifted:
    """Leaves out results of sources whose site is not allowed, and adds the user's labels (``site_label``); blocking.

    Results without a web address always remain.
    """
    sifted = Sifted()
    for results in found:
        kept: list[Evidence] = []
        for piece in results:
            url = address_of(origin_of(piece))
            if url and not sites.admit(url):
                sifted.left_out.append(piece)
                continue
            label = label_of(url, labels) if url else ""
            kept.append({**piece, "site_label": label} if label else piece)
        sifted.found.append(kept)
    return sifted


def part_claim_page(
    found: Sequence[Sequence[Evidence]], addresses: Sequence[str], text: str = "", *, leave_out: bool
) -> Sifted:
    """Leaves out, or marks (``claim_page``), results from the page on which a claim appeared; blocking.

    So are results from the page's site, unless it is a collection of many authors' documents, and near-copies, also of
    the page's ``text``, if it is known. After a redirect, the page has two ``addresses``.
    """
    own, sifted = _of_claim_page(found, addresses, text), Sifted()
    for results in found:
        of_page = [piece for piece in results if piece["id"] in own]
        if leave_out:
            sifted.left_out += of_page
            sifted.found.append([piece for piece in results if piece["id"] not in own])
        else:
            sifted.found.append([{**p, "claim_page": True} if p["id"] in own else p for p in results])
    return sifted


def _of_claim_page(found: Sequence[Sequence[Evidence]], addresses: Sequence[str], text: str) -> set[str]:
    """The ids of the pieces from the page's site (in a collection of documents: the page), and of their near-copies."""
    pieces = list({piece["id"]: piece for results in found for piece in results}.values())
    urls = [address_of(origin_of(piece)) for piece in pieces]
    own = {i for i, url in enumerate(urls) if url and any(of_same_site(url, page) for page in addresses)}
    own |= {len(pieces)} if text else set()
    pairs = near_duplicates([*(piece["text"] for piece in pieces), text]) if own else []
    copies = {j for pair in pairs for i, j in (pair, pair[::-1]) if i in own}
    return {piece["id"] for i, piece in enumerate(pieces) if i in own | copies}


def of_same_site(url: str, page: str) -> bool:
    """Whether an address is of the site of a page; in a collection of many authors' documents, of the page itself."""
    domain = registered_domain(page)
    if domain in COLLECTIONS or is_copy(page_of(page)):
        return document_name(page_of(url)) == document_name(page_of(page))
    return bool(domain) and registered_domain(url) == domain
