"""Splits texts into sentences, counts tokens, ranks texts by their words, and makes excerpts of long texts.

If a text is longer than a debate allows, its excerpt has the beginning and the sentences nearest to the query. The
piece of evidence keeps the whole text, and its field ``shown`` lists the parts that agents read.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice

from moot.core.lazy import imported
from moot.retrievers._encoders import Encoder
from moot.retrievers._evidence import Evidence, joined_spans

TOKEN = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]|\w{1,4}|[^\w\s]")
"""An approximate token of a model: up to four letters or digits, a symbol, or a Chinese, Japanese or Korean character.
"""
WORD = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]|[^\W\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
"""A word, or a Chinese, Japanese or Korean character."""
STEM = 6
"""Only this number of characters at the start of each word is compared, so that endings do not matter."""
K1, B = 1.2, 0.75
"""BM25's usual parameters."""
LANGUAGES = ("en", "de", "fr", "es", "ru")
"""The languages of the sentence rules. A text's language is not known, so a sentence ends only if the rules of all
these languages agree. The rules also cover other scripts.

Italian is left out: its rules join English sentences, and take quadratic time.
"""
BLOCK = 5000
"""Maximum number of characters that the sentence rules read at a time.

In texts without spaces or with open quotes, the rules take quadratic time.
"""
LONG = 200
"""Maximum number of tokens of a sentence. A longer sentence is split: it is probably a list, a table or a text without
full stops.
"""
MARKS = ("\n", "[;；؛]", r"[,，、،](?!\d)", r"\s", ",", TOKEN.pattern)
"""Separators at which a long sentence is split, as patterns. The next pattern is used if parts are too long."""
GAP = "[...]"
"""Marks an omission in a text."""
BEGINNING = 0.25
"""The beginning's share of an excerpt's tokens. If the first sentence is longer, it alone is the beginning."""
READ = 300_000
"""An excerpt is made from this number of characters at the beginning of a text. Later characters are not shown."""
COMPARED = 1000
"""Only this number of sentences after the beginning are compared with the query. Later sentences are not shown."""

Span = tuple[int, int]
"""A start and an end (exclusive), in code points of a text."""


@lru_cache(maxsize=512)
def count_tokens(text: str) -> int:
    """The approximate number of tokens in a text, as `TOKEN` matches them."""
    return sum(1 for _ in TOKEN.finditer(text))


def sentences(text: str, longest: int = LONG) -> list[Span]:
    """The sentences of a text in any language, of at most ``longest`` tokens, as offsets in code points."""
    spans = _parts(text, _sentence_ends(text), 0, len(text))
    return [part for span in spans for part in _split_long(text, span, longest, MARKS)]


def _sentence_ends(text: str) -> Iterator[int]:
    """Yields the offsets at which sentences end, in order."""
    boundaries, start = imported("sentencex").get_sentence_boundaries, 0
    while start < len(text):
        block = text[start : start + BLOCK]
        ends = set.intersection(*({found["end_index"] for found in boundaries(code, block)} for code in LANGUAGES))
        # The last sentence of a block may continue, so it is read again with the next block, unless it is the only one.
        known = sorted(end for end in ends if end < len(block.rstrip())) or [len(block)]
        yield from (start + end for end in known)
        start += known[-1]


def _parts(text: str, ends: Iterable[int], start: int, last: int) -> Iterator[Span]:
    """Cuts ``text[start:last]`` at these ends, without white space around the parts and empty parts."""
    for end in (*ends, last):
        part = text[start:end]
        if part.strip():
            left = start + len(part) - len(part.lstrip())
            yield left, left + len(part.strip())
        start = end


def _split_long(text: str, span: Span, longest: int, marks: Sequence[str]) -> list[Span]:
    """Splits a sentence at separators (see `MARKS`) until no part has more than ``longest`` tokens."""
    start, end = span
    if count_tokens(text[start:end]) <= longest:
        return [span]
    ends = (start + found.end() for found in re.finditer(marks[0], text[start:end]))
    parts = [part for cut in _parts(text, ends, start, end) for part in _split_long(text, cut, longest, marks[1:])]
    return parts if marks[0] == "\n" else _join_parts(text, parts, max(1, longest // 2))


def _join_parts(text: str, parts: Iterable[Span], most: int) -> list[Span]:
    """Joins consecutive parts while they have at most ``most`` tokens together; a longer part stays as it is."""
    joined: list[Span] = []
    room = 0
    for start, end in parts:
        cost = count_tokens(text[start:end])
        if joined and cost <= room:
            joined[-1], room = (joined[-1][0], end), room - cost
        else:
            joined.append((start, end))
            room = most - cost
    return joined


def _longest_sentence(most: int) -> int:
    """The maximum number of tokens of a sentence in an excerpt of ``most`` tokens: half of it, from 1 to `LONG`."""
    return max(1, min(LONG, most // 2))


def beginning(text: str, most: int) -> str:
    """The beginning of a text, with at most ``most`` tokens, up to the end of a sentence or of a part of a long one."""
    over = next(islice(TOKEN.finditer(text), most, None), None)
    if over is None:
        return text
    head = text[: over.end()]
    return text[: _end_of_fitting(head, sentences(head, _longest_sentence(most)), most)]


def _end_of_fitting(text: str, spans: Iterable[Span], most: int) -> int:
    """The end of the last span up to which all spans fit into ``most`` tokens; 0 if even the first does not fit."""
    last = 0
    for start, end in spans:
        if (most := most - count_tokens(text[start:end])) < 0:
            break
        last = end
    return last


def ranks_by_words(query: str, texts: Sequence[str]) -> list[int]:
    """Each text's rank (1 is best, ties keep their order) by BM25 (Robertson and Zaragoza, 2009) over word stems."""
    words = set(_stems(query))
    stems = [*map(_stems, texts)]
    counts = [Counter(filter(words.__contains__, found)) for found in stems]
    lengths = [*map(len, stems)]
    mean = sum(lengths) / max(1, len(lengths)) or 1.0
    frequencies = {word: sum(word in count for count in counts) for word in words}
    weights = {word: math.log(1 + (len(texts) - n + 0.5) / (n + 0.5)) for word, n in frequencies.items()}
    scores = [
        sum(weights[w] * tf[w] * (K1 + 1) / (tf[w] + K1 * (1 - B + B * length / mean)) for w in sorted(tf))
        for tf, length in zip(counts, lengths, strict=True)
    ]
    best = sorted(range(len(texts)), key=lambda i: -round(scores[i], 9))
    return [rank for _, rank in sorted(zip(best, range(1, len(texts) + 1), strict=True))]


def _stems(text: str) -> list[str]:
    """The first `STEM` characters of each word, in lower case."""
    return [word[:STEM] for word in WORD.findall(text.lower())]


def is_short(text: str, most: int) -> bool:
    """Whether a text has at most ``most`` tokens."""
    return len(text) <= most or next(islice(TOKEN.finditer(text), most, None), None) is None


async def excerpt(text: str, query: str, most: int, encoder: Encoder) -> list[list[int]]:
    """The parts of a long text to show: its beginning, and as many of the sentences nearest to a query as fit."""
    # Each part is a pair of a start and an end (exclusive), in code points. ``most`` counts tokens (`count_tokens`).
    first, others = await asyncio.to_thread(_split_beginning, text, most)
    if not others:
        return [list(first)]
    query_vector, *vectors = await encoder.embed([query, *(text[start:end] for start, end in others)])
    return await asyncio.to_thread(_choose_parts, text, first, others, cosines(query_vector, vectors), most)


def _split_beginning(text: str, most: int) -> tuple[Span, list[Span]]:
    """The beginning, and those of the next `COMPARED` sentences that are short enough to be shown with it."""
    found = sentences(text[:READ], _longest_sentence(most))
    found = found if len(text) <= READ else found[:-1] or found  # the last sentence may be cut off
    start, stop = found[0]
    end = max(stop, _end_of_fitting(text, found, int(BEGINNING * most)))
    room = most - count_tokens(text[start:end])
    after = [span for span in found if span[0] >= end][:COMPARED]
    return (start, end), [span for span in after if count_tokens(text[slice(*span)]) <= room]


def cosines(query: Sequence[float], vectors: Sequence[Sequence[float]]) -> list[float]:
    """The cosine of each unit vector with the query's unit vector."""
    np = imported("numpy")
    return (np.asarray(vectors) @ np.asarray(query)).tolist()  # type: ignore[no-any-return]


def _choose_parts(
    text: str, first: Span, others: Sequence[Span], similarities: Sequence[float], most: int
) -> list[list[int]]:
    """The parts to show, in the text's order: the beginning, and the sentences that fit, chosen by similarity."""
    room = most - count_tokens(text[slice(*first)])
    chosen = [first]
    for _, (start, end) in sorted(zip((-s for s in similarities), others, strict=True)):
        if (cost := count_tokens(text[start:end])) <= room:
            room -= cost
            chosen.append((start, end))
    return joined_spans(chosen, text)


def shown_text(piece: Evidence) -> str:
    """The shown text of a piece, with `GAP` in place of the parts that are left out after the first shown part."""
    if "shown" not in piece:
        return piece["text"]
    parts = [piece["text"][start:end] for start, end in piece["shown"]]
    rest = piece["text"][piece["shown"][-1][1] :].strip()
    return f" {GAP} ".join([*parts, ""] if rest else parts).rstrip()
