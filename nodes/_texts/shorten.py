"""Shortens prompts to a limit, mainly by leaving out the worst-ranked evidence and the oldest rounds.

A prompt's data consists of elements between tags that only moot can write (`moot.prompts.as_data`). So the data can be
split again into its parts: pieces of evidence, and answers, arguments and lines of a record, each with its round. The
following is removed, in this order, until the prompt fits. Everything else stays.

1. Evidence, the worst-ranked first, but cited evidence last. A piece has the rank from its search. A piece without a
   rank is ranked by the words that it shares with the claim (`ranks_by_words`). The last piece for which there is
   space may be shown in part. A piece that would take more than half of the space may also be shown in part, unless it
   is the only cited piece. A quarter of the prompt is reserved for evidence.
2. The oldest rounds. In a trial, rounds with the same number are left out of both debates. The last round of each
   debate stays.
3. The ends of the longest reasons and arguments.
4. More of the evidence, even if less than the reserved quarter is left.

A note in each list of evidence or rounds says what was left out of the list. `GAP` marks the end of each text that was
cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import groupby
from typing import Literal

from moot.nodes._models.contexts import bytes_of
from moot.retrievers._excerpts import GAP, ranks_by_words, sentences

EVIDENCE_SHARE = 0.25
"""The share of a prompt that is reserved for evidence: rounds are left out before evidence gets less than this."""
FEWEST_PART_BYTES = 400
"""Minimum number of bytes allotted to a piece of evidence that is shown in part."""
FEWEST_REASONS_BYTES = 160
"""Reasons and arguments are never cut to a limit below this number of bytes."""
TAIL = 1200
"""Number of characters at the end of a cut text that are searched for the end of a sentence."""
TRIES = 10
"""Maximum number of attempts to reach the limit."""
BYTES_PER_TRY = 100
"""Attempt n (from 0) lowers the aim by the excess and by n times this number of bytes.

Texts are cut at the end of a sentence, so a smaller step may change nothing.
"""

EVIDENCE, ROUNDS, LINES = (
    ("evidence", "item"),
    ("answer", "argument", "testimony", "step"),
    ("retrieval", "critic", "reflections"),
)
"""The tags of evidence, of entries that belong to one round, and of records with lines about rounds."""
_ELEMENT = re.compile(rf"<({'|'.join((*EVIDENCE, *ROUNDS, *LINES))})( [^<>]*)?>\n(.*?)\n</\1>", re.DOTALL)
_REASONS = re.compile(r"(<(reasons|argument|testimony|summary|review)(?: [^<>]*)?>\n)(.*?)(\n</\2>)", re.DOTALL)
_CLAIM = re.compile(r"<(claim|question)>\n(.*?)\n</\1>", re.DOTALL)
_ATTRIBUTE = re.compile(r' (\w+)="([^"]*)"')
_HEADING = re.compile(r"(?:^|\n)(Round (\d+)\n)$")
"""The heading of a round in the history of a debate."""
_LINE = re.compile(r"(first|second) debate, round (\d+)[,:]")
_CITATIONS = re.compile(r"<citations>\n(.*?)\n</citations>", re.DOTALL)
_CITES = re.compile(r'<\w+(?: [^<>]*)? cites="([^"]*)"[^<>]*>')
_CITED = re.compile(r"^(?:\[this quote[^\]]*\] )?(\S{1,64}): ", re.MULTILINE)


@dataclass(frozen=True, eq=False)
class Unit:
    """A part of a prompt's text that may be left out; ``start`` and ``end`` (exclusive) are offsets in that text."""

    kind: Literal["evidence", "round"]
    start: int
    end: int
    text: str
    place: int  # of evidence, the position in its list, from 1; of a round, its number
    id: str = ""
    series: str = ""  # the debate of a round in a trial's record: ``first`` or ``second``


@dataclass(frozen=True)
class ShortenedTexts:
    """Texts, in the given order, that were shortened to a limit, if possible; and what was left out, as numbers."""

    texts: list[str]
    evidence_left_out: int = 0
    in_part: int = 0  # pieces of evidence shown in part
    of_evidence: int = 0  # all pieces of evidence; 0 if the texts were not too long
    rounds_left_out: list[int] = field(default_factory=list)  # their numbers
    of_rounds: int = 0  # all rounds; 0 if the texts were not too long
    reasons_cut: int = 0  # reasons and arguments shown in part, and elements that `drop_elements` left out
    ids: list[str] = field(default_factory=list)  # of evidence left out, without ids that the remaining text cites
    size: int = 0  # bytes of the texts; above the limit if they could not be shortened enough


def shorten(texts: Sequence[str], most: int, ranks: Mapping[str, int] | None = None) -> ShortenedTexts:
    """Shortens the texts of a prompt, if possible, to ``most`` bytes of UTF-8 together; rank 1 is the best."""
    if (size := sum(map(bytes_of, texts))) <= most:
        return ShortenedTexts(list(texts), size=size)
    lists = [list(lists_of(text)) for text in texts]
    cited = {id for text in texts for id in cited_in(text)}
    pieces, old = [], []
    for group in (group for found in lists for group in found):
        newest: dict[str, int] = {}
        for unit in group:
            newest[unit.series] = max(unit.place, newest.get(unit.series, 0))
        pieces += [unit for unit in group if unit.kind == "evidence"]
        old += [unit for unit in group if unit.kind == "round" and unit.place < newest[unit.series]]
    # Pieces without a rank are ranked by the words that they share with the claim.
    known = {**_ranks_by_claim(texts, [unit for unit in pieces if unit.id not in (ranks or {})]), **(ranks or {})}
    pieces.sort(key=lambda unit: (unit.id not in cited, known.get(unit.id, unit.place)))
    shown = cited & {unit.id for unit in pieces}
    only_cited = min(shown) if len(shown) == 1 else ""
    aim = most
    for attempt in range(TRIES):
        made = _shorten_to(texts, lists, pieces, only_cited, old, aim, size)
        if made.size <= most:
            break
        aim -= made.size - most + attempt * BYTES_PER_TRY
    return made


def _ranks_by_claim(texts: Sequence[str], pieces: Sequence[Unit]) -> dict[str, int]:
    """The rank of each piece by its id, from the words that it shares with the claim; empty if there is no claim."""
    claim = next((found[2] for text in texts if (found := _CLAIM.search(text))), "")
    different = {unit.id: unit.text for unit in pieces}
    return dict(zip(different, _ranks(claim, tuple(different.values())), strict=True)) if claim else {}


@lru_cache(maxsize=8)
def _ranks(claim: str, texts: tuple[str, ...]) -> list[int]:
    """Caches `ranks_by_words`, because the speakers of a debate are shown the same texts."""
    return ranks_by_words(claim, texts)


def drop_elements(made: ShortenedTexts, most: int) -> ShortenedTexts:
    """Leaves out whole elements of texts that are still too long for a ceiling after `shorten`, evidence first."""
    found = [(at, element) for at, text in enumerate(made.texts) for element in _ELEMENT.finditer(text)]
    evidence = [one for one in found if one[1][1] in EVIDENCE]
    gone, over = [], made.size - most
    # In the worst case, only text outside of these elements remains, such as the claim.
    for at, element in [*reversed(evidence), *(one for one in found if one[1][1] not in EVIDENCE)]:
        if over <= 0:
            break
        gone.append((at, element))
        over -= bytes_of(element[0])
    texts = list(made.texts)
    for at, element in sorted(gone, key=lambda one: -one[1].start()):
        texts[at] = texts[at][: element.start()] + texts[at][element.end() :].removeprefix("\n")
    pieces = [element for _, element in gone if element[1] in EVIDENCE]
    ids = {dict(_ATTRIBUTE.findall(piece[2] or "")).get("id", "") for piece in pieces} - {""}
    return replace(
        made,
        texts=texts,
        evidence_left_out=made.evidence_left_out + len(pieces),
        reasons_cut=made.reasons_cut + len(gone) - len(pieces),
        ids=sorted({*made.ids, *ids} - {id for text in texts for id in cited_in(text)}),
        size=sum(map(bytes_of, texts)),
    )


def _shorten_to(
    texts: Sequence[str],
    lists: Sequence[Sequence[Sequence[Unit]]],
    pieces: Sequence[Unit],
    only_cited: str,
    old: Sequence[Unit],
    aim: int,
    size: int,
) -> ShortenedTexts:
    """Shortens the texts to about ``aim`` bytes; the notes on gaps may make them longer."""
    evidence_size, rounds_size = sum(_size(unit) for unit in pieces), sum(_size(unit) for unit in old)
    room = aim - (size - evidence_size - rounds_size)
    allotted = _allot_bytes(pieces, only_cited, max(room - rounds_size, min(evidence_size, int(aim * EVIDENCE_SHARE))))
    gone: set[Unit] = set()
    for _, same in groupby(sorted(old, key=lambda unit: unit.place), key=lambda unit: unit.place):
        if sum(allotted.values()) + rounds_size <= room:
            break
        left = list(same)
        rounds_size -= sum(_size(unit) for unit in left)
        gone.update(left)
    if gone and rounds_size < room:
        allotted = _allot_bytes(pieces, only_cited, room - rounds_size)  # with the space of the rounds left out
    over, reasons_cut = sum(allotted.values()) + rounds_size - room, 0
    written = _with_remaining_units(texts, lists, allotted, gone)
    if over > 0:
        longest, saved, reasons_cut = _reasons_limit(written, over)
        if saved < over:
            allotted = _allot_bytes(pieces, only_cited, max(0, sum(allotted.values()) - (over - saved)))
            written = _with_remaining_units(texts, lists, allotted, gone)
        written = [
            _REASONS.sub(lambda found: f"{found[1]}{_beginning(found[3], longest)}{found[4]}", one) for one in written
        ]
    seen = {unit.id for unit in allotted} | {id for text in written for id in cited_in(text)}
    return ShortenedTexts(
        written,
        evidence_left_out=len(pieces) - len(allotted),
        in_part=sum(given < _size(unit) for unit, given in allotted.items()),
        of_evidence=len(pieces),
        rounds_left_out=sorted({unit.place for unit in gone}),
        of_rounds=len({unit.place for found in lists for group in found for unit in group if unit.kind == "round"}),
        reasons_cut=reasons_cut,
        ids=sorted({unit.id for unit in pieces} - seen),
        size=sum(map(bytes_of, written)),
    )


def _size(unit: Unit) -> int:
    return bytes_of(unit.text) + 1


def _allot_bytes(pieces: Sequence[Unit], only_cited: str, room: int) -> dict[Unit, int]:
    """Allots bytes to pieces, the best first; pieces with too few are shown in part, and those without are left out."""
    allotted: dict[Unit, int] = {}
    half = room if len(pieces) == 1 else room // 2
    for unit in pieces:
        # The only cited piece may take all the space, because a verdict may depend on its text.
        given = min(_size(unit), room if unit.id == only_cited else half, room)
        if given < min(_size(unit), FEWEST_PART_BYTES):
            break
        allotted[unit] = given
        room -= given
    for unit in allotted:
        more = min(room, _size(unit) - allotted[unit])
        allotted[unit] += more
        room -= more
    return allotted


def _with_remaining_units(
    texts: Sequence[str], lists: Sequence[Sequence[Sequence[Unit]]], allotted: Mapping[Unit, int], gone: set[Unit]
) -> list[str]:
    """The texts, with only the remaining units in each list."""
    written = []
    for text, found in zip(texts, lists, strict=True):
        parts, at = [], 0
        for group in found:
            apart = text[group[0].end : group[1].start] if len(group) > 1 else "\n"
            parts += [text[at : group[0].start], apart.join(_remaining(group, allotted, gone))]
            at = group[-1].end
        written.append("".join([*parts, text[at:]]))
    return written


def _remaining(group: Sequence[Unit], allotted: Mapping[Unit, int], gone: set[Unit]) -> list[str]:
    """The texts of a list's remaining units, and a note if units were left out or cut."""
    if group[0].kind == "round":
        rest = [unit.text for unit in group if unit not in gone]
        series = dict.fromkeys(unit.series for unit in group if unit in gone)
        out = [
            _rounds_in_words(sorted({unit.place for unit in gone & {*group} if unit.series == debate}), debate)
            for debate in series
        ]
        return [_note_of_missing(" and ".join(out)), *rest] if out else rest
    kept = [unit for unit in group if unit in allotted]
    cut = {unit for unit in kept if allotted[unit] < _size(unit)}
    rest = [_cut_element(unit.text, allotted[unit]) if unit in cut else unit.text for unit in kept]
    missing = [_pieces_in_words(len(group) - len(kept), more=bool(kept))] if len(kept) < len(group) else []
    missing += [f"the rest of each text that ends in {GAP}"] if cut else []
    return [*rest, _note_of_missing(" and ".join(missing))] if missing else rest


def _note_of_missing(missing: str) -> str:
    """The sentence that tells a model which parts are missing."""
    return f"(Left out here, as the prompt would otherwise be too long: {missing}.)"


def _pieces_in_words(count: int, more: bool) -> str:
    return f"{count}{' more' if more else ''} piece{'s' if count > 1 else ''} of evidence"


def _rounds_in_words(numbers: Sequence[int], series: str = "") -> str:
    rounds = f"round {numbers[0]}" if len(numbers) == 1 else f"rounds {numbers[0]} to {numbers[-1]}"
    return f"{rounds} of the {series} debate" if series else rounds


def _reasons_limit(texts: Sequence[str], over: int) -> tuple[int, int, int]:
    """The highest limit (bytes) for reasons that saves ``over`` bytes, if any does, the bytes saved, and the texts
    cut.
    """
    sizes = sorted((bytes_of(found[3]) for text in texts for found in _REASONS.finditer(text)), reverse=True)
    longest, saved = max([FEWEST_REASONS_BYTES, *sizes]), 0
    for number, following in enumerate([*sizes[1:], 0], 1):
        lower = max(following, FEWEST_REASONS_BYTES)
        if saved + number * (longest - lower) >= over:
            longest -= -(-(over - saved) // number)
            break
        saved, longest = saved + number * (longest - lower), lower
    return longest, sum(max(0, size - longest) for size in sizes), sum(size > longest for size in sizes)


def _cut_element(text: str, most: int) -> str:
    """An element with its text cut, so that the whole element has about ``most`` bytes."""
    head, _, rest = text.partition("\n")
    body, _, end = rest.rpartition("\n")
    return f"{head}\n{_beginning(body, most - bytes_of(head) - bytes_of(end) - 3)}\n{end}"


def _beginning(text: str, most: int) -> str:
    """A text; if longer than ``most`` bytes, its beginning up to the end of a sentence or word, followed by `GAP`."""
    if bytes_of(text) <= most:
        return text
    room = max(0, most - len(GAP) - 1)
    head = text.encode(errors="replace")[:room].decode(errors="ignore")
    start = max(0, len(head) - TAIL)
    found = sentences(head[start:])
    head = head[: start + found[-2][1]] if len(found) > 1 else head.rpartition(" ")[0] or head
    return f"{head.rstrip().removesuffix(GAP).rstrip()} {GAP}"


# --- the parts of a prompt --------------------------------------------------------------------------------------------


def lists_of(text: str) -> Iterator[list[Unit]]:
    """The lists in a text: runs of adjacent pieces of evidence, rounds, or lines of a record."""
    group: list[Unit] = []
    for found in _ELEMENT.finditer(text):
        below = group and text[group[-1].end : found.start()] == "\n"
        if below and found[1] == "answer" and group[-1].text.startswith("Round "):
            first = group.pop()  # this element is another answer of the same round
            group.append(replace(first, end=found.end(), text=text[first.start : found.end()]))
            continue
        lines, unit = _lines(found), _unit(found, text)
        apart = "\n" if unit and unit.start == found.start() else "\n\n"
        if group and unit and unit.kind == group[-1].kind and text[group[-1].end : unit.start] == apart:
            group.append(replace(unit, place=unit.place or len(group) + 1))
            continue
        if group and (lines or unit):
            yield group
            group = []
        if lines:
            yield lines
        elif unit:
            group = [replace(unit, place=unit.place or 1)]
    if group:
        yield group


def _unit(found: re.Match[str], text: str) -> Unit | None:
    """The unit of an element, with a round's heading directly above it; None if it must not be left out as a whole."""
    attributes = dict(_ATTRIBUTE.findall(found[2] or ""))
    start, end = found.span()
    if found[1] in EVIDENCE:
        # `lists_of` sets its place.
        return Unit("evidence", start, end, found[0], 0, attributes["id"]) if "id" in attributes else None
    if (number := attributes.get("number" if found[1] == "step" else "round")) is not None:
        return Unit("round", start, end, found[0], int(number))
    if found[1] == "answer" and (heading := _HEADING.search(text, max(0, start - 20), start)):
        return Unit("round", heading.start(1), end, text[heading.start(1) : end], int(heading[2]))
    return None


def _lines(found: re.Match[str]) -> list[Unit]:
    """The units of a record, one for each line that names a round and the lines below it that do not; else empty."""
    if found[1] not in LINES:
        return []
    starts = [line for line in _LINE.finditer(found[3]) if line.start() == 0 or found[3][line.start() - 1] == "\n"]
    ends = [line.start() - 1 for line in starts[1:]] + [len(found[3])]
    offset = found.start(3)
    return [
        Unit("round", offset + line.start(), offset + end, found[3][line.start() : end], int(line[2]), series=line[1])
        for line, end in zip(starts, ends, strict=True)
    ]


def cited_in(text: str) -> Iterator[str]:
    """The ids of evidence, some several times, that a prompt's answers and arguments cite, without fabricated ids."""
    for citations in _CITATIONS.finditer(text):
        yield from _CITED.findall(citations[1])
    for cites in _CITES.findall(text):
        yield from (cited.partition(" ")[0] for cited in cites.split(", "))
