"""Places of claims in a text, words of claims that the text does not contain, and scores of check-worthiness."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib import import_module

from moot.nodes._claims.state import Filled, Place, Ratings, Section, Span
from moot.nodes._texts.quotes import UNSPACED, find_quote
from moot.retrievers._excerpts import sentences

WORD = re.compile(rf"{UNSPACED.pattern}|\d+(?:[.,]\d+)*|(?:(?!{UNSPACED.pattern})[^\W\d_])+(?:['’](?!s\b)[^\W\d_]+)*")
"""A figure, a letter of a script without spaces, or a word; the s of a genitive is not part of the word."""
GROUPED = re.compile(r"(?<=\d)[,.](?=\d{3}(?!\d))")
PARAGRAPH = re.compile(r"\S[^\n]*(?:\n(?!\s*\n)[^\n]*)*")
LEAST_SENTENCE_WORDS = 4
"""Minimum number of words of the sentences that `sentences_in` returns."""
GRAMMAR_LETTERS = 3
"""Words of at most this many letters, except names, are not checked: in any language most are function words.

`months` leaves out names that are so short (except those of May); `_is_lengthened` ignores words shorter than this.
"""
FEWEST_STEM_LETTERS = 4
"""Minimum number of letters at the beginning that two forms of one word must share."""
MOST_ENDING_LETTERS = 3
"""Maximum length of an ending; a repeated last letter before the ending, as in "letting", does not count."""
SMALL_WORDS = """
a about above according across after again against all along also although among an and are around as at be because been
before behind being below between beyond both but by can could did do does during each either every first for from
further had has have having he her his how if in into is it its later least less many may might more most much must
neither never no nor not of on once one only or other over per shall she should since so some such than that the their
them then there these they this those through to toward towards under until up upon was were when where whether which
while who whom whose will with within without would"""
GRAMMAR = frozenset(SMALL_WORDS.split())
MONTH_NAMES = "january february march april may june july august september october november december"
MONTHS = MONTH_NAMES.split()
LANGUAGE_CODES = "en de fr es it pt nl pl cs sv da nb fi ru uk tr el"
LANGUAGES = LANGUAGE_CODES.split()
"""The languages whose names of months are known."""
DATE_WORDS = "and or to und oder bis et ou au y al e o a en tot och og of de di st nd rd th er"
WORDS_BETWEEN_DAY_AND_MONTH = frozenset(DATE_WORDS.split())
"""Words allowed between a day and its month, as in "10 and 11 May"."""
MOST_WORDS_TO_MONTH = 6
"""Maximum distance between a day and its month, in words: neighbours have distance 1."""
NEAR_YEARS = 2
"""A year counts as computed from the text's date if it differs from the date's year by at most this."""


def score_of(ratings: Ratings) -> float:
    """The check-worthiness of a claim, from 0 to 1.

    It is 0 if ``checkable`` or ``public_interest`` is 0. Else it is half the weighted mean of the ratings;
    ``checkable`` has weight 2, the others weight 1.

    Args:
        ratings: each 0, 1 or 2.
    """
    if not ratings["checkable"] or not ratings["public_interest"]:
        return 0.0
    return (2 * ratings["checkable"] + ratings["specific"] + ratings["public_interest"]) / 8


def words_in(text: str) -> int:
    """The number of words of a text; each letter of a script without spaces counts as a word."""
    return len(UNSPACED.sub(" ", text).split()) + len(UNSPACED.findall(text))


def parts_of(text: str, most: int) -> list[Span]:
    """Divides a text into parts of at most ``most`` words; only a part of a single sentence may have more.

    Args:
        text: the text.
        most: maximum number of words of a part.
    """
    units: list[tuple[int, int]] = []
    for found in PARAGRAPH.finditer(text):
        inner = sentences(found[0]) if words_in(found[0]) > most // 4 else [(0, len(found[0]))]
        units += [(found.start() + start, found.start() + end) for start, end in inner]
    parts: list[Span] = []
    room = 0
    for start, end in units:
        size = words_in(text[start:end])
        if parts and size <= room:
            parts[-1]["end"], room = end, room - size
        else:
            parts.append({"start": start, "end": end})
            room = most - size
    return parts


def sentences_in(text: str, sections: Sequence[Section]) -> list[Place]:
    """The sentences of a text with at least `LEAST_SENTENCE_WORDS` words, and their places; most headings have fewer.

    Args:
        text: the text.
        sections: the text's sections, in order.
    """
    paragraphs = ((found.start(), found[0]) for found in PARAGRAPH.finditer(text))
    spans = ((at + start, at + end) for at, paragraph in paragraphs for start, end in sentences(paragraph))
    return [
        _place_of_span(text, *span, sections) for span in spans if words_in(text[slice(*span)]) >= LEAST_SENTENCE_WORDS
    ]


def place_in(text: str, part: Span, quote: str, sections: Sequence[Section]) -> Place | None:
    """The place of a quote in a part of a text, with the text's exact words; None if the part does not contain it.

    Args:
        text: the whole text.
        part: the part that the model's prompt contained.
        quote: the quote that the model returned.
        sections: the text's sections, in order.
    """
    found = find_quote(quote, text[part["start"] : part["end"]])
    if found is None:
        return None
    start, end = (part["start"] + at for at in found)
    return _place_of_span(text, start, end, sections)


def _place_of_span(text: str, start: int, end: int, sections: Sequence[Section]) -> Place:
    at = bisect_right([section["start"] for section in sections], start) - 1
    page, heading = (sections[at]["page"], sections[at]["heading"]) if at >= 0 else (None, "")
    return {"quote": text[start:end], "start": start, "end": end, "page": page, "heading": heading}


def vocabulary(texts: Iterable[str]) -> set[str]:
    """The words of texts, normalised for comparison."""
    return {_normalised(found[0]) for text in texts for found in WORD.finditer(text)}


def words_filled_in(claim: str, quote: str, known: set[str], date: str | None) -> tuple[list[Filled], list[str]]:
    """The words of a claim that its quote does not contain.

    The text supports a figure only if it is one of the known words. A name may differ from a known word in its ending,
    and any other word may be inflected. Function words are ignored. A time near the text's date counts as computed from
    the date, even if the text contains that time elsewhere: most texts contain the year, and a person should check it.

    Args:
        claim: the claim.
        quote: the words of the text that make the claim.
        known: the `vocabulary` of the text.
        date: the text's date: a year, a month or a day.

    Returns:
        The spans of the words that were filled in, in order; and the words that the text does not support.
    """
    quoted = vocabulary([quote])
    matches = list(WORD.finditer(claim))
    plain = [_normalised(match[0]) for match in matches]
    filled: list[Filled] = []
    unknown: list[str] = []
    follows = False
    for at, (match, word) in enumerate(zip(matches, plain, strict=True)):
        is_new = word not in quoted and not _is_grammar(match[0], word)
        computed = is_new and _is_near(plain, at, date)
        if is_new and not computed and not _is_known(match[0], word, known, first=at == 0):
            unknown.append(match[0])
        if is_new and follows and filled[-1]["computed"] == computed:
            filled[-1]["end"] = match.end()
        elif is_new:
            filled.append({"start": match.start(), "end": match.end(), "computed": computed})
        follows = is_new or (follows and word not in quoted)
    return filled, unknown


def _normalised(word: str) -> str:
    return GROUPED.sub("", unicodedata.normalize("NFKC", word).casefold().replace("’", "'"))


def _is_grammar(word: str, plain: str) -> bool:
    return plain in GRAMMAR and not (word[0].isupper() and plain in months())


def _is_near(words: Sequence[str], at: int, date: str | None) -> bool:
    """Whether a word may be computed from the date: a year up to `NEAR_YEARS` away, a month, or a day near a month."""
    word = words[at]
    if not date:
        return False
    if word.isdecimal() and len(word) == len("2000"):
        return abs(int(word) - int(date[:4])) <= NEAR_YEARS
    before, after = words[max(0, at - MOST_WORDS_TO_MONTH) : at][::-1], words[at + 1 : at + 1 + MOST_WORDS_TO_MONTH]
    return word in months() or (_is_day(word) and (_leads_to_month(before) or _leads_to_month(after)))


def _leads_to_month(words: Iterable[str]) -> bool:
    """Whether a month follows, after only days and the words allowed between a day and its month."""
    first = next((word for word in words if not _is_day(word) and word not in WORDS_BETWEEN_DAY_AND_MONTH), "")
    return first in months()


def _is_day(word: str) -> bool:
    return word.isdecimal() and len(word) <= len("31") and 0 < int(word) <= 31


@lru_cache(maxsize=1)
def months() -> frozenset[str]:
    """The normalised names of months, without short forms, some of which are words of other languages ("set")."""
    data = (import_module(f"dateparser.data.date_translation_data.{name}").info for name in LANGUAGES)
    names = ((month, _normalised(name)) for language in data for month in MONTHS for name in language[month])
    return frozenset(name for month, name in names if month == "may" or len(name) > GRAMMAR_LETTERS)


def _is_known(word: str, plain: str, known: set[str], *, first: bool) -> bool:
    """Whether a word is among the words of the text.

    A name may differ in its ending. Other words except figures may be inflected; short words always count as known.
    The ``first`` word of a claim is not taken for a name, although it begins with a capital letter.
    """
    if plain in known:
        return True
    if word[0].isdigit() or UNSPACED.match(word):
        return False
    if word[0].isupper() and not first:
        return any(_differ_in_ending(plain, other) for other in known)
    stem = plain[: max(FEWEST_STEM_LETTERS, len(plain) - 3)]
    return len(plain) <= GRAMMAR_LETTERS or any(
        other.startswith(stem) or _is_lengthened(plain, other) for other in known
    )


def _is_lengthened(word: str, other: str) -> bool:
    """Whether a word is another word plus an ending, like "letting" and "let"; the other is no function word."""
    if len(other) < GRAMMAR_LETTERS or other in GRAMMAR or not word.startswith(other):
        return False
    more = len(word) - len(other)
    return more <= MOST_ENDING_LETTERS or (more == MOST_ENDING_LETTERS + 1 and word[len(other)] == other[-1])


def _differ_in_ending(one: str, other: str) -> bool:
    """Whether one word is the other plus at most two letters, as in a genitive; short words never match."""
    short, long = sorted((one, other), key=len)
    return len(short) >= FEWEST_STEM_LETTERS and len(long) - len(short) <= 2 and long.startswith(short)
