"""moot's own sentences in documents, for readers of other languages.

Warnings and remarks are in English in documents. ``languages/sentences.txt`` has those whose words are moot's own, with
placeholders for what they name. Others quote an error, a model or an endpoint, and stay in English: one would search
for these words, or report them. `tests/transcript/test_sentences.py` names warnings that are in neither group.
"""

from __future__ import annotations

import re
from collections.abc import Container
from functools import cache

from moot.transcript.language import FOLDER, current_language, in_clauses, in_figures, listed, t
from moot.transcript.report.codes import source_words

PLACE = re.compile(r"\\\{(\w+)\\\}")
CODES = re.compile(r"`([^`]+)`(?: and (?=`)|$)")
QUOTED = re.compile(r"""(['"])(.+?)\1(?: and (?=['"])|$)""", re.DOTALL)
BEARING = {
    "bear": "{count} bear it out",
    "bears": "{count} bear it out",
    "speak": "{count} speak against it",
    "speaks": "{count} speak against it",
    "do": "{count} do not bear on it",
    "does": "{count} do not bear on it",
}
"""What a number of quotes does for an answer, by the first word after the number (`counted_warrants`)."""
BEARS = re.compile(r"(\d+) (bears?|speaks?|do|does) (?:it out|against it|not bear on it)(?:, (?=\d)|$)")
ROUNDS = re.compile(r"(\d+) rounds?")
PIECES = re.compile(r"(\d+) pieces?")
SEARCHES = re.compile(r"(\d+) retrievals?")
DOLLARS = re.compile(r"\$[\d,]+(?:\.(\d+))?")
BETWEEN = re.compile(r"(?<=[.]) (?=[A-Z`])")
"""A place between two sentences."""


def translated(text: str, labels: Container[str] = ()) -> str | None:
    """Sentences of a document in the current language; None if that is English, or has not all of them.

    ``labels`` are the task's answers, which stay as they are.
    """
    if current_language() == "en":
        return None
    found = [_sentence(one, labels) for one in BETWEEN.split(text)]
    if None in found:  # a value may have sentences, too
        found = [_sentence(text, labels)]
    return None if None in found else " ".join(map(str, found))


def _sentence(text: str, labels: Container[str]) -> str | None:
    for pattern, sentence in _patterns():
        if found := pattern.fullmatch(text):
            told = t(sentence, **{name: _named(value, labels) for name, value in found.groupdict().items()})
            return told[:1].upper() + told[1:] if text.endswith(".") else told
    return None


def all_sentences() -> list[str]:
    """The English sentences; one whose beginning is that of another comes after it."""
    return FOLDER.joinpath("sentences.txt").read_text(encoding="utf-8").splitlines()


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    return [(re.compile(PLACE.sub(r"(?P<\1>.+?)", re.escape(one)), re.DOTALL), one) for one in all_sentences()]


def _named(value: str, labels: Container[str]) -> str:
    """What a sentence names: sources, a clause or a number of rounds in the current language, quotes in its marks."""
    if CODES.sub("", value) == "":
        return listed(source_words(one[1]) for one in CODES.finditer(value))
    if QUOTED.sub("", value) == "":
        quoted = [one[2] for one in QUOTED.finditer(value)]
        return listed(one if one in labels else t("“{answer}”", answer=one) for one in quoted)
    if BEARS.sub("", value) == "":
        return listed(t(BEARING[one[2]], count=int(one[1])) for one in BEARS.finditer(value))
    if rounds := ROUNDS.fullmatch(value):
        return t("{count} rounds", count=int(rounds[1]))
    if pieces := PIECES.fullmatch(value):
        return t("{count} pieces", count=int(pieces[1]))
    if searches := SEARCHES.fullmatch(value):
        return searches[1]
    if usd := DOLLARS.fullmatch(value):
        return t("${usd}", usd=in_figures(float(value[1:].replace(",", "")), len(usd[1] or "")))
    first, *clauses = value.split("; ")
    told = [_sentence(one, labels) for one in clauses]
    if clauses and None not in told:
        return in_clauses([_named(first, labels), *map(str, told)])
    return _sentence(value, labels) or value
