"""Positions of claims in a text, words of a claim that its text lacks, and scores of check-worthiness."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from moot.nodes._claims.places import count_words, parts_of, place_in, score_of, vocabulary, words_filled_in
from moot.nodes._claims.state import Section
from moot.nodes._texts.quotes import fold_quote

TEXT = "The Norwick council approved 12,000 flats in March 2019. It rejected none of the bids, Ann Lee's either."
WORDS = st.text("ab é2.,-\n“字", min_size=1, max_size=300)


@pytest.mark.parametrize(
    ("ratings", "score"),
    [((2, 2, 2), 1), ((2, 2, 1), 0.875), ((1, 1, 1), 0.5), ((1, 0, 1), 0.375), ((0, 2, 2), 0), ((2, 2, 0), 0)],
)
def test_check_worthiness_is_computed_from_three_ratings(ratings: tuple[int, int, int], score: float) -> None:
    checkable, specific, interest = ratings
    assert score_of({"checkable": checkable, "specific": specific, "public_interest": interest}) == score


def filled_parts(claim: str, quote: str, date: str | None = None) -> tuple[list[tuple[str, bool]], list[str]]:
    """The words that a claim adds to its quote, each with whether it was computed; and the words that `TEXT` lacks."""
    found, unknown = words_filled_in(claim, quote, vocabulary([TEXT]), date)
    return [(claim[one["start"] : one["end"]], one["computed"]) for one in found], unknown


def test_filled_in_words_are_marked() -> None:
    quote = "It rejected none of the bids"
    assert filled_parts("The Norwick council rejected none of the bids.", quote) == ([("Norwick council", False)], [])
    assert filled_parts("It rejected none of the bids", quote) == ([], [])
    assert (
        filled_parts("Ann Lee rejects none of the bids of 12000.", quote)[1] == []
    )  # inflected; no thousands separator


@pytest.mark.parametrize(
    "claim",
    [
        "The Norwick council of Bruges rejected none of the bids.",
        "The council rejected none of the 13 bids.",
        "The corrupt council rejected none of the bids.",
        "The council rejected none of the bids in 2024.",
    ],
)
def test_words_that_are_not_in_the_text_are_found(claim: str) -> None:
    [word] = filled_parts(claim, "It rejected none of the bids")[1]
    assert word in ("Bruges", "13", "corrupt", "2024")


def test_a_time_may_be_computed_from_the_texts_date() -> None:
    claim = "It rejected none of the bids on 3 October 2024."
    assert filled_parts(claim, "It rejected none of the bids", "2025-05-14") == (
        [("3 October 2024", True)],
        [],
    )
    assert filled_parts(claim.replace("2024", "1999"), "It rejected none of the bids", "2025-05-14")[1] == ["1999"]
    assert filled_parts("40 bids", "It rejected none of the bids", "2025-05-14")[1] == ["40"]


@pytest.mark.parametrize(
    ("days", "near"),
    [("10 and 11 May 2025", True), ("vom 3. bis 4. März 2025", True), ("10 flats in May 2025", False)],
)
def test_the_days_of_a_range_are_computed_but_no_other_number(days: str, near: bool) -> None:
    claim = f"It rejected none of the bids {days}."
    unknown = filled_parts(claim, "It rejected none of the bids vom", "2025-05-14")[1]
    assert unknown == ([] if near else ["10"])


def test_a_word_of_the_text_may_get_a_longer_ending_than_a_name() -> None:
    known = vocabulary(["She let the flat."])
    assert words_filled_in("She was letting the flat.", "the flat", known, None)[1] == []
    assert words_filled_in("She was Letting the flat.", "the flat", known, None)[1] == ["Letting"]
    assert words_filled_in("She was lettering the flat.", "the flat", known, None)[1] == ["lettering"]


@given(WORDS, st.integers(1, 30))
@settings(max_examples=200, deadline=None)
def test_every_word_is_in_one_part(text: str, most: int) -> None:
    parts = parts_of(text, most)
    between = [0, *(at for part in parts for at in (part["start"], part["end"])), len(text)]
    assert between == sorted(between)
    assert not "".join(text[a:b] for a, b in zip(between[::2], between[1::2], strict=True)).strip()
    assert all(text[part["start"] : part["end"]].strip() for part in parts)


@given(WORDS, st.data())
@settings(max_examples=200, deadline=None)
def test_a_claims_position_is_that_of_its_quote(text: str, data: st.DataObject) -> None:
    for part in parts_of(text, 10):
        start = data.draw(st.integers(part["start"], part["end"]))
        quote = text[start : data.draw(st.integers(start, part["end"]))]
        place = place_in(text, part, quote, [])
        if place:
            assert part["start"] <= place["start"] < place["end"] <= part["end"]
            assert text[place["start"] : place["end"]] == place["quote"]
            assert fold_quote(quote).strip("'\"") in fold_quote(place["quote"])
    assert place_in(text, {"start": 0, "end": len(text)}, "zz" + text, []) is None


def test_a_position_has_its_page_and_heading() -> None:
    pages: list[Section] = [{"start": 0, "page": 1, "heading": ""}, {"start": 57, "page": 2, "heading": "Bids"}]
    span = {"start": 0, "end": len(TEXT)}
    first, second = (place_in(TEXT, span, quote, pages) for quote in ("approved 12,000 flats", "It rejected none"))  # type: ignore[arg-type]
    assert first is not None
    assert second is not None
    assert [(one["page"], one["heading"]) for one in (first, second)] == [(1, ""), (2, "Bids")]


def test_a_long_text_is_split_into_parts_within_the_limit() -> None:
    text = "\n\n".join("The mill burned in 1905 and was rebuilt in brick by its owners. " * 20 for _ in range(80))
    parts = parts_of(text, 1500)
    assert count_words(text) > 20_000
    assert 13 < len(parts) < 18
    assert all(count_words(text[part["start"] : part["end"]]) <= 1500 for part in parts)
    assert count_words("字字 and 字") == 4  # each Chinese character is a word
