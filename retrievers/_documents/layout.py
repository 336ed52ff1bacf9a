"""Puts the characters of a PDF page into lines and columns."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from statistics import mean

SAME_LINE = 0.25
"""How far baselines of one line differ at most. All of these values are in heights of a line."""
RAISED = (0.1, 0.7)
"""How far the baseline of a superscript or a subscript differs from its line's."""
SMALLER = 0.85
"""The maximum height of a superscript or a subscript."""
TOUCHING = 0.3
"""The maximum gap between a number and its superscript."""
SPACE = 0.15
"""The minimum gap between two words, where the file does not give a space."""
CELL = 1.0
"""The minimum gap between columns."""
NEXT_LINE = 2.5
"""The maximum distance between the lines of a column."""
LEAST_LINES = 3
"""The minimum number of lines that columns of text have side by side; rows of a table may be fewer."""
LEAST_PROSE = 16
"""The minimum mean length of the lines of a column of text, in characters; cells of tables are shorter."""
LEAST_CONTINUED = 0.25
"""The minimum share of the lines of a column of text that begin within a sentence; rows of tables begin with a name."""
LEVEL = 0.001
"""The maximum slant of level text, in radians."""
HYPHEN = re.compile("(\\S{1,200})[-\u00ad]\n+(?=(\\S+))")
JOINING_WORDS = "and or to und oder bis sowie bzw et ou y o e en of och og i oraz lub"
JOINING = frozenset(JOINING_WORDS.split())
"""Words after a hyphen that stands for a part of a later word, as in "pre- and post-war"."""
OPENING = "([{\"'“„‚‘«¿¡"
UP = str.maketrans("0123456789+-−=()", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾")
DOWN = str.maketrans("0123456789+-−=()", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎")
WORDS = re.compile(r"[^\W\d_]{2,}")
LEFTWARD = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
MIRROR = str.maketrans("()[]", ")(][")
RIGHTWARD = re.compile(
    r"[A-Za-z](?:[^\u0590-\u08ff\ufb1d-\ufefc]*[0-9A-Za-z])?|[0-9](?:[^\s\u0590-\u08ff\ufb1d-\ufefc]*[0-9])?"
)
FREQUENT_WORDS = "של על היה הוא היא בין גם אבל في من على إلى هذا التي عن مع از در که این"
FREQUENT = frozenset(FREQUENT_WORDS.split())
"""Frequent words of Hebrew, Arabic and Persian, which are rarely words if they are mirrored."""
LAST_LETTERS = "ךםןףץةى"
"""Letters that stand only at the end of a word."""
PRIVATE = re.compile("[\0\ufffd\ue000-\uf8ff\U000f0000-\U0010ffff]")
"""Characters without a meaning outside of a font."""


@dataclass(slots=True)
class Glyph:
    """A character with its origin, its box (left, bottom, right, top), and its angle in radians, clockwise.

    The box is None for spaces and ends of lines that PDFium adds.
    """

    text: str
    x: float = 0.0
    y: float = 0.0
    box: tuple[float, float, float, float] | None = None
    angle: float = 0.0


@dataclass(slots=True)
class Run:
    """Characters without a gap, in the direction of their text: from ``start`` to ``end``, on the line ``base``."""

    turned: int  # by this number of quarters; -1 for other angles
    start: float
    end: float
    base: float
    height: float
    text: str
    spaced: bool  # whether a space precedes it
    leftward: bool  # whether it has letters that are read from right to left


@dataclass(slots=True)
class Line:
    """Runs on the same line; its cells are texts that are wide apart, each with its start and its end."""

    turned: int
    base: float
    height: float
    cells: list[tuple[float, float, str]] = field(default_factory=list)

    def text(self) -> str:
        """The texts of the cells, with a space between them."""
        return " ".join(text for _, _, text in self.cells)


def is_private(text: str) -> bool:
    """Whether a character has no meaning outside of its font."""
    return PRIVATE.fullmatch(text) is not None


def page_text(glyphs: Iterable[Glyph]) -> str:
    """The lines of a page in reading order; text in the direction of most of the page precedes other text."""
    lines = list(_lines(_runs(_in_reading_order(glyphs))))
    counted: Counter[int] = Counter()
    for line in lines:
        counted[line.turned] += len(line.text())
    ordered = chain.from_iterable(
        _in_columns(_downward([line for line in lines if line.turned == turned])) for turned, _ in counted.most_common()
    )
    texts = [line.text() for line in ordered]
    if _is_mirrored(" ".join(texts)):
        texts = [_mirrored(text) if LEFTWARD.search(text) else text for text in texts]
    text = "\n".join(texts)
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")  # PDFium may give half a character
    return PRIVATE.sub("", text)


def _in_reading_order(glyphs: Iterable[Glyph]) -> Iterator[Glyph]:
    """Puts level lines with letters that are read from right to left in order by their places.

    PDFium gives the letters of some words, or all words of a line, in the order of their places from left to right.
    """
    line: list[Glyph] = []
    for glyph in chain(glyphs, (Glyph("\n"),)):
        if glyph.box is not None or glyph.text not in "\r\n":
            line.append(glyph)
            continue
        yield from _leftward_line(line) if LEFTWARD.search("".join(one.text for one in line)) else line
        yield glyph
        line = []


def _leftward_line(line: Sequence[Glyph]) -> Sequence[Glyph]:
    """A line in reading order; unchanged if it has marks above letters, or characters on several lines or places."""
    words: list[list[tuple[float, Glyph]]] = [[]]
    for glyph in line:
        if glyph.box is None or glyph.text.isspace():
            words.append([])
        else:
            words[-1].append((glyph.box[0] + glyph.box[2], glyph))
    shown = [one for word in words for one in word]
    bases = [glyph.y for _, glyph in shown]
    heights = [glyph.box[3] - glyph.box[1] for _, glyph in shown if glyph.box is not None]
    if (
        len({place for place, _ in shown}) < len(shown) / 2
        or max(bases) - min(bases) > SAME_LINE * max(heights)
        or any(abs(glyph.angle) > LEVEL or unicodedata.combining(glyph.text) for _, glyph in shown)
    ):
        return line
    # The words are as PDFium divides them, because boxes of Arabic letters and spaces overlap.
    begins = {id(max(word, key=lambda one: one[0])[1]) for word in words if word}
    found: list[Glyph] = []
    for _, glyph in sorted(shown, key=lambda one: -one[0]):  # stable, so that the letters of a ligature stay in order
        found += [Glyph(" ")] * (id(glyph) in begins and bool(found)) + [glyph]
    text = "".join(glyph.text for glyph in found)
    for run in RIGHTWARD.finditer(text):
        found[run.start() : run.end()] = found[run.start() : run.end()][::-1]
    brackets = [one for one in text if one in "()[]"]
    if brackets and brackets[0] in ")]":
        found = [replace(one, text=one.text.translate(MIRROR)) for one in found]
    return found


def _is_mirrored(text: str) -> bool:
    """Whether words that are read from right to left are in the order of pages that were drawn from left to right."""
    signs = [0, 0]  # of words, and of words that are mirrored
    for word in (word for word in WORDS.findall(text) if LEFTWARD.match(word)):
        for at, form in enumerate((word, word[::-1])):
            signs[at] += form in FREQUENT or form[-1] in LAST_LETTERS
    return signs[1] > 2 * signs[0]


def _mirrored(text: str) -> str:
    """A line from its end to its beginning, except for figures and words that are read from left to right."""
    return RIGHTWARD.sub(lambda found: found[0][::-1], text[::-1])


def _runs(glyphs: Iterable[Glyph]) -> Iterator[Run]:
    """Joins characters that follow each other without a gap."""
    run: Run | None = None
    spaced = ended = False
    for glyph in glyphs:
        if glyph.box is None or glyph.text.isspace():
            ended |= glyph.text in "\r\n"
            spaced |= glyph.text not in "\r\n"
            continue
        turned, start, end, base, height = _placed(glyph)
        leftward = unicodedata.bidirectional(glyph.text) in ("R", "AL")
        if (
            run is not None
            and run.turned == turned
            and abs(base - run.base) <= SAME_LINE * max(height, run.height)
            and (
                not ended  # PDFium has put the characters of the line into the order of reading
                if leftward or run.leftward
                else SMALLER <= height / max(run.height, 0.01) <= 1 / SMALLER
                and max(start - run.end, run.start - end) <= CELL * height
            )
        ):
            run.leftward |= leftward
            apart = spaced or (ended and start - run.end > SPACE * height)
            run.text += " " + glyph.text if apart else glyph.text
            run.start, run.end = min(run.start, start), max(run.end, end)
        else:
            if run is not None:
                yield run
            run = Run(turned, start, end, base, height, glyph.text, spaced, leftward)
        spaced = ended = False
    if run is not None:
        yield run


def _placed(glyph: Glyph) -> tuple[int, float, float, float, float]:
    """The direction of a character, its start and end in this direction, its baseline and its height."""
    assert glyph.box is not None
    left, bottom, right, top = glyph.box
    x, y = glyph.x, glyph.y
    quarters = glyph.angle / (math.pi / 2)
    turned = round(quarters) % 4
    slant = glyph.angle - round(quarters) * math.pi / 2
    if abs(quarters - round(quarters)) > 0.05:
        cosine, sine = math.cos(glyph.angle), math.sin(glyph.angle)
        start = glyph.x * cosine - glyph.y * sine
        height = max(right - left, top - bottom)
        return -1, start, start, glyph.x * sine + glyph.y * cosine, height
    if abs(slant) > LEVEL:  # as in scans; the box is around the slanted character
        cosine, sine = math.cos(slant), math.sin(slant)
        width, height = right - left, top - bottom
        middle = (left + right) / 2, (bottom + top) / 2
        (x, y), (across, up) = ((a * cosine - b * sine, a * sine + b * cosine) for a, b in ((x, y), middle))
        halves = [(a * cosine - b * abs(sine)) / math.cos(2 * slant) / 2 for a, b in ((width, height), (height, width))]
        left, right, bottom, top = across - halves[0], across + halves[0], up - halves[1], up + halves[1]
    if turned == 0:
        return turned, left, right, y, top - bottom
    if turned == 1:
        return turned, -top, -bottom, x, right - left
    if turned == 2:
        return turned, -right, -left, -y, top - bottom
    return turned, bottom, top, -x, right - left


def _lines(runs: Iterable[Run]) -> Iterator[Line]:
    """Joins runs on the same line, with their superscripts and subscripts, in the order of the file."""
    line: Line | None = None
    for run in runs:
        if line is not None and _joins(line, run):
            continue
        if line is not None:
            yield line
        line = Line(run.turned, run.base, run.height, [(run.start, run.end, run.text)])
    if line is not None:
        yield line


def _joins(line: Line, run: Run) -> bool:
    """Adds a run to a line, if it continues the line."""
    start, end, text = line.cells[-1]
    gap = run.start - end
    size = max(line.height, run.height)
    if line.turned != run.turned or gap < -size / 2:
        return False
    rise = (run.base - line.base) / size
    touches = gap <= TOUCHING * size
    is_script = RAISED[0] <= abs(rise) <= RAISED[1]
    if is_script and touches and run.height <= SMALLER * line.height:
        line.cells[-1] = (start, max(end, run.end), text + raised(run.text, rise > 0, text))
        return True
    if (
        is_script and touches and len(line.cells) == 1 and line.height <= SMALLER * run.height
    ):  # the number of a footnote
        line.cells[-1] = (start, run.end, f"{raised(text, rise < 0, '')} {run.text}")
        line.base, line.height = run.base, run.height
        return True
    if abs(rise) > SAME_LINE:
        return False
    if gap > CELL * size:
        line.cells.append((run.start, run.end, run.text))
    else:
        space = " " if run.spaced or gap > SPACE * size else ""
        line.cells[-1] = (start, max(end, run.end), text + space + run.text)
    return True


def raised(text: str, up: bool, before: str) -> str:
    """A superscript or subscript that no reader takes for a part of a number; letters and the 2 of CO2 stay."""
    if text.lstrip().startswith("["):
        return f" {text.lstrip()}"
    if up:
        return text.translate(UP)
    return text.translate(DOWN) if before[-1:].isdigit() else text


def _downward(lines: Sequence[Line]) -> list[Line]:
    """Lines of turned text in order: PDFium sorts them from left to right, which may be from the last to the first."""
    found: list[Line] = []
    above: list[Line] = []
    for line in lines:
        rise = (line.base - above[-1].base) / max(line.height, above[-1].height) if above else 0.0
        if line.turned == 0 or not RAISED[1] < rise < NEXT_LINE:
            found += reversed(above)
            above = []
        above.append(line)
    return [*found, *reversed(above)]


def _in_columns(lines: Sequence[Line]) -> Iterator[Line]:
    """Lines in reading order, if the file has the lines of columns side by side."""
    at = 0
    while at < len(lines):
        length, gutter = max(
            (_side_by_side(lines[at:], one, other) for (_, one, _), (other, _, _) in pairwise(lines[at].cells)),
            default=(1, 0.0),
        )
        block = lines[at : at + length]
        at += length
        if length == 1:
            yield block[0]
            continue
        for left in (True, False):
            column = [
                Line(line.turned, line.base, line.height, cells)
                for line in block
                if (cells := [cell for cell in line.cells if (cell[0] < gutter) == left])
            ]
            yield from _in_columns(column)


def _side_by_side(lines: Sequence[Line], begin: float, end: float) -> tuple[int, float]:
    """The number of lines that a gutter divides into columns of text, from the first on (1 if none); and its middle."""
    sides: tuple[list[str], list[str]] = ([], [])
    last, length, both = lines[0], 0, 0
    for line in lines:
        if abs(line.base - last.base) > NEXT_LINE * max(line.height, last.height):
            break
        left = [cell for cell in line.cells if cell[0] < begin]
        right = line.cells[len(left) :]
        within = max([begin, *(cell[1] for cell in left)]), min([end, *(cell[0] for cell in right)])
        if within[1] - within[0] < CELL * line.height / 2:
            break
        begin, end = within
        for side, cells in zip(sides, (left, right), strict=True):
            side += [" ".join(text for _, _, text in cells)] if cells else []
        both += bool(left and right)
        last, length = line, length + 1
    is_prose = both >= LEAST_LINES and all(map(_is_prose, sides))
    return (length, (begin + end) / 2) if is_prose else (1, 0.0)


def _is_prose(lines: Sequence[str]) -> bool:
    """Whether lines look like running text, not like the cells of a table."""
    continued = sum(line[0].isalpha() and not line[0].isupper() for line in lines)
    return mean(map(len, lines)) >= LEAST_PROSE and continued >= LEAST_CONTINUED * len(lines)


def join_lines(text: str) -> str:
    """A page's lines as running text, in which words that a hyphen divides are joined again.

    The hyphen stays in names, numbers and addresses. It is lost in a compound of lower-case words, as nothing tells
    ``well-known`` from a divided word.
    """

    def joined(at: re.Match[str]) -> str:
        word, following = at[1], at[2]
        if following.strip(".,;:)") in JOINING and word[-1].isalpha():
            return f"{word}- "
        if word.lstrip(OPENING).isalpha() and word[-1].islower() and following[0].islower():
            return word
        return f"{word}-" if word[-1].isalnum() and following[0].isalnum() else at[0]

    text = text.replace("\r", "\n").replace("\x02", "-").replace("\ufffe\n", "-\n").replace("\ufffe", "")
    return " ".join(HYPHEN.sub(joined, text).split())
