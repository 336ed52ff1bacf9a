"""The names of months and of the days of the week in several languages, from the data of dateparser."""

from __future__ import annotations

import calendar
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module

LANGUAGE_CODES = "en de fr es it pt nl pl cs sv da nb fi ru uk tr el ar"
LANGUAGES = LANGUAGE_CODES.split()
"""The languages whose names are known."""


@cache
def month_names() -> Mapping[str, int]:
    """The number of the month of each name and abbreviation, as `plain_name` writes them; none with two meanings."""
    found: dict[str, set[int]] = {}
    for number in range(1, 13):
        for name in _names(calendar.month_name[number].lower()):
            found.setdefault(name, set()).add(number)
    return {name: min(numbers) for name, numbers in found.items() if len(numbers) == 1}


@cache
def weekday_names() -> frozenset[str]:
    """The names and abbreviations of the days of the week, as `plain_name` writes them."""
    return frozenset(name for day in calendar.day_name for name in _names(day.lower()))


def plain_name(name: str) -> str:
    """A name in one form of its letters, in small letters, without the dot of an abbreviation."""
    return unicodedata.normalize("NFKC", name).casefold().rstrip(".")


def _names(key: str) -> Iterator[str]:
    for language in LANGUAGES:
        info = import_module(f"dateparser.data.date_translation_data.{language}").info
        yield from map(plain_name, info[key])
