"""A trial's record: rulings on evidence, the panel's exhibits, and the exhibits that a long record leaves out."""

from __future__ import annotations

from typing import Any, cast, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moot.nodes._trial.panel import fitting_exhibits, panel_exhibits
from moot.retrievers import Evidence, make_evidence
from moot.retrievers._evidence import Standing, merge_evidence


def piece(text: str, **more: Any) -> Evidence:
    found = make_evidence(text=text, title="t", source="a", query="q", score=1.0, retriever="bm25:x")
    return cast("Evidence", {**found, **more})


ORDER: list[Standing] = ["seed", "discarded", "disputed", "discovered", "admitted"]
"""The statuses, from the lowest to the highest."""


@given(st.lists(st.none() | st.sampled_from(ORDER), min_size=1, max_size=5))
def test_a_merged_piece_has_the_highest_status(given_standings: list[Standing | None]) -> None:
    assert sorted(get_args(Standing)) == sorted(ORDER)
    merged: list[Evidence] = []
    for standing in given_standings:
        merged = merge_evidence(merged, [piece("x", **({"status": standing} if standing else {}))])
    highest = max((ORDER.index(standing) for standing in given_standings if standing), default=None)
    (one,) = merged
    assert one.get("status") == (None if highest is None else ORDER[highest])


def test_a_ruling_is_kept_if_the_piece_is_found_again() -> None:
    ruled = {"pool": "seed", "status": "admitted", "relevance": 0.9, "credibility": 0.9, "weight": 0.81}
    weighed, found = piece("x", **ruled), piece("x", pool="discovery", status="discovered")
    assert merge_evidence([weighed], [found]) == [weighed]
    (one,) = merge_evidence([piece("x", pool="premises", status="seed")], [weighed])
    assert one == {**weighed, "pool": "premises"}  # the pool of the search that found the piece first


def test_panel_exhibits_are_ordered_by_status_and_weight() -> None:
    evidence = [
        piece("disputed, 0.2", status="disputed", weight=0.2),
        piece("found first", status="discovered"),
        piece("admitted, 0.6", status="admitted", weight=0.6),
        piece("not weighed", status="seed"),
        piece("discarded", status="discarded", weight=0.05),
        piece("not new", status="discarded"),
        piece("found next", status="discovered"),
        piece("disputed, 0.4", status="disputed", weight=0.4),
        piece("admitted, 0.9", status="admitted", weight=0.9),
    ]
    assert [p["text"] for p in panel_exhibits(evidence)] == [
        *("admitted, 0.9", "admitted, 0.6", "found first", "found next"),
        *("disputed, 0.4", "disputed, 0.2", "not weighed"),
    ]


@pytest.mark.parametrize(
    ("room", "left_out"),
    [(6, ""), (5, "f"), (4, "df"), (3, "bdf"), (2, "bdef"), (1, "bcdef"), (0, "abcdef")],
)
def test_uncited_exhibits_are_left_out_first(room: int, left_out: str) -> None:
    pieces = [piece(name) for name in "abcdef"]
    cited = {p["id"] for p in pieces if p["text"] in "ace"}
    shown, dropped = fitting_exhibits(pieces, lambda p: 1, room, cited)
    assert "".join(p["text"] for p in dropped) == left_out
    assert "".join(p["text"] for p in shown) == "".join(name for name in "abcdef" if name not in left_out)
