"""Computes how many quotes fit on the first printed page (A4).

This page should be understandable without the other pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from moot.transcript.report.head import Group, Verdict

Line = tuple[int, float]
"""The number of characters in a line of text, and the height of the line in millimetres."""

HEIGHT = 261.0
"""Height between the margins of an A4 page, in millimetres, as set in `look/report.html`."""
MOST_QUOTES = 4
"""Maximum number of a group's quotes on the first printed page, and on a screen before the rest is unfolded."""
CLAIM, BACKING, WARNING, REASON, BESIDE, BELOW = (40, 9.3), (100, 5.2), (90, 5.2), (66, 6.2), (44, 5.8), (72, 5.8)
"""For each kind of text: the characters in a printed line and the height of the line in millimetres, both estimated."""
FRAME, HEADING, GAP = 72.0, 18.0, 9.6
"""Heights in millimetres: the fixed parts of each first page, the heading of a row of quotes, and the space around a
quote.
"""


def _height(text: str, line: Line) -> float:
    """The estimated height of a text in millimetres."""
    characters, millimetres = line
    return ceil(len(text) / characters) * millimetres


def fill_first_page(
    claim: str,
    verdict: Verdict,
    warned: Sequence[tuple[str, str]],
    reasons: Sequence[str],
    beside: Sequence[Group],
    below: Sequence[Group],
) -> None:
    """Sets the number of quotes of each group on the printed first page: `Group.on_paper`, from 0 to `MOST_QUOTES`.

    Each row gets a first quote of each of its groups, then each row a second one, and so on. A row gets no more quotes
    once its next quotes do not fit on the page. Groups that are side by side are one row. The room is estimated from
    the length of the texts, because the reader's fonts are unknown.

    Args:
        claim: the report's headline.
        verdict: the report's verdict.
        warned: the warnings at the verdict, each as bold words and a sentence.
        reasons: the paragraphs with the reasons.
        beside: groups that are placed side by side.
        below: the other groups, each in its own row.
    """
    room = HEIGHT - FRAME - _height(claim, CLAIM) - _height(f"{verdict.backing} {verdict.note}", BACKING)
    room -= sum(_height(" ".join(one), WARNING) + 2 for one in warned)
    room -= sum(_height(one, REASON) + 2.6 for one in reasons)
    rows: list[tuple[Sequence[Group], Line]] = [(beside, BESIDE)] if beside else []
    rows += [((group,), BELOW) for group in below]
    room -= HEADING * len(rows)
    full: set[int] = set()
    for group in (*beside, *below):
        group.on_paper = 0
    for index in range(MOST_QUOTES):
        for number, (groups, line) in enumerate(rows):
            extended = [group for group in groups if len(group.quotes) > index]
            needed = max((_height(group.quotes[index][0].text, line) + GAP for group in extended), default=0.0)
            if number in full or needed > room:
                full.add(number)
                continue
            room -= needed
            for group in extended:
                group.on_paper = index + 1
