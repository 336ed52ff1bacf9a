"""The search for quotes in texts, and the check of citations."""

from __future__ import annotations

import hashlib
import time
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from moot.nodes._records.entries import Turn
from moot.nodes._texts.quotes import (
    _folded,
    check_citations,
    count_citations,
    find_quote,
    fold_quote,
    missing_quote_fault,
)
from moot.nodes._texts.replies import Quote
from moot.retrievers import Evidence
from moot.retrievers._evidence import make_evidence

from tests.each import each

# The text, the quote, and the part of the text that matches.
FOUND = [
    ("It was built in 1889.", "built in 1889", "built in 1889"),
    ("It was built in 1889.", "It was built in 1889.", "It was built in 1889."),
    ("It was built\r\n\t in 1889.", "was built in", "was built\r\n\t in"),
    ("It was built in 1889.", "  was\u00a0built \n in ", "was built in"),
    ("He said “it is so” twice.", 'said "it is so" twice', "said “it is so” twice"),
    ('He said "it is so" twice.', "said 'it is so' twice", 'said "it is so" twice'),
    ("He said „it is so‟ twice.", "said «it is so» twice", "said „it is so‟ twice"),
    ("It is 5′ 11″ tall.", "is 5' 11\" tall", "is 5′ 11″ tall"),
    ("The pilot’s log", "pilot's log", "pilot’s log"),
    ("It was built in 1889.", '"built in 1889"', "built in 1889"),
    ("It was built in 1889.", "« built in 1889 »", "built in 1889"),
    ("They said 'built in 1889' too, built in 1889.", "'built in 1889'", "'built in 1889'"),
    ("from 1939–1945 on", "1939-1945", "1939–1945"),
    ("the well‑known law", "well-known law", "well‑known law"),
    ("it fell to −5 °C", "to -5 °C", "to −5 °C"),
    ("a pause — then", "pause -- then", "pause — then"),
    ("in France—the third", "in France", "in France"),
    ("the ﬁrst oﬃce", "first office", "ﬁrst oﬃce"),
    ("the first office", "ﬁrst oﬃce", "first office"),
    ("un café noir", unicodedata.normalize("NFD", "café noir"), "café noir"),
    (unicodedata.normalize("NFD", "un café noir"), "café noir", unicodedata.normalize("NFD", "café noir")),
    ("e\u0323\u0301t", "e\u0301\u0323t", "e\u0323\u0301t"),
    ("in ＡＢＣ １２", "ABC 12", "ＡＢＣ １２"),
    ("한국 사람", unicodedata.normalize("NFD", "한국"), "한국"),
    ("infor\u00adma\u200btion is", "information", "infor\u00adma\u200btion"),
    ("information is", "infor\u00admation", "information"),
    ("about 10² metres", "about 10² metres", "about 10² metres"),
    ("wait… then", "wait... then", "wait… then"),
    ("so p < 0.05, and", "p ‹ 0.05", "p < 0.05"),  # prompts show < and > as ‹ and ›
    ("says ‹so› here", 'says "so" here', "says ‹so› here"),
    ("中国的首都北京是", "首都北京", "首都北京"),
    ("(so it is)", "so it is", "so it is"),
    ("art, part, art", "art", "art"),
    ("It is 5.", "is 5", "is 5"),
    ("in 2019, 5 people", "5 people", "5 people"),
    ("the state_of it", "state_of it", "state_of it"),
]


@each(("text", "quote", "part"), FOUND)
def test_quotes_are_found_despite_different_typography(text: str, quote: str, part: str) -> None:
    found = find_quote(quote, text)
    assert found == (text.index(part), text.index(part) + len(part))


NOT_FOUND = [
    ("It was built in 1889.", "was Built in"),
    ("It was built in 1889.", "was made in"),
    ("It is 1/2 of them.", "2 of them"),
    ("It was built in 1889.", "was in 1889"),
    ("It was built in 1889.", "was not built"),
    ("It was built in 1889.", "built was in"),
    ("It was built in 1889.", "It ... in 1889"),
    ("It was built in 1889.", "It … in 1889"),
    ("It was built in 1889.", "built in 1889!"),
    ("It was built in 1889.", ""),
    ("It was built in 1889.", " \n"),
    ("It was built in 1889.", "."),
    ("Well... so", "..."),
    ('so "" it', '""'),
    ("", "so"),
    ("", ""),
    ("it is 50", "is 5"),
    ("a part", "art"),
    ("an article", "art"),
    ("it is notable", "able"),
    ("it is notable", "not able"),
    ("it is not able", "notable"),
    ("it is not-able", "notable"),
    ("of 2.5 metres", "5 metres"),
    ("of 1,5 metres", "5"),
    ("of 2.5 metres", "of 2"),
    ("of .5 metres", "5 metres"),
    ("of 1,000 metres", "of 1"),
    ("at 10:30 today", "at 10"),
    ("of −5 metres", "5 metres"),
    ("of − 5 metres", "5 metres"),
    ("of -$100 now", "$100 now"),
    ("of -$100 now", "100 now"),
    ("5–10 people", "10 people"),
    ("30″ wide", "30′ wide"),
    ("30' wide", '30" wide'),
    ("f″(x) = 2", "f′(x) = 2"),
    ("of -5 metres", "5 metres"),
    ("they can't do it", "they can"),
    ("a non-profit body", "profit body"),
    ("about 10² metres", "about 10"),
    ("about 10² metres", "102"),
    ("about 10² metres", "10 2"),
    ("about 102 metres", "10²"),
    ("water, H₂O", "H2O"),
    ("in 1½ hours", "in 1"),
    ("in ½ hours", "in 1/2 hours"),
    ("in ½ hours", "1⁄2"),
    ("note ①", "note 1"),
    ("un café", "cafe"),
    ("un cafe\u0301", "cafe"),
    ("let x\u0304 be", "let x"),
    ("한국", "하"),
    ("wait… then", "wait."),
    ("so p > 0.05, and", "p ‹ 0.05"),
    ("the state_of it", "state"),
]


@each(("text", "quote"), NOT_FOUND)
def test_a_changed_or_empty_quote_is_not_found(text: str, quote: str) -> None:
    """A quote that begins or ends inside a word or a number is also not found."""
    assert find_quote(quote, text) is None


def test_the_first_match_of_whole_words_is_found() -> None:
    assert find_quote("art", "part art art") == (5, 8)


# --- properties -------------------------------------------------------------------------------------------------------

LETTERS = "abcdeEéﬁßñ한中дｘ59²½\u0301"
WORDS = st.one_of(
    st.text(LETTERS, min_size=1, max_size=4),
    st.sampled_from(["don’t", "“so”", "well-known", "2.5", "1,000", "−5", "(it", "is),", "—", "...", "«non»", "U.S."]),
)
SPACES = st.text(" \n\t\u00a0\u2009", min_size=1, max_size=3)


@st.composite
def texts_with_words(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A text, and consecutive words of this text. At least one of the words has a letter or a digit."""
    words = draw(st.lists(WORDS, min_size=1, max_size=12))
    text = draw(SPACES).join([""] * draw(st.booleans()) + words)
    begin = draw(st.integers(0, len(words) - 1))
    end = draw(st.integers(begin + 1, len(words)))
    assume(any(c.isalnum() for word in words[begin:end] for c in word))
    assume("—" not in words[begin - 1 : begin] + words[end - 1 : end])  # before a number, a dash may be a minus sign
    return text, words[begin:end]


def swap_characters(kinds: str) -> Callable[[str, st.DataObject], str]:
    """A function that replaces each character that is in ``kinds`` by a random character of ``kinds``."""
    substitutes = st.sampled_from(kinds)
    return lambda text, data: "".join(data.draw(substitutes) if c in kinds else c for c in text)


def normalised_form(text: str, data: st.DataObject) -> str:
    """The text in Unicode's normal form NFC or NFD."""
    return unicodedata.normalize(data.draw(st.sampled_from(["NFC", "NFD"])), text)


def plain_letters_form(text: str, data: st.DataObject) -> str:
    """The text with plain letters in place of the ligature ``ﬁ`` and the full-width ``ｘ``."""
    return text.translate({ord("ﬁ"): "fi", ord("ｘ"): "x"})


def with_invisible_character(text: str, data: st.DataObject) -> str:
    """The text with an invisible character somewhere in it."""
    at = data.draw(st.integers(0, len(text)))
    return text[:at] + data.draw(st.sampled_from(["\u00ad", "\u200b", "\ufeff", "\u2060"])) + text[at:]


def in_quotation_marks(text: str, data: st.DataObject) -> str:
    """The text between quotation marks."""
    return data.draw(st.sampled_from(["“{}”", "'{}'", "« {} »", '"{}"'])).format(text)


DISGUISES = [
    swap_characters("'\"‘’“”„«»′"),
    swap_characters("-‐‑–—−"),
    normalised_form,
    plain_letters_form,
    with_invisible_character,
]


@given(texts_with_words(), st.data())
def test_consecutive_words_are_found_despite_different_typography(
    given_: tuple[str, list[str]], data: st.DataObject
) -> None:
    text, words = given_
    quote = data.draw(SPACES).join(words)
    for disguise in data.draw(st.lists(st.sampled_from(DISGUISES), max_size=4)):
        quote = disguise(quote, data)
    found = find_quote(quote, text)
    assert found is not None
    assert fold_quote(text[slice(*found)]) == fold_quote(quote)
    assert find_quote(text[slice(*found)], text) == found
    assert find_quote(in_quotation_marks(quote, data), text) is not None


@given(texts_with_words(), st.data())
def test_words_with_an_inserted_character_are_not_found(given_: tuple[str, list[str]], data: st.DataObject) -> None:
    text, words = given_
    at = data.draw(st.integers(0, len(words) - 1))
    place = data.draw(st.integers(0, len(words[at])))
    words[at] = words[at][:place] + data.draw(st.sampled_from("zZ7д")) + words[at][place:]
    assume(words[at] not in text)
    assert find_quote(" ".join(words), text) is None


PLAIN_WORDS = st.lists(
    st.sampled_from(["so", "it", "is", "not", "So", "it's", "5", "50", "2.5"]), min_size=1, max_size=9
)


@given(PLAIN_WORDS, PLAIN_WORDS)
def test_plain_words_are_found_only_if_they_are_consecutive(text: list[str], quote: list[str]) -> None:
    """If the quote occurs several times, its first occurrence is found."""
    starts = [i for i in range(len(text)) if text[i : i + len(quote)] == quote]
    begin = len(" ".join(["", *text[: starts[0]], ""])) - 1 if starts else 0
    expected = (begin, begin + len(" ".join(quote))) if starts else None
    assert find_quote(" ".join(quote), " ".join(text)) == expected


@given(st.text(), st.text())
def test_each_match_equals_the_quote_after_folding(quote: str, text: str) -> None:
    """The match may lack the quotation marks around the quote. Folding a folded text changes nothing.

    Quotes with ‹ or › are not tested, because they may match < and >.
    """
    found = find_quote(quote, text)
    if found is not None and {"‹", "›"}.isdisjoint(quote):
        part = fold_quote(text[slice(*found)])
        assert part in (fold_quote(quote), fold_quote(quote)[1:-1].strip())
    assert fold_quote(fold_quote(text)) == fold_quote(text)


SIZE = 100_000
HOSTILE = [
    ("a" * SIZE, "a" * (SIZE // 2)),
    ("ab " * (SIZE // 3), "ab " * (SIZE // 6) + "a"),
    ("a " * (SIZE // 2), "a " * (SIZE // 4) + "b"),
    ("1," * (SIZE // 2), "1," * (SIZE // 4) + "2"),
    ("\u0301\u0323" * (SIZE // 2), "\u0323" * SIZE + "a"),
    ("'" * SIZE, "'" * SIZE + "a"),
    ("a'-" * (SIZE // 3), "a-'" * (SIZE // 3)),
    ("\ufdfa" * SIZE, "\ufdfa" * (SIZE // 2) + "."),
]


def search_seconds(quote: str, text: str) -> float:
    """The processor time of a search for a quote."""
    _folded.cache_clear()
    started = time.process_time()
    find_quote(quote, text)
    return time.process_time() - started


@pytest.mark.parametrize(("text", "quote"), HOSTILE, ids=range(len(HOSTILE)))
def test_the_search_in_hostile_texts_does_not_take_quadratic_time(text: str, quote: str) -> None:
    usual = "It was so. " * (SIZE // 11)
    # A quadratic search would take thousands of times as long as a search in a usual text.
    assert search_seconds(quote, text) < 40 * search_seconds(usual[: SIZE // 2] + "z", usual)


# --- citations --------------------------------------------------------------------------------------------------------


def piece(text: str) -> Evidence:
    return make_evidence(text=text, title="T", source="S", query="q", score=1.0, retriever="bm25:x")


def test_citations_are_checked_against_the_evidence_that_they_name() -> None:
    """`count_citations` returns totals for all turns. A turn may have no citations."""
    cafe, museum = piece("Größe: the café is old."), piece("The museum is new.")
    quotes = [
        Quote(evidence_id=cafe["id"], quote="the cafe\u0301 is"),
        Quote(evidence_id=museum["id"], quote="the café is"),
        Quote(evidence_id="ev-0", quote="The museum is new."),
    ]
    checked = check_citations(quotes, [cafe, museum], {cafe["id"], museum["id"]})
    hashes = ["sha256:" + hashlib.sha256(p["text"].encode()).hexdigest() for p in (cafe, museum)]
    assert [tuple(c.values())[2:-1] for c in checked] == [
        (False, True, 7, 18, hashes[0]),
        (False, False, None, None, hashes[1]),
        (True, False, None, None, None),
    ]
    assert [c["quote"] for c in checked] == [q.quote for q in quotes]  # the quotes are unchanged
    turns: list[Turn] = [{"round": r, "phase": "", "agent": "", "step": "", "citations": checked} for r in (1, 2)]
    turns.append({"round": 3, "phase": "", "agent": "", "step": ""})
    assert count_citations(turns) == {"total": 6, "verified": 2, "unverified": 2, "fabricated": 2}
    assert count_citations([]) == {"total": 0, "verified": 0, "unverified": 0, "fabricated": 0}


def test_a_citation_of_evidence_that_was_not_shown_is_fabricated() -> None:
    [checked] = check_citations([Quote(evidence_id=piece("So.")["id"], quote="So.")], [piece("So.")], set())
    assert (checked["fabricated"], checked["verified"], checked["text_hash"]) == (True, False, None)


def test_the_error_says_why_no_citation_is_verified() -> None:
    """If at least one quote is verified, there is no error."""
    museum = piece("The museum is new.")
    good, bad = (Quote(evidence_id=museum["id"], quote=q) for q in ("museum is new", "museum is old"))
    unknown = Quote(evidence_id="ev-0", quote="museum")

    def fault(*quotes: Quote) -> str:
        return missing_quote_fault(check_citations(quotes, [museum], {museum["id"]}))

    assert fault(bad, good) == ""
    assert f"'museum is old', which is not in {museum['id']}" in fault(bad, unknown)
    assert "'ev-0', which was not shown" in fault(bad, unknown)
    assert "there are none" in fault()
