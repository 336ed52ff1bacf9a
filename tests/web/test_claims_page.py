"""The page checks many claims from an article, a pasted list or a file, and saves them as a table."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pypdfium2 import PdfDocument  # type: ignore[import-untyped]
from python_calamine import CalamineWorkbook

from tests.claims.test_find import TEXT, WRITTEN
from tests.web.conftest import EARLIER, Served
from tests.web.documents import CLAIM
from tests.web.test_browser import BOX, EXPERT, GO, MODELS, SUPPORTED

if TYPE_CHECKING:
    from playwright.async_api import Page

LIST: Any = {
    "name": "claims.csv",
    "mimeType": "text/csv",
    "buffer": f'claim,date,colour\n"{CLAIM}",2020-10-21,red\nFish can fly.,,blue\n'.encode(),
}


async def test_the_claims_of_an_article_are_found_and_checked(page: Page, served: Served) -> None:
    """A user pastes an article, corrects one claim, leaves out another, watches the checks, and reads a report."""
    await page.goto("/moot")
    await page.locator(EXPERT).press("Enter")
    await page.get_by_label("Settings as JSON").fill(json.dumps(MODELS | {"model": "openai:stub", "max_rounds": 1}))
    await page.get_by_label(BOX).fill(f"{TEXT}\n\n{'It rained on that day, as it often does there. ' * 12}")
    await page.get_by_role("button", name="Find its claims").click()
    await page.get_by_role("heading", name="4 claims").wait_for()
    assert await page.locator(".claims input:checked").count() == 3
    await page.get_by_text("Left out: less worth checking.").wait_for()
    await page.get_by_text("dropped: they are not in the text").wait_for()
    await page.get_by_text("Filled in from the text: tram line in Norwick.").wait_for()
    await page.get_by_label("Claim", exact=True).first.fill("Norwick opened its tram line in spring 2024.")
    await page.get_by_label(f"Check: {WRITTEN[2]['claim']}").uncheck()
    await page.get_by_label("Claims at the same time").fill("2")
    await page.get_by_role("button", name="Check 2 claims").click()
    await page.wait_for_url("**/moot/batches/*")
    await page.get_by_text("2 of 2 done").wait_for()
    printed = await (await page.context.new_cdp_session(page)).send("Page.printToPDF", {"paperWidth": 8.5})
    sheets = list(PdfDocument(base64.b64decode(printed["data"])))
    assert [sheets[0].get_textpage().get_text_bounded().count(word) for word in ("Norwick opened", "Verdict")] == [2, 1]
    rows = await page.locator(".batch tbody tr").all_inner_texts()
    assert ["Norwick opened its tram line in spring 2024." in rows[0], WRITTEN[1]["claim"] in rows[1]] == [True, True]
    assert "Helena Brandt" in rows[1]
    assert all("Supported" in row for row in rows)
    await page.get_by_label("Refuted 0").check(force=True)
    await page.get_by_text("No claim matches.").wait_for()
    await page.get_by_label("Supported 2").check(force=True)
    await page.get_by_label("Find in claims").fill("412")
    await page.locator(".batch tbody tr").nth(1).wait_for(state="detached")
    async with page.expect_download() as downloading:
        await page.get_by_role("link", name="Table (CSV)").click()
    table = (await (await downloading.value).path()).read_text(encoding="utf-8-sig")
    assert table.count("SUPPORTS") == 2
    await page.reload()  # the filters stay, because the address contains them
    await page.get_by_role("link", name=WRITTEN[1]["claim"]).wait_for()
    await page.locator(".batch tbody tr").nth(1).wait_for(state="detached")
    await page.get_by_role("link", name=WRITTEN[1]["claim"]).click()
    await page.get_by_role("heading", name=SUPPORTED).wait_for()
    await page.goto("/moot/claims")
    await page.get_by_role("heading", name="4 claims").wait_for()  # the list of claims is kept
    await page.get_by_role("button", name="Another text").click()
    await page.get_by_role("heading", name="Earlier lists").wait_for()
    await page.get_by_text("2 of 2 done").first.wait_for()


async def test_a_user_adds_a_claim_to_a_list_and_checks_it(page: Page, served: Served) -> None:
    await page.goto("/moot")
    await page.locator(EXPERT).press("Enter")
    await page.get_by_label("Settings as JSON").fill(json.dumps(MODELS | {"model": "fake:3", "max_rounds": 1}))
    await page.get_by_label(BOX).fill(" ".join(f"Sentence number {i} says little." for i in range(40)))
    await page.get_by_role("button", name="Check it as one claim instead").wait_for()
    await page.get_by_role("button", name="Find its claims").click()
    await page.get_by_role("button", name="Add a claim").click()
    await page.keyboard.type(CLAIM)
    for box in await page.locator(".claims input:checked").all():
        if CLAIM[:20] not in str(await box.get_attribute("aria-label")):
            await box.uncheck()
    await page.get_by_role("button", name="Check 1 claim").click()
    await page.get_by_text("1 of 1 done").wait_for()
    await page.get_by_role("link", name=CLAIM).click()
    await page.get_by_role("heading", name=SUPPORTED).wait_for()


async def test_a_pasted_list_is_recognised_and_its_claims_are_checked(page: Page, served: Served) -> None:
    """A claim in two lines, and a text of several paragraphs, are not lists."""
    await page.goto("/moot")
    await page.locator(EXPERT).press("Enter")
    await page.get_by_label("Settings as JSON").fill(json.dumps(MODELS | {"model": "fake:3", "max_rounds": 1}))
    for text, button in (
        ("The Suez Canal was dug\nin ten years.", GO),
        ("\n\n".join(["A paragraph of ten words, and then of some more words."] * 9), "Find its claims"),
        (f"1. {CLAIM}\n\n- Fish can fly.", "List these claims"),
    ):
        await page.get_by_label(BOX).fill(text)
        await page.get_by_role("button", name=button).wait_for()
    await page.get_by_role("button", name="Check it as one claim instead").click()
    await page.get_by_role("button", name=GO).wait_for()
    await page.reload()
    await page.locator(EXPERT).press("Enter")
    await page.get_by_label("Settings as JSON").fill(json.dumps(MODELS | {"model": "fake:3", "max_rounds": 1}))
    await page.get_by_label(BOX).fill(text)
    await page.get_by_role("button", name="List these claims").click()
    await page.get_by_role("heading", name="2 claims").wait_for()
    texts = [await one.input_value() for one in await page.get_by_label("Claim", exact=True).all()]
    assert texts == [CLAIM, "Fish can fly."]
    await page.get_by_role("button", name="Check 2 claims").click()
    await page.get_by_text("2 of 2 done").wait_for()


async def test_a_list_from_a_file_is_edited_and_saved_as_a_table(page: Page, served: Served) -> None:
    await page.goto("/moot/claims")
    await page.get_by_label("An article").set_input_files(LIST)
    await page.get_by_role("heading", name="2 claims").wait_for()
    await page.get_by_text("colour").wait_for()  # the page names columns that it does not use
    await page.get_by_label("Check: Fish can fly.").uncheck()
    await page.get_by_label("Claim", exact=True).first.fill("The echidna lays eggs.")
    async with page.expect_download() as downloading:
        await page.get_by_role("button", name="Table (CSV)").click()
    table = (await (await downloading.value).path()).read_text()
    assert "The echidna lays eggs." in table
    assert "2020-10-21" in table
    assert "Fish" not in table


async def test_a_list_from_a_spreadsheet_is_asked_about_and_its_rows_are_corrected(page: Page, served: Served) -> None:
    """The user names the column of claims and the order of dates, and corrects the row that could not be used."""
    rows = f"Nr;Behauptung;Datum\n1;{CLAIM};3/4/2025\n2;Fish can fly.;in autumn\n"
    file: Any = {"name": "liste.csv", "mimeType": "text/csv", "buffer": rows.encode()}
    await page.goto("/moot/claims")
    await page.locator(EXPERT).press("Enter")
    await page.get_by_label("Settings as JSON").fill(json.dumps(MODELS | {"model": "fake:3", "max_rounds": 1}))
    await page.get_by_label("An article").set_input_files(file)
    await page.get_by_text("No column is called claim.").wait_for()
    await page.get_by_label("Column with the claims").select_option("Behauptung")
    await page.get_by_label("Column with the dates").select_option("Datum")
    await page.get_by_role("button", name="Read the list").click()
    await page.get_by_text("Its dates can be read in several ways.").wait_for()
    await page.get_by_label("Order of the dates").select_option("dmy")
    await page.get_by_role("button", name="Read the list").click()
    await page.get_by_role("heading", name="2 claims").wait_for()
    assert await page.evaluate("document.activeElement.tagName") == "H1"  # not lost with the form
    await page.get_by_text("1 of 2 rows cannot be used as they are.").wait_for()
    await page.get_by_text("3 April 2025").wait_for()
    assert await page.get_by_label("Claim", exact=True).nth(1).input_value() == "Fish can fly."
    assert not await page.get_by_label("Check: Fish can fly.").is_checked()
    await page.get_by_label("Date, such as 2020-10-21").fill("2020-10")
    await page.get_by_label("Check: Fish can fly.").check()
    await page.get_by_role("button", name="Check 2 claims").click()
    await page.get_by_text("2 of 2 done").wait_for()
    # each fact has its own direction
    await page.locator(".batch td.claim small bdi", has_text="3 April 2025").wait_for()
    address = page.url
    await page.goto("/moot/claims")  # who comes back is not offered to pay again
    await page.get_by_text("The check of claims of this list was started.").wait_for()
    assert await page.get_by_role("button", name="Check 0 claims").is_disabled()
    await page.get_by_role("link", name="See the results").click()
    await page.wait_for_url(address)


ODD = """Nr,claim,speaker
1,Zebras of the north have spots.,Ada
2,Zebras of the north have spots,Ada
3,Zebras of the north wear spots.,Ada
4,ok,
"""


async def test_what_a_list_need_not_pay_for_is_not_ticked(page: Page) -> None:
    """The repeated claim is checked once. The list that was checked before says so, with a link to its results."""
    await page.unroute(EARLIER)
    await upload(page, ODD)
    await page.get_by_text("Not ticked: it is no sentence.").wait_for()
    await page.get_by_text("Not ticked: nearly the same as").wait_for()
    await page.get_by_role("button", name="Check 2 claims").click()
    await page.get_by_text("2 of 2 done").wait_for()
    await page.get_by_text("Same as claim 1: checked once.").wait_for()
    address = page.url.partition("?")[0]
    async with page.expect_download() as saved:
        await page.get_by_role("link", name="Table (Excel)").click()
    book = CalamineWorkbook.from_path(await (await saved.value).path())
    assert [row[:2] for row in book.get_sheet_by_index(0).to_python()][1:] == [
        [1, "Zebras of the north have spots."],
        [2, "Zebras of the north have spots"],
    ]
    await upload(page, "".join(ODD.splitlines(keepends=True)[:3]))
    told = page.get_by_text("This list was checked before.")
    await told.wait_for()
    assert await page.get_by_role("button", name="Check 0 claims").is_disabled()
    await page.get_by_role("link", name="See the results").click()
    await page.wait_for_url(address)


async def upload(page: Page, text: str) -> None:
    """Give the page a list, whose claims each get a debate of one round."""
    await page.goto("/moot/debates")  # a page that stores no list
    await page.evaluate("sessionStorage.clear()")
    await page.goto("/moot/claims")
    await page.locator(EXPERT).press("Enter")
    await page.get_by_label("Settings as JSON").fill(json.dumps(MODELS | {"model": "openai:stub", "max_rounds": 1}))
    file: Any = {"name": "odd.csv", "mimeType": "text/csv", "buffer": text.encode()}
    await page.locator("#many").set_input_files(file)


async def test_checks_of_a_list_are_folded_in_past_checks(page: Page) -> None:
    await upload(
        page, "claim,url\nPenguins of the south can fly.,penguins.example/a\nPenguins of the south can swim.,\n"
    )
    await page.get_by_role("button", name="Check 2 claims").click()
    await page.get_by_text("2 of 2 done").wait_for()
    await page.goto("/moot/debates?q=penguins")
    fold = page.locator(".of-list summary")
    await fold.click()
    assert await page.locator(".of-list .checks > li > a").count() == 2
    await page.get_by_role("link", name="The table of this list").wait_for()
    await page.get_by_label("Site of the claim").fill("penguins.example")
    await page.get_by_role("button", name="Find").click()
    await page.wait_for_url("**site=penguins.example")
    await page.get_by_role("link", name="Penguins of the south can fly.").wait_for()
    assert await page.locator(".checks > li").count() == 1
    await page.get_by_label("State").select_option("Failed")
    await page.get_by_role("button", name="Find").click()
    await page.get_by_text("No check matches.").wait_for()


async def test_a_list_at_its_limit_says_once_how_the_rest_is_checked(page: Page, served: Served) -> None:
    context = MODELS | {"model": "openai:gpt-4o-mini", "models": {}}  # whose price is known
    claims = [{"claim": f"Otter {number} swims."} for number in range(3)]
    body = {"id": str(uuid4()), "name": "otters.csv", "graph": "tool_mad", "input": {}, "context": context}
    await page.request.post("/moot/api/batches", data=body | {"claims": claims, "at_once": 1, "max_cost": 0.000001})
    await page.goto(f"/moot/batches/{body['id']}")
    await page.locator(".warning", has_text="read the list again with a higher limit").wait_for()
    cells = page.locator(".batch .cell", has_text="not begun")
    await cells.last.wait_for()
    assert {one[-10:] for one in await cells.all_inner_texts()} == {"is reached"}
