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
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

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

EVIDENCE, RECORDS = ("evidence", "item"), ("retrieval", "critic", "reflections")
"""The tags of evidence, and of records with lines about rounds."""
_ELEMENT = re.compile(
    # Under a round's heading, all answers are one element.
    r"(?:(?<![^\n])Round (?P<heading>\d+)\n(?=<answer))?"
    r"<(?P<tag>evidence|item|answer|argument|testimony|step|retrieval|critic|reflections)(?P<attributes> [^<>]*)?>\n"
    r"(?P<inside>.*?)\n</(?P=tag)>(?(heading)(?:\n<answer(?: [^<>]*)?>\n.*?\n</answer>)*)",
    re.DOTALL,
)
_ATTRIBUTE = re.compile(r' (\w+)="([^"]*)"')
_LINE = re.compile(
    r"^(first|second) debate, round (\d+)[,:].*?(?=\n(?:first|second) debate, round \d+[,:]|\Z)", re.M | re.S
)
_REASONS = re.compile(r"(<(reasons|argument|testimony|summary|review)(?: [^<>]*)?>\n)(.*?)(\n</\2>)", re.DOTALL)
_CLAIM = re.compile(r"<(claim|question)>\n(.*?)\n</\1>", re.DOTALL)
_CITATIONS = re.compile(r"<citations>\n(.*?)\n</citations>", re.DOTALL)
_CITES = re.compile(r'<\w+(?: [^<>]*)? cites="([^"]*)"[^<>]*>')
_CITED = re.compile(r"^(?:\[this quote[^\]]*\] )?(\S{1,64}): ", re.MULTILINE)


@dataclass(frozen=True, eq=False)
class Unit:
    """A part of a text that may be left out: a piece of evidence, or what was said in one round."""

    text: str
    place: int  # of evidence, the position in its list, from 1; of a round, its number
    id: str = ""  # of evidence; empty for a round
    series: str = ""  # the debate of a round in a trial's record: ``first`` or ``second``

    @cached_property
    def size(self) -> int:
        """The bytes of the text and of the line break after it."""
        return bytes_of(self.text) + 1


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
    prompt = Prompt(texts, ranks or {})
    aim = most
    for attempt in range(TRIES):
        made = prompt.shortened(aim)
        if made.size <= most:
            break
        aim -= made.size - most + attempt * BYTES_PER_TRY
    return made


def drop_elements(made: ShortenedTexts, most: int) -> ShortenedTexts:
    """Leaves out whole elements of texts that are still too long for a ceiling after `shorten`, evidence first."""
    found = [(at, element) for at, text in enumerate(made.texts) for element in _ELEMENT.finditer(text)]
    evidence = [one for one in found if one[1]["tag"] in EVIDENCE]
    gone, over = [], made.size - most
    # In the worst case, only text outside of these elements remains, such as the claim.
    for at, element in [*reversed(evidence), *(one for one in found if one not in evidence)]:
        if over <= 0:
            break
        gone.append((at, element))
        over -= bytes_of(element[0])
    texts = list(made.texts)
    for at, element in sorted(gone, key=lambda one: -one[1].start()):
        texts[at] = texts[at][: element.start()] + texts[at][element.end() :].removeprefix("\n")
    ids = {id for one in gone if one in evidence and (id := _attributes(one[1]).get("id"))}
    pieces = sum(one in evidence for one in gone)
    return replace(
        made,
        texts=texts,
        evidence_left_out=made.evidence_left_out + pieces,
        reasons_cut=made.reasons_cut + len(gone) - pieces,
        ids=sorted({*made.ids, *ids} - cited_in(*texts)),
        size=sum(map(bytes_of, texts)),
    )


class Prompt:
    """The texts of a prompt, split into what stays and what may be left out."""

    def __init__(self, texts: Sequence[str], ranks: Mapping[str, int]) -> None:
        self._texts = [list(_split(text)) for text in texts]
        runs = [part for text in self._texts for part in text if isinstance(part, Run)]
        pieces = [unit for run in runs for unit in run.units if unit.id]
        cited = cited_in(*texts)
        known = {**_ranks_by_claim(texts, [unit for unit in pieces if unit.id not in ranks]), **ranks}
        self._pieces = sorted(pieces, key=lambda unit: (unit.id not in cited, known.get(unit.id, unit.place)))
        shown = cited & {unit.id for unit in pieces}
        self._only_cited = min(shown) if len(shown) == 1 else ""
        self._old = sorted((unit for run in runs for unit in run.old_rounds()), key=lambda unit: unit.place)
        self._rounds = {unit.place for run in runs for unit in run.units if not unit.id}
        self._fixed = sum(map(bytes_of, texts)) - sum(unit.size for unit in (*pieces, *self._old))

    def shortened(self, aim: int) -> ShortenedTexts:
        """The prompt with about ``aim`` bytes; the notes on gaps may make it longer."""
        room, rounds = aim - self._fixed, list(self._old)
        reserved = min(sum(unit.size for unit in self._pieces), int(aim * EVIDENCE_SHARE))
        shown = self._allot_bytes(max(room - _size(rounds), reserved))
        while rounds and sum(shown.values()) + _size(rounds) > room:
            rounds = [unit for unit in rounds if unit.place > rounds[0].place]
        if len(rounds) < len(self._old) and _size(rounds) < room:
            shown = self._allot_bytes(room - _size(rounds))  # with the space of the rounds left out
        gone = {*self._old} - {*rounds}
        over, reasons_cut = sum(shown.values()) + _size(rounds) - room, 0
        texts = self._written(shown, gone)
        if over > 0:
            sizes = [bytes_of(found[3]) for text in texts for found in _REASONS.finditer(text)]
            longest = _reasons_limit(sizes, over)
            saved, reasons_cut = sum(max(0, size - longest) for size in sizes), sum(size > longest for size in sizes)
            if saved < over:
                shown = self._allot_bytes(max(0, sum(shown.values()) - (over - saved)))
                texts = self._written(shown, gone)
            texts = [_REASONS.sub(lambda one: f"{one[1]}{_beginning(one[3], longest)}{one[4]}", text) for text in texts]
        return ShortenedTexts(
            texts,
            evidence_left_out=len(self._pieces) - len(shown),
            in_part=sum(given < unit.size for unit, given in shown.items()),
            of_evidence=len(self._pieces),
            rounds_left_out=sorted({unit.place for unit in gone}),
            of_rounds=len(self._rounds),
            reasons_cut=reasons_cut,
            ids=sorted({unit.id for unit in self._pieces} - {unit.id for unit in shown} - cited_in(*texts)),
            size=sum(map(bytes_of, texts)),
        )

    def _allot_bytes(self, room: int) -> dict[Unit, int]:
        """Bytes for pieces, the best first; pieces with too few are shown in part, and those without are left out."""
        allotted: dict[Unit, int] = {}
        half = room if len(self._pieces) == 1 else room // 2
        for unit in self._pieces:
            # The only cited piece may take all the space, because a verdict may depend on its text.
            given = min(unit.size, room if unit.id == self._only_cited else half, room)
            if given < min(unit.size, FEWEST_PART_BYTES):
                break
            allotted[unit] = given
            room -= given
        for unit in allotted:
            more = min(room, unit.size - allotted[unit])
            allotted[unit] += more
            room -= more
        return allotted

    def _written(self, shown: Mapping[Unit, int], gone: set[Unit]) -> list[str]:
        return ["".join(x.written(shown, gone) if isinstance(x, Run) else x for x in text) for text in self._texts]


def _size(units: Sequence[Unit]) -> int:
    return sum(unit.size for unit in units)


@dataclass
class Run:
    """Adjacent pieces of evidence, or adjacent rounds, in a text."""

    units: list[Unit]
    apart: str = "\n"  # the text between two of them

    def old_rounds(self) -> Iterator[Unit]:
        """The rounds that may be left out: all but the last one of each debate."""
        for unit in self.units:
            if not unit.id and any(unit.series == later.series and unit.place < later.place for later in self.units):
                yield unit

    def written(self, shown: Mapping[Unit, int], gone: set[Unit]) -> str:
        """The remaining units, and a note if units were left out or cut."""
        if not self.units[0].id:
            rest, missing = [unit.text for unit in self.units if unit not in gone], []
            for series in dict.fromkeys(unit.series for unit in self.units if unit in gone):
                out = [unit.place for unit in self.units if unit in gone and unit.series == series]
                rounds = f"round {out[0]}" if len({*out}) == 1 else f"rounds {min(out)} to {max(out)}"
                missing.append(f"{rounds} of the {series} debate" if series else rounds)
            return self.apart.join([*_note_of(missing), *rest])
        kept = [unit for unit in self.units if unit in shown]
        cut = {unit for unit in kept if shown[unit] < unit.size}
        rest, count = [_cut(unit.text, shown[unit]) if unit in cut else unit.text for unit in kept], len(self.units)
        count -= len(kept)
        missing = [f"{count}{' more' if kept else ''} piece{'s' if count > 1 else ''} of evidence"] if count else []
        missing += [f"the rest of each text that ends in {GAP}"] if cut else []
        return self.apart.join([*rest, *_note_of(missing)])


def _note_of(missing: Sequence[str]) -> list[str]:
    """The sentence that tells a model which parts are missing, if any."""
    parts = " and ".join(missing)
    return [f"(Left out here, as the prompt would otherwise be too long: {parts}.)"] if missing else []


def _ranks_by_claim(texts: Sequence[str], pieces: Sequence[Unit]) -> dict[str, int]:
    """The rank of each piece by its id, from the words that it shares with the claim; empty if there is no claim."""
    claim = next((found[2] for text in texts if (found := _CLAIM.search(text))), "")
    different = {unit.id: unit.text for unit in pieces}
    return dict(zip(different, _ranks(claim, tuple(different.values())), strict=True)) if claim else {}


@lru_cache(maxsize=8)
def _ranks(claim: str, texts: tuple[str, ...]) -> list[int]:
    """Caches `ranks_by_words`, because the speakers of a debate are shown the same texts."""
    return ranks_by_words(claim, texts)


def _reasons_limit(sizes: Sequence[int], over: int) -> int:
    """The highest limit (bytes) for reasons of these sizes that saves ``over`` bytes; else the lowest limit."""
    limits = range(FEWEST_REASONS_BYTES, max([FEWEST_REASONS_BYTES, *sizes]) + 1)
    enough = bisect_right(limits, -over, key=lambda limit: -sum(max(0, size - limit) for size in sizes))
    return limits[max(0, enough - 1)]


def _cut(element: str, most: int) -> str:
    """An element with its text cut, so that the whole element has about ``most`` bytes."""
    head, _, rest = element.partition("\n")
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


def _split(text: str) -> Iterator[str | Run]:
    """A text as its plain parts and its runs of units."""
    run, at = Run([]), 0
    for start, unit, apart in (found for element in _ELEMENT.finditer(text) for found in _units(element)):
        if run.units and bool(unit.id) == bool(run.units[-1].id) and text[at:start] == apart:
            run.apart = apart
        else:
            yield from ([run] if run.units else [])
            yield text[at:start]
            run = Run([])
        run.units.append(replace(unit, place=unit.place or len(run.units) + 1))
        at = start + len(unit.text)
    yield from ([run] if run.units else [])
    yield text[at:]


def _units(found: re.Match[str]) -> Iterator[tuple[int, Unit, str]]:
    """The units of an element, each with its place in the text and the text that parts it from one before it.

    A record has a unit for each line that names a round, with the lines below it that do not.
    """
    attributes = _attributes(found)
    number = found["heading"] or attributes.get("number" if found["tag"] == "step" else "round")
    if found["tag"] in RECORDS:
        for line in _LINE.finditer(found["inside"]):
            yield found.start("inside") + line.start(), Unit(line[0], int(line[2]), series=line[1]), "\n"
    elif found["tag"] in EVIDENCE:
        if id := attributes.get("id"):
            yield found.start(), Unit(found[0], 0, id), "\n"  # `_split` sets its place
    elif number is not None:
        yield found.start(), Unit(found[0], int(number)), "\n\n" if found["heading"] else "\n"


def _attributes(element: re.Match[str]) -> dict[str, str]:
    return dict(_ATTRIBUTE.findall(element["attributes"] or ""))


def cited_in(*texts: str) -> set[str]:
    """The ids of evidence that a prompt's answers and arguments cite, without fabricated ids."""
    quoted = {id for text in texts for found in _CITATIONS.finditer(text) for id in _CITED.findall(found[1])}
    named = {one for text in texts for cites in _CITES.findall(text) for one in cites.split(", ")}
    return quoted | {one.partition(" ")[0] for one in named}
