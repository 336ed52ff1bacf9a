"""The page's search for the claims of an article: progress, failures, stops, models and links."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.claims.test_find import TEXT
from tests.web.conftest import Served
from tests.web.documents import CLAIM
from tests.web.test_browser import BOX, EXPERT, GO, SLOW, start
from tests.web.test_quality import axe_page, faults_of_page

__all__ = ["axe_page"]
if TYPE_CHECKING:
    from playwright.async_api import Page, Route

ARTICLE = f"A line\n\n{TEXT}\n\n{'It rained on that day, as it often does there. ' * 12}"
LISTS, FINDS = "List its sentences", "Find its claims"


async def paste(page: Page, model: str) -> None:
    """Put an article into the box, and enter the name of a model."""
    await page.goto("/moot")
    await page.get_by_label(BOX).fill(ARTICLE)
    await page.get_by_label("Another", exact=True).check()
    await page.get_by_label("Name of the model").fill(model)


async def test_an_article_stays_in_the_form_if_the_model_fails(axe_page: Page, served: Served) -> None:
    """The list of past checks offers to resume the search for claims."""
    await paste(axe_page, "openai:gone")
    await axe_page.get_by_role("button", name=FINDS).click()
    await axe_page.locator(".fault").wait_for()
    assert await axe_page.locator(".fault").inner_text() != ""
    assert await axe_page.get_by_label(BOX).input_value() == ARTICLE
    assert await axe_page.get_by_role("button", name=FINDS).is_enabled()
    assert axe_page.url.endswith("/moot")
    assert await faults_of_page(axe_page, "failed") == []
    await axe_page.goto("/moot/debates")
    row = axe_page.locator(".checks li").first
    assert "A line" in await row.inner_text()
    await row.get_by_role("button", name="Go on").click()  # the model fails again
    await axe_page.get_by_role("heading", name="The claims are not found yet").wait_for()
    assert await faults_of_page(axe_page, "not-found") == []


async def test_a_stopped_search_for_claims_starts_again_with_another_model(axe_page: Page, served: Served) -> None:
    """The user also enters a date, which is the date of all claims."""
    await paste(axe_page, "openai:unhurried")
    await axe_page.get_by_role("button", name=FINDS).click()
    await axe_page.get_by_role("heading", name="A line").wait_for()
    await axe_page.get_by_text("Next: you tick the claims to check.").wait_for()
    wrong = await faults_of_page(axe_page, "finding")
    await axe_page.get_by_role("button", name="Stop").click()
    await axe_page.get_by_text("Paste the same text again to continue it").wait_for()
    await axe_page.get_by_text("More options").click()
    await axe_page.get_by_label("When it was said or published").fill("2025-05-14")
    await axe_page.get_by_label("Name of the model").fill("openai:stub")
    await axe_page.get_by_role("button", name=FINDS).click()
    await axe_page.get_by_role("heading", name="4 claims").wait_for()
    assert await axe_page.get_by_text("14 May 2025").count() == 4
    button = await axe_page.get_by_role("button", name="Check 3 claims").bounding_box()
    assert button
    assert button["y"] + button["height"] < 844  # the button is visible without scrolling
    assert await faults_of_page(axe_page, "found") + wrong == []
    await axe_page.go_back()
    await axe_page.get_by_label(BOX).wait_for()


async def test_a_search_for_claims_continues_after_a_reload_or_a_stop(page: Page, served: Served) -> None:
    """The list of past checks links to the running search. After a stop, a click resumes the search."""
    await paste(page, "openai:hesitant")
    await page.get_by_label("Quick check").check()
    await page.get_by_role("button", name=FINDS).click()
    await page.get_by_text("Next: you tick the claims to check.").wait_for()
    await page.wait_for_url("**/moot/claims?thread=*")
    address = page.url
    await page.reload()
    await page.get_by_text("Finding claims:").wait_for()
    await page.goto("/moot/debates")
    await page.get_by_role("link", name="A line").first.click()
    await page.wait_for_url("**/moot/claims?thread=*")
    assert page.url == address
    await page.get_by_role("button", name="Stop").click()
    await page.get_by_role("heading", name="The claims are not found yet").wait_for()
    await page.get_by_role("button", name="Go on").click()
    await page.get_by_role("heading", name="4 claims").wait_for()
    await page.get_by_text("Each gets a quick check").wait_for()  # the choice of quick checks is kept
    assert page.url.endswith("/moot/claims")
    await page.reload()
    await page.get_by_role("heading", name="4 claims").wait_for()


async def test_the_built_in_model_lists_every_sentence(page: Page, served: Served) -> None:
    await page.goto("/moot")
    await page.get_by_label(BOX).fill(ARTICLE)
    await page.get_by_label("Built in").check()
    await page.get_by_text("too weak to find claims").wait_for()
    await page.get_by_role("button", name=LISTS).click()
    await page.get_by_text("every sentence is listed").wait_for()
    assert await page.get_by_role("button", name="Check 0 claims").is_disabled()
    everything = page.get_by_label("All of them")
    await everything.check()
    await page.get_by_role("button", name="Check 16 claims").wait_for()
    assert await page.locator(".claims input:checked").count() == 16
    await everything.uncheck()
    await page.get_by_label("Check: Norwick opened its tram line").check()
    assert await everything.evaluate("(box) => box.indeterminate")
    await page.get_by_text("Each gets a debate.").wait_for()
    await page.reload()
    await page.get_by_role("button", name="Check 1 claim").wait_for()  # the reloaded page keeps the choice


async def test_a_shared_link_shows_the_claim_before_the_debates_first_event(page: Page, served: Served) -> None:
    """While the thread has no state, the page takes the claim from the run's input."""
    await start(page, CLAIM, SLOW | {"max_rounds": 20, "scoring": "all_rounds"})
    await page.wait_for_url("**thread=*")
    assert page.context.browser
    other = await page.context.browser.new_page()

    async def hide_first_state(route: Route) -> None:
        state: Any = await (await route.fetch()).json()
        await route.fulfill(body=json.dumps({**state, "values": {}}), content_type="application/json")

    await other.route("**/threads/*/state", hide_first_state)
    await other.route("**/runs/*/stream*", lambda route: None)  # so that no event arrives
    async with other.expect_response("**/moot/api/told*") as response:
        await other.goto(page.url)
    assert (await response.value).ok
    await other.get_by_role("heading", name=CLAIM).wait_for()
    assert await other.locator(".fault").count() == 0
    await page.get_by_role("button", name="Stop").click()
    await page.get_by_role("button", name="Stop").wait_for(state="detached")


async def test_a_model_in_the_settings_as_json_overrides_the_chosen_model(page: Page, served: Served) -> None:
    """If the form used the chosen built-in model, the button for the article would be `LISTS`, not `FINDS`."""
    await page.goto("/moot")
    await page.get_by_label("Built in").check()
    await page.locator(EXPERT).press("Enter")
    await page.get_by_label("Settings as JSON").fill('{"model": "openai:stub"}')
    await page.get_by_label(BOX).fill(ARTICLE)
    await page.get_by_role("button", name=FINDS).wait_for()
    await page.get_by_label(BOX).fill(CLAIM)
    await page.get_by_role("button", name=GO).wait_for()
