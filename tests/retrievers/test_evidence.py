"""Evidence: its ids, the cleaning of its texts, the texts that encoders read, and the merging of evidence."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st
from moot.retrievers import Evidence, make_evidence
from moot.retrievers._evidence import clean, encoded_text, evidence_id, merge_evidence

CONTROL = st.characters(categories=["Cc", "Cf", "Cs"])
TEXT = st.text(st.one_of(st.characters(), CONTROL, st.sampled_from("e\u0301\u200d \n\t")))


def piece(text: str = "Ice floats.", source: str = "a", query: str = "q", title: str = "t") -> Evidence:
    return make_evidence(text=text, title=title, source=source, query=query, score=1.0, retriever="bm25:x")


def test_an_id_depends_only_on_source_and_text() -> None:
    assert piece()["id"] == piece(query="other", title="other")["id"] == "ev-2bdcd154fc"  # stored results have this id
    assert len({piece()["id"], piece(source="b")["id"], piece(text="Ice sinks.")["id"]}) == 3
    assert evidence_id("ab", "c") != evidence_id("a", "bc")


@given(TEXT)
def test_cleaned_text_is_composed_and_has_no_control_characters(text: str) -> None:
    """Tabs and line ends are allowed. A cleaned text does not change if it is cleaned again."""
    cleaned = clean(text)
    assert clean(cleaned) == cleaned
    assert not [c for c in cleaned if unicodedata.category(c) in ("Cc", "Cf", "Cs") and c not in "\n\t"]
    assert unicodedata.is_normalized("NFC", cleaned)


def test_cleaning_removes_invisible_characters_but_separates_words() -> None:
    assert clean("\ufeff a\u202eb\u200bc\x00\x1b[0m ") == "abc[0m"
    assert clean("one\r\ntwo\rthree\x0cfour\n\tfive") == "one\ntwo\nthree four\n\tfive"


@given(TEXT, TEXT)
def test_an_encoder_gets_the_same_text_for_a_passage_and_its_evidence(title: str, text: str) -> None:
    found = piece(text, title=title)
    assert encoded_text(found["title"], found["text"]) == encoded_text(title, text)


PIECES = st.lists(st.builds(piece, st.sampled_from("xyz"), st.sampled_from("ab"), st.sampled_from(["q1", "q2", "q3"])))


@given(PIECES, PIECES)
def test_merged_evidence_has_each_piece_and_each_retrieval_once(old: list[Evidence], new: list[Evidence]) -> None:
    """The pieces are in the order in which they first occur."""
    merged = merge_evidence(old, new)
    assert merge_evidence(merged, merged) == merged == merge_evidence(merged, new)
    assert [p["id"] for p in merged] == list(dict.fromkeys(p["id"] for p in [*old, *new]))
    findings = [(p["id"], r["query"]) for p in merged for r in p["retrievals"]]
    assert len(findings) == len(set(findings))
    assert set(findings) == {(p["id"], r["query"]) for p in [*old, *new] for r in p["retrievals"]}
