"""Finds the date in the byline of a text, such as "By Ada Brandt, 3 March 2025"."""

from __future__ import annotations

import re
from itertools import islice

from moot.core.months import LANGUAGES
from moot.nodes._texts.task import is_iso_date

LINES = 10
"""Number of lines at the beginning of a text that may be its byline."""
LONGEST = 150
"""Maximum number of characters of a byline."""
DATE = re.compile(
    r"\b\d{4}-\d{2}-\d{2}(?=T\d|\b)"
    r"|\b\d{1,2}\.\s?\d{1,2}\.\s?\d{4}\b"
    r"|\b\d{1,2}(?:\.|st|nd|rd|th|er|º)?\s+(?:(?:of|de|d')\s*)?[^\W\d_]{3,}\.?,?\s+(?:(?:de|del)\s+)?\d{4}\b"
    r"|\b[^\W\d_]{3,}\.?\s+\d{1,2}(?:st|nd|rd|th)?,?\s+\d{4}\b"
)
"""A day with its month and year. Days such as 3/4/2025 are left out, because they can be read in two ways."""
PUBLISHED = """
published posted updated date stand veröffentlicht aktualisiert publié publicado actualizado pubblicato aggiornato
gepubliceerd опубликовано обновлено дата opublikowano aktualizacja publikováno publicerad uppdaterad publisert oppdatert
udgivet opdateret julkaistu"""
PUBLISHED_WORDS = frozenset(PUBLISHED.split())
"""Words just before the date of a byline."""
BEGINNINGS = "by von par por di door av af od autor author автор text mis am le el il on"
FIRST_WORDS = PUBLISHED_WORDS | frozenset(BEGINNINGS.split())
"""Words with which a byline begins, if it does not begin with the date."""
SMALL_WORDS = "and und et y e en i och og the at um a à der den de van da for uhr h pm am kl г года r"
OTHER_WORDS = FIRST_WORDS | frozenset(SMALL_WORDS.split())
"""Words in a byline that are written in lower case. Its other words are names."""
WORD = re.compile(r"[^\W\d_]+")


def byline_date(text: str) -> str | None:
    """The first date in ISO form in a line near a text's beginning that has only names and words of a byline; or None.

    A heading or a sentence with a date is no byline.
    """
    lines = (line.strip() for line in text.splitlines() if line.strip())
    for line in islice(lines, LINES):
        found = DATE.search(line) if len(line) <= LONGEST else None
        if found is None:
            continue
        words, before = WORD.findall(DATE.sub(" ", line)), WORD.findall(line[: found.start()])
        # "ADA BRANDT | UPDATED MAY 4, 2021" does not begin with such a word, but has one before the date.
        begins = not before or before[0].casefold() in FIRST_WORDS or before[-1].casefold() in PUBLISHED_WORDS
        if begins and all(word[0].isupper() or word in OTHER_WORDS for word in words) and (day := _iso(found[0])):
            return day
    return None


def _iso(text: str) -> str | None:
    """A day in ISO form; None if the text is not one."""
    if is_iso_date(text):
        return text
    from dateparser import parse  # type: ignore[import-untyped]  # here, because it is slow to import

    settings = {"STRICT_PARSING": True, "DATE_ORDER": "DMY"}
    found = parse(text, languages=LANGUAGES, settings=settings)
    return None if found is None else f"{found:%Y-%m-%d}"
