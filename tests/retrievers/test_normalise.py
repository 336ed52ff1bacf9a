"""The results of several sources are dated, filtered, and merged into one list without duplicates."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest
from moot.retrievers import Evidence, UserError, WorldError, make_evidence
from moot.retrievers._gather import search_all
from moot.retrievers._normalise import Rules, iso_date, last_day, normalise, same_text

NOW = datetime(2026, 5, 1, 12, 0, 30, tzinfo=UTC)
STORY = "The bridge over the strait was opened on Monday by the mayor, after eleven years of work and three accidents."


def piece(text: str = STORY, host: str = "a.test", retriever: str = "tavily", **more: Any) -> Evidence:
    url = f"https://{host}/{len(text)}"
    about = {"title": "Bridge", "source": url, "url": url, "query": "bridge", "score": 0.5}
    return make_evidence(text=text, retriever=retriever, **{**about, **more})


def normalised(*found: list[Evidence], k: int = 3, **rules: Any) -> list[Evidence]:
    return normalise(found, Rules(k, **rules), NOW)


def test_one_text_on_two_hosts_is_one_piece_with_two_sources() -> None:
    copy = f"“{STORY.upper()[:-1]}”  "
    (only,) = normalised([piece(), piece(copy, "www.b.test", published="May 3, 2024")])
    assert (only["text"], only["id"]) == (STORY, piece()["id"])
    url = piece(copy, "www.b.test")["source"]
    assert only.get("also") == [{"source": url, "title": "Bridge", "url": url, "published": "2024-05-03"}]
    assert [r["rank"] for r in only["retrievals"]] == [1, 2]
    assert normalised([piece(), piece(copy, "b.test")], k=1)[0].get("also")


@pytest.mark.parametrize("longer", ["This is false: {}", "{} This was denied."])
def test_a_text_with_a_few_more_words_replaces_the_shorter_text(longer: str) -> None:
    short, long = piece(f"{STORY} It is said to last."), piece(longer.format(f"{STORY} It is said to last."), "b.test")
    long_story, short_story = piece(longer.format(STORY * 2), "b.test"), piece(STORY * 2)
    assert len(normalised([short, long])) == 2  # the difference is too large
    for found in ([short_story, long_story], [long_story, short_story]):
        (only,) = normalised(found)
        assert (only["text"], only["id"]) == (long_story["text"], long_story["id"])
        assert [origin["source"] for origin in only["also"]] == [short_story["source"]]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Monday", "Tuesday"),
        ("was opened", "was not opened"),
        ("eleven", "12"),
        ("three", "two"),
        ("years", "$ years"),
        ("bridge", "bridge+"),
    ],
)
def test_texts_that_differ_in_one_word_are_two_pieces(old: str, new: str) -> None:
    assert len(normalised([piece(), piece(STORY.replace(old, new), "b.test")])) == 2


def test_signs_and_symbols_make_texts_different_but_kinds_of_dashes_do_not() -> None:
    assert not same_text(["-5"], ["5"])
    assert len(normalised([piece("It was -5 degrees."), piece("It was 5 degrees."), piece("It was 5. degrees")])) == 2
    pairs = [("p < 0.05", "p > 0.05"), ("x = y", "x ≠ y"), ("$5", "€5"), ("5%", "5‰"), ("C++", "C#"), ("दिन", "दीन")]
    assert all(len(normalised([piece(one), piece(other)])) == 2 for one, other in pairs)
    assert len(normalised([piece("It fell – 2.5 percent."), piece("It fell - 2.5 percent")])) == 1


def test_the_maximum_per_host_applies_only_to_web_searches() -> None:
    found = [piece(f"Text {i}.", host) for i, host in enumerate(["a.test", "www.a.test", "a.test", "b.test"])]
    assert [p["text"] for p in normalised(found, max_per_host=2)] == ["Text 0.", "Text 1.", "Text 3."]
    assert len(normalised(found)) == 3
    assert len(normalised([piece(f"Text {i}.", retriever="wikipedia") for i in range(3)], max_per_host=1)) == 3


def test_results_of_sources_alternate_and_each_source_gives_at_most_k() -> None:
    one, two = [[piece(f"{name} {i}.", retriever="bm25:x") for i in range(3)] for name in ("One", "Two")]
    assert [p["text"] for p in normalised(one, two, k=2)] == ["One 0.", "Two 0.", "One 1.", "Two 1."]
    assert [p["text"] for p in normalised([], two, k=1)] == ["Two 0."]


@pytest.mark.parametrize(
    ("published", "stays"),
    [
        ("2020-10-24", True),
        ("2020-10-25", False),
        ("24 October 2020", True),
        ("2020-10", False),  # perhaps on the last day of the month
        ("2020-09", True),
        ("2020", False),
        ("2019", True),
        ("3 days ago", False),
        ("spring, some say", True),
        ("Spring 2021", False),
        ("Updated Oct 14, 2021, by us", False),
        ("2020-13-40", False),
        ("20201025", False),
        ("20201024", True),
        (None, True),
    ],
)
def test_evidence_that_may_have_been_published_too_late_is_left_out(published: str | None, stays: bool) -> None:
    """Evidence without a date, or with a date that cannot be parsed, stays."""
    assert bool(normalised([piece(published=published)], published_before=date(2020, 10, 25))) == stays


def test_a_copy_that_was_published_too_late_is_not_a_source() -> None:
    late, early = piece(published="2021-01-01"), piece(host="b.test", published="2020-01-01")
    (only,) = normalised([late, early], published_before=date(2020, 10, 25))
    assert (only["source"], "also" in only) == (early["source"], False)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("2016", "2016"),
        ("2016-03", "2016-03"),
        ("2024-05-01T10:00:00Z", "2024-05-01"),
        ("Mon, 03 Jun 2024 10:00:00 GMT", "2024-06-03"),
        ("May 2020", "2020-05"),
        ("10 May", None),
        ("soon", None),
    ],
)
def test_dates_with_a_year_are_converted_to_iso_form(given: str, expected: str | None) -> None:
    assert iso_date(given) == expected


def test_an_impossible_day_or_month_counts_as_the_end_of_its_year() -> None:
    """A valid month without a day counts as the last day of the month. The year 0000 and an empty text give None."""
    found = [last_day(d) for d in ("2020-02", "2021-13", "2021-02-30", "0000", "")]
    assert found == [date(2020, 2, 29), date(2021, 12, 31), date(2021, 12, 31), None, None]


class Source:
    """A source that returns fixed results or raises an error."""

    def __init__(self, name: str, answer: list[Evidence] | Exception) -> None:
        self.name = name
        self.answer = answer

    async def search(self, query: str, k: int) -> list[Evidence]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def test_results_are_kept_if_other_sources_fail() -> None:
    down = WorldError("down", kind="server_error")
    used_up = UserError("used up", kind="quota")
    sources = [Source("a", down), Source("b", [piece()]), Source("c", used_up)]
    finding = await search_all([(source, "bridge") for source in sources], Rules(1))
    assert ([p["text"] for p in finding.evidence], finding.failures) == ([STORY], {"a": down, "c": used_up})


async def test_the_error_for_a_wrong_key_of_a_source_is_raised() -> None:
    with pytest.raises(UserError, match="wrong key"):
        await search_all([(Source("a", UserError("wrong key", kind="authentication")), "bridge")], Rules(1))
