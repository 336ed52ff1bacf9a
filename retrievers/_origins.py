"""The origins of evidence: websites and documents. Several pieces may have the same origin."""

from __future__ import annotations

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
from urllib.parse import urlsplit

from moot.core.lazy import imported
from moot.retrievers._evidence import UNTITLED, Evidence, Origin
from moot.retrievers._files import FILE_SUFFIXES
from moot.retrievers._normalise import Rules, normalise, origins_of, words_of

ALIKE = 0.25
"""The smallest share of common word pairs at which two texts are near-duplicates (Jaccard index, estimated by MinHash).

In the texts of tests/retrievers/reprints.jsonl, reprints with another beginning, order or length have an index of at
least 0.41. Different reports on the same events have at most 0.06. Paraphrases have at most 0.03: they are not found.
"""
PERMUTATIONS = 256
"""Number of permutations of MinHash. With 256, an index of 0.25 is estimated with a standard error of 0.03."""
SEED = 26
FEWEST = 30
"""A text with fewer distinct word pairs than this is not compared, because it may be similar to others by chance."""
COLLECTIONS = {"wikipedia.org", "nih.gov", "arxiv.org", "openalex.org", "doi.org", "semanticscholar.org", "biorxiv.org"}
COLLECTIONS |= {"medrxiv.org", "europepmc.org", "ssrn.com", "zenodo.org"}
"""Websites with documents of many authors. Each of their documents is a separate origin."""
DOCUMENTS = {*FILE_SUFFIXES, ".htm", ".xhtml", ".tsv"} - {".jsonl"}
"""Suffixes of document files. JSON Lines are left out, because each line names its own source."""


def origins(pieces: Iterable[Evidence], alike: float = ALIKE, *, in_parts: bool = False) -> dict[str, str]:
    """The origin of each piece, by its id.

    The origin of a piece with a web address is the registered domain of the address, by the public suffix list:
    ``news.bbc.co.uk`` belongs to ``bbc.co.uk``. On the websites in `COLLECTIONS`, each page is an origin. Without a web
    address, the origin is the document. All pages and headings of a file (`DOCUMENTS`) belong to one document. Two
    origins become one if a piece of one is a near-duplicate of a piece of the other, or if one piece was found at both.
    Texts with fewer than `FEWEST` distinct word pairs have no near-duplicates.

    Args:
        pieces: the evidence.
        alike: the smallest share of common word pairs at which two texts are near-duplicates (Jaccard index, 0 to 1).
        in_parts: whether each heading of a file is a separate origin; if not, the whole file is one origin.

    Returns:
        A readable name of the origin for each id. Origins that became one have the name of one of them.
    """
    known = list({piece["id"]: piece for piece in pieces}.values())
    names = [origin_names(piece, in_parts=in_parts) for piece in known]
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


def origin_names(piece: Evidence, *, in_parts: bool = False) -> list[str]:
    """The names of the origins at which a piece was found, each once. The origin of its own source comes first."""
    return list(dict.fromkeys(_origin_name(origin, piece["id"], in_parts=in_parts) for origin in origins_of(piece)))


def _origin_name(origin: Origin, id: str, *, in_parts: bool) -> str:
    """The name of the origin for one place of publication. The piece's ``id`` replaces a missing title in the name."""
    url = origin.get("url", "")
    domain = registered_domain(url)
    if not domain and not in_parts and Path(origin["source"]).suffix.lower() in DOCUMENTS:
        return origin["source"]
    if not domain:
        return f"{origin['source']}: {id if origin['title'] == UNTITLED else origin['title']}"
    return url.partition("#")[0].rstrip("/") if domain in COLLECTIONS else domain


def pool_results(
    found: Sequence[Sequence[Evidence]],
    rules: Rules,
    retrieved: datetime,
    share: float,
    pool: Sequence[Evidence] = (),
) -> tuple[list[Evidence], list[Evidence]]:
    """Merges the results of sources with `normalise`, and limits each origin to its share (`within_share`). Blocking.

    If a piece would exceed its origin's share, the source's next result that fits replaces it, if there is one. With a
    share of 1, no origin is limited.

    Args:
        found: the results of each source, best first.
        rules: filters and limits.
        retrieved: the time of the search.
        share: the largest share of one origin (above 0).
        pool: the pieces of earlier searches.

    Returns:
        Two lists: the merged pieces, best first; and the pieces that were left out only because of the share.
    """
    if share >= 1:
        return normalise(found, rules, retrieved), []
    ranked = normalise(found, replace(rules, k=max(map(len, found), default=0)), retrieved)
    without_share = _first_per_source(ranked, rules.k)
    pieces = within_share(ranked, share, pool, rules.k)
    ids = {piece["id"] for piece in pieces}
    return pieces, [piece for piece in without_share if piece["id"] not in ids]


def within_share(
    pieces: Sequence[Evidence], share: float, pool: Sequence[Evidence] = (), k: int | None = None
) -> list[Evidence]:
    """The pieces that may join a pool so that no origin exceeds its share.

    The share applies to the new pieces alone, and to the new pieces together with the pool. An origin may always have
    one piece. A document without a web address may exceed its share if fewer than ``k`` pieces of its source would join
    otherwise, because the user chose the document (see `_is_strictly_limited`). Each heading of a file is a separate
    origin, because one report may hold most of the evidence. No piece is removed from the pool.

    Args:
        pieces: the candidates, best first.
        share: the largest share of one origin (above 0, at most 1).
        pool: the pieces of earlier searches.
        k: maximum number of pieces from each source; None for any number.

    Returns:
        The pieces that may join, best first.
    """
    names = origins([*pool, *pieces], in_parts=True)
    known = {piece["id"] for piece in pool}
    pooled = Counter(names[id] for id in known)
    strict = {names[piece["id"]] for piece in (*pool, *pieces) if _is_strictly_limited(piece, names[piece["id"]])}
    total = len(pieces if k is None else _first_per_source(pieces, k))
    joining: dict[str, Evidence] = {}
    taken: Counter[str] = Counter()

    def largest(total: int) -> int:
        """The maximum number of pieces of one origin among ``total`` pieces."""
        return max(1, floor(share * total + 1e-9))

    def exceeds(name: str, ids: Sequence[str], size: int) -> bool:
        """Whether an origin with the pieces ``ids`` exceeds its share if ``size`` pieces join in total."""
        new = sum(id not in known for id in ids)
        in_both = sum(id in known for id in joining)
        exceeds_in_pool = new > 0 and pooled[name] + new > largest(len(known) + size - in_both)
        return len(ids) > largest(size) or exceeds_in_pool

    def joining_from(name: str) -> list[str]:
        return [id for id in joining if names[id] == name]

    def join(piece: Evidence) -> None:
        joining[piece["id"]] = piece
        taken[_retriever(piece)] += 1

    for piece in pieces:
        name = names[piece["id"]]
        if (k is None or taken[_retriever(piece)] < k) and not exceeds(name, [*joining_from(name), piece["id"]], total):
            join(piece)
    for piece in pieces:
        free = piece["id"] not in joining and names[piece["id"]] not in strict
        if free and (k is None or taken[_retriever(piece)] < k):
            join(piece)
    while excess := [name for name in sorted(strict) if exceeds(name, joining_from(name), len(joining))]:
        worst = max(excess, key=lambda name: len(joining_from(name)))
        new = [id for id in joining_from(worst) if id not in known]
        del joining[new[-1] if new else joining_from(worst)[-1]]
    return [piece for piece in pieces if piece["id"] in joining]


def _first_per_source(pieces: Iterable[Evidence], k: int) -> list[Evidence]:
    """The first ``k`` pieces from each source, in their order."""
    taken: Counter[str] = Counter()
    first = []
    for piece in pieces:
        taken[_retriever(piece)] += 1
        first += [piece] if taken[_retriever(piece)] <= k else []
    return first


def _retriever(piece: Evidence) -> str:
    """The name of the source in a piece's first retrieval."""
    return piece["retrievals"][0]["retriever"]


def _is_strictly_limited(piece: Evidence, name: str) -> bool:
    """Whether a piece's origin may never exceed its share.

    An origin may exceed its share only if it is a document without a web address and was not joined with another
    origin.

    Args:
        piece: the piece.
        name: the name of its origin (`origins`, with ``in_parts``).
    """
    return origin_names(piece, in_parts=True) != [name] or any(
        registered_domain(origin.get("url", "")) for origin in origins_of(piece)
    )


@lru_cache(4096)
def registered_domain(url: str) -> str:
    """The registered domain of a web address; empty if the address has no host.

    A host without a registered domain, such as an IP address, is returned itself.
    """
    try:
        host = (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:  # not a valid web address
        return ""
    try:
        return str(ip_address(host))
    except ValueError:
        return str(_suffixes().privatesuffix(host) or host)


@lru_cache(1)
def _suffixes() -> Any:
    return imported("publicsuffixlist").PublicSuffixList()


def near_duplicates(texts: Sequence[str], alike: float = ALIKE) -> list[tuple[int, int]]:
    """The pairs of texts that are near-duplicates, as pairs of their indices. Blocking.

    The share of common word pairs is estimated. Texts with fewer than `FEWEST` different word pairs are in no pair.

    Args:
        texts: the texts to compare.
        alike: the smallest share of common word pairs of near-duplicates (Jaccard index, 0 to 1).
    """
    hashed = [(index, sketch) for index, text in enumerate(texts) if (sketch := _minhash(text)) is not None]
    return [(i, j) for (i, one), (j, other) in combinations(hashed, 2) if one.jaccard(other) >= alike]


@lru_cache(2048)
def _minhash(text: str) -> Any:
    """The MinHash of a text's word pairs; None if the text has fewer than `FEWEST` different pairs."""
    pairs = {" ".join(pair) for pair in pairwise(words_of(text))}
    if len(pairs) < FEWEST:
        return None
    sketch = imported("rensa").RMinHash(num_perm=PERMUTATIONS, seed=SEED)
    sketch.update(sorted(pairs))
    return sketch
