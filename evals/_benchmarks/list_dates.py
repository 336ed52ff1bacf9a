"""Reads the dates of a list as people and spreadsheets write them, in figures or with the names of months."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from typing import Literal

from moot.core.months import month_names, plain_name, weekday_names
from moot.nodes._texts.task import is_iso_date

DateOrder = Literal["dmy", "mdy", "ymd"]
ORDERS: Mapping[DateOrder, str] = {"dmy": "day/month/year", "mdy": "month/day/year", "ymd": "year/month/day"}
YEAR_LAST = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4}|\d{2})")
YEAR_FIRST = re.compile(
    r"(\d{4})(?:([./-])(\d{1,2})\2(\d{1,2})|年(\d{1,2})月(?:(\d{1,2})日)?|년 ?(\d{1,2})월(?: ?(\d{1,2})일)?)"
)
TIME = re.compile(r"[ T]+\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?( ?[AP]M)?(Z|[+-]\d{2}:?\d{2})?", re.IGNORECASE)
SERIAL = re.compile(r"\d{5}")
"""A spreadsheet's number of a day. Numbers of four digits are years."""
EPOCH = date(1899, 12, 30)
"""The day with the number 0, for days after February 1900: Excel counts 29 February 1900, which never was."""
CENTURIES = {**dict.fromkeys(range(30), 2000), **dict.fromkeys(range(50, 100), 1900)}
"""The century of a year of two digits. Spreadsheets differ on those from 30 to 49, so that these are not read."""
WORD = re.compile(r"[^\W\d_]+|\d+")
WORDS_BESIDE = "of the st nd rd th le er re du den der am de del la el il dello d г года р року v dne"
BESIDE = frozenset(WORDS_BESIDE.split())
"""Words that may stand in a date beside its month."""
MONTH_AND_YEAR = re.compile(r"[^\W\d_]+\.?(?:-| ?['’])\d\d")
"""A month with a year of two digits, as Excel shows it; in other forms, the number may be a day without a year."""


def read_date(text: str, order: DateOrder | None) -> str:
    """A date in ISO form. A text that is no such date, or is ambiguous without an ``order``, is returned unchanged.

    Dates with dots begin with the day. The time of day is left out.
    """
    plain = _without_time(text)
    if is_iso_date(plain):
        return plain
    if SERIAL.fullmatch(plain):
        return (EPOCH + timedelta(days=int(plain))).isoformat()
    if found := YEAR_FIRST.fullmatch(plain):
        month, day = found[3] or found[5] or found[7], found[4] or found[6] or found[8]
        return _iso(found[1], int(month), day) or text
    if not YEAR_LAST.fullmatch(plain):
        return _with_name(plain) or text
    readings = readings_of(plain)
    if len(set(readings.values())) == 1:
        return next(iter(readings.values()))
    return readings.get(order, text) if order else text


def readings_of(text: str) -> dict[DateOrder, str]:
    """The date in ISO form by each order in which a date of three numbers can be read; empty for other texts."""
    found = YEAR_LAST.fullmatch(_without_time(text))
    if not found:
        return {}
    first, separator, second, third = found.groups()
    parts: dict[DateOrder, tuple[str, str, str]] = {"dmy": (third, second, first)}
    if separator != ".":
        parts["mdy"] = (third, first, second)
    if separator == "-" and len(first) == len(second) == len(third) == 2:
        parts["ymd"] = (first, second, third)
    read = {order: _iso(year, int(month), day) for order, (year, month, day) in parts.items()}
    return {order: iso for order, iso in read.items() if iso}


def has_short_year(text: str) -> bool:
    """Whether a date that can be read has a year of two digits."""
    plain = _without_time(text)
    numbers = [word for word in WORD.findall(plain) if word.isdecimal()]
    return not any(len(number) > 2 for number in numbers) and read_date(plain, "dmy") != plain


def order_of(texts: Iterable[str]) -> tuple[DateOrder | None, str]:
    """The order of a column's dates, and the first date that is ambiguous: empty if none is, or if others decide.

    The orders in which all dates can be read decide, apart from those with dots. If there is none, the dates differ
    among themselves.
    """
    possible = set(ORDERS)
    readings = {
        text.strip(): found for text in texts if "." not in _without_time(text) and (found := readings_of(text))
    }
    for found in readings.values():
        possible &= set(found)
    if len(possible) == 1:
        return possible.pop(), ""
    for text, found in readings.items():
        if len({found[order] for order in found if order in (possible or found)}) > 1:
            return None, text
    return None, ""


def _without_time(text: str) -> str:
    return TIME.sub("", text.strip())


def _with_name(text: str) -> str | None:
    """A date with the name of a month in ISO form; None if it is none."""
    words = [plain_name(word) for word in WORD.findall(text)]
    names = month_names()
    months = [word for word in words if word in names]
    others = [word for word in words if not word.isdecimal() and word not in (BESIDE | weekday_names())]
    numbers = [word for word in words if word.isdecimal()]
    if len(months) != 1 or others not in ([], months) or not 1 <= len(numbers) <= 2:
        return None
    years = [number for number in numbers if len(number) == 4]
    if len(numbers) == 1:
        is_year = years or MONTH_AND_YEAR.fullmatch(text)
        return _iso(numbers[0], names[months[0]], None) if is_year else None
    year = years[0] if years else numbers[1]
    day = numbers[0] if year == numbers[1] and numbers[0] not in years else numbers[1]
    if len(years) > 1 or (not years and words.index(months[0]) > words.index(numbers[1])):
        return None
    return _iso(year, names[months[0]], day)


def _iso(year: str, month: int, day: str | None) -> str | None:
    """A date in ISO form; None if there is no such date, or if its century is not sure."""
    if len(year) == 2:
        if int(year) not in CENTURIES:
            return None
        year = str(CENTURIES[int(year)] + int(year))
    iso = f"{int(year):04}-{month:02}" + (f"-{int(day):02}" if day else "")
    return iso if is_iso_date(iso) else None
