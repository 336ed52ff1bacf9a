"""Guesses the language of a text, for reports and for sources that have a collection for each language."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

from moot.core.lazy import imported

DEFAULT = "en"
KNOWN = (
    *("en", "ar", "az", "bg", "bn", "ca", "cs", "da", "de", "el", "es", "et", "eu", "fa", "fi", "fr", "gl", "he"),
    *("hi", "hr", "hu", "hy", "id", "it", "ja", "ka", "kk", "ko", "lt", "lv", "ms", "nl", "no", "pl", "pt", "ro"),
    *("ru", "sk", "sl", "sr", "sv", "sw", "ta", "te", "th", "tr", "uk", "ur", "vi", "zh"),
)
"""The languages to choose from: with more, rare ones would be taken for their large neighbours."""
CERTAIN = 0.75
"""The least probability of a language in Latin letters. Names in an English sentence reach 0.72."""
FREQUENT = 2
"""How much a frequent word of a language, which is none in English, raises its probability. The guesser knows only
sequences of letters, of which a short claim has few. With this, 70 to 90% of claims of three to six words in German,
Spanish and French are certain (without it, 53 to 80%), and none of 3,300 in English is taken for another language; with
3, one with a Spanish name is.
"""
READ = 2000
"""Number of characters that are read."""
WORD = re.compile(r"[^\W\d_]+")
LISTS = """
az=Azerbaijani ca=Catalan cs=Czech da=Danish de=German en=English es=Spanish et=Estonian eu=Basque fi=Finnish fr=French
gl=Galician hr=Croatian hu=Hungarian id=Indonesian it=Italian lt=Lithuanian lv=Latvian ms=Malay nl=Dutch
no=Norwegian_Bokmal pl=Polish pt=Portuguese ro=Romanian sk=Slovak sl=Slovenian sv=Swedish sw=Swahili tr=Turkish
vi=Vietnamese"""
"""The names of the lists of frequent words, of the languages in Latin letters."""
_guessing = threading.Lock()


@cache
def _guesser() -> Any:
    langid = imported("py3langid.langid")
    guesser = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
    guesser.set_languages(KNOWN)
    return guesser


@cache
def _frequent_words() -> Mapping[str, frozenset[str]]:
    """The frequent words of each language in `LISTS`; of others than `DEFAULT`, those that are not frequent in it."""
    justext = imported("justext")
    named = (one.split("=") for one in LISTS.split())
    found = {code: justext.get_stoplist(name) for code, name in named}
    return {code: words if code == DEFAULT else words - found[DEFAULT] for code, words in found.items()}


@lru_cache(1024)
def certain_language(text: str) -> str | None:
    """The code of a text's language in Wikipedia, such as ``de``; None if it is not certain; blocking."""
    text = text[:READ]
    with _guessing:
        weights = {str(code): float(probability) for code, probability in _guesser().rank(text)}
        frequent = _frequent_words()
    letters = [letter for letter in text if letter.isalpha()]
    if 2 * sum(letter < "\u0250" for letter in letters) < len(letters):
        return max(weights, key=weights.__getitem__)
    words = set(WORD.findall(text.lower()))
    for code, known in frequent.items():
        weights[code] *= FREQUENT ** len(words & known)
    likeliest = max(weights, key=weights.__getitem__)
    return likeliest if weights[likeliest] >= CERTAIN * sum(weights.values()) else None


def language_of(text: str) -> str:
    """The code of a text's language, as `certain_language`; ``en`` if it is not certain; blocking."""
    return certain_language(text) or DEFAULT
