"""Merges sources' results into one list: parses dates, filters, merges duplicates, and marks the shown text.

Sources return unprocessed results. All results that enter a debate have passed `normalise`.
"""

from __future__ import annotations

import calendar
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import chain, zip_longest

from moot.core.lazy import imported
from moot.core.redaction import environment_keys, hide_environment_keys
from moot.retrievers._archives import is_copy, page_of, website_of
from moot.retrievers._evidence import Evidence, Origin
from moot.retrievers._excerpts import beginning, is_short

IGNORED_PUNCTUATION = ".,;:!?…'\"()[]“”‘’«»‹›„‚"
"""Punctuation that is ignored around words if texts are compared. Other symbols may reverse the meaning of a text."""
DASHES = "‐‑‒–—―−"
MOST_TOKENS = 1536
"""Maximum number of shown tokens of a text by default. 99 of 100 abstracts are not longer."""
WEB_SEARCHES = ("searxng", "ddgs", "tavily", "serper", "brave")
"""Sources whose pieces come from many websites, in the order in which `web` prefers them."""
SAME = 0.9
"""Two texts can be the same only if the shorter text has at least this share of the longer text's number of words."""


@dataclass(frozen=True)
class Rules:
    """Filters and limits for the results of one search."""

    k: int  # pieces from each source
    max_per_host: int | None = None  # from one website, for `WEB_SEARCHES`; None: any number
    published_before: date | None = None  # see `is_late`; None: no filter
    max_tokens: int = MOST_TOKENS  # of a text that are shown (`count_tokens`)
    are_sifted: bool = False  # whether results may be left out because of their site


def normalise(found: Sequence[Sequence[Evidence]], rules: Rules, retrieved: datetime) -> list[Evidence]:
    """The results of one or more sources (each best first, in turn) as one list without duplicates; blocking."""
    stamp = retrieved.isoformat(timespec="seconds")
    keys = environment_keys()
    ranked = [
        [_with_rank(hide_environment_keys(piece, keys), rank, stamp) for rank, piece in enumerate(pieces, 1)]
        for pieces in found
    ]
    merged: list[Evidence] = []
    words: list[list[str]] = []
    by_host: Counter[str] = Counter()
    by_source: Counter[int] = Counter()
    for source, piece in alternate(ranked):
        if is_late(piece.get("published"), rules.published_before):
            continue
        piece = shortened(piece, rules.max_tokens)
        own = words_of(piece["text"])
        # Texts are the same in spite of white space, case, kinds of dashes, `IGNORED_PUNCTUATION` around words, and a
        # few more words at one end. No other difference is ignored, because one changed word can reverse the meaning.
        same = next((i for i, others in enumerate(words) if same_text(own, others)), None)
        if same is not None:
            longer = len(own) > len(words[same])
            merged[same] = with_origin(piece, merged[same]) if longer else with_origin(merged[same], piece)
            words[same] = max(own, words[same], key=len)
            continue
        host = website(piece)
        if by_source[source] == rules.k or (host and by_host[host] == rules.max_per_host):
            continue
        by_source[source] += 1
        by_host[host] += 1
        merged.append(piece)
        words.append(own)
    return merged


def _with_rank(piece: Evidence, rank: int, retrieved: str) -> Evidence:
    """The piece with its rank, the time of the search, and its date in ISO form if it can be parsed."""
    stamped: Evidence = {
        **piece,
        "retrievals": [{**r, "rank": rank, "retrieved": retrieved} for r in piece["retrievals"]],
    }
    if given := piece.get("published"):
        stamped["published"] = iso_date(given) or given
    return stamped


def alternate(found: Sequence[Sequence[Evidence]]) -> Iterator[tuple[int, Evidence]]:
    """The first piece of each list, then the second of each, and so on, each with the index of its list."""
    numbered = [[(source, piece) for piece in pieces] for source, pieces in enumerate(found)]
    return (pair for pair in chain.from_iterable(zip_longest(*numbered)) if pair is not None)


def iso_date(text: str) -> str | None:
    """A date in ISO form: a year, a month or a day; None if not even a year can be parsed."""
    if re.fullmatch(r"\d{4}(-\d\d){0,2}", text):
        return text
    if re.match(r"\d{4}-\d\d-\d\d[T ]", text):
        return text[:10]
    if re.fullmatch(r"(1[5-9]|20)\d{6}", text):
        return f"{text[:4]}-{text[4:6]}-{text[6:]}"
    # Relative dates such as "3 days ago" count from now. Ambiguous numeric dates are read in the American order.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the standard library warns about dates without a year
        found = imported("dateparser.date").DateDataParser(languages=["en"]).get_date_data(text)
    if found.date_obj is None or "year" not in found.parts:
        years = re.findall(r"(?<!\d)(?:1[5-9]|20)\d\d(?!\d)", text)
        return max(years, default=None)  # "Spring 2019", "2024 May-Jun"
    lengths = {"year": 4, "month": 7}
    return str(found.date_obj.date().isoformat()[: lengths.get(found.period, 10)])


def is_late(published: str | None, before: date | None) -> bool:
    """Whether a text was or may have been published on the day ``before`` or later; false without a valid date."""
    if before is None or published is None:
        return False
    last = last_day(published)
    return last is not None and last >= before


def last_day(published: str) -> date | None:
    """The last day of a date in ISO form (2024, 2024-05, 2024-05-31); None for other texts."""
    parts = re.fullmatch(r"(\d{4})(?:-(\d\d))?(?:-(\d\d))?", published)
    if not parts or parts[1] == "0000":
        return None
    year, month = int(parts[1]), int(parts[2] or 12)
    try:
        return date(year, month, int(parts[3] or calendar.monthrange(year, month)[1]))
    except ValueError:  # also calendar's own error for an invalid month
        return date(year, 12, 31)


def shortened(piece: Evidence, most: int) -> Evidence:
    """The piece; if its text has more than ``most`` tokens, only the text's beginning is marked as shown."""
    if is_short(piece["text"], most):
        return piece
    return {**piece, "shown": [[0, len(beginning(piece["text"], most))]]}


def words_of(text: str) -> list[str]:
    """A text's words in lower case, without `IGNORED_PUNCTUATION` around them, and with hyphens for all dashes."""
    text = text.casefold()
    for dash in DASHES:  # a loop, because `str.translate` takes at least ten times as long
        text = text.replace(dash, "-")
    return [word for part in text.split() if (word := part.strip(IGNORED_PUNCTUATION))]


def same_text(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether the longer of two texts, given as words, contains the shorter text and only a few more words (`SAME`)."""
    short, long = sorted((one, other), key=len)
    if len(short) < SAME * len(long):
        return False
    return f" {' '.join(short)} " in f" {' '.join(long)} "


def website(piece: Evidence) -> str:
    """The website (`website_of`) of a piece from a web search; empty for other sources, or if it is unknown."""
    page = page_of(piece.get("url", ""))
    if piece["retrievals"][0]["retriever"] not in WEB_SEARCHES or is_copy(page):
        return ""
    return website_of(page)


def with_origin(piece: Evidence, other: Evidence) -> Evidence:
    """Adds the origins and the retrievals of ``other``, a piece with the same text, to a copy of the piece."""
    origins = {o["source"]: o for o in reversed([*origins_of(piece), *origins_of(other)])}
    joined: Evidence = {**piece, "retrievals": piece["retrievals"] + other["retrievals"]}
    del origins[piece["source"]]
    if origins:
        joined["also"] = list(reversed(origins.values()))
    if piece["source"] == other["source"] and "published" in other:
        joined.setdefault("published", other["published"])
    if "retracted" in other:
        joined.setdefault("retracted", other["retracted"])
    return joined


def origin_of(piece: Evidence) -> Origin:
    """The origin from which a piece was taken, without the other origins in ``also``."""
    origin: Origin = {"source": piece["source"], "title": piece["title"]}
    if "url" in piece:
        origin["url"] = piece["url"]
    if "published" in piece:
        origin["published"] = piece["published"]
    if "page" in piece:
        origin["page"] = piece["page"]
    return origin


def origins_of(piece: Evidence) -> Iterable[Origin]:
    """All origins of a piece: that of `origin_of`, then those in ``also``."""
    return [origin_of(piece), *piece.get("also", [])]
