"""What a file is, by its content first and then by its name; and what letters its bytes stand for."""

from __future__ import annotations

import codecs
import io
import re
import zipfile
from pathlib import PurePath

from moot.core.documents.parts import Unreadable

SUFFIXES = {
    ".pdf": "pdf",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".docx": "docx",
    ".csv": "csv",
    ".txt": "txt",
    ".text": "txt",
    ".md": "md",
    ".markdown": "md",
    ".jsonl": "jsonl",
}
"""The kinds that are read, by the ends of names."""
SAID = ".pdf, .html, .docx, .csv, .txt, .md and .jsonl"
HEAD = 4096
"""Bytes that tell what a file is."""

MARKS = {
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "an Office file of the old kind, or one with a password. Save it as .docx "
    "without a password",
    b"{\\rtf": "rich text (RTF). Save it as .docx",
    b"\x89PNG": "a picture. Save its text as .txt",
    b"\xff\xd8\xff": "a picture. Save its text as .txt",
    b"GIF8": "a picture. Save its text as .txt",
    b"II*\0": "a picture. Save its text as .txt",
    b"MM\0*": "a picture. Save its text as .txt",
    b"\x1f\x8b": "an archive. Unpack it first",
    b"7z\xbc\xaf": "an archive. Unpack it first",
    b"Rar!": "an archive. Unpack it first",
    b"%!PS": "PostScript. Save it as .pdf",
}
"""How files begin that are not read, and what they are."""
PACKED = {
    "xl/workbook.xml": "an Excel workbook. Save its sheets as .csv",
    "ppt/presentation.xml": "a presentation. Save it as .pdf",
    "content.xml": "an OpenDocument file. Save it as .docx or .pdf",
    "META-INF/container.xml": "an e-book. Save it as .pdf or .html",
}
"""Files inside a ZIP file that tell what it is."""
MARKUP = re.compile(rb"(?:\s|<!--.*?-->|<\?xml[^>]*>)*<(?:!doctype\s+html|html|head|body)[\s>]", re.DOTALL | re.IGNORECASE)
CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"))
WIDE = ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


def kind_of(content: bytes, name: str) -> str:
    """The kind of a document: one of the values of `SUFFIXES`.

    Args:
        content: all of it.
        name: its name; it decides among the kinds of plain text.

    Raises:
        Unreadable: it is empty, or of a kind that is not read.
    """
    head = content[:HEAD]
    if b"%PDF-" in head[:1024]:
        return "pdf"
    if head.startswith(b"PK\x03\x04"):
        return _packed(content)
    for mark, what in MARKS.items():
        if head.startswith(mark):
            raise Unreadable(f"is {what}.")
    if not content.strip():
        raise Unreadable("is empty.")
    kind = named(name)
    if MARKUP.match(plain(head)):
        return "html"
    if kind in ("pdf", "docx"):
        raise Unreadable(f"is no {kind.upper()} file, whatever its name says: it is broken, or something else.")
    if b"\0" in head and encoding_marked(head) is None:
        raise Unreadable(f"holds no text. What is read: {SAID} files.")
    if kind is None:
        raise Unreadable(f"is of no kind that is read: those are {SAID}.")
    return kind


def named(name: str) -> str | None:
    """The kind that a name stands for; a name without an end stands for plain text."""
    suffix = PurePath(name).suffix.lower()
    return SUFFIXES.get(suffix) if suffix else "txt"


def looks_read(head: bytes) -> bool:
    """Whether a file begins like a document whose name need not say so."""
    return b"%PDF-" in head[:1024] or bool(MARKUP.match(plain(head)))


def plain(head: bytes) -> bytes:
    """The beginning of a file in which letters of markup are one byte each."""
    marked = encoding_marked(head)
    return head if marked is None else head[: len(head) // 4 * 4].decode(marked, "replace").encode()


def encoding_marked(content: bytes) -> str | None:
    """The encoding that a byte order mark at a text's beginning names."""
    return next((encoding for mark, encoding in (*BOMS, *WIDE) if content.startswith(mark)), None)


def _packed(content: bytes) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            names = set(file.namelist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise Unreadable("is broken: it begins like a .docx file, and its list of contents cannot be read.") from error
    if "word/document.xml" in names:
        return "docx"
    what = next((said for name, said in PACKED.items() if name in names), "an archive. Unpack it first")
    raise Unreadable(f"is {what}.")


def decoded(content: bytes, charset: str | None = None, *, markup: bool = False) -> tuple[str, list[str]]:
    """A text, and a note if its encoding had to be guessed.

    Args:
        content: its bytes.
        charset: what came with it says of its encoding.
        markup: whether it is HTML, which may name its encoding itself.

    Raises:
        Unreadable: its encoding cannot be told.
    """
    named = charset
    if markup and not named and (found := CHARSET.search(content[:HEAD])):
        named = found[1].decode("ascii")
    for encoding in (encoding_marked(content), "utf-8", named):
        try:
            if encoding:
                return content.decode(encoding), []
        except (UnicodeDecodeError, LookupError, ValueError):
            continue
    from charset_normalizer import from_bytes

    best = from_bytes(content[:100_000]).best()
    if best is not None and best.coherence > 0.2 and b"\0" not in content:
        try:
            text = content.decode(best.encoding)
        except UnicodeDecodeError:
            pass
        else:
            return text, [f"is not UTF-8; it was read as {best.encoding}. Save it as UTF-8 if letters are wrong."]
    raise Unreadable("not UTF-8 text. Save the file as UTF-8.")
