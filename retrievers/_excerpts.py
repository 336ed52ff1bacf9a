"""Sentences and tokens of texts, and the excerpts that are shown of long ones.

The excerpt of a text that is longer than a debate allows has its beginning and the sentences nearest to the query. The
piece keeps the whole text, and ``shown`` lists the parts that are read.
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
"""Characters of a word that are compared, so that its ending does not matter."""
K1, B = 1.2, 0.75
"""BM25's usual parameters."""
LANGUAGES = ("en", "de", "fr", "es", "ru")
"""The languages of the sentence rules. A text's language is not known, so a sentence ends only if the rules of all of
these agree. The rules cover other scripts.

Italian is left out: its rules join English sentences, and take quadratic time.
"""
BLOCK = 5000
"""Characters that are split at a time, because texts without spaces or with open quotes take quadratic time."""
LONG = 200
"""Tokens from which a sentence is split: it is probably a list, a table or a text without full stops."""
MARKS = ("\n", "[;；؛]", r"[,，、،](?!\d)", r"\s", ",", TOKEN.pattern)
"""Separators for splitting a long sentence; each is used if the earlier ones leave parts that are too long."""
GAP = "[...]"
"""Marks an omission in a text."""
BEGINNING = 0.25
"""The share of the tokens for the beginning; the first sentence is always shown."""
READ = 300_000
"""Characters of a text that are searched for sentences to compare."""
COMPARED = 1000
"""Most sentences that are compared with the query: the first ones."""

Span = tuple[int, int]
"""A start and an end (exclusive), in code points of a text."""


@lru_cache(maxsize=512)
def count_tokens(text: str) -> int:
    """The approximate number of tokens of a text: words, parts of long words, and punctuation."""
    return sum(1 for _ in TOKEN.finditer(text))


def sentences(text: str, longest: int = LONG) -> list[Span]:
    """The sentences of a text in any language, as offsets in code points, without surrounding white space.

    Args:
        text: the text.
        longest: most tokens of a sentence that is not split (1 or more). A longer one counts as several: its lines, and
            parts of longer lines with about half as many tokens, which end at punctuation or a space if possible.
    """
    spans = _parts(text, _ends(text), 0, len(text))
    return [part for span in spans for part in _short(text, span, longest, MARKS)]


def _ends(text: str) -> Iterator[int]:
    """The ends of sentences. The last sentence of a block continues in the next block, unless it is the only one."""
    boundaries, start = imported("sentencex").get_sentence_boundaries, 0
    while start < len(text):
        block = text[start : start + BLOCK]
        ends = set.intersection(*({one["end_index"] for one in boundaries(code, block)} for code in LANGUAGES))
        known = sorted(end for end in ends if end < len(block.rstrip())) or [len(block)]
        yield from (start + end for end in known)
        start += known[-1]


def _parts(text: str, ends: Iterable[int], start: int, last: int) -> Iterator[Span]:
    """The parts of a text up to each of these ends, without surrounding white space; empty parts are left out."""
    for end in (*ends, last):
        part = text[start:end]
        if part.strip():
            left = start + len(part) - len(part.lstrip())
            yield left, left + len(part.strip())
        start = end


def _short(text: str, span: Span, longest: int, marks: Sequence[str]) -> list[Span]:
    start, end = span
    if count_tokens(text[start:end]) <= longest:
        return [span]
    ends = (start + found.end() for found in re.finditer(marks[0], text[start:end]))
    parts = [part for one in _parts(text, ends, start, end) for part in _short(text, one, longest, marks[1:])]
    return parts if marks[0] == "\n" else _packed(text, parts, max(1, longest // 2))


def _packed(text: str, parts: Iterable[Span], most: int) -> list[Span]:
    """The parts, with consecutive ones joined while together they have at most ``most`` tokens."""
    packed: list[Span] = []
    room = 0
    for start, end in parts:
        cost = count_tokens(text[start:end])
        if packed and cost <= room:
            packed[-1], room = (packed[-1][0], end), room - cost
        else:
            packed.append((start, end))
            room = most - cost
    return packed


def _longest(most: int) -> int:
    """Most tokens of a sentence that is not split: any such sentence fits while half of the room is free."""
    return max(1, min(LONG, most // 2))


def beginning(text: str, most: int) -> str:
    """The beginning of a text with at most ``most`` tokens: whole sentences, and parts of a long one."""
    over = next(islice(TOKEN.finditer(text), most, None), None)
    if over is None:
        return text
    head = text[: over.end()]
    return text[: _end_of_first(head, sentences(head, _longest(most)), most)]


def _end_of_first(text: str, spans: Iterable[Span], most: int) -> int:
    """The end of the last of the first spans that together have at most ``most`` tokens."""
    last = 0
    for start, end in spans:
        if (most := most - count_tokens(text[start:end])) < 0:
            break
        last = end
    return last


def ranks_by_words(query: str, texts: Sequence[str]) -> list[int]:
    """The rank of each text by the words that it shares with a query, from 1; ties keep their order.

    BM25 (Robertson and Zaragoza, 2009) over words without their endings; it needs no model.

    Args:
        query: a claim or a question.
        texts: any number.
    """
    wanted = set(_words(query))
    counts = [Counter(_words(text)) for text in texts]
    lengths = [sum(of.values()) for of in counts]
    mean = sum(lengths) / max(1, len(lengths)) or 1.0
    having = {word: sum(word in of for of in counts) for word in wanted}
    weights = {word: math.log(1 + (len(texts) - n + 0.5) / (n + 0.5)) for word, n in having.items()}
    scores = [
        sum(weights[w] * of[w] * (K1 + 1) / (of[w] + K1 * (1 - B + B * length / mean)) for w in sorted(wanted & {*of}))
        for of, length in zip(counts, lengths, strict=True)
    ]
    best = sorted(range(len(texts)), key=lambda at: -round(scores[at], 9))
    return [rank for _, rank in sorted(zip(best, range(1, len(texts) + 1), strict=True))]


def _words(text: str) -> list[str]:
    return [word[:STEM] for word in WORD.findall(text.lower())]


def is_short(text: str, most: int) -> bool:
    """Whether a text has at most ``most`` tokens."""
    return len(text) <= most or next(islice(TOKEN.finditer(text), most, None), None) is None


async def excerpt(text: str, query: str, most: int, encoder: Encoder) -> list[list[int]]:
    """The shown parts of a text: its beginning and the sentences nearest to a query, in the text's order.

    Args:
        text: with more than ``most`` tokens.
        query: the query that found the text.
        most: most tokens to show, as `count_tokens` counts them.
        encoder: compares sentences with the query.

    Raises:
        UserError, WorldError: the encoder's endpoint failed.
    """
    first, others = await asyncio.to_thread(_divided, text, most)
    if not others:
        return [list(first)]
    query_vector, *vectors = await encoder.embed([query, *(text[start:end] for start, end in others)])
    return await asyncio.to_thread(_chosen, text, first, others, nearness(query_vector, vectors), most)


def _divided(text: str, most: int) -> tuple[Span, list[Span]]:
    """The beginning, and the later sentences that are short enough to be shown with it."""
    found = sentences(text[:READ], _longest(most))
    found = found if len(text) <= READ else found[:-1] or found  # the last one may continue
    start, stop = found[0]
    end = max(stop, _end_of_first(text, found, int(BEGINNING * most)))
    room = most - count_tokens(text[start:end])
    after = [span for span in found if span[0] >= end][:COMPARED]
    return (start, end), [span for span in after if count_tokens(text[slice(*span)]) <= room]


def nearness(query: Sequence[float], vectors: Sequence[Sequence[float]]) -> list[float]:
    """The cosine of each unit vector with the query's."""
    np = imported("numpy")
    return (np.asarray(vectors) @ np.asarray(query)).tolist()  # type: ignore[no-any-return]


def _chosen(text: str, first: Span, others: Sequence[Span], near: Sequence[float], most: int) -> list[list[int]]:
    """The beginning and the nearest sentences that fit."""
    room = most - count_tokens(text[slice(*first)])
    chosen = [first]
    for _, (start, end) in sorted(zip((-n for n in near), others, strict=True)):
        if (cost := count_tokens(text[start:end])) <= room:
            room -= cost
            chosen.append((start, end))
    return joined_spans(chosen, text)


def shown_text(piece: Evidence) -> str:
    """The shown text of a piece, with `GAP` for omissions."""
    if "shown" not in piece:
        return piece["text"]
    parts = [piece["text"][start:end] for start, end in piece["shown"]]
    rest = piece["text"][piece["shown"][-1][1] :].strip()
    return f" {GAP} ".join([*parts, ""] if rest else parts).rstrip()
