"""Archived pages of one website have one origin: in warnings, in the votes of origins and in reports."""

from __future__ import annotations

import pytest
from moot.transcript.report.report import report

from tests.conftest import StartStub
from tests.graphs.origin_shelf import ARCHIVES
from tests.graphs.test_origin_share import FIELDS, run_debate


async def test_quotes_from_archived_pages_of_one_website_have_one_origin(start_stub: StartStub) -> None:
    start_stub([FIELDS])
    found = (await run_debate("rag", "archived"))["evidence"]
    assert [piece["url"] for piece in found] == [
        f"{archive}https://museum.org/{n}" for n, archive in enumerate(ARCHIVES, 1)
    ]
    quotes = [{"evidence_id": piece["id"], "quote": piece["text"]} for piece in found]
    start_stub([{"fields": FIELDS["fields"] | {"citations": quotes}}])
    document = await run_debate("rag", "archived")
    assert [(w["kind"], w["detail"]) for w in document["warnings"]] == [
        ("single_origin", "All verified citations of the verdict are of one origin: museum.org.")
    ]
    for form in ("html", "md"):
        written = report(document, form)
        assert written.count("a copy of a page of museum.org") == 3
        assert "of one origin: museum.org" in written


async def test_archived_pages_of_one_website_have_one_vote(start_stub: StartStub) -> None:
    start_stub([FIELDS])
    document = await run_debate("isolate", "archived")
    assert [(one["origin"], len(one["evidence_ids"])) for one in document["metrics"]["origins"]] == [("museum.org", 3)]


@pytest.mark.parametrize("form", ["html", "md"])
async def test_a_report_does_not_call_a_living_page_a_copy(start_stub: StartStub, form: str) -> None:
    start_stub([FIELDS])
    assert "a copy of a page" not in report(await run_debate("rag", "one_site"), form)
