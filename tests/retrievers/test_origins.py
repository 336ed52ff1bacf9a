"""Pieces of evidence are grouped by origin: by website or document, and by near-duplicate texts."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moot.retrievers import read_passages
from moot.retrievers._evidence import Evidence, make_evidence
from moot.retrievers._origins import ALIKE, near_duplicates, origins, registered_domain

from tests.papers import pdf

REPORTS = [json.loads(line) for line in Path(__file__).with_name("reprints.jsonl").read_text().splitlines()]


def piece(text: str, url: str = "", **more: Any) -> Evidence:
    return make_evidence(text=text, url=url, source=more.pop("source", "web"), retriever="tavily", **more)


@pytest.mark.parametrize(
    ("url", "domain"),
    [
        ("https://news.bbc.co.uk/1/hi.html", "bbc.co.uk"),
        ("http://www.reuters.com:80/a?b=c", "reuters.com"),
        ("https://anna.blogspot.com/2019/05/x.html", "anna.blogspot.com"),
        ("https://10.0.0.7/x", "10.0.0.7"),
        ("http://[2001:db8::1]/x", "2001:db8::1"),
        ("https://localhost/x", "localhost"),
        ("https://co.uk/x", "co.uk"),
        ("http://[bad", ""),
        ("", ""),
    ],
)
def test_an_address_is_reduced_to_its_registered_domain(url: str, domain: str) -> None:
    """An address without a registered domain is reduced to its host."""
    assert registered_domain(url) == domain


def test_the_origin_depends_on_the_kind_of_source() -> None:
    pieces = [
        piece("One.", "https://www.reuters.com/a"),
        piece("Two.", "https://uk.reuters.com/b"),
        piece("Three.", "https://en.wikipedia.org/wiki/Quay#History", source="wikipedia"),
        piece("Four.", "https://en.wikipedia.org/wiki/Quay", source="wikipedia"),
        piece("Five.", "https://en.wikipedia.org/wiki/Mole", source="wikipedia"),
        piece("Six.", title="Harbours", source="notes"),
        piece("Seven.", title="Harbours", source="notes"),
        piece("Eight.", source="given"),
        piece("Nine.", source="given"),
    ]
    grouped = [*origins(pieces).values()]
    assert grouped[:7] == ["reuters.com", "reuters.com"] + ["https://en.wikipedia.org/wiki/Quay"] * 2 + [
        "https://en.wikipedia.org/wiki/Mole",
        *["notes: Harbours"] * 2,
    ]
    assert grouped[7] != grouped[8]


def test_pages_and_headings_of_a_file_have_one_origin(tmp_path: Path) -> None:
    (tmp_path / "report.pdf").write_bytes(pdf(["It is long.", "It was dear."], ["Length", "Costs"], title="Tunnel"))
    (tmp_path / "faq.md").write_text("# Hours\n\nDay and night.\n\n# Toll\n\nSix euros.\n", encoding="utf-8")
    found = [piece(p.text, title=p.title, source=p.source) for p in read_passages(tmp_path)]
    assert [*origins(found).values()] == ["faq.md", "faq.md", "report.pdf", "report.pdf"]


def test_a_text_found_at_two_places_joins_their_origins() -> None:
    both = piece("One.", "https://a.com/1")
    both["also"] = [{"source": "web", "title": "x", "url": "https://b.com/2"}]
    pieces = [piece("Two.", "https://b.com/3"), both, piece("Three.", "https://c.com/1")]
    assert [*origins(pieces).values()] == ["a.com", "a.com", "c.com"]


def test_reprints_are_detected_but_other_reports_and_paraphrases_are_not() -> None:
    texts = [report["text"] for report in REPORTS]
    versions = {"original", "reprint", "edited"}
    expected = {
        (i, j)
        for (i, a), (j, b) in combinations(enumerate(REPORTS), 2)
        if a["topic"] == b["topic"] and {a["kind"], b["kind"]} <= versions
    }
    assert len(expected) == 21  # three pairs for each of seven topics
    for threshold in (ALIKE, ALIKE * 1.3, ALIKE / 2):
        assert set(near_duplicates(texts, threshold)) == expected
    pieces = [piece(report["text"], f"https://site-{i}.com/") for i, report in enumerate(REPORTS)]
    # For each of seven topics, three reports share one origin.
    assert len(set(origins(pieces).values())) == len(REPORTS) - 14


def test_equal_short_texts_are_not_near_duplicates() -> None:
    assert near_duplicates(["It rained in May."] * 2) == []


@given(st.permutations(range(8)))
def test_groups_by_origin_do_not_depend_on_the_order_of_the_pieces(order: list[int]) -> None:
    pieces = [piece(REPORTS[i]["text"], f"https://site-{i % 5}.com/{i}") for i in range(8)]
    groups = {
        frozenset(k for k, v in found.items() if v == name) for found in [origins(pieces)] for name in found.values()
    }
    shuffled = origins([pieces[i] for i in order])
    assert {frozenset(k for k, v in shuffled.items() if v == name) for name in shuffled.values()} == groups
