"""Decodes texts: by the labels of the WHATWG's Encoding Standard, and without a declaration only if a guess is sure."""

from __future__ import annotations

import codecs
import re
import unicodedata
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
UNKNOWN = (
    "its encoding is not declared, and a guess would not be sure. Save it as UTF-8, or name the encoding at the end of "
    "its name, before the suffix, such as NAME.windows-1251.txt"
)
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
MISFITS = re.compile("[\ufffd\x80-\x84\x86-\x9f]")
"""Characters that show a wrong encoding: replaced bytes, and control characters except a line end of mainframes."""
FRAMED = re.compile("\\w[\u2500-\u259f]|[\u2500-\u259f]\\w")
"""Parts of frames next to letters, which show a wrong encoding."""
WORD = re.compile(rb"[^\s<>]*[\x80-\xff][^\s<>]*")


class Decoded(NamedTuple):
    """A text, the encoding that was used, by its label, and the number of bytes that do not fit it."""

    text: str
    charset: str
    misfits: int


def bom_encoding(content: bytes) -> str | None:
    """The encoding that a text's byte order mark shows; None if the text has no mark."""
    return next((encoding for mark, encoding in MARKS.items() if content.startswith(mark)), None)


def charset_in_name(file: Path) -> str | None:
    """The encoding that a file's name says before its suffix, such as windows-1251 in ``a.windows-1251.txt``."""
    label = Path(file.stem).suffix.removeprefix(".")
    # Labels such as "greek", "866" or "l1" may be a part of any name.
    return label if re.fullmatch(r"(?=.*[\d_-])[a-z][\w-]{3,}", label, re.IGNORECASE) and _codec(label) else None


def decode(content: bytes, declared: str | None = None) -> Decoded:
    """Decodes a text with the first that fits: its byte order mark, UTF-8, a declaration, or a guess that is sure."""
    if (mark := bom_encoding(content)) and (found := _lenient(content, mark, few=True)):
        return found
    # Zero bytes and these escapes are valid UTF-8, but texts have them only in UTF-16, UTF-32 and ISO-2022.
    if b"\0" not in content and not ISO_2022.search(content) and (found := _lenient(content, "utf-8", few=False)):
        return found
    named = CHARSET.search(content[:4096])
    within = _codec((named[1] or named[2]).decode()) if named else None
    # A page that declares UTF-16 in letters of one byte is not in UTF-16. The standard takes UTF-8.
    within = "utf-8" if within and within.startswith("utf-16") else within
    for codec in (declared and _codec(declared), within):
        if codec and (found := _lenient(content, codec, few=True)) and "\0" not in found.text:
            return found
    if found := _guess(content):
        return found
    raise UnreadableDocument(UNKNOWN)


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
    high = sum(character > "\x7f" for character in text)
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
    if 2 * sum(map(str.isupper, letters)) > len(letters):
        return False
    if all(unicodedata.name(one, "").startswith("LATIN") for one in set(text) if one.isalpha()):
        return True
    return high >= 2 * ENOUGH and (not others or 0 < 2 * sum(map(str.isupper, others)) <= len(others))


def _is_mixed(word: str) -> bool:
    """Whether a word has a small letter before a capital that is not ASCII."""
    return any(one.islower() and not other.isascii() and other.isupper() for one, other in pairwise(word))
