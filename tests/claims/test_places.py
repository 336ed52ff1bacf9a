"""Places of quotes in a text, words that a claim adds to its quote, parts of a text, and check-worthiness."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moot.nodes._claims.bylines import byline_date
from moot.nodes._claims.places import count_words, name_in, parts_of, place_in, vocabulary, words_filled_in
from moot.nodes._claims.state import Section
from moot.nodes._claims.steps import score_of
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


def added_words(claim: str, quote: str, date: str | None = None) -> tuple[list[tuple[str, bool]], list[str]]:
    """The words that a claim adds to its quote, and those of them that `TEXT` does not support.

    Each span of added words is paired with True if it counts as computed from the date.
    """
    found, unknown = words_filled_in(claim, quote, vocabulary([TEXT]), date)
    return [(claim[one["start"] : one["end"]], one["computed"]) for one in found], unknown


def test_words_that_a_claim_adds_to_its_quote_are_found() -> None:
    """The text supports an inflected word, and a number without its thousands separator."""
    quote = "It rejected none of the bids"
    assert added_words("The Norwick council rejected none of the bids.", quote) == ([("Norwick council", False)], [])
    assert added_words("It rejected none of the bids", quote) == ([], [])
    assert added_words("Ann Lee rejects none of the bids of 12000.", quote)[1] == []


@pytest.mark.parametrize(
    ("claim", "word"),
    [
        ("The Norwick council of Bruges rejected none of the bids.", "Bruges"),
        ("The council rejected none of the 13 bids.", "13"),
        ("The corrupt council rejected none of the bids.", "corrupt"),
        ("The council rejected none of the bids in 2024.", "2024"),
    ],
)
def test_a_word_that_the_text_does_not_contain_is_unsupported(claim: str, word: str) -> None:
    assert added_words(claim, "It rejected none of the bids")[1] == [word]


def test_a_date_near_the_texts_date_counts_as_computed() -> None:
    """Neither a distant year nor a number above 31 counts as computed."""
    claim = "It rejected none of the bids on 3 October 2024."
    assert added_words(claim, "It rejected none of the bids", "2025-05-14") == (
        [("3 October 2024", True)],
        [],
    )
    assert added_words(claim.replace("2024", "1999"), "It rejected none of the bids", "2025-05-14")[1] == [
        "3",
        "October",
        "1999",
    ]
    quote = "The bridge opened in 1869"
    assert added_words("The bridge opened on 3 October 1869", quote, "2025-05-14")[1] == ["3", "October"]
    assert added_words("40 bids", "It rejected none of the bids", "2025-05-14")[1] == ["40"]


@pytest.mark.parametrize(
    ("days", "computed"),
    [("10 and 11 May 2025", True), ("vom 3. bis 4. März 2025", True), ("10 flats in May 2025", False)],
)
def test_a_small_number_counts_as_computed_only_as_a_day_of_a_month(days: str, computed: bool) -> None:
    claim = f"It rejected none of the bids {days}."
    unknown = added_words(claim, "It rejected none of the bids vom", "2025-05-14")[1]
    assert unknown == ([] if computed else ["10"])


def test_a_short_word_supports_its_inflected_forms_but_no_name() -> None:
    """The word "let" supports "letting", but neither the name "Letting" nor "lettering"."""
    known = vocabulary(["She let the flat."])
    assert words_filled_in("She was letting the flat.", "the flat", known, None)[1] == []
    assert words_filled_in("She was Letting the flat.", "the flat", known, None)[1] == ["Letting"]
    assert words_filled_in("She was lettering the flat.", "the flat", known, None)[1] == ["lettering"]


@given(WORDS, st.integers(1, 30))
def test_every_word_is_in_exactly_one_part(text: str, most: int) -> None:
    parts = parts_of(text, most)
    between = [0, *(at for part in parts for at in (part["start"], part["end"])), len(text)]
    assert between == sorted(between)
    assert not "".join(text[a:b] for a, b in zip(between[::2], between[1::2], strict=True)).strip()
    assert all(text[part["start"] : part["end"]].strip() for part in parts)


@given(WORDS, st.data())
def test_a_place_lies_in_its_part_and_contains_the_quote(text: str, data: st.DataObject) -> None:
    """A quote that is not in the text has no place."""
    for part in parts_of(text, 10):
        start = data.draw(st.integers(part["start"], part["end"]))
        quote = text[start : data.draw(st.integers(start, part["end"]))]
        place = place_in(text, part, quote, [])
        if place:
            assert part["start"] <= place["start"] < place["end"] <= part["end"]
            assert text[place["start"] : place["end"]] == place["quote"]
            assert fold_quote(quote).strip("'\"") in fold_quote(place["quote"])
    assert place_in(text, {"start": 0, "end": len(text)}, "zz" + text, []) is None


def test_a_place_has_the_page_and_heading_of_its_section() -> None:
    sections: list[Section] = [{"start": 0, "page": 1, "heading": ""}, {"start": 57, "page": 2, "heading": "Bids"}]
    span = {"start": 0, "end": len(TEXT)}
    first, second = (place_in(TEXT, span, quote, sections) for quote in ("approved 12,000 flats", "It rejected none"))  # type: ignore[arg-type]
    assert first is not None
    assert second is not None
    assert [(one["page"], one["heading"]) for one in (first, second)] == [(1, ""), (2, "Bids")]


def test_a_long_text_is_split_into_parts_within_the_limit() -> None:
    text = "\n\n".join("The mill burned in 1905 and was rebuilt in brick by its owners. " * 20 for _ in range(80))
    parts = parts_of(text, 1500)
    assert count_words(text) > 20_000
    assert 13 < len(parts) < 18
    assert all(count_words(text[part["start"] : part["end"]]) <= 1500 for part in parts)


def test_each_chinese_character_counts_as_a_word() -> None:
    assert count_words("字字 and 字") == 4


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("Carver", "Carver's staff had a sheet.", "Carver"),
        ("Carver", "CARVER’S and Carver’s staff", "Carver"),
        ("Carver's", "Carver said so.", "Carver"),
        ("James'", "James said so.", "James"),
        ("McDonald's", "McDonald's said so.", "McDonald's"),
        ("Carver", "Carvers said so.", None),
    ],
)
def test_a_name_in_the_possessive_is_the_name(name: str, text: str, found: str | None) -> None:
    assert name_in(text, name) == found
    assert words_filled_in("The CARVER'S staff", "x", vocabulary(["the staff of Lee and CARVER"]), None)[1] == []


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("Northbridge turns\n\nBy Ada Brandt, 3 March 2025\n\nThe mayor spoke.", "2025-03-03"),
        ("Von Ada Brandt, 3. März 2025", "2025-03-03"),
        ("Published: March 3rd, 2025, 10:00", "2025-03-03"),
        ("Por Ana Díaz, 3 de marzo de 2025", "2025-03-03"),
        ("03.04.2025", "2025-04-03"),
        ("ADA BRANDT • UPDATED MARCH 3, 2025 5:12 pm", "2025-03-03"),
        ("Автор: Иван Петров, 3 марта 2025 г.", "2025-03-03"),
        ("Updated: 2025-03-03T10:00:00Z", "2025-03-03"),
        ("What happened on 11 September 2001", None),
        ("The Attacks On 11 September 2001", None),
        ("On 3 March 2025 the mayor spoke.", None),
        ("By Ada Brandt, 3/4/2025", None),
        ("By Ada Brandt, 31 February 2025", None),
    ],
)
def test_only_a_byline_dates_a_text(text: str, day: str | None) -> None:
    assert byline_date(text) == day
