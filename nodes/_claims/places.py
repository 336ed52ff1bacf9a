"""Parts of a text, places of claims in it, and words of claims that it does not support."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache

from moot.core.months import month_names
from moot.nodes._claims.state import Filled, Place, Section, Span
from moot.nodes._texts.quotes import UNSPACED, find_quote
from moot.retrievers._excerpts import sentences

WORD = re.compile(
    rf"{UNSPACED.pattern}|\d+(?:[.,]\d+)*|(?!(?<=\w['’])[sS]\b)(?:(?!{UNSPACED.pattern})[^\W\d_])+(?:['’](?![sS]\b)[^\W\d_]+)*"
)
"""A figure, a letter of a script without spaces, or a word; the s of a genitive is not part of the word."""
POSSESSIVE = re.compile(r"(?<=\w)['’](?:[sS])?$")
"""The ending of a possessive."""
GROUPED = re.compile(r"(?<=\d)[,.](?=\d{3}(?!\d))")
"""A separator of thousands."""
PARAGRAPH = re.compile(r"\S[^\n]*(?:\n(?!\s*\n)[^\n]*)*")
"""A paragraph: it ends before an empty line."""
LEAST_SENTENCE_WORDS = 4
"""Minimum number of words of the sentences that `sentences_in` returns."""
SHORT_WORD_LETTERS = 3
"""Words of at most this many letters, except names, always count as known: most are function words in any language.

`months` leaves out such short names of months, except those of May. In `_is_lengthened`, this is the minimum number of
letters of the shorter word.
"""
FEWEST_STEM_LETTERS = 4
"""Two forms of one word must begin with the same letters, at least this many.

A word and the same word plus an ending may share fewer (`_is_lengthened`).
"""
MOST_ENDING_LETTERS = 3
"""Maximum length of an ending for `_is_lengthened`.

A letter that is repeated before the ending, as in "letting", does not count.
"""
ENGLISH_WORDS = """
a about above according across after again against all along also although among an and are around as at be because been
before behind being below between beyond both but by can could did do does during each either every first for from
further had has have having he her his how if in into is it its later least less many may might more most much must
neither never no nor not of on once one only or other over per shall she should since so some such than that the their
them then there these they this those through to toward towards under until up upon was were when where whether which
while who whom whose will with within without would"""
FUNCTION_WORDS = frozenset(ENGLISH_WORDS.split())
"""English function words. `words_filled_in` ignores them, except capitalised names of months, such as May."""
MAY = 5
DATE_WORDS = "and or to und oder bis et ou au y al e o a en tot och og of de di st nd rd th er"
WORDS_BETWEEN_DAY_AND_MONTH = frozenset(DATE_WORDS.split())
"""Words allowed between a day and its month, as in "10 and 11 May"."""
MOST_WORDS_TO_MONTH = 6
"""Maximum distance between a day and its month, in words: neighbours have distance 1."""
MOST_WORDS_TO_YEAR = 3
"""Maximum distance between a day or a month and its year, in words."""
NEAR_YEARS = 2
"""Maximum difference between the year of the text's date and a year that counts as computed from this date."""


def count_words(text: str) -> int:
    """The number of words of a text; each letter of a script without spaces counts as a word."""
    return len(UNSPACED.sub(" ", text).split()) + len(UNSPACED.findall(text))


def parts_of(text: str, most: int) -> list[Span]:
    """Divides a text into parts of at most ``most`` words; only a part with a single sentence may have more."""
    units: list[tuple[int, int]] = []
    for found in PARAGRAPH.finditer(text):
        inner = sentences(found[0]) if count_words(found[0]) > most // 4 else [(0, len(found[0]))]
        units += [(found.start() + start, found.start() + end) for start, end in inner]
    parts: list[Span] = []
    room = 0
    for start, end in units:
        size = count_words(text[start:end])
        if parts and size <= room:
            parts[-1]["end"], room = end, room - size
        else:
            parts.append({"start": start, "end": end})
            room = most - size
    return parts


def sentences_in(text: str, sections: Sequence[Section]) -> list[Place]:
    """The places of a text's sentences of at least `LEAST_SENTENCE_WORDS` words, which most headings do not have."""
    paragraphs = ((found.start(), found[0]) for found in PARAGRAPH.finditer(text))
    spans = ((at + start, at + end) for at, paragraph in paragraphs for start, end in sentences(paragraph))
    return [
        _place_of_span(text, start, end, sections)
        for start, end in spans
        if count_words(text[start:end]) >= LEAST_SENTENCE_WORDS
    ]


def place_in(text: str, part: Span, quote: str, sections: Sequence[Section]) -> Place | None:
    """The first place of a quote in a part of a text, with the text's exact words; None if the quote is not found."""
    found = find_quote(quote, text[part["start"] : part["end"]])
    if found is None:
        return None
    start, end = (part["start"] + at for at in found)
    return _place_of_span(text, start, end, sections)


def _place_of_span(text: str, start: int, end: int, sections: Sequence[Section]) -> Place:
    index = bisect_right([section["start"] for section in sections], start) - 1
    page, heading = (sections[index]["page"], sections[index]["heading"]) if index >= 0 else (None, "")
    return {"quote": text[start:end], "start": start, "end": end, "page": page, "heading": heading}


def name_in(text: str, name: str) -> str | None:
    """A name that a text contains, perhaps in the possessive: for "Carver's", it is "Carver" if the text has that.

    None if the text does not contain the name.
    """
    bare = POSSESSIVE.sub("", name)
    if bare != name and find_quote(bare, text):
        return bare
    return name if any(find_quote(form, text) for form in (name, f"{name}'s", f"{name}'S")) else None


def vocabulary(texts: Iterable[str]) -> set[str]:
    """The words of texts, normalised for comparison."""
    return {_normalised(found[0]) for text in texts for found in WORD.finditer(text)}


def words_filled_in(claim: str, quote: str, known: set[str], date: str | None) -> tuple[list[Filled], list[str]]:
    """The spans of a claim's words that its quote does not contain, and those words that the text does not support."""
    quoted = vocabulary([quote])
    matches = list(WORD.finditer(claim))
    plain = [_normalised(match[0]) for match in matches]
    filled: list[Filled] = []
    unknown: list[str] = []
    follows = False
    for at, (match, word) in enumerate(zip(matches, plain, strict=True)):
        is_new = word not in quoted and not _is_function_word(match[0], word)
        # A person checks such a time, even if the text contains it, because most texts contain the year of their date.
        computed = is_new and _may_be_computed(plain, at, date)
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


def _is_function_word(word: str, plain: str) -> bool:
    return plain in FUNCTION_WORDS and not (word[0].isupper() and plain in months())


def _may_be_computed(words: Sequence[str], at: int, date: str | None) -> bool:
    """Whether a word may be computed from the text's date: a year near it, a month, or a day next to a month."""
    word = words[at]
    if not date:
        return False
    if _is_year(word):
        return abs(int(word) - int(date[:4])) <= NEAR_YEARS
    before, after = words[max(0, at - MOST_WORDS_TO_MONTH) : at][::-1], words[at + 1 : at + 1 + MOST_WORDS_TO_MONTH]
    # A day of a distant year, such as 3 June 1869, is not computed from the text's date.
    years = [word for word in (*before[:MOST_WORDS_TO_YEAR], *after[:MOST_WORDS_TO_YEAR]) if _is_year(word)]
    if years and all(abs(int(year) - int(date[:4])) > NEAR_YEARS for year in years):
        return False
    return word in months() or (_is_day(word) and (_leads_to_month(before) or _leads_to_month(after)))


def _leads_to_month(words: Iterable[str]) -> bool:
    """Whether the first word that is neither a day nor in `WORDS_BETWEEN_DAY_AND_MONTH` is a month."""
    others = (word for word in words if not _is_day(word) and word not in WORDS_BETWEEN_DAY_AND_MONTH)
    return next(others, "") in months()


def _is_year(word: str) -> bool:
    return word.isdecimal() and len(word) == len("2000")


def _is_day(word: str) -> bool:
    return word.isdecimal() and len(word) <= len("31") and 0 < int(word) <= 31


@lru_cache(maxsize=1)
def months() -> frozenset[str]:
    """The normalised names of months and their abbreviations, in several languages."""
    # Short names are left out, because some of them, like "set", are words of other languages; but May is kept.
    return frozenset(name for name, number in month_names().items() if number == MAY or len(name) > SHORT_WORD_LETTERS)


def _is_known(word: str, plain: str, known: set[str], *, first: bool) -> bool:
    """Whether the text contains a word, maybe in another form; a claim's ``first`` word is not taken for a name."""
    if plain in known:
        return True
    # Figures, and letters of scripts without spaces, have no other form.
    if word[0].isdigit() or UNSPACED.match(word):
        return False
    # A name may differ in its ending; any other word may be inflected, and a short one counts as known.
    if word[0].isupper() and not first:
        return any(_match_but_for_ending(plain, other) for other in known)
    stem = plain[: max(FEWEST_STEM_LETTERS, len(plain) - 3)]
    return len(plain) <= SHORT_WORD_LETTERS or any(
        other.startswith(stem) or _is_lengthened(plain, other) for other in known
    )


def _is_lengthened(word: str, other: str) -> bool:
    """Whether a word is another word of some length, not a function word, plus an ending: "letting" and "let"."""
    if len(other) < SHORT_WORD_LETTERS or other in FUNCTION_WORDS or not word.startswith(other):
        return False
    added = len(word) - len(other)
    return added <= MOST_ENDING_LETTERS or (added == MOST_ENDING_LETTERS + 1 and word[len(other)] == other[-1])


def _match_but_for_ending(one: str, other: str) -> bool:
    """Whether two words are equal, or differ by one or two letters at the end, as in a genitive."""
    short, long = sorted((one, other), key=len)
    return len(short) >= FEWEST_STEM_LETTERS and len(long) - len(short) <= 2 and long.startswith(short)
