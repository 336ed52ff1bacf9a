"""Decodes texts whose encoding is declared or guessed."""

from __future__ import annotations

import codecs
import re

from moot.core.lazy import imported
from moot.retrievers._documents.parsed import UnreadableDocument

LIKELY = 0.2
"""A guessed encoding is used only if the decoded text resembles a language by more than this value (0 to 1)."""
MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""The encodings named by byte order marks."""
CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)


def bom_encoding(content: bytes) -> str | None:
    """The encoding that a text's byte order mark shows; None if the text has no mark."""
    return next((encoding for mark, encoding in MARKS.items() if content.startswith(mark)), None)


def decoded(content: bytes) -> str:
    """The text in the first encoding that fits: of the byte order mark, UTF-8, of an HTML declaration, or a guess."""
    named = CHARSET.search(content[:4096])
    for encoding in (bom_encoding(content), "utf-8", named and named[1].decode()):
        try:
            if encoding:
                return content.decode(encoding)
        except (UnicodeError, LookupError):
            continue
    best = imported("charset_normalizer").from_bytes(content[:100_000]).best()
    try:
        if best is not None and best.coherence > LIKELY and b"\0" not in content:
            return content.decode(best.encoding)
    except UnicodeDecodeError:
        pass
    raise UnreadableDocument("it is not UTF-8 text. Save the file as UTF-8")
