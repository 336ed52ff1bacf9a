"""The origins of evidence: websites and documents. Several pieces may have the same origin."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from ipaddress import ip_address
from itertools import combinations, pairwise
from math import floor
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from moot.core.lazy import imported
from moot.retrievers._archives import host_of, is_copy, page_of
from moot.retrievers._evidence import UNTITLED, Evidence, Origin
from moot.retrievers._files import FILE_SUFFIXES
from moot.retrievers._normalise import Rules, normalise, origin_of, origins_of, words_of

ALIKE = 0.25
"""The smallest share of common word pairs at which two texts are near-duplicates (Jaccard index, estimated by MinHash).

In the texts of tests/retrievers/reprints.jsonl, reprints with another beginning, order or length have an index of at
least 0.41. Different reports on the same events have at most 0.06. Paraphrases have at most 0.03: they are not found.
"""
PERMUTATIONS = 256
"""Number of permutations of MinHash. With 256, an index of 0.25 is estimated with a standard error of 0.03."""
SEED = 26
FEWEST = 30
"""A text with fewer distinct word pairs than this is short: it may be similar to others by chance."""
SHORT_ALIKE = 0.5
"""The smallest share of common word pairs at which short texts of one origin are near-duplicates (Jaccard index)."""
REVERSING = {"no", "not", "never", "none", "neither", "nor", "without", "cannot", "nobody", "nothing"}
"""Negations. Words with ``n't`` are also negations."""
NUMBERS = {"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"}
NUMBERS |= {"dozen", "hundred", "thousand", "million", "billion", "half", "twice", "first", "second", "third"}
"""Numbers in words. Short texts that differ in a number, a name or a negation are no near-duplicates."""
COLLECTIONS = {"wikipedia.org", "nih.gov", "arxiv.org", "openalex.org", "doi.org", "semanticscholar.org", "biorxiv.org"}
COLLECTIONS |= {"medrxiv.org", "europepmc.org", "ssrn.com", "zenodo.org", "archive.org"}
"""Websites with documents of many authors. Each of their documents is a separate origin."""
DOCUMENTS = {*FILE_SUFFIXES, ".htm", ".xhtml", ".tsv"} - {".jsonl"}
"""Suffixes of document files. JSON Lines are left out, because each line names its own source."""


def origins(pieces: Iterable[Evidence], alike: float = ALIKE) -> dict[str, str]:
    """A readable name of each piece's origin, by the piece's id: a registered domain, a page or a document."""
    # Two origins become one if a piece of one is a near-duplicate of a piece of the other (Jaccard index of word pairs
    # from ``alike``), or if one piece was found at both.
    known = list({piece["id"]: piece for piece in pieces}.values())
    names = [_origin_names(piece) for piece in known]
    joined: dict[str, str] = {}

    def root(name: str) -> str:
        while joined.get(name, name) != name:
            name = joined[name]
        return name

    def join(one: str, other: str) -> None:
        joined[root(other)] = root(one)

    for name, *others in names:
        for other in others:
            join(name, other)
    for i, j in near_duplicates([piece["text"] for piece in known], alike):
        join(names[i][0], names[j][0])
    return {piece["id"]: root(name) for piece, (name, *_) in zip(known, names, strict=True)}


def _origin_names(piece: Evidence) -> list[str]:
    """The names of the origins at which a piece was found, each once, the origin of its own source first."""
    return list(dict.fromkeys(_origin_name(origin, piece["id"]) for origin in origins_of(piece)))


def _origin_name(origin: Origin, id: str) -> str:
    """The name of the origin for one place of publication; the piece's ``id`` replaces a missing title in the name."""
    url = address_of(origin)
    domain = registered_domain(url)
    if not domain and Path(origin["source"]).suffix.lower() in DOCUMENTS:
        return origin["source"]
    if not domain:
        return f"{origin['source']}: {id if origin['title'] == UNTITLED else origin['title']}"
    # In a collection, each page is an origin, and so is each copy of an unknown page.
    return document_name(url) if domain in COLLECTIONS or is_copy(url) else domain


def document_of(piece: Evidence) -> str:
    """The name of the document that a piece is from: its address, its file, or else its source and title."""
    url = address_of(piece)
    return document_name(url) if url else _origin_name(piece, piece["id"])


def document_name(url: str) -> str:
    """The address of a document, the same for its mobile page, for http and, in Wikipedia, for all its versions."""
    parts = urlsplit(url.partition("#")[0])
    host = re.sub(r"^(www|m|mobile)\.|\.m(?=\.)", "", host_of(url))
    query = dict(parse_qsl(parts.query))
    title = query.get("title") or unquote(parts.path).removeprefix("/wiki/")
    if host.endswith("wikipedia.org") and not title.startswith("/"):
        title = title.replace(" ", "_")
        return f"https://{host}/wiki/{title[:1].upper()}{title[1:]}".rstrip("/")
    return f"https://{host}{parts.path}{'?' if parts.query else ''}{parts.query}".rstrip("/")


def address_of(origin: Origin) -> str:
    """The web address of a place of publication (`page_of`); empty if there is none."""
    source = origin["source"]
    # LangChain's loaders write the address into ``source``.
    is_address = source.lower().startswith(("http://", "https://")) or is_copy(source)
    return page_of(origin.get("url") or (source if is_address else ""))


def best_results(
    found: Sequence[Sequence[Evidence]], rules: Rules, retrieved: datetime, share: float
) -> tuple[list[Evidence], list[Evidence]]:
    """The results of one search, with a limited ``share`` of near-duplicates, and what gave way to others; blocking."""
    ranked = normalise(found, replace(rules, k=max(map(len, found), default=0)), retrieved)
    best = _first_per_source(ranked, rules.k)
    if share >= 1:
        return best, []
    # Two are always allowed, because one changed word can reverse the meaning. More are kept only if too few pieces are
    # left without them. Pieces without a web address are not limited, because the user chose them.
    near, most = _near_duplicate_results(ranked), max(2, floor(share * rules.k + 1e-9))
    first: list[int] = []
    for place in range(len(ranked)):
        if sum((better, place) in near for better in first) < most:
            first.append(place)
    last = [place for place in range(len(ranked)) if place not in first]
    own = _first_per_source([ranked[place] for place in first], rules.k)
    chosen = {piece["id"]: piece for piece in [*own, *(ranked[place] for place in first)]}
    chosen = dict(list(chosen.items())[: len(best)])
    for place in last[: max(0, rules.k - len(chosen))]:
        chosen[ranked[place]["id"]] = ranked[place]
    kept = [piece for piece in ranked if piece["id"] in chosen]
    return kept, [piece for piece in best if piece["id"] not in chosen]


def _first_per_source(pieces: Iterable[Evidence], k: int) -> list[Evidence]:
    """The first ``k`` pieces from each source, in their order."""
    taken: Counter[str] = Counter()
    first = []
    for piece in pieces:
        source = piece["retrievals"][0]["retriever"]
        taken[source] += 1
        first += [piece] if taken[source] <= k else []
    return first


def _near_duplicate_results(pieces: Sequence[Evidence]) -> set[tuple[int, int]]:
    """The pairs (indices) of pieces with web addresses that are near-duplicates."""
    texts = [piece["text"] if address_of(origin_of(piece)) else "" for piece in pieces]
    names = [_origin_name(origin_of(piece), piece["id"]) for piece in pieces]
    pairs = combinations(range(len(pieces)), 2)
    # Short texts are compared only with texts of the same origin.
    short = {(i, j) for i, j in pairs if names[i] == names[j] and _short_and_alike(texts[i], texts[j])}
    return {*near_duplicates(texts), *short}


def largest_group(pieces: Sequence[Evidence]) -> list[Evidence]:
    """The largest number of pieces with web addresses that are near-duplicates of one piece, with it; blocking."""
    near = _near_duplicate_results(pieces)
    groups = [
        [other for place, other in enumerate(pieces) if place == one or {(one, place), (place, one)} & near]
        for one in range(len(pieces))
    ]
    return max(groups, key=len, default=[])


@lru_cache(4096)
def registered_domain(url: str) -> str:
    """The registered domain of a web address or of the page it copies; else its host; empty without a host."""
    host = host_of(page_of(url))
    try:
        return str(ip_address(host))
    except ValueError:
        return str(_suffixes().privatesuffix(host) or host)


@lru_cache(1)
def _suffixes() -> Any:
    return imported("publicsuffixlist").PublicSuffixList()


def near_duplicates(texts: Sequence[str], alike: float = ALIKE) -> list[tuple[int, int]]:
    """The pairs (indices) of texts with an estimated Jaccard index of word pairs of at least ``alike``; blocking."""
    hashed = [(index, _minhash(text)) for index, text in enumerate(texts)]
    # Short texts have no near-duplicates.
    long = [(index, sketch) for index, (sketch, size) in hashed if size >= FEWEST]
    return [(i, j) for (i, one), (j, other) in combinations(long, 2) if one.jaccard(other) >= alike]


def _short_and_alike(one: str, other: str) -> bool:
    """Whether two texts, one of them short, have most word pairs and all numbers, names and negations in common."""
    pairs, others = _word_pairs(one), _word_pairs(other)
    return (
        0 < min(len(pairs), len(others)) < FEWEST
        and len(pairs & others) >= SHORT_ALIKE * len(pairs | others)
        and _decisive_words(one) == _decisive_words(other)
    )


def _decisive_words(text: str) -> list[str]:
    """The numbers, names and negations of a text in their order; capitalised words except the first are names."""
    found: list[str] = []
    for place, word in enumerate(text.replace("’", "'").split()):
        known = {*words_of(word)} & (REVERSING | NUMBERS) or "n't" in word.lower()
        if known or any(c.isdigit() or (place and c.isupper()) for c in word):
            found += words_of(word)
    return found


@lru_cache(2048)
def _word_pairs(text: str) -> frozenset[str]:
    return frozenset(" ".join(pair) for pair in pairwise(words_of(text)))


@lru_cache(2048)
def _minhash(text: str) -> tuple[Any, int]:
    """The MinHash of a text's word pairs, and the number of different pairs."""
    pairs = _word_pairs(text)
    sketch = imported("rensa").RMinHash(num_perm=PERMUTATIONS, seed=SEED)
    sketch.update(sorted(pairs))
    return sketch, len(pairs)
