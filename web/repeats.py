"""What a list of claims should be asked about before it is paid for: texts that are no claims, and repeated claims."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import chain

from moot.nodes._claims.places import count_words
from moot.nodes._texts.quotes import UNSPACED
from moot.retrievers._excerpts import STEM, WORD
from moot.transcript.language import t

NEAR = 0.6
"""The smallest share of common words at which two claims of a list are nearly the same (`near_claims`)."""
MOST_COMPARED = 5000
"""Maximum number of claims of a list that are compared with each other."""
MOST_CANDIDATES = 100
"""Maximum number of claims with which one is compared."""
FEWEST_WORDS, FEWEST_LETTERS = 2, 4
"""A claim has at least so many words or, in a script without spaces, letters."""
MARKS = str.maketrans(
    "\u201c\u201d\u201e\u00ab\u00bb\u2018\u2019\u2010\u2011\u2012\u2013\u2014\u2212", '"""""\'\'------'
)
"""Quotation marks, apostrophes and dashes, and the plain ones."""
TOKEN = re.compile(r"[^\W_]+(?:['\u2019.,][^\W_]+)*")
NEGATIVE_WORDS = """
no not never none nobody nothing neither nor without cannot nicht nie niemals kein keine keinen keiner keinem keines
ohne weder nada nunca jamás ni sin tampoco non ne pas jamais sans aucun aucune ningún ninguna não nem sem nunca mai
senza niet geen zonder inte ingen aldrig ikke bez не нет без никогда لا ليس ليست لم لن غير دون"""
NEGATIONS = frozenset(NEGATIVE_WORDS.split())
"""Words that negate, in the languages of most lists. A word that ends in "n't" negates, too."""


def similarity(one: str, other: str) -> float:
    """The share of common words of two claims, from 0 to 1 (Jaccard index of the words' beginnings).

    Short words are left out if they are no numbers and not all capitals, because most of them are in every text.
    """
    return share(words_of(one), words_of(other))


def share(one: set[str], other: set[str]) -> float:
    """The Jaccard index of two sets; at least one is not empty."""
    return len(one & other) / len(one | other)


def words_of(text: str) -> set[str]:
    """The beginnings of the words that count (`similarity`); of a text without such words, the whole text."""

    def counts(word: str) -> bool:
        return len(word) > 3 or word.isupper() or not word.isascii() or any(map(str.isdigit, word))

    return {word.casefold()[:STEM] for word in WORD.findall(text) if counts(word)} or {text.strip().casefold()}


def same_claim(claim: str) -> str:
    """The form in which two identical claims of a list are equal.

    White space, the shape of quotation marks and dashes, and a full stop or exclamation mark at the end do not count.
    Case counts: it tells names.
    """
    plain = " ".join(unicodedata.normalize("NFC", claim).translate(MARKS).split()).rstrip(" .!")
    return plain[1:-1].rstrip(" .!") if len(plain) > 1 and plain[0] == plain[-1] == '"' else plain


def doubt_of(claim: str) -> str:
    """Why a text is probably no claim; empty if it may be one."""
    text = claim.strip()
    if re.fullmatch(r"(https?://|www\.)\S+", text, re.IGNORECASE):
        return t("it is an address, not a claim")
    spoken = [word for word in text.split() if any(map(str.isalnum, word))]
    if UNSPACED.search(text):
        return "" if count_words(text) >= FEWEST_LETTERS else t("it is too short for a claim")
    return "" if len(spoken) >= FEWEST_WORDS else t("it is no sentence")


def near_claims(claims: Sequence[str]) -> list[tuple[int, int]]:
    """The pairs of claims that are nearly the same, by their indexes; the first one of each pair comes first.

    Most of their words are the same, and all their numbers, names and negations. Each claim is in at most one pair as
    the second one. Only the first `MOST_COMPARED` claims are compared, each with at most `MOST_CANDIDATES`.
    """
    some = claims[:MOST_COMPARED]
    words, plain = [words_of(claim) for claim in some], [same_claim(claim) for claim in some]
    frequency = Counter(word for one in words for word in one)
    seen: dict[tuple[frozenset[str], str], list[int]] = {}
    pairs = []
    for index, own in enumerate(words):
        # Two claims with this share of common words have one of their rarest words in common.
        rarest = sorted(own, key=lambda word: (frequency[word], word))[: len(own) - math.ceil(NEAR * len(own)) + 1]
        decisive = frozenset(filter(_decides, _tokens(some[index])))
        others = list(dict.fromkeys(chain.from_iterable(seen.get((decisive, word), ()) for word in rarest)))
        for word in rarest:
            seen.setdefault((decisive, word), []).append(index)
        near = (n for n in others[:MOST_CANDIDATES] if plain[n] != plain[index] and share(words[n], own) >= NEAR)
        if (found := next(near, None)) is not None:
            pairs.append((found, index))
    return pairs


def _tokens(claim: str) -> set[str]:
    """The words of a claim. The first one is in lower case if it is short, because then it is probably no name."""
    found = TOKEN.findall(claim.translate(MARKS))
    return {word.lower() if n == 0 and len(word) < 4 and word.istitle() else word for n, word in enumerate(found)}


def _decides(word: str) -> bool:
    """Whether a word is a number, a name or a negation."""
    return (
        any(map(str.isdigit, word)) or word[0].isupper() or word.casefold() in NEGATIONS or word.lower().endswith("n't")
    )
