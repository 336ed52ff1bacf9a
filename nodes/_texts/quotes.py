"""Finds quotes in a text, and checks an answer's citations against the evidence.

Differences in typography are ignored: the kind and amount of white space, kinds of quotation marks and dashes, Unicode
forms, and characters without width. Words must match exactly, in the same order and in the same letter case.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import groupby

from moot.core.redaction import environment_keys, redact
from moot.nodes._records.entries import Turn
from moot.nodes._runtime.turns import Citation
from moot.nodes._texts.replies import Quote
from moot.retrievers._evidence import Evidence

LONGEST_SHOWN = 80
"""Maximum number of characters of an id or a quote in a message."""

MARKS = frozenset("\"'`´ʹʺʻʼʽ«»‘’‚‛“”„‟′″‴‵‶‷⁗‹›❛❜❝❞❟❠❮❯⹂〝〞〟＂＇｀「」『』｢｣")
"""Quotation marks. Single and double marks count as equal, because models replace one kind by the other in JSON."""
DOUBLE_MARKS = frozenset('"″‶‴‷⁗“”„‟〞〟＂')
"""Marks of two or more strokes. After a digit they differ from a single stroke, because 5″ is not 5′."""
PRIMES = frozenset("″‶‴‷⁗")
"""Double marks that differ from a single stroke even without a digit before them."""
HYPHENS = frozenset("-‐‑－﹣")
DASHES = frozenset("−⁃˗")
"""Dashes that are not in Unicode's category of dashes (Pd)."""
NO_WIDTH = frozenset("\u034f\u180b\u180c\u180d\u180f") | {chr(i) for i in range(0xFE00, 0xFE10)}
"""Characters without width that are not in Unicode's categories of format and control characters (Cf, Cc)."""
BRACKETS = str.maketrans("‹›", "<>")
"""Restores angle brackets. Prompts show them as ‹ and ›, so an exact copy from a prompt contains ‹ and ›."""

NOT_PLAIN = ("<super>", "<sub>", "<fraction>", "<circle>")
"""Unicode's tags for forms that differ in meaning from their plain letters and digits: 10² is not 102."""
UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""A character of a script without spaces between words."""

WORD = re.compile(
    r"字\u0300*"
    r"|(?:(?<![a0\u0300.])(?:[-—] ?[$€£¥]?|[.$€£¥])(?=0))?[a0\u0300]+"
    r"(?:(?:['-](?=[a0])|(?<=0)[.,:/·⁄—](?=0))[a0\u0300]+)*"
)
"""A word, in a text whose characters were replaced by their classes (`_char_class`).

Each of these is one word: can't, well-known, 2.5, 1,000, 10:30, 5–10, -5, -$5 and .5.
"""


@dataclass(frozen=True)
class FoldedText:
    """A text normalised for comparison, with the offsets of each character in the original text."""

    text: str
    """A single hyphen is ``-``, and a dash or a run of hyphens is ``—``: hyphens join two words, dashes do not."""
    spans: list[tuple[int, int]]

    @cached_property
    def plain(self) -> str:
        """The text with hyphens in place of dashes."""
        return self.text.replace("—", "-")

    @cached_property
    def edges(self) -> list[bool]:
        """For each position, whether a quote may begin or end there: never inside a word or an original character."""
        inner = [a != b for a, b in zip(self.spans, self.spans[1:], strict=False)]
        edges = [True, *inner, True]
        for word in WORD.finditer("".join(map(_char_class, self.text))):
            edges[word.start() + 1 : word.end()] = [False] * (len(word[0]) - 1)
        return edges

    def find(self, words: str) -> tuple[int, int] | None:
        """The span, in the original text, of the first occurrence of normalised words between two `edges`, or None."""
        text, edges, size = self.plain, self.edges, len(words)
        first = text.find(words)
        for i in range(first, len(text) - size + 1) if first >= 0 else ():
            if edges[i] and edges[i + size] and text.startswith(words, i):
                covered = self.spans[i : i + size]
                return min(start for start, _ in covered), max(end for _, end in covered)
        return None


def find_quote(quote: str, text: str) -> tuple[int, int] | None:
    """The start and exclusive end, in code points, of the first occurrence of a quote in a text, at word boundaries."""
    found = _find_folded(quote, text)
    # Prompts show ‹ and › in place of < and >.
    if found is None and not {"‹", "›"}.isdisjoint(quote):
        return _find_folded(quote.translate(BRACKETS), text.translate(BRACKETS))
    return found


def _find_folded(quote: str, text: str) -> tuple[int, int] | None:
    wanted, folded = fold_quote(quote), _folded(text)
    for words in dict.fromkeys((wanted, _without_marks(wanted))):
        found = folded.find(words) if any(map(str.isalnum, words)) else None
        if found is not None:
            return found
    return None


def _without_marks(words: str) -> str:
    """Normalised words without the quotation marks around them; unchanged unless both ends have a mark."""
    marks = ("'", '"')
    return words[1:-1].strip() if len(words) > 1 and words[0] in marks and words[-1] in marks else words


def fold_quote(text: str) -> str:
    """A text with normalised typography, for comparing quotes."""
    return _folded(text).plain.strip()


@lru_cache(maxsize=8)  # an answer often quotes the same text several times
def _folded(text: str) -> FoldedText:
    chars: list[str] = []
    spans: list[tuple[int, int]] = []
    for char, at in _with_sorted_accents((char, at) for at, one in enumerate(text) for char in _folded_char(one)):
        last = chars[-1] if chars else ""
        if char == "'" and (text[at] in PRIMES or (text[at] in DOUBLE_MARKS and last.isdecimal())):
            char = '"'
        if char in (" ", "'") and char == last:
            spans[-1] = spans[-1][0], at + 1
        elif char in ("-", "—") and last in ("-", "—"):
            chars[-1], spans[-1] = "—", (spans[-1][0], at + 1)
        else:
            chars.append(char)
            spans.append((at, at + 1))
    return FoldedText("".join(chars), spans)


def _with_sorted_accents(chars: Iterable[tuple[str, int]]) -> Iterable[tuple[str, int]]:
    """Decomposed characters and their offsets, with the accents of each letter in Unicode's canonical order."""

    def rank(pair: tuple[str, int]) -> int:
        return unicodedata.combining(pair[0])

    for accents, run in groupby(chars, key=lambda pair: rank(pair) > 0):
        found = list(run)
        yield from sorted(found, key=rank) if accents else found


@lru_cache(maxsize=4096)
def _folded_char(char: str) -> str:
    """The normalised form of a character: one or more characters, or empty if the character has no width."""
    category = unicodedata.category(char)
    if char.isspace():
        return " "
    if char in MARKS:
        return "'"
    if category == "Pd" or char in DASHES:
        return "-" if char in HYPHENS else "—"
    if category in ("Cf", "Cc") or char in NO_WIDTH:
        return ""
    return "".join("'" if c in MARKS else c for c in _decomposed(char))


def _decomposed(char: str) -> str:
    """A character as letters and accents: ligatures and wide forms become plain; forms such as ² stay."""
    plain = unicodedata.normalize("NFKD", char)
    other = unicodedata.decomposition(char).startswith(NOT_PLAIN) or " " in plain
    if other or (not char.isdecimal() and any(map(str.isdigit, plain))):
        return unicodedata.normalize("NFD", char)
    return plain


@lru_cache(maxsize=4096)
def _char_class(char: str) -> str:
    """A character's class for `WORD`: digit, accent, letter of a script without spaces, other letter, or itself."""
    if char.isdecimal():
        return "0"
    if unicodedata.category(char).startswith("M"):
        return "\u0300"
    if char.isalnum() or char in "_⁺⁻₊₋":
        return "字" if UNSPACED.match(char) else "a"
    return char


# --- citations --------------------------------------------------------------------------------------------------------


def check_citations(quotes: Iterable[Quote], evidence: Iterable[Evidence], shown: Collection[str]) -> list[Citation]:
    """Citations, each checked against the text of its evidence.

    Args:
        quotes: the citations of an answer.
        evidence: the pieces with the texts to check against.
        shown: the ids that were shown to the writer of the answer. Citations of other ids are fabricated.
    """
    texts = {piece["id"]: piece["text"] for piece in evidence}
    return [_check_citation(q, texts.get(q.evidence_id) if q.evidence_id in shown else None, shown) for q in quotes]


def _check_citation(quote: Quote, text: str | None, shown: Collection[str]) -> Citation:
    found = None if text is None else find_quote(quote.quote, text)
    start, end = found or (None, None)
    return {
        "evidence_id": quote.evidence_id,
        "quote": quote.quote,
        "fabricated": quote.evidence_id not in shown,
        "verified": found is not None,
        "start": start,
        "end": end,
        "text_hash": None if text is None else text_hash(text),
        "warrant": None,
    }


def text_hash(text: str) -> str:
    """``sha256:`` and the hexadecimal digest of a text's UTF-8, to identify the text to which offsets refer."""
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def missing_quote_fault(citations: Sequence[Citation]) -> str:
    """The error message if no citation is verified, with at most three faults; empty if a citation is verified."""
    if any(c["verified"] for c in citations):
        return ""
    wrong = "; ".join(fault for _, fault in citation_warnings(citations[:3])) or "there are none"
    return f"`citations` need a `quote` copied word for word from the evidence that is named: {wrong}"


def citation_warnings(citations: Iterable[Citation]) -> list[tuple[str, str]]:
    """The warnings about citations that are not verified, each as its kind and its text."""
    wrong = [citation for citation in citations if not citation["verified"]]
    keys = environment_keys() if wrong else ()
    warnings = []
    for citation in wrong:
        cited, quote = (redact(text, keys)[:LONGEST_SHOWN] for text in (citation["evidence_id"], citation["quote"]))
        if citation["fabricated"]:
            warnings.append(("fabricated_citation", f"cites {cited!r}, which was not shown"))
        else:
            warnings.append(("unverified_quote", f"quotes {quote!r}, which is not in {cited}"))
    return warnings


def count_citations(turns: Iterable[Turn]) -> dict[str, int]:
    """Counts the citations of all turns: ``total``, ``verified``, ``fabricated``, and all others as ``unverified``."""
    cited = [c for turn in turns for c in turn.get("citations") or []]
    verified, fabricated = sum(c["verified"] for c in cited), sum(c["fabricated"] for c in cited)
    rest = len(cited) - verified - fabricated
    return {"total": len(cited), "verified": verified, "unverified": rest, "fabricated": fabricated}
