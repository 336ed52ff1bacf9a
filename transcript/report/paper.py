"""How many quotes the first page has room for on A4: it is the verdict's, and stands alone."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from moot.transcript.report.head import Group, Verdict

Line = tuple[int, float]

HEIGHT = 261.0
"""Millimetres between the margins of A4, as `look/report.html` sets them."""
MOST_QUOTES = 4
"""Of a group on the first page, on paper and folded on a screen."""
CLAIM, BACKING, WARNING, REASON, BESIDE, BELOW = (40, 9.3), (100, 5.2), (90, 5.2), (66, 6.2), (44, 5.8), (72, 5.8)
"""Characters of a line, and its millimetres, as the style sheet sets them in print; somewhat more than measured."""
FRAME, HEADING, GAP = 72.0, 18.0, 9.6
"""Millimetres of what stands on each first page, of a row of quotes' heading, and of what stands around one quote."""


def _height(text: str, line: Line) -> float:
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
    """Sets how many quotes of each group are printed on the first page: `Group.on_paper`, from 0 to `MOST_QUOTES`.

    The page's groups get quotes in turns, and each as many as there is room for: by the length of the texts, as the
    fonts of a reader's machine are not known.

    Args:
        claim: the report's headline.
        verdict: as the report has it.
        warned: bold words and a sentence each, beside the verdict.
        reasons: the paragraphs that say why.
        beside: groups that stand side by side.
        below: groups that stand below them, each on its own.
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
    for place in range(MOST_QUOTES):
        for number, (groups, line) in enumerate(rows):
            there = [group for group in groups if len(group.quotes) > place]
            needed = max((_height(group.quotes[place][0].text, line) + GAP for group in there), default=0.0)
            if number in full or needed > room:
                full.add(number)
                continue
            room -= needed
            for group in there:
                group.on_paper = place + 1
