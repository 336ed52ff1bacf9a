"""What reports say of editors: their words once a check is approved, corrections, withdrawals, and other versions."""

from __future__ import annotations

import re
from typing import Any

import pytest
from moot.core.reviews import DEFAULT_SCALE, Action, History, Scale, Step, next_entry
from moot.transcript.report.report import report
from moot.transcript.report.reviewed import Review

from tests.web.documents import Document, a_debate, with_evidence

OWN = Scale(steps=(Step(rating="Misleading", about="Each word is right."), *DEFAULT_SCALE.steps))
WORDS = {"title": "No, it is not so", "summary": "They lay none. [1]\n\nNo [99].", "context": "Asked <b>twice</b>."}


def decided(*steps: tuple[Action, dict[str, Any]], document: str = "d") -> History:
    """A history of decisions, by Ada and then by Bo in turn."""
    history = History()
    for number, (action, change) in enumerate(steps):
        person = ("Ada", "Bo")[number % 2]
        entry = next_entry(history, action, change, debate="0" * 32, document=document, person=person)
        history = History([*history, entry])
    return history


APPROVE: tuple[Action, dict[str, Any]] = ("approve", {"rating": "False", **WORDS, "note": "SECRET"})
CORRECT: tuple[Action, dict[str, Any]] = ("correct", {"rating": "Mostly false", "to_readers": "The year was wrong."})
WITHDRAW: tuple[Action, dict[str, Any]] = ("withdraw", {"to_readers": "A study was retracted.", "note": "SECRET"})


async def supported() -> Document:
    return with_evidence(await a_debate(), 1) | {"answer": "SUPPORTS", "raw_verdict": "SUPPORTS"}


def head_of(page: str) -> str:
    """The head of a report in HTML, as text."""
    start, end = page.index("<main"), page.index("What speaks") if "What speaks" in page else page.index('id="record"')
    return " ".join(re.sub(r"<[^>]+>", " ", page[start:end]).split())


async def test_an_approved_report_has_the_editors_words_first_and_the_machines_verdict_beside_them() -> None:
    history = decided(("save", {"note": "SECRET"}), APPROVE)
    page = report(await supported(), "html", "en", Review(history, "d"))
    head = head_of(page)
    assert "<title>No, it is not so</title>" in page
    assert re.search(r"Our rating False Machine’s verdict Supported", head)
    assert 'class="verdict two ref"' in page
    assert 'They lay none.<a class="cite" href="#s1"' in page  # a source of the report
    assert "No [99]." in head  # no source of it
    assert "Checked and approved by Bo, " in head
    assert "Asked &lt;b&gt;twice&lt;/b&gt;." in page
    assert 'content: "Approved ' in page
    for said in ("SECRET", "No editor has reviewed it", "Not reviewed"):
        assert said not in page
    spoken = head_of(report(await supported(), "html", "ar", Review(history, "d")))
    assert "تقييمنا خاطئ" in spoken  # a step of moot's scale is in the report's language
    assert "\u2068Bo\u2069، " in spoken  # a name does not mix with the date after it
    text = report(await supported(), "md", "en", Review(history, "d"))
    assert text.startswith("# No, it is not so\n")
    assert "## Our rating: False" in text
    assert "SECRET" not in text


@pytest.mark.parametrize("kind", ["html", "md"])
async def test_corrections_and_withdrawals_are_told_to_readers(kind: str) -> None:
    document = await supported()
    corrected = report(document, kind, "en", Review(decided(APPROVE, CORRECT), "d"))
    assert re.search(r"Correction, .{8,20}\.", corrected)
    for said in ("The year was wrong.", "Corrected by Bo.", "rating, from “False” to “Mostly false”", "corrected "):
        assert said in corrected
    withdrawn = report(document, kind, "en", Review(decided(APPROVE, CORRECT, WITHDRAW), "d"))
    assert "We rated this “Mostly false” until " in withdrawn
    drafted = decided(APPROVE, CORRECT, WITHDRAW, ("save", {"rating": "True", "title": "SECRET"}))
    assert report(document, kind, "en", Review(drafted, "d")) == withdrawn  # no reader sees a draft
    assert "A study was retracted." in withdrawn
    for said in ("Our rating", "No, it is not so", "They lay none", "SECRET", "Not reviewed"):
        assert said not in withdrawn
    if kind == "html":
        assert 'class="verdict text"' in withdrawn  # in no answer's colour


@pytest.mark.parametrize(
    ("review", "said"),
    [
        (Review(), "Not reviewed"),
        (Review(decided(("save", {"rating": "False"})), "d"), "An editor is reviewing it"),
        (Review(decided(APPROVE), "another"), "An editor decided about another version of this check on"),
        (Review(fault="x"), "Its review history was changed by hand"),
    ],
)
async def test_until_an_editor_has_decided_the_verdict_is_the_machines(review: Review, said: str) -> None:
    page = report(await supported(), "html", "en", review)
    assert re.search(r"Machine’s verdict (\S+ )?Supported", head_of(page))
    assert said in page
    assert "Our rating" not in page
    assert said in report(await supported(), "md", "en", review)


async def test_a_rating_that_is_tied_to_no_answer_stands_in_quotation_marks_in_ink() -> None:
    for rating, means in (("Misleading", "Each word is right."), ("Faux", "")):  # the scale has "Faux" no more
        history = decided(("approve", {"rating": rating, "summary": "So."}))
        page = report(await supported(), "html", "en", Review(history, "d", OWN))
        assert f"Our rating “{rating}” {means}".strip() in head_of(page)
        assert 'class="verdict two text"' in page
