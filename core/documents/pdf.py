"""PDF files by PDFium: a text for each page, with the bookmark that it stands under."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Any

from moot.core.documents.parts import Parsed, Part, Unreadable

MOST_PAGES = 10_000
PARAGRAPH = 0.75
"""A line that ends a sentence and is shorter than this share of the page's longest line ends a paragraph."""
HYPHEN = re.compile(r"(?<=\w)[\x02\xad\ufffe]\n?(?=\w)")
"""Where a word was parted at the end of a line, as PDFium marks it."""


def read_pdf(content: bytes) -> Parsed:
    """A PDF file.

    Raises:
        Unreadable: it is encrypted, broken, has no text layer, or more than `MOST_PAGES` pages.
    """
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(content)
        count = len(document)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise Unreadable("is encrypted. Save it without a password.") from error
        raise Unreadable("is a broken PDF file. Open it in a PDF viewer and save it anew.") from error
    if count > MOST_PAGES:
        raise Unreadable(f"has {count:,} pages; at most {MOST_PAGES:,} are read. Split it.")
    begins, titles = _bookmarks(document)
    parts, pictures, broken = [], [], []
    for number in range(1, count + 1):
        try:
            page = document[number - 1]
            text = flowing(page.get_textpage().get_text_bounded())
            pictured = not text and any(page.get_objects([pypdfium2.raw.FPDF_PAGEOBJ_IMAGE], max_depth=4))
        except pypdfium2.PdfiumError:
            broken.append(number)
            continue
        if text:
            above = bisect_right(begins, number)
            parts.append(Part(text, page=number, heading=titles[above - 1] if above else ""))
        elif pictured:
            pictures.append(number)
        page.close()
    if not parts:
        if pictures:
            raise Unreadable(f"has no text layer: its {_pages(count)} are pictures (a scan). Run OCR on it first.")
        if broken:
            raise Unreadable("is a broken PDF file. Open it in a PDF viewer and save it anew.")
        raise Unreadable(f"holds no text on its {_pages(count)}.")
    notes = [f"{listed(pictures)} held pictures and no text, and were not read. Run OCR on it."] if pictures else []
    notes += [f"{listed(broken)} could not be read: they are broken."] if broken else []
    return Parsed("pdf", _title(document), parts, pages=count, notes=notes)


def flowing(text: str) -> str:
    """The text of a page, whose lines are as long as the page is wide, as paragraphs with an empty line between two.

    Example:
        >>> flowing("A line that runs on to the\\r\\nnext one.\\r\\nAnother para\\x02graph.")
        'A line that runs on to the next one.\\n\\nAnother paragraph.'
    """
    text = HYPHEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    lines = [" ".join(line.split()) for line in text.split("\n")]
    longest = max(map(len, lines))
    paragraphs: list[list[str]] = [[]]
    for line in lines:
        if line:
            paragraphs[-1].append(line)
        if not line or (line[-1] in ".!?:\u201d\"" and len(line) < PARAGRAPH * longest):
            paragraphs.append([])
    return "\n\n".join(" ".join(lines) for lines in paragraphs if lines)


def listed(pages: list[int]) -> str:
    """Pages in words, those in a row together.

    Example:
        >>> listed([1, 2, 3, 7])
        'pages 1-3, 7'
    """
    runs: list[list[int]] = []
    for page in pages:
        if runs and page == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], page]
        else:
            runs.append([page])
    said = ", ".join("-".join(map(str, run)) for run in runs)
    return f"page{'s' if len(pages) > 1 else ''} {said}"


def _pages(count: int) -> str:
    return "one page" if count == 1 else f"{count:,} pages"


def _title(document: Any) -> str:
    title = document.get_metadata_value("Title").strip()
    return "" if re.match(r"Microsoft \w+ - |untitled", title, re.IGNORECASE) else " ".join(title.split())[:300]


def _bookmarks(document: Any) -> tuple[list[int], list[str]]:
    """The pages that bookmarks lead to, in their order, and the last bookmark's title of each."""
    found: dict[int, str] = {}
    for bookmark in document.get_toc(max_depth=8):
        target = bookmark.get_dest()
        index = None if target is None else target.get_index()
        if index is not None and (title := " ".join(bookmark.get_title().split())):
            found[index + 1] = title[:300]
    begins = sorted(found)
    return begins, [found[page] for page in begins]
