"""The passages of a web page in a report: quotes with a few words around them, and links to their place in the page."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote as encoded

from moot.retrievers._excerpts import GAP
from moot.transcript.report.paper import around_quotes
from moot.transcript.report.sources import Parts

FIRST_WORDS = 300
"""The number of characters that a report shows of a page from which nothing is quoted."""
LONG_QUOTE = 10
"""Maximum number of words that a text fragment names in full."""
ENDS = 4
"""Number of words at each end of a longer quote, and around a quote, that a text fragment names."""


def near_quotes(parts: Parts) -> Parts:
    """The quotes in parts of a text, with a few words around each; without quotes, the first words."""
    found = Parts()
    for number, (text, quoted) in enumerate(parts):
        before, far, after = ("", "", text) if quoted else around_quotes(text, number > 0, number < len(parts) - 1)
        if len(parts) == 1 and not quoted:
            before, far, after = text[:FIRST_WORDS], text[FIRST_WORDS:], ""
        found += [(before, quoted)] * bool(before) + [(f" {GAP} ", False)] * bool(far) + [(after, quoted)] * bool(after)
    return found


def passage_link(address: str, text: str, spans: Iterable[tuple[int, int]]) -> str:
    """A link that opens a page at passages of its text (https://wicg.github.io/scroll-to-text-fragment/).

    A long passage is named by its first and last words. A passage that occurs several times also has the words before
    and after it. A browser without text fragments, or a page that has changed, opens at its beginning.
    """
    directives = dict.fromkeys(f"text={_fragment(text, start, end)}" for start, end in spans)
    return f"{address}{'' if '#' in address else '#'}:~:{'&'.join(directives)}" if directives else address


def _fragment(text: str, start: int, end: int) -> str:
    quote = text[start:end].strip()
    words, blocks = quote.split(), quote.split("\n")
    # Text fragments name words of one block of a page.
    whole = len(words) <= LONG_QUOTE and len(blocks) == 1
    named = [words] if whole else [blocks[0].split()[:ENDS], blocks[-1].split()[-ENDS:]]
    parts = [_escaped(one) for one in named]
    if text.count(quote) > 1:
        before, after = text[:start].rpartition("\n")[2].split()[-ENDS:], text[end:].partition("\n")[0].split()[:ENDS]
        parts = [f"{_escaped(before)}-"] * bool(before) + parts + [f"-{_escaped(after)}"] * bool(after)
    return ",".join(parts)


def _escaped(words: Iterable[str]) -> str:
    """Words for a text fragment, in which hyphens, commas and ampersands have a meaning."""
    return encoded(" ".join(words), safe="").replace("-", "%2D")
