"""Text recognition (OCR) by the program tesseract, if it is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from itertools import groupby

from moot.retrievers._documents.parsed import UnreadableDocument

LANGUAGES = "MOOT_OCR_LANGUAGES"
"""The environment variable with tesseract's names of the languages of scans, such as ``deu+eng``."""
SECONDS = 50.0
"""Time limit for a page, in seconds; shorter than the time limit of the process that reads the document."""
LEAST_CONFIDENCE = 75.0
"""The least mean confidence of tesseract in a page's words, from 0 to 100.

Clear pages of the named languages have more than 90; pages in another script had up to 70.
"""
INSTALL = f"Install tesseract, whose languages {LANGUAGES} names, or run text recognition (OCR) on it first"


@dataclass(frozen=True)
class Recognised:
    """The text of a picture; or nothing, and why, as a sentence without a full stop."""

    text: str
    why: str = ""


def languages() -> str:
    """The languages in which scans are read, by tesseract's names."""
    return os.environ.get(LANGUAGES, "").strip().replace(",", "+").replace(" ", "") or "eng"


def read_picture(picture: bytes) -> Recognised:
    """Reads a picture in a format that tesseract knows; blocking."""
    if shutil.which("tesseract") is None:
        return Recognised("", INSTALL)
    named, installed = languages(), _installed()
    for name in named.split("+"):
        if name not in installed:
            known = ", ".join(sorted(installed - {"osd"}))
            raise UnreadableDocument(
                f"it is a scan, and tesseract has no language {name[:40]!r} (it has {known}). Install it, or name "
                f"another one in {LANGUAGES}"
            )
    layout = "1" if "osd" in installed else "3"  # 1 also finds out which side is up
    command = ["tesseract", "stdin", "stdout", "-l", named, "--psm", layout, "tsv"]
    try:
        done = subprocess.run(
            command, input=picture, capture_output=True, timeout=SECONDS, env=os.environ | {"OMP_THREAD_LIMIT": "1"}
        )
    except subprocess.TimeoutExpired:
        return Recognised("", f"Tesseract takes more than {SECONDS:.0f} seconds for a page")
    if done.returncode:
        return Recognised("", "Tesseract cannot read them. Run text recognition (OCR) on it first")
    return recognised(done.stdout.decode(errors="replace"))


def recognised(table: str) -> Recognised:
    """The text of tesseract's table (TSV) of words, a line each, if its words are sure enough."""
    rows = [row.split("\t") for row in table.splitlines()[1:]]
    words = [row for row in rows if len(row) == 12 and row[0] == "5" and row[11].strip()]
    if not words:
        return Recognised("", "Tesseract finds no text in them")
    sure = sum(float(row[10]) * len(row[11]) for row in words) / sum(len(row[11]) for row in words)
    if sure < LEAST_CONFIDENCE:
        return Recognised(
            "", f"Tesseract is not sure of their text. If it is not in {languages()}, name its language in {LANGUAGES}"
        )
    lines = groupby(words, key=lambda row: row[1:5])
    return Recognised("\n".join(" ".join(row[11] for row in line) for _, line in lines))


@cache
def _installed() -> frozenset[str]:
    """The languages for which tesseract is installed."""
    done = subprocess.run(["tesseract", "--list-langs"], capture_output=True, timeout=SECONDS)
    return frozenset(re.findall(r"^[\w/]+$", done.stdout.decode(errors="replace"), re.MULTILINE))
