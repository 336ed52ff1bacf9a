"""What sources find, made one list: dated, filtered, each text once, and of a long one the beginning shown.

Sources give their results as they come; everything that enters a debate has passed `normalise`.
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
from urllib.parse import urlsplit

from moot.core.lazy import imported
from moot.core.redaction import held_keys, without_keys
from moot.retrievers.evidence import Evidence, Origin
from moot.retrievers.excerpts import beginning, is_short

PLAIN = ".,;:!?…'\"()[]“”‘’«»‹›„‚"
"""Punctuation that texts with the same words may differ in; any other sign may turn evidence around."""
DASHES = str.maketrans(dict.fromkeys("‐‑‒–—―−", "-"))
MOST_TOKENS = 1536
"""Tokens of a text that are shown by default: of 100 abstracts, 99 fit."""
WEB_SEARCHES = ("tavily", "serper")
"""Sources whose pieces come from many websites."""
SAME = 0.9
"""Least share of the longer text's words that the shorter one has to hold to be the same text."""


@dataclass(frozen=True)
class Rules:
    """What is kept of the findings of one search.

    Args:
        k: most pieces from each source.
        max_per_host: most pieces from one website, of sources that search the web; None for any number.
        published_before: what is known to be published on this day or later is left out; None keeps all.
        max_tokens: most tokens of a text that are shown, as `count_tokens` counts them.
    """

    k: int
    max_per_host: int | None = None
    published_before: date | None = None
    max_tokens: int = MOST_TOKENS


def normalise(found: Sequence[Sequence[Evidence]], rules: Rules, retrieved: datetime) -> list[Evidence]:
    """The findings of one or more sources for one query as one list, best first. Blocking.

    Sources take turns: the first result of each, the second of each, and so on. Two pieces with the same text are one
    piece with two origins, which has the place of the first. Only white space, quotation marks, punctuation of
    sentences and case are passed over, and where one text holds a little more at its beginning or end, that one is
    kept: one changed word can turn evidence around. Keys of the environment are hidden.

    Args:
        found: what each source found, best first.
        rules: what is kept.
        retrieved: when the sources were asked.
    """
    stamp = retrieved.isoformat(timespec="seconds")
    keys = held_keys()
    ranked = [
        [_stamped(without_keys(piece, keys), rank, stamp) for rank, piece in enumerate(pieces, 1)] for pieces in found
    ]
    kept: list[Evidence] = []
    words: list[list[str]] = []
    hosts: Counter[str] = Counter()
    taken: Counter[int] = Counter()
    for source, piece in in_turns(ranked):
        if is_late(piece.get("published"), rules.published_before):
            continue
        piece = shortened(piece, rules.max_tokens)
        said = words_of(piece["text"])
        same = next((i for i, others in enumerate(words) if same_text(said, others)), None)
        if same is not None:
            longer = len(said) > len(words[same])
            kept[same] = with_origin(piece, kept[same]) if longer else with_origin(kept[same], piece)
            words[same] = max(said, words[same], key=len)
            continue
        host = website(piece)
        if taken[source] == rules.k or (host and hosts[host] == rules.max_per_host):
            continue
        taken[source] += 1
        hosts[host] += 1
        kept.append(piece)
        words.append(said)
    return kept


def _stamped(piece: Evidence, rank: int, retrieved: str) -> Evidence:
    stamped: Evidence = {
        **piece,
        "retrievals": [{**r, "rank": rank, "retrieved": retrieved} for r in piece["retrievals"]],
    }
    if given := piece.get("published"):
        stamped["published"] = iso_date(given) or given
    return stamped


def in_turns(found: Sequence[Sequence[Evidence]]) -> Iterator[tuple[int, Evidence]]:
    """The first of each list, then the second of each; with the list's number."""
    numbered = [[(source, piece) for piece in pieces] for source, pieces in enumerate(found)]
    return (pair for pair in chain.from_iterable(zip_longest(*numbered)) if pair is not None)


def iso_date(text: str) -> str | None:
    """A date in ISO form, as far as it goes: year, month, day; None where not even a year can be read.

    Words such as "3 days ago" count from now. Dates in figures are read in the American order where both are possible.
    """
    if re.fullmatch(r"\d{4}(-\d\d){0,2}", text):
        return text
    if re.match(r"\d{4}-\d\d-\d\d[T ]", text):
        return text[:10]
    if re.fullmatch(r"(1[5-9]|20)\d{6}", text):
        return f"{text[:4]}-{text[4:6]}-{text[6:]}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the standard library's, about dates without a year
        found = imported("dateparser.date").DateDataParser(languages=["en"]).get_date_data(text)
    if found.date_obj is None or "year" not in found.parts:
        years = re.findall(r"(?<!\d)(?:1[5-9]|20)\d\d(?!\d)", text)
        return max(years, default=None)  # "Spring 2019", "2024 May-Jun"
    lengths = {"year": 4, "month": 7}
    return str(found.date_obj.date().isoformat()[: lengths.get(found.period, 10)])


def is_late(published: str | None, before: date | None) -> bool:
    """Whether something was, or may have been, published on that day or later; a date that cannot be read is none.

    Of a date that is a year or a month, the last day counts.
    """
    if before is None or published is None:
        return False
    last = last_day(published)
    return last is not None and last >= before


def last_day(published: str) -> date | None:
    """The last day of a date in ISO form (2024, 2024-05, 2024-05-31), of a day that is none the year's; else None."""
    parts = re.fullmatch(r"(\d{4})(?:-(\d\d))?(?:-(\d\d))?", published)
    if not parts or parts[1] == "0000":
        return None
    year, month = int(parts[1]), int(parts[2] or 12)
    try:
        return date(year, month, int(parts[3] or calendar.monthrange(year, month)[1]))
    except ValueError:  # also calendar's own error for a month that is none
        return date(year, 12, 31)


def shortened(piece: Evidence, most: int) -> Evidence:
    """The piece, of which only the beginning is shown if its text has more than so many tokens."""
    if is_short(piece["text"], most):
        return piece
    return {**piece, "shown": [[0, len(beginning(piece["text"], most))]]}


def words_of(text: str) -> list[str]:
    """A text's words in lower case, without the punctuation around them; dashes are alike."""
    return [word for part in text.casefold().translate(DASHES).split() if (word := part.strip(PLAIN))]


def same_text(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether the shorter of two texts, given as words, stands in the longer one and is nearly all of it."""
    short, long = sorted((one, other), key=len)
    if len(short) < SAME * len(long):
        return False
    return f" {' '.join(short)} " in f" {' '.join(long)} "


def website(piece: Evidence) -> str:
    """The host of a piece that a web search found; empty for pieces of other sources."""
    if piece["retrievals"][0]["retriever"] not in WEB_SEARCHES:
        return ""
    try:
        return (urlsplit(piece.get("url", "")).hostname or "").removeprefix("www.")
    except ValueError:  # an address that is none belongs to no website
        return ""


def with_origin(piece: Evidence, other: Evidence) -> Evidence:
    """The piece, with where the same text was found too, and how."""
    origins = {o["source"]: o for o in reversed([*origins_of(piece), *origins_of(other)])}
    joined: Evidence = {**piece, "retrievals": piece["retrievals"] + other["retrievals"]}
    del origins[piece["source"]]
    if origins:
        joined["also"] = list(reversed(origins.values()))
    if piece["source"] == other["source"] and "published" in other:
        joined.setdefault("published", other["published"])
    return joined


def origin_of(piece: Evidence) -> Origin:
    """Where a piece comes from."""
    origin: Origin = {"source": piece["source"], "title": piece["title"]}
    if "url" in piece:
        origin["url"] = piece["url"]
    if "published" in piece:
        origin["published"] = piece["published"]
    if "page" in piece:
        origin["page"] = piece["page"]
    return origin


def origins_of(piece: Evidence) -> Iterable[Origin]:
    """Everywhere that a piece comes from."""
    return [origin_of(piece), *piece.get("also", [])]
