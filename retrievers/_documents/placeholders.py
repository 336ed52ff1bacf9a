"""Recognises pages that stand in place of a content: errors, challenges, shells of scripts, and walls.

What such pages say differs, so their form decides, too: little text remains if menus and these sentences are left out.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from moot.retrievers._documents.parsed import Part

FEWEST_WORDS = 80
"""A page with fewer words of its own may be an excerpt."""
LEAST_WORDS = 25
"""A page with fewer words of its own, beside a sentence that it is absent, has no content."""
NO_WORDS = 5
"""A page with fewer words of its own has no content if it has a message for browsers without scripts, or a wall."""
LONGEST_ERROR = 300
"""The maximum number of words of an error page, with what it recommends in place of the page."""
LONGEST_MESSAGE = 16
"""The maximum number of words of a sentence that says that a page is missing; its only figure is the code of HTTP."""
LONGEST_EXCERPT = 250
"""The maximum number of words of a page that can be an excerpt, if it says that the rest is paid for."""


SAID = {
    name: re.compile("|".join(f"(?:{line})" for line in lines.strip().splitlines()), re.IGNORECASE)
    for name, lines in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).items()
}
"""What such pages say."""
CODE = re.compile(
    r"^\W*(?:http )?(?:error|status|fehler|erreur|errore|erro|ошибка|błąd|fout|hata|错误|錯誤|エラー|오류|خطأ"
    r"|eroare|chyba|hiba|fel|feil|fejl|virhe|σφάλμα|помилка|грешка|greška|שגיאה|त्रुटि|kesalahan|lỗi)?\W*"
    r"(?:code )?[45]\d\d\b(?!,\d)|\b[45]\d\d(?: error|错误|錯誤|エラー)?$",
    re.IGNORECASE,
)
"""The code of HTTP in a title."""
EDGES = " .!…。:\"'“”-–—|"
SENTENCE = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？؟])\s*|\n+")
SEPARATOR = re.compile(r"\s+[|–—·•»:-]+\s+|\s*[|»]\s*|(?<=\d): |(?<=\d) ?- ?")
WORD = re.compile(r"[^\W\d_]+|\d+")
UNSPACED = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]")
"""Letters of scripts without spaces; about two of them are a word."""


class Shown(NamedTuple):
    """What a page shows: its title and main headings, its parts outside of menus, and its texts for other browsers."""

    titles: Sequence[str]
    parts: list[Part]
    noscript: str
    is_paid: bool  # as it tells search engines


def words_in(text: str) -> int:
    """The number of words of a text."""
    unspaced = len(UNSPACED.findall(text))
    return len(WORD.findall(UNSPACED.sub(" ", text))) + (unspaced + 1) // 2


def judge(shown: Shown) -> tuple[str, str]:
    """The words that show that a page has no content, or the words that show that it may be an excerpt."""
    said: dict[str, str] = {}
    others = consent = 0
    for part in shown.parts:
        if kind := _kind(part["heading"], first=False):
            said.setdefault(kind, part["heading"])
    for number, part in enumerate(shown.parts):
        for sentence in _sentences(part["text"]):
            if kind := _kind(sentence, first=number < 3):
                said.setdefault(kind, sentence)
                consent += words_in(sentence) if kind == "cookies" else 0
            elif not _is_title(sentence):
                others += words_in(sentence)
        if others > LONGEST_ERROR:
            return "", ""
    title = next((piece for one in shown.titles for piece in [one, *SEPARATOR.split(one)] if _is_title(piece)), "")
    body = said.get("absent") or said.get("shell") or ""
    quiet = shown.noscript if _asks(shown.noscript, "scripts") else ""
    missing = said.get("absent") or said.get("missing") or ""
    wall = said.get("paid") or said.get("cookies") or ""
    if others < LEAST_WORDS and (title or body):
        return title or body, ""
    if title and missing and others < LONGEST_ERROR:
        return title, ""
    if others < LEAST_WORDS and quiet:
        return quiet, ""
    if others < NO_WORDS and (wall or missing or words_in(shown.noscript) >= NO_WORDS):
        return wall or missing or shown.noscript, ""
    if others < LONGEST_EXCERPT and (said.get("paid") or shown.is_paid):
        return "", said.get("paid") or "isAccessibleForFree: false"
    if wall and consent > others:
        return "", wall
    return "", body if others < FEWEST_WORDS else ""


def is_wall(text: str) -> bool:
    """Whether a text only asks for consent or for scripts."""
    return all(_kind(sentence, first=False) in ("cookies", "shell") for sentence in _sentences(text))


def _sentences(text: str) -> list[str]:
    return [sentence.strip() for sentence in SENTENCE.split(_straight(text)) if words_in(sentence)]


def _kind(sentence: str, *, first: bool) -> str:
    """What a sentence is said for; only the ``first`` blocks tell that a page is not there."""
    if _asks(sentence, "scripts"):
        return "shell"
    is_short = words_in(sentence) <= LONGEST_MESSAGE and not re.search(r"\d", CODE.sub("", sentence))
    if first and SAID["absent"].search(sentence):
        return "absent"
    if first and is_short and _asks(sentence, "pages"):
        return "missing"
    if SAID["paid"].search(sentence):
        return "paid"
    if SAID["consent"].search(sentence) or _asks(sentence, "cookies"):
        return "cookies"
    return ""


def _asks(sentence: str, what: str) -> bool:
    """Whether a sentence asks for scripts, or for consent to cookies, or says that a page is missing."""
    return all(SAID[name].search(sentence) for name in (what, f"{what}_asked"))


def _is_title(text: str) -> bool:
    plain = CODE.sub(" ", " ".join(_straight(text).split())).strip(EDGES)
    return (not plain and any(map(str.isdigit, text))) or SAID["titles"].fullmatch(plain) is not None


def _straight(text: str) -> str:
    return text.replace("’", "'")
