"""In a real browser, the page adds a summary to a report, and saves the ClaimReview of a debate."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from moot.web import debates
from moot.web.kept import Document
from moot.web.reviews import decide

from tests.conftest import running_stub
from tests.web.conftest import Served, serve
from tests.web.documents import a_debate, with_evidence

if TYPE_CHECKING:
    from playwright.async_api import Page

SUMMED: dict[str, Any] = {
    "sentences": [{"text": "They lay eggs, as echidnas do.", "quotes": [1]}, {"text": "It is so.", "quotes": []}],
    "stances": [{"quote": 1, "stance": "for"}],
    "not_found": ["A count of the eggs."],
    "would_change": ["A count."],
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with a model that summarises debates."""
    folder = tmp_path_factory.mktemp("summing")
    with running_stub(folder / "stub", [{"model": "stub-reporter", "fields": SUMMED}]) as stub:
        yield from serve(folder, stub.url)


async def supported_document(**settings: Any) -> Document:
    """The document of a debate with these settings and the answer SUPPORTS."""
    document = with_evidence(await a_debate(), 1)
    document |= {"answer": "SUPPORTS", "raw_verdict": "SUPPORTS"}
    document["settings"] |= settings
    return document


async def test_a_debate_is_summarised_when_its_report_is_first_opened(
    page: Page, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOOT_HOME", str(served.home))
    id = debates.save(await supported_document(reader_summary=True, models={"reporter": "openai:stub-reporter"}))
    await page.goto(f"/moot/debates/{id}")
    await page.get_by_text("They lay eggs, as echidnas do.").wait_for()
    assert await page.get_by_role("heading", name="What speaks for it").count() == 1
    assert await page.get_by_text("It is so.").count() == 0  # no quote supports this sentence
    assert await page.get_by_text("the debate has no summary for readers").count() == 0
    stored = debates.load(id)
    assert stored["reader_summary"]["dropped"] == 1
    await page.reload()
    await page.get_by_text("They lay eggs, as echidnas do.").wait_for()
    assert len(debates.load(id)["calls"]) == len(stored["calls"])  # no call was made again


async def test_no_summary_gives_sources_new_numbers_once_an_editor_has_begun(
    page: Page, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOOT_HOME", str(served.home))
    settings: Any = {"reader_summary": True, "models": {"reporter": "openai:stub-reporter"}}
    id = debates.save(await supported_document(**settings) | {"id": "5" * 32})
    decide(id, "save", {"summary": "They do. [1]"}, person="Ada")
    await page.goto(f"/moot/debates/{id}")
    await page.locator("#review .hist").wait_for()
    assert (await page.request.post(f"/moot/api/debates/{id}/summary")).ok
    assert "reader_summary" not in debates.load(id)
    # Before, the panel waits for the summary, so that no number is written that changes.
    id = debates.save(await supported_document(**settings) | {"id": "6" * 32})
    asked: list[Any] = []
    await page.route("**/summary", lambda route: asked.append(route))
    await page.goto(f"/moot/debates/{id}")
    await page.locator("#review").get_by_text("A summary of the debate is being written.").wait_for()
    assert await page.locator("#review textarea").count() == 0
    await asked[0].abort()
    await page.locator("#review #summary").wait_for()


async def test_a_claim_review_is_saved_after_the_user_names_publisher_and_page(
    page: Page, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOOT_HOME", str(served.home))
    id = debates.save(await supported_document())
    await page.goto(f"/moot/debates/{id}")
    await page.get_by_text("Save", exact=True).click()
    await page.get_by_text("ClaimReview, for other tools").click()
    save = page.get_by_role("button", name="Save ClaimReview")
    await save.click()  # the browser asks for the first empty field
    assert await page.evaluate("document.activeElement.labels[0].innerText.trim()") == "Publisher"
    await page.get_by_label("Publisher").fill("The Daily Check")
    await page.get_by_label("Page that shows the review").fill("https://example.org/checks/1")
    await save.click()  # nobody has approved it: that has to be said first
    await page.get_by_label("Nobody has approved it").check()
    async with page.expect_download() as downloading:
        await save.click()
    downloaded = await downloading.value
    await downloaded.save_as(tmp_path / "review.json")
    review = json.loads((tmp_path / "review.json").read_text())
    assert downloaded.suggested_filename == f"moot-{id}.claimreview.json"
    assert (review["author"]["name"], review["publisher"]["name"]) == ("moot", "The Daily Check")  # nobody approved it
    assert review["url"] == "https://example.org/checks/1"
    assert review["reviewRating"]["ratingValue"] == 5


async def test_a_link_opens_one_passage_of_a_check(page: Page, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOT_HOME", str(served.home))
    id = debates.save(await supported_document())
    await page.goto(f"/moot/debates/{id}")
    link = page.get_by_role("link", name="Link to passage 1", exact=True)
    await link.click()
    address = page.url
    assert address.endswith("#s1")
    await page.goto("/moot")
    await page.goto(address)
    await page.locator("#s1 details.passage[open] blockquote").first.wait_for()
