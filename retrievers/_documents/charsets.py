"""Decodes texts: by the labels of the WHATWG's Encoding Standard, and without a declaration only if a guess is sure."""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import NamedTuple

from moot.core.lazy import imported
from moot.retrievers._documents.parsed import UnreadableDocument

FEW = 0.02
"""The maximum share of bytes that do not fit an encoding, of all bytes that are not ASCII. One byte is always allowed
if the encoding is declared."""
ENOUGH = 16
"""A guess is used only if the different words with other than ASCII bytes have at least this number of such bytes.

Of 1,167 texts in 26 languages and their code pages, from three words to pages, and of English with foreign names, the
guesses for texts with fewer bytes were often wrong, those for texts with more never, if both guesses were equal.
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
MISFITS = re.compile("[\ufffd\x80-\x84\x86-\x9f]")
"""Characters that show a wrong encoding: replaced bytes, and control characters except a line end of mainframes."""
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
    """Decodes a text with the first that fits: its byte order mark, UTF-8, a declaration, or a guess that is sure.

    Args:
        content: the bytes of the text.
        declared: a label of the WHATWG's Encoding Standard that a server or a user gives; before one in HTML or XML.

    Raises:
        UnreadableDocument: no encoding fits, or none is declared and the guess is not sure.
    """
    if (mark := bom_encoding(content)) and (found := _lenient(content, mark, few=True)):
        return found
    # Zero bytes are valid UTF-8, but no text has them, except in UTF-16 and UTF-32.
    if b"\0" not in content and (found := _lenient(content, "utf-8", few=False)):
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
    if len(words.translate(None, bytes(range(128)))) < ENOUGH:
        return None
    detect = imported("chardet").detect
    texts = []
    for part in (start, words):
        try:
            codec = detect(part)["encoding"] or "ascii"
            texts.append(content.decode(codec))
        except (UnicodeDecodeError, LookupError):
            return None
    one, other = texts
    return Decoded(one, codec, 0) if one == other and not MISFITS.search(one) else None
