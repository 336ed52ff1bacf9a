"""The page has no faults that axe-core finds, fits on narrow screens, and can be used with a keyboard only."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
import pytest_asyncio
from moot.core.endpoint import close_clients
from moot.transcript.report.head import warnings_of_verdict
from moot.transcript.report.names import Names
from moot.web import debates
from moot.web.reviews import decide

from tests.web.conftest import EARLIER, Served, no_earlier_checks
from tests.web.documents import CLAIM, Document, a_debate, with_evidence
from tests.web.test_browser import BOX, GO, MODELS, QUICK, SLOW, start, tab_to

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

FAULTS = """async () => (await axe.run({resultTypes: ["violations"]})).violations.map(
    ({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map(({ html }) => html.slice(0, 200)).join(" | ")}`)"""
UNFOLD = "document.querySelectorAll('details:not(.menu)').forEach((one) => (one.open = true))"
WIDTH = "document.documentElement.scrollWidth"
LOOKS: list[tuple[int, Any]] = [(1440, "light"), (360, "dark"), (360, "light"), (1440, "dark")]
"""Pairs of a screen's width and a colour scheme."""
COLOURS_BY_WIDTH = ("home", "list", "batch")
"""States whose colours differ on a narrow screen. They are checked in all `LOOKS`, other states in the first two."""


@pytest_asyncio.fixture(loop_scope="session")
async def axe_page(served: Served, browser: Browser) -> AsyncIterator[Page]:
    """A page without its content security policy, which would block axe-core."""
    pytest.importorskip("axe_playwright_python", reason="needs the package axe-playwright-python")
    context = await browser.new_context(base_url=served.url, bypass_csp=True, reduced_motion="reduce")
    context.set_default_timeout(60_000)
    await context.route(EARLIER, no_earlier_checks)
    yield await context.new_page()
    await context.close()
    await close_clients()


async def faults_of_page(page: Page, name: str) -> list[str]:
    """The faults that axe-core finds on the page, and the widths of the page if it is wider than the screen.

    All folded parts except menus are unfolded. ``name`` is the name of the page's state.
    """
    await page.evaluate(UNFOLD)
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text())
    found = []
    for width, scheme in LOOKS if name in COLOURS_BY_WIDTH else LOOKS[:2]:
        await page.set_viewport_size({"width": width, "height": 844})
        await page.emulate_media(color_scheme=scheme)
        found += [f"{name}, {width}, {scheme}: {fault}" for fault in await page.evaluate(FAULTS)]
        if (wide := await page.evaluate(WIDTH)) > width:
            found.append(f"{name}, {width}: {wide} wide")
    return found


async def test_states_without_a_running_debate_have_no_faults(
    axe_page: Page, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOOT_HOME", str(served.home))
    document = with_evidence(await a_debate(), 12)
    failed = document | {
        "status": "failed",
        "answer": None,
        "error": {"kind": "x", "where": "judge", "detail": "The server refused three times.", "retryable": True},
    }
    ids = {
        "result": debates.save(document),
        "failed": debates.save(failed | {"claim": "It failed."}),
        "interrupted": debates.save(document | {"status": "interrupted", "answer": None, "claim": "It was stopped."}),
        "trial": debates.save(await a_debate("proclaim")),
        "sparse": debates.save(await a_debate("cortex_debate")),
        "other-version": debates.save(document | {"settings": document["settings"] | {"colour": "red"}}),
        **reviewed_checks(document),
    }
    wrong = []
    for name, id in ids.items():
        await axe_page.goto(f"/moot/debates/{id}")
        await axe_page.locator("#tools .acts").wait_for()
        await axe_page.locator("#review form" if name != "other-version" else "main").first.wait_for()
        if name == "sparse":
            await axe_page.locator(".graph").first.wait_for(state="attached")
        wrong += await faults_of_page(axe_page, name)
    places = {
        "home": ("/moot", ".ask"),
        "past": ("/moot/debates", ".checks li"),
        "none": ("/moot/debates?q=zz+zz", ".find"),
        "claims": ("/moot/claims", "h1"),
        "lost": ("/moot?thread=01a200c3-1f9c-7796-acfd-edbddb149c86", ".msg"),
        "deleted": ("/moot/debates/20200101T000000-" + "0" * 32, "h1"),
    }
    for name, (path, sign) in places.items():
        await axe_page.goto(path)
        await axe_page.locator(sign).first.wait_for()
        wrong += await faults_of_page(axe_page, name)
    await axe_page.route("**/moot/api/choices", lambda route: route.abort())
    await axe_page.goto("/moot")
    await axe_page.get_by_role("heading", name="The server does not answer").wait_for()
    wrong += await faults_of_page(axe_page, "offline")
    assert "\n".join(wrong) == ""


def reviewed_checks(document: Document) -> dict[str, str]:
    """The ids of checks in each stage of review."""
    words: Any = {"rating": "False", "title": "No", "summary": "So. [1]", "context": "So.", "note": "So."}
    words["acknowledged"] = [one.kind for one in warnings_of_verdict(document, Names(document))]
    steps: Any = [
        ("save", {}),
        ("approve", words),
        ("correct", {"to_readers": "So."}),
        ("withdraw", {"to_readers": "So."}),
    ]
    ids = {}
    for count in range(1, 5):
        id = ids[f"review-{count}"] = debates.save(
            document | {"claim": f"Reviewed in {count} steps.", "id": uuid4().hex}
        )
        for action, change in steps[:count]:
            decide(id, action, change, person="Ada")
    return ids


async def test_states_while_a_debate_runs_have_no_faults(axe_page: Page, served: Served) -> None:
    await start(axe_page, CLAIM, SLOW | {"max_rounds": 20, "scoring": "all_rounds"})
    await axe_page.locator(".rounds .fold").first.wait_for()
    wrong = await faults_of_page(axe_page, "live")
    await axe_page.get_by_role("button", name="Stop").click()
    await axe_page.get_by_role("heading", name="No verdict").wait_for()
    await start(axe_page, CLAIM, MODELS | {"ask_person": ["evidence"], "max_rounds": 1, "scoring": "all_rounds"})
    await axe_page.locator(".question").wait_for()
    wrong += await faults_of_page(axe_page, "waits")
    await axe_page.get_by_role("button", name="Stop").click()
    await axe_page.locator(".verdict h2").wait_for()
    assert "\n".join(wrong) == ""


async def test_states_of_many_claims_have_no_faults(axe_page: Page, served: Served) -> None:
    await axe_page.goto("/moot/claims")
    claims = ["Slow and under way.", "It fails.", "An answer.", *(f"One to come, number {n}." for n in range(3))]
    settings = {"It fails.": QUICK | {"model": "openai:gone", "attempts": 1}, "An answer.": MODELS | {"max_rounds": 1}}
    slow = SLOW | {"max_rounds": 20, "scoring": "all_rounds"}
    rows = [{"claim": one, "speaker": "Ada", "settings": settings.get(one, slow)} for one in claims]
    table = "\n".join(map(json.dumps, rows)).encode()
    await axe_page.get_by_label("An article").set_input_files(
        {"name": "claims.jsonl", "mimeType": "application/jsonl", "buffer": table}
    )
    await axe_page.get_by_role("heading", name="6 claims").wait_for()
    wrong = await faults_of_page(axe_page, "list")
    await axe_page.get_by_role("button", name="Check 6 claims").focus()
    await axe_page.keyboard.press("Enter")
    await axe_page.wait_for_url("**/moot/batches/*")
    await axe_page.locator(".batch .chip").first.wait_for()
    await axe_page.get_by_role("button", name="Try again: It fails.").wait_for()
    wrong += await faults_of_page(axe_page, "batch")
    await axe_page.set_viewport_size({"width": 820, "height": 844})  # a tablet, or A4 without margins
    claim = await axe_page.locator(".batch tbody .claim").first.bounding_box()
    assert claim is not None
    assert claim["width"] > 120
    await tab_to(axe_page, "Stop")
    await axe_page.keyboard.press("Enter")
    await axe_page.get_by_text("It was stopped.").wait_for()
    wrong += await faults_of_page(axe_page, "stopped")
    await axe_page.goto("/moot/claims")
    await axe_page.get_by_role("button", name="Another text").click()
    await axe_page.get_by_role("heading", name="Earlier lists").wait_for()
    wrong += await faults_of_page(axe_page, "earlier")
    assert "\n".join(wrong) == ""


IN_SIGHT = """() => {
    const region = document.querySelector(".holding").getBoundingClientRect()
    const here = document.querySelector(".holding th.here").getBoundingClientRect()
    return region.left <= here.left && here.right <= region.right + 1
}"""
"""Whether the current round is in the visible part of the table."""


async def test_a_phone_shows_the_forms_hints_and_the_current_round(page: Page, served: Served) -> None:
    """The hints of folded parts are wide enough to read. The table scrolls to the current round."""
    await page.set_viewport_size({"width": 360, "height": 740})
    await page.goto("/moot")
    for about in await page.locator(".ask > .fold > summary .quiet").all():
        box = await about.bounding_box()
        assert box is not None
        assert box["width"] > 250, await about.inner_text()
    await start(page, CLAIM, SLOW | {"max_rounds": 20, "scoring": "all_rounds"})
    await page.get_by_role("columnheader", name="Round 3, now").wait_for()
    for _ in ("in sight", "still in sight after the table changed"):
        await page.wait_for_function(IN_SIGHT)
        await page.locator(".holding tbody tr", has_text="writing its answer").first.wait_for()
    await page.get_by_role("button", name="Stop").click()
    await page.locator(".verdict h2").wait_for()


async def test_the_table_groups_many_debaters_by_answer(page: Page, served: Served) -> None:
    at_work = {"agent-11", "agent-12"}  # when a slow page shows them, too
    models = {f"agent-{n}": "unhurried" if f"agent-{n}" in at_work else "stub-rag" for n in range(1, 13)}
    agents = [{"name": name, "model": f"openai:{model}"} for name, model in models.items()]
    await start(page, CLAIM, {"agents": agents, "model": "openai:stub-rag"}, graph="society_of_minds")
    await page.locator(".holding td", has_text="agents").first.wait_for()
    await page.locator(".holding tbody tr", has_text="answer").first.wait_for()
    assert await page.locator(".holding tbody tr").count() < 8  # 12 debaters share these rows
    await page.get_by_role("button", name="Stop").click()
    await page.locator(".verdict h2").wait_for()


async def test_a_claim_is_checked_by_keyboard(page: Page, served: Served) -> None:
    await page.goto("/moot")
    await page.get_by_label(BOX).wait_for()
    await tab_to(page, "Skip to the content")
    await page.keyboard.press("Enter")
    await tab_to(page, BOX)
    await page.keyboard.type(CLAIM)
    await tab_to(page, "Debate")  # the selected radio button
    await page.keyboard.press("ArrowUp")
    assert await page.get_by_label("Quick check").is_checked()
    await tab_to(page, GO)
    await tab_to(page, "Method and every setting")
    await page.keyboard.press("Enter")
    await tab_to(page, "Settings as JSON")
    settings = {"model": "openai:stub-rag", "sources": ["bm25:demo-news"], "embedder": "openai:stub-embedding"}
    await page.keyboard.type(json.dumps(settings))
    for _ in range(200):
        if str(await page.evaluate("document.activeElement.innerText")) == GO:
            break
        await page.keyboard.press("Shift+Tab")
    await page.keyboard.press("Enter")
    await page.locator(".verdict h2").wait_for()
    await tab_to(page, "Save")
    await page.keyboard.press("Enter")
    await page.get_by_role("link", name="Report (HTML)").wait_for()
