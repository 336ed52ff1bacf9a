"""What a list of claims is asked about: texts that are no claims, and claims that repeat each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moot.web.repeats import MOST_CANDIDATES, doubt_of, near_claims, same_claim

TOWER = "The Eiffel Tower was completed in 1889."


@pytest.mark.parametrize(
    "other", [" The  Eiffel Tower was completed in 1889 ", "The Eiffel Tower was completed in 1889!", f"“{TOWER}”"]
)
def test_white_space_marks_and_the_full_stop_make_no_other_claim(other: str) -> None:
    assert same_claim(other) == same_claim(TOWER)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("It is 10² m long.", "It is 102 m long."),
        ("Polish is hard to learn.", "polish is hard to learn."),
        ("Is it long?", "Is it long."),
        ("It cost 1.5 million.", "It cost 15 million."),
    ],
)
def test_numbers_case_and_questions_make_other_claims(one: str, other: str) -> None:
    assert same_claim(one) != same_claim(other)


@pytest.mark.parametrize("text", ["?", "ok", "n/a", "-", "https://example.org/a-story", "www.example.org/x", "好的"])
def test_a_text_that_is_no_sentence_is_doubted(text: str) -> None:
    assert doubt_of(text)


@pytest.mark.parametrize("text", ["It rained.", "Sie lügt", "地球是圆的。", "https://example.org says that it rained."])
def test_a_short_claim_is_not_doubted(text: str) -> None:
    assert doubt_of(text) == ""


def test_only_claims_with_the_same_numbers_names_and_negations_are_nearly_the_same() -> None:
    others = [
        "The Eiffel Tower was finished in 1889.",
        "The Eiffel Tower was completed in 1890.",
        "The Eiffel Tower was not completed in 1889.",
        "The Eiffel Tower wasn't completed in 1889.",
        "The Berlin Tower was completed in 1889.",
        "The Eiffel Tower was completed in 1889!",  # the same claim
    ]
    assert near_claims([TOWER, *others]) == [(0, 1), (1, 6)]
    assert near_claims([TOWER, *others[1:]]) == []


WORDS = "the tower was is completed finished in of 1889 1890 not Paris".split()  # noqa: SIM905


@given(st.lists(st.sampled_from(WORDS), min_size=2).map(" ".join))
def test_a_claim_is_never_near_one_with_another_number_or_negation(claim: str) -> None:
    assert (
        near_claims([claim, f"{claim} 7"])
        == near_claims([claim, f"{claim} never"])
        == near_claims([claim, claim])
        == []
    )


def test_each_claim_is_compared_with_a_bounded_number_of_others() -> None:
    """Lists of one sentence with other words took minutes when each pair was compared."""
    claims = [
        f"the people of that city bought many cars and {'x' * (n % 7)}{chr(97 + n % 26)} things" for n in range(3000)
    ]
    assert len(near_claims(claims)) > 2000
    assert MOST_CANDIDATES < 3000
