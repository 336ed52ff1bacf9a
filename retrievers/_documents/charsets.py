"""Decodes texts: by the labels of the WHATWG's Encoding Standard, and without a declaration only if a guess is sure."""

from __future__ import annotations

import codecs
import re
import unicodedata
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from moot.core.lazy import imported
from moot.retrievers._documents.parsed import UnreadableDocument

FEW = 0.02
"""The maximum share of bytes that do not fit an encoding, of all bytes that are not ASCII. One byte is always allowed
if the encoding is declared."""
ENOUGH = 16
"""A guess is used only if the different words with other than ASCII bytes have at least this number of such bytes, and
twice as many if some letters of the text are not Latin, because short texts in capitals were read in another alphabet.

Chosen on sentences in 30 languages and their code pages, from three words to pages, also in capitals, and on English
with foreign names.
"""
NAME_IT = (
    "Save it as UTF-8, or name the encoding at the end of its name, before the suffix, such as NAME.windows-1251.txt"
)
UNKNOWN = f"its encoding is not declared, and a guess would not be sure. {NAME_IT}"
MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""The encodings named by byte order marks."""
CHARSET = re.compile(
    rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{1,40})"
    rb"|<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})",
    re.IGNORECASE,
)
SIBLINGS = {"cp1253": "iso8859-7", "iso8859-7": "cp1253"}
"""Code pages that differ in one letter of a language alone, so that no guess between them is sure."""
ISO_2022 = re.compile(rb"\x1b\$[@AB(]|\x1b\([JI]")
"""Escapes to letters of Chinese, Japanese or Korean, in encodings of seven bits."""
ALPHABETS = (
    *("äöüßéèàçñ", "àâæçéèêëîïôœùûüÿ", "áéíñóúüªº", "àáâãçéêíóôõúüªº", "àèéìíîòóùúºª", "áàäçéèëêïíóöúü", "åäöéèàüæø"),
    "àçèéíïòóúüª",
)
"""The letters of Western European languages that are not ASCII, with those of usual names from other languages."""
LATIN_PAGES = ("cp1250", "cp1254", "cp1257")
"""The code pages of Windows for other languages with Latin letters."""
PUNCTUATION = frozenset("€‚„…‘’“”•–—‹›«»§°·£¥©®™²³½¼¾µ¿¡±×\xa0\xad")
"""The other characters of texts in these languages that are not ASCII."""
LEAST_WESTERN = 3
"""A text is taken for Western European if it has at least this number of characters that are not ASCII, or if these
characters are the same in the other `LATIN_PAGES`.

Chosen on parts of sentences in 30 languages and their code pages: with two, seven of 850 were read wrong, and none with
three.
"""
MISFITS = re.compile("[\ufffd\x80-\x84\x86-\x9f]")
"""Characters that show a wrong encoding: replaced bytes, and control characters except a line end of mainframes."""
FRAMED = re.compile("\\w[\u2500-\u259f]|[\u2500-\u259f]\\w")
"""Parts of frames next to letters, which show a wrong encoding."""
START = 4096
"""The number of bytes at the beginning of a text that show its encoding."""
LINE_ENDS = str.maketrans("\t\r\n", "   ")
OTHER_ALPHABETS = ("CYRILLIC", "GREEK", "HEBREW", "ARABIC", "THAI")
"""Alphabets that no word has beside Latin letters."""
WORD = re.compile(rb"(?<![^\s<>])[^\s<>]*[\x80-\xff][^\s<>]*")


class Decoded(NamedTuple):
    """A text, the encoding that was used, by its label, and the number of bytes that do not fit it."""

    text: str
    charset: str
    misfits: int


def encoding_of_start(start: bytes) -> str | None:
    """The encoding that a text's byte order mark shows, or its null bytes as in UTF-16; None without these."""
    if marked := next((encoding for mark, encoding in MARKS.items() if start.startswith(mark)), None):
        return marked
    if b"\0" not in start:
        return None
    # A space or a line end in the wrong order of the bytes is no character of a text.
    found = []
    for encoding in ("utf-16-le", "utf-16-be"):
        text = start[: len(start) // 2 * 2].decode(encoding, "replace").translate(LINE_ENDS)
        if text.isprintable() and " " in text and "\ufffd" not in text[:-1]:
            found.append(encoding)
    return found[0] if len(found) == 1 else None


def charset_in_name(file: Path) -> str | None:
    """The encoding that a file's name says before its suffix, such as windows-1251 in ``a.windows-1251.txt``."""
    label = Path(file.stem).suffix.removeprefix(".")
    # Labels such as "greek", "866" or "l1" may be a part of any name.
    return label if re.fullmatch(r"(?=.*[\d_-])[a-z][\w-]{3,}", label, re.IGNORECASE) and _codec(label) else None


def decode(content: bytes, declared: str | None = None) -> Decoded:
    """Decodes a text with the first that fits: its byte order mark, UTF-8, a declaration, or a guess that is sure."""
    if (mark := encoding_of_start(content[:START])) and (found := _lenient(content, mark, few=True)):
        return found
    # Zero bytes and these escapes are valid UTF-8, but texts have them only in UTF-16, UTF-32 and ISO-2022.
    if b"\0" not in content and not ISO_2022.search(content) and (found := _lenient(content, "utf-8", few=False)):
        return found
    named = CHARSET.search(content[:4096])
    label = (named[1] or named[2]).decode() if named else ""
    within = _codec(label)
    # A page that declares UTF-16 in letters of one byte is not in UTF-16. The standard takes UTF-8.
    within = "utf-8" if within and within.startswith("utf-16") else within
    for codec in (declared and _codec(declared), within):
        if codec and (found := _lenient(content, codec, few=True)) and "\0" not in found.text:
            if codec == within and is_refuted(content, found):
                raise UnreadableDocument(f"it is probably not in the encoding that it declares ({label}). {NAME_IT}")
            return found
    if found := _guess(content):
        return found
    raise UnreadableDocument(UNKNOWN)


def is_refuted(content: bytes, found: Decoded) -> bool:
    """Whether a guess that is sure has other letters than a text in a declared encoding, as in another alphabet."""
    # Without the spaces, and without the tags, whose declaration the guess would follow.
    words = b"\n".join(WORD.findall(content))
    guess = _guess(words) if words else None
    if guess is None:
        return False
    read = words.decode(found.charset, "replace")
    if len(guess.text) != len(read):
        return True
    pairs = [(one, other) for one, other in zip(read, guess.text, strict=True) if not one.isascii()]
    return 2 * sum(one != other for one, other in pairs) > len(pairs)


def codec_of(label: str) -> str | None:
    """Python's codec for the name of an encoding, which is read as browsers do if they know it; None if unknown."""
    with suppress(LookupError):
        return _codec(label) or _codec(codecs.lookup(label).name) or codecs.lookup(label).name
    return None


def western(content: bytes) -> str | None:
    """The text if it looks like Western European text in windows-1252, as Excel saves CSV there; else None.

    A person should be told, as this is less sure than `decode`.
    """
    try:
        text = content.decode("cp1252")
    except UnicodeDecodeError:
        return None
    if "\0" in text:
        return None
    others = [one for one in text if not one.isascii()]
    letters = {one.lower() for one in others if one.isalpha() and one not in PUNCTUATION}
    if (
        (len(others) < LEAST_WESTERN and any(content.decode(page, "replace") != text for page in LATIN_PAGES))
        or not any(letters <= {*alphabet} for alphabet in ALPHABETS)
        or not {one for one in others if one.lower() not in letters} <= PUNCTUATION
        or not _has_few_capitals(text)
        or any(map(_is_mixed, text.split()))
    ):
        return None
    guess = imported("chardet").detect(content[:100_000])["encoding"]
    # A guess that leads to another alphabet within words says nothing.
    with suppress(UnicodeDecodeError, LookupError):
        if guess is None or (_codec(guess) != "cp1252" and is_readable(content.decode(_codec(guess) or guess))):
            return None
    return text


def is_readable(text: str) -> bool:
    """Whether a text in a guessed encoding has no signs of a wrong one, such as letters of two alphabets in a word."""
    return not (MISFITS.search(text) or FRAMED.search(text) or any(map(_is_odd, text.split())))


def _is_odd(word: str) -> bool:
    alphabets = {unicodedata.name(letter, "").partition(" ")[0] for letter in word}
    return _is_mixed(word) or ("LATIN" in alphabets and not alphabets.isdisjoint(OTHER_ALPHABETS))


def _has_few_capitals(text: str) -> bool:
    letters = [one for one in text if one.isupper() or one.islower()]
    return 2 * sum(map(str.isupper, letters)) <= len(letters)


def _codec(label: str) -> str | None:
    """Python's codec for a label of the WHATWG's table; None for other labels."""
    found = imported("webencodings").lookup(label)
    if found is None or found.name == "x-user-defined":
        return None
    name: str = found.codec_info.name
    return {"gbk": "gb18030"}.get(name, name)


def _lenient(content: bytes, codec: str, *, few: bool) -> Decoded | None:
    """The text if all bytes but a `FEW` fit; ``few``: if only one byte does not fit, it may be the only one."""
    text = content.decode(codec, "replace").removeprefix("\ufeff")
    misfits = len(MISFITS.findall(text))
    high = len(text) - len(text.encode("ascii", "ignore"))
    return Decoded(text, codec, misfits) if misfits <= max(FEW * high, int(few)) else None


def _guess(content: bytes) -> Decoded | None:
    """The text by the guess for its beginning, if the guess for only its words that are not ASCII is the same text."""
    if b"\0" in content:
        return None
    start = content[:100_000]
    words = b" ".join(dict.fromkeys(WORD.findall(start)))
    high = len(words.translate(None, bytes(range(128))))
    if high < ENOUGH:
        return None
    detect = imported("chardet").detect
    texts = []
    for part in (start, words):
        try:
            codec = _codec(detect(part)["encoding"] or "")
            if codec is None:
                return None
            texts.append(content.decode(codec))
        except UnicodeDecodeError:
            return None
    one, other = texts
    if not codec or one != other or not _is_plausible(one, high):
        return None
    if content.decode(SIBLINGS.get(codec, codec), "replace") != one:
        return None
    return Decoded(one, codec, 0)


def _is_plausible(text: str, high: int) -> bool:
    """Whether a guessed text has no misfits, is long enough for its alphabet, and has capitals as in sentences."""
    # Capitals of one Cyrillic or Greek code page are small letters of another, so texts in capitals are never sure.
    letters = [one for one in text if one.isupper() or one.islower()]
    others = [one for one in letters if not one.isascii()]
    if MISFITS.search(text) or FRAMED.search(text) or any(map(_is_mixed, text.split())):
        return False
    if not _has_few_capitals(text):
        return False
    if all(unicodedata.name(one, "").startswith("LATIN") for one in set(text) if one.isalpha()):
        return True
    return high >= 2 * ENOUGH and (not others or 0 < 2 * sum(map(str.isupper, others)) <= len(others))


def _is_mixed(word: str) -> bool:
    """Whether a word has a small letter before a capital that is not ASCII."""
    return any(one.islower() and not other.isascii() and other.isupper() for one, other in pairwise(word))
