"""Computes what fits on paper: the quotes on the first printed page, and the record of the debate.

This page should be understandable without the other pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from moot.transcript.report.head import Group, Verdict
from moot.transcript.report.record import Item, Part

Line = tuple[int, float]
"""The number of characters in a line of text, and the height of the line in millimetres."""

HEIGHT = 243.0
"""Height between the margins of a page in US Letter, which is shorter than A4, in millimetres. `look/report.html` sets
the margins.
"""
MOST_PAGES = 5
"""Number of pages up to which a report is printed with its whole record."""
MOST_QUOTES = 4
"""Maximum number of a group's quotes on the first printed page, and on a screen before the rest is unfolded."""
CLAIM, BACKING, WARNING, REASON, BESIDE, BELOW = (40, 9.3), (100, 5.2), (90, 5.2), (66, 6.2), (44, 5.8), (72, 5.8)
PASSAGE, TURN = (90, 5.0), (54, 4.0)
"""For each kind of text: the characters in a printed line and the height of the line in millimetres, both estimated."""
FRAME, HEADING, GAP = 72.0, 18.0, 9.6
"""Heights in millimetres: the fixed parts of each first page, the heading of a row of quotes, and the space around a
quote.
"""
LATER, SOURCE, ROW, PART, HEAD, LABEL = 160.0, 16.0, 10.0, 11.0, 6.0, 0.6
"""Heights in millimetres: the fixed parts of the later pages, a source without its passage, a row of the timeline, the
heading of a part of the record, a speaker's heading in it, and the space around an action.
"""
CONTEXT = 150
"""Maximum number of characters that a long report has on paper before a quote, and after it."""


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
            needed = max((_height(group.quotes[index].text, line) + GAP for group in extended), default=0.0)
            if number in full or needed > room:
                full.add(number)
                continue
            room -= needed
            for group in extended:
                group.on_paper = index + 1


def record_fits(passages: Sequence[str], rows: int, record: Sequence[Part]) -> bool:
    """Whether a report with its whole record has at most `MOST_PAGES` pages, as estimated from the length of its texts.

    Half a page is left for the gaps before texts that are not divided.
    """
    height = LATER + SOURCE * len(passages) + ROW * rows + PART * len(record)
    height += sum(_height(one, PASSAGE) for one in passages)
    for part in record:
        height += sum(_height("".join(text for text, _ in note.said), PASSAGE) + 2 for note in part.notes)
        cards = [sum(_item_height(item) for item in card.items) + HEAD for card in part.cards]
        pairs = [cards[at : at + 2] for at in range(0, len(cards), 2)]
        height += cards[0] / 2 if len(cards) == 1 else sum(map(max, pairs))
    return height <= HEIGHT * (MOST_PAGES - 1.5)


def _item_height(item: Item) -> float:
    """The estimated height of an action in a column of the record, in millimetres."""
    text = "".join(text for text, _ in item.said) or "; ".join(title for _, title in item.found)
    return _height(f"{item.label}: {text}", TURN) + LABEL


def around_quotes(text: str, follows: bool, precedes: bool) -> tuple[str, str, str]:
    """Divides a text between quotes: the words after a quote, those far from quotes, and those before a quote."""
    start = text.rfind(" ", 0, CONTEXT) if follows else 0
    end = text.find(" ", max(len(text) - CONTEXT, 0)) if precedes else len(text)
    if not (follows or precedes) or min(start, end) < 0 or end - start <= CONTEXT:
        return text, "", ""
    return text[:start], text[start:end], text[end:]
