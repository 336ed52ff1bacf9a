"""Sentences and tokens of texts, and which parts of a long one are shown.

A text longer than a debate allows keeps its beginning and the sentences nearest to the query. Its piece keeps the whole
text, and says in ``shown`` which parts are read.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from moot.core.lazy import imported
from moot.retrievers.encoders import Encoder
from moot.retrievers.evidence import Evidence, joined_spans

TOKEN = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]|\w{1,4}|[^\w\s]")
"""About what models count as a token: up to four letters or digits, a sign, or a Chinese, Japanese or Korean one."""
LANGUAGES = ("en", "de", "fr", "es", "ru")
"""A text's language is not known: a sentence ends where the rules of all of these say so. They know other scripts.

Italian is not among them: its rules join English sentences, and take time by the square of a text's length.
"""
BLOCK = 5000
"""Characters that are split at a time, as the time for text without spaces or with open quotes grows by the square."""
LONG = 200
"""Tokens from which on a sentence is taken for a list or a table, whose lines count as sentences."""
GAP = "[...]"
"""Stands where something of a text is left out."""
BEGINNING = 0.25
"""The share of the tokens that the beginning has; the first sentence is shown in any case."""
COMPARED = 1000
"""Sentences that are compared with the query; of texts that have more, the first."""

Span = tuple[int, int]
"""A start and an end, which is exclusive, in code points of a text."""


@lru_cache(maxsize=512)
def count_tokens(text: str) -> int:
    """About how many tokens a text has: words, parts of long ones, and marks."""
    return sum(1 for _ in TOKEN.finditer(text))


def sentences(text: str) -> list[Span]:
    """The sentences of a text in any language, as offsets in code points; white space around them is left out."""
    return [part for span in _parts(text, _ends(text)) for part in _lines(text, *span)]


def _ends(text: str) -> Iterator[int]:
    """Where sentences end. The last one of a block goes on in the next block, unless the block holds no other."""
    boundaries, start = imported("sentencex").get_sentence_boundaries, 0
    while start < len(text):
        block = text[start : start + BLOCK]
        ends = set.intersection(*({one["end_index"] for one in boundaries(code, block)} for code in LANGUAGES))
        known = sorted(end for end in ends if end < len(block.rstrip())) or [len(block)]
        yield from (start + end for end in known)
        start += known[-1]


def _parts(text: str, ends: Iterable[int], start: int = 0) -> Iterator[Span]:
    """The parts of a text up to each of these ends, without white space around them, and without empty ones."""
    for end in sorted({*ends, len(text)}):
        part = text[start:end]
        if part.strip():
            left = start + len(part) - len(part.lstrip())
            yield left, left + len(part.strip())
        start = end


def _lines(text: str, start: int, end: int) -> Iterator[Span]:
    if "\n" not in text[start:end] or count_tokens(text[start:end]) <= LONG:
        yield start, end
        return
    yield from _parts(text[:end], (start + found.end() for found in re.finditer("\n", text[start:end])), start)


def beginning(text: str, most: int) -> str:
    """The beginning of a text with at most so many tokens: whole sentences if there is room for one, else words."""
    if is_short(text, most):
        return text
    room, end = most, 0
    for start, stop in sentences(text):
        if (room := room - count_tokens(text[start:stop])) < 0:
            break
        end = stop
    return text[:end].rstrip() or _words(text, most)


def is_short(text: str, most: int) -> bool:
    """Whether a text has at most so many tokens."""
    return len(text) <= most or count_tokens(text) <= most


def _words(text: str, most: int) -> str:
    """The first words of a text with at most so many tokens."""
    *_, last = (token for _, token in zip(range(most), TOKEN.finditer(text), strict=False))
    whole = text[: last.end()]
    words = re.sub(r"\w+\Z", "", whole).rstrip()
    return words if len(words) > len(whole) // 2 else whole


async def excerpt(text: str, query: str, most: int, encoder: Encoder) -> list[list[int]]:
    """The parts of a text that are shown: its beginning and the sentences nearest to a query, in the text's order.

    Args:
        text: with more than ``most`` tokens.
        query: what the text was found by.
        most: tokens that are shown, as `count_tokens` counts them.
        encoder: what compares sentences with the query.

    Raises:
        UserError, WorldError: the encoder's endpoint failed.
    """
    first, others = await asyncio.to_thread(_divided, text, most)
    if not others:
        return [list(first)]
    query_vector, *vectors = await encoder.embed([query, *(text[start:end] for start, end in others)])
    return await asyncio.to_thread(_chosen, text, first, others, nearness(query_vector, vectors), most)


def _divided(text: str, most: int) -> tuple[Span, list[Span]]:
    """The beginning, and the sentences after it that are short enough to be shown beside it."""
    found = sentences(text)
    start, stop = found[0]
    end = start + len(beginning(text[start:], max(int(BEGINNING * most), min(most, count_tokens(text[start:stop])))))
    room = most - count_tokens(text[start:end])
    after = [span for span in found if span[0] >= end][:COMPARED]
    return (start, end), [span for span in after if count_tokens(text[slice(*span)]) <= room]


def nearness(query: Sequence[float], vectors: Sequence[Sequence[float]]) -> list[float]:
    """The cosine of each unit vector with the query's."""
    np = imported("numpy")
    return (np.asarray(vectors) @ np.asarray(query)).tolist()  # type: ignore[no-any-return]


def _chosen(text: str, first: Span, others: Sequence[Span], near: Sequence[float], most: int) -> list[list[int]]:
    """The beginning and the nearest sentences that there is room for."""
    room = most - count_tokens(text[slice(*first)])
    chosen = [first]
    for _, (start, end) in sorted(zip((-n for n in near), others, strict=True)):
        if (cost := count_tokens(text[start:end])) <= room:
            room -= cost
            chosen.append((start, end))
    return joined_spans(chosen, text)


def shown_text(piece: Evidence) -> str:
    """What is shown of a piece: its text, with `GAP` where something is left out."""
    if "shown" not in piece:
        return piece["text"]
    parts = [piece["text"][start:end] for start, end in piece["shown"]]
    rest = piece["text"][piece["shown"][-1][1] :].strip()
    return f" {GAP} ".join([*parts, ""] if rest else parts).rstrip()
