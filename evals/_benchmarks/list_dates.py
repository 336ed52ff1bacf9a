"""Reads the dates of a list as people and spreadsheets write them, in figures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from typing import Literal

from moot.nodes._texts.task import is_iso_date

DateOrder = Literal["dmy", "mdy"]
ORDERS: Mapping[DateOrder, str] = {"dmy": "day/month/year", "mdy": "month/day/year"}
YEAR_LAST = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})")
YEAR_FIRST = re.compile(r"(\d{4})([./-])(\d{1,2})\2(\d{1,2})")
TIME = re.compile(r"[ T]+\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?( ?[AP]M)?Z?", re.IGNORECASE)
SERIAL = re.compile(r"\d{5}")
"""A spreadsheet's number of a day. Numbers of four digits are years."""
EPOCH = date(1899, 12, 30)
"""The day with the number 0, for days after February 1900: Excel counts 29 February 1900, which never was."""


def read_date(text: str, order: DateOrder | None) -> str:
    """A date in ISO form. A text that is no such date, or is ambiguous without an ``order``, is returned unchanged.

    Dates with dots begin with the day. The time of day is left out.
    """
    plain = text.strip()
    if TIME.search(plain):
        plain = TIME.sub("", plain)
    if is_iso_date(plain):
        return plain
    if SERIAL.fullmatch(plain):
        return (EPOCH + timedelta(days=int(plain))).isoformat()
    if found := YEAR_FIRST.fullmatch(plain):
        return _iso(found[1], found[3], found[4]) or text
    if not (found := YEAR_LAST.fullmatch(plain)):
        return text
    first, separator, second, year = found.groups()
    chosen = "dmy" if separator == "." or first == second else _own_order(plain) or order
    if chosen is None:
        return text
    return _iso(year, *((second, first) if chosen == "dmy" else (first, second))) or text


def _iso(year: str, month: str, day: str) -> str | None:
    iso = f"{year}-{int(month):02}-{int(day):02}"
    return iso if is_iso_date(iso) else None


def _own_order(text: str) -> DateOrder | None:
    """The only order in which a date with slashes or hyphens can be read; None if both or neither can."""
    found = YEAR_LAST.fullmatch(TIME.sub("", text.strip()))
    if not found or found[2] == ".":
        return None
    first, second = int(found[1]), int(found[3])
    return None if (first > 12) == (second > 12) else "dmy" if first > 12 else "mdy"


def order_of(texts: Iterable[str]) -> tuple[DateOrder | None, str]:
    """The order of a column's dates, and the first date that is ambiguous: empty if none is, or if others decide.

    Dates that can be read in one way only decide for all others, unless they differ among themselves.
    """
    orders: set[DateOrder] = set()
    ambiguous = ""
    for text in texts:
        if own := _own_order(text):
            orders.add(own)
        elif not ambiguous and read_date(text, "dmy") != read_date(text, "mdy"):
            ambiguous = text.strip()
    if len(orders) == 1:
        return orders.pop(), ""
    return None, ambiguous
