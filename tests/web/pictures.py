"""Takes the pictures in docs/pictures: run ``python -m tests.web.pictures``.

The program needs Chromium and Playwright, but no model, because the models are scripted. Run it again if the page
changes.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from moot.transcript.report.report import report
from moot.web import debates
from playwright.async_api import Browser, Page, async_playwright

from tests.claims.test_find import TEXT
from tests.claims.test_find import rules as finding
from tests.conftest import running_stub, says, supports
from tests.web.conftest import CHROMIUM, EARLIER, no_earlier_checks, serve
from tests.web.documents import CLAIM, a_debate, with_evidence

DOCS = Path(__file__).parents[2] / "docs"
FOLDER = DOCS / "pictures"
RECORDED = Path(__file__).parents[2] / "web" / "example.json"
WIDE, PHONE = (1200, 750), (390, 844)
LEXICAL = [{"name": name, "retriever": "bm25:demo-encyclopaedia"} for name in ("rag", "search")]
SETTINGS = {"embedder": "openai:stub-embedding", "debaters": LEXICAL, "model": "openai:slow"}


async def take_pictures(browser: Browser, url: str, home: Path) -> None:
    """Take a picture of each page of the server, and of a batch and a debate while they run."""
    os.environ["MOOT_HOME"] = str(home)
    done = with_evidence(await a_debate(), 3)
    stopped = done | {"status": "interrupted", "answer": None, "claim": "COVID-19 has a secondary attack rate of 80%."}
    other = done | {"claim": "Wearing face masks can cause infections from bacteria such as staphylococcus."}
    ids = [debates.save(one) for one in (other, stopped, done)]
    paths = {
        "home": ("/moot", ".ask"),
        "past": ("/moot/debates", ".checks li"),
        "result": (f"/moot/debates/{ids[2]}", "#tools .acts"),
        "interrupted": (f"/moot/debates/{ids[1]}", "#tools .acts"),
        "claims": ("/moot/claims", "#many"),
        "lost": ("/moot/debates/" + "0" * 32, "h1"),
    }
    for name, (path, sign) in paths.items():
        page = await open_page(browser, url + path, sign)
        await save_picture(page, name)
    for name in ("home", "result"):
        page = await open_page(browser, url + paths[name][0], paths[name][1], PHONE, "dark")
        await save_picture(page, f"{name}-phone")
    page = await open_page(browser, f"{url}/moot", ".ask")
    await page.get_by_text("Method and every setting").click()
    await page.get_by_label("Settings as JSON").fill(json.dumps(SETTINGS | {"max_rounds": 1}))
    await page.get_by_label("A claim, an article").fill(f"{TEXT}\n\n{'It rained on that day, as it often does. ' * 12}")
    await page.get_by_role("button", name="Find its claims").click()
    await page.locator(".claims tbody tr").first.wait_for()
    await page.screenshot(path=FOLDER / "list.jpg", type="jpeg", quality=70)
    await page.get_by_label("Claims at the same time").fill("2")
    await page.get_by_role("button", name="Check 3 claims").click()
    await page.locator(".batch .chip").first.wait_for()
    await page.screenshot(path=FOLDER / "batch.jpg", type="jpeg", quality=70)
    await page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    await save_picture(page, "batch-phone")
    page = await start_debate(browser, url, {})
    await page.locator(".rounds .fold").first.wait_for()
    await page.locator(".turn").first.wait_for()
    await save_picture(page, "live")
    page = await start_debate(browser, url, {"ask_person": ["evidence"]})
    await page.locator(".question").wait_for()
    await save_picture(page, "waiting")


async def open_page(browser: Browser, url: str, sign: str, size: tuple[int, int] = WIDE, scheme: Any = "light") -> Page:
    """Open a page, and wait until it shows an element with the selector ``sign``."""
    viewport: Any = dict(zip(("width", "height"), size, strict=True))
    page = await browser.new_page(viewport=viewport, color_scheme=scheme)
    await page.route(EARLIER, no_earlier_checks)
    await page.goto(url)
    await page.locator(sign).first.wait_for()
    return page


async def start_debate(browser: Browser, url: str, more: dict[str, Any]) -> Page:
    """Start a debate with `SETTINGS` and the settings ``more``; return its page."""
    page = await open_page(browser, f"{url}/moot", ".ask")
    await page.get_by_label("A claim, an article").fill(CLAIM)
    await page.get_by_text("Method and every setting").click()
    await page.get_by_label("Settings as JSON").fill(json.dumps(SETTINGS | more))
    await page.get_by_role("button", name="Check it").click()
    return page


async def take_picture_of_report(browser: Browser) -> None:
    """Take a picture of the recorded debate's report, up to its quotes."""
    page = await browser.new_page(viewport={"width": 1000, "height": 1290})
    await page.set_content(report(json.loads(RECORDED.read_text(encoding="utf-8")), "html"))
    await save_picture(page, "report")


async def save_picture(page: Page, name: str) -> None:
    """Save a picture of the page as a file with this name, and close the page."""
    await page.screenshot(path=FOLDER / f"{name}.jpg", type="jpeg", quality=70)
    await page.close()


async def take_all(url: str, home: Path) -> None:
    """Open a browser and take all pictures."""
    FOLDER.mkdir(exist_ok=True)
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM)
        await take_picture_of_report(browser)
        await take_pictures(browser, url, home)
        await browser.close()


def main() -> None:
    """Start a server with scripted models, and take all pictures."""
    rules: list[dict[str, Any]] = [*finding(), says("judge", "SUPPORTS")]
    rules += [{"model": "slow", "match": "your `answer`", "delay_ms": 1500}, *supports([True, True], CLAIM)]
    with tempfile.TemporaryDirectory() as folder, running_stub(Path(folder) / "stub", rules) as stub:
        for served in serve(Path(folder), stub.url):
            asyncio.run(take_all(served.url, served.home))
            break


if __name__ == "__main__":
    main()
