"""Where evidence comes from, as far as one origin may stand behind several pieces of it."""

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
from moot.retrievers.evidence import UNTITLED, Evidence, Origin
from moot.retrievers.files import NAMES
from moot.retrievers.normalise import Rules, normalise, origins_of, words_of

ALIKE = 0.25
"""Share of word pairs from which on two texts are near-duplicates (Jaccard index, estimated by MinHash).

Of reprints with another beginning, order or length the least measured is 0.41, of other reports on the same events the
most is 0.06 (tests/retrievers/reprints.jsonl). Who says the same in words of their own is not found: 0.03 at most.
"""
PERMUTATIONS = 256
"""Of MinHash: the estimate of 0.25 has a standard error of 0.03."""
SEED = 26
FEWEST = 30
"""Pairs of words that a text must have to be compared: of fewer, two may be alike by chance."""
COLLECTIONS = {"wikipedia.org", "nih.gov", "arxiv.org", "openalex.org", "doi.org", "semanticscholar.org", "biorxiv.org"}
COLLECTIONS |= {"medrxiv.org", "europepmc.org", "ssrn.com", "zenodo.org"}
"""Websites that hold documents of many authors: each document is an origin of its own."""
DOCUMENTS = {*NAMES, ".htm", ".xhtml", ".tsv"} - {".jsonl"}
"""How a source ends that is a document's file; lines of JSON Lines say themselves where they are from."""


def origins(pieces: Iterable[Evidence], alike: float = ALIKE, *, in_parts: bool = False) -> dict[str, str]:
    """The origin of each piece, by its id.

    An origin is a registered domain (by the public suffix list, so that ``news.bbc.co.uk`` is of ``bbc.co.uk``). Of
    `COLLECTIONS`, of corpora and of what was given with a claim, each document is an origin; a file is one, with all
    its pages and headings. Near-duplicates of different origins have one origin together, and so has a piece that was
    found at several places.

    Args:
        pieces: the evidence.
        alike: share of word pairs, from 0 to 1, from which on two texts are near-duplicates.
        in_parts: whether what stands under a heading of a file is an origin of its own.

    Returns:
        For each id a name that people can read. Of origins that belong together it is that of the first piece.
    """
    known = list({piece["id"]: piece for piece in pieces}.values())
    names = [places(piece, in_parts=in_parts) for piece in known]
    joined: dict[str, str] = {}

    def first(name: str) -> str:
        while joined.get(name, name) != name:
            name = joined[name]
        return name

    def join(one: str, other: str) -> None:
        joined[first(other)] = first(one)

    for name, *others in names:
        for other in others:
            join(name, other)
    for i, j in near_duplicates([piece["text"] for piece in known], alike):
        join(names[i][0], names[j][0])
    return {piece["id"]: first(name) for piece, (name, *_) in zip(known, names, strict=True)}


def places(piece: Evidence, *, in_parts: bool = False) -> list[str]:
    """The origins of each place that a piece was found at, the first one first; see `origins`."""
    return list(dict.fromkeys(_place(origin, piece["id"], in_parts=in_parts) for origin in origins_of(piece)))


def _place(origin: Origin, id: str, *, in_parts: bool) -> str:
    url = origin.get("url", "")
    domain = registered_domain(url)
    if not domain and not in_parts and Path(origin["source"]).suffix.lower() in DOCUMENTS:
        return origin["source"]
    if not domain:
        return f"{origin['source']}: {id if origin['title'] == UNTITLED else origin['title']}"
    return url.partition("#")[0].rstrip("/") if domain in COLLECTIONS else domain


def pooled(
    found: Sequence[Sequence[Evidence]],
    rules: Rules,
    retrieved: datetime,
    share: float,
    pool: Sequence[Evidence] = (),
) -> tuple[list[Evidence], list[Evidence]]:
    """What sources found as one list (`normalise`), in which no origin has more than its share. Blocking.

    What is left out makes room for what the same source found next.

    Args:
        found: what each source found, best first.
        rules: what is kept of it.
        retrieved: when the sources were asked.
        share: most of the list, and of the pool with it, that one origin may have, above 0 to 1; see `within_share`.
        pool: what there was before.

    Returns:
        The list, best first; and what would stand in it but for the share.
    """
    if share >= 1:
        return normalise(found, rules, retrieved), []
    ranked = normalise(found, replace(rules, k=max(map(len, found), default=0)), retrieved)
    wanted = _first(ranked, rules.k)
    kept = within_share(ranked, share, pool, rules.k)
    ids = {piece["id"] for piece in kept}
    return kept, [piece for piece in wanted if piece["id"] not in ids]


def within_share(
    pieces: Sequence[Evidence], share: float, pool: Sequence[Evidence] = (), k: int | None = None
) -> list[Evidence]:
    """The pieces that may join a pool, so that no origin has more than its share; at least one piece, if there is any.

    The share holds among those that join, and among them and the pool. Documents of a corpus without an address come
    after what has its share, but fill up what else would stay empty: whoever indexed them chose them. What stands under
    a heading of a file counts by itself here, as one report may hold most of what there is. What the pool holds stays.

    Args:
        pieces: what may join, best first.
        share: most that one origin may have, above 0 to 1.
        pool: what there is already.
        k: most pieces of each source; None for any number.

    Returns:
        Those that join, in their order.
    """
    names = origins([*pool, *pieces], in_parts=True)
    known = {piece["id"] for piece in pool}
    before = Counter(names[id] for id in known)
    bound = {names[piece["id"]] for piece in (*pool, *pieces) if _is_bound(piece, names[piece["id"]])}
    most = len(pieces if k is None else _first(pieces, k))
    joining: dict[str, Evidence] = {}
    taken: Counter[str] = Counter()

    def cap(total: int) -> int:
        return max(1, floor(share * total + 1e-9))

    def over(name: str, of: Sequence[str], size: int) -> bool:
        """Whether an origin has too much, if so many pieces join, these among them."""
        new = sum(id not in known for id in of)
        again = sum(id in known for id in joining)
        beyond = new > 0 and before[name] + new > cap(len(known) + size - again)
        return len(of) > cap(size) or beyond

    def of(name: str) -> list[str]:
        return [id for id in joining if names[id] == name]

    def join(piece: Evidence) -> None:
        joining[piece["id"]] = piece
        taken[_source(piece)] += 1

    for piece in pieces:
        name = names[piece["id"]]
        if (k is None or taken[_source(piece)] < k) and not over(name, [*of(name), piece["id"]], most):
            join(piece)
    for piece in pieces:
        free = piece["id"] not in joining and names[piece["id"]] not in bound
        if free and (k is None or taken[_source(piece)] < k):
            join(piece)
    while excess := [name for name in sorted(bound) if over(name, of(name), len(joining))]:
        worst = max(excess, key=lambda name: len(of(name)))
        new = [id for id in of(worst) if id not in known]
        del joining[new[-1] if new else of(worst)[-1]]
    return [piece for piece in pieces if piece["id"] in joining]


def _first(pieces: Iterable[Evidence], k: int) -> list[Evidence]:
    """The first ``k`` of each source."""
    taken: Counter[str] = Counter()
    first = []
    for piece in pieces:
        taken[_source(piece)] += 1
        first += [piece] if taken[_source(piece)] <= k else []
    return first


def _source(piece: Evidence) -> str:
    return piece["retrievals"][0]["retriever"]


def _is_bound(piece: Evidence, name: str) -> bool:
    """Whether a piece's origin is more than a document of a corpus: it has an address, or stands at several places."""
    return places(piece, in_parts=True) != [name] or any(
        registered_domain(origin.get("url", "")) for origin in origins_of(piece)
    )


@lru_cache(4096)
def registered_domain(url: str) -> str:
    """The part of an address's host that somebody registered; empty if it has none, an IP address as it is."""
    try:
        host = (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:  # an address that is none
        return ""
    try:
        return str(ip_address(host))
    except ValueError:
        return str(_suffixes().privatesuffix(host) or host)


@lru_cache(1)
def _suffixes() -> Any:
    return imported("publicsuffixlist").PublicSuffixList()


def near_duplicates(texts: Sequence[str], alike: float = ALIKE) -> list[tuple[int, int]]:
    """The pairs of texts, by their places, of whose word pairs at least such a share is the same. Blocking.

    Texts with fewer than `FEWEST` pairs of words are none's duplicates.

    Args:
        texts: what is compared.
        alike: the share (Jaccard index), from 0 to 1.
    """
    marked = [(place, mark) for place, text in enumerate(texts) if (mark := _mark(text)) is not None]
    return [(i, j) for (i, one), (j, other) in combinations(marked, 2) if one.jaccard(other) >= alike]


@lru_cache(2048)
def _mark(text: str) -> Any:
    """The MinHash of a text's pairs of words; None if it has too few of them."""
    pairs = {" ".join(pair) for pair in pairwise(words_of(text))}
    if len(pairs) < FEWEST:
        return None
    mark = imported("rensa").RMinHash(num_perm=PERMUTATIONS, seed=SEED)
    mark.update(sorted(pairs))
    return mark
