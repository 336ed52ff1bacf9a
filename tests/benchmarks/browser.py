"""Measures how soon the web pages are painted, and how long a debate keeps the browser's main thread busy.

The program prints the time to the first paint of each page (ten loads on loopback). Then it watches a debate of 50
agents over 10 rounds. It prints the numbers of streamed events and of redraws, the main thread's time per event and per
redraw, the number of the main thread's long tasks, and the duration of the longest.

    python -m tests.benchmarks.browser
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import httpx
from playwright.async_api import Browser, Page, async_playwright

from tests.conftest import running_stub, supports
from tests.web.conftest import CHROMIUM, serve
from tests.web.documents import CLAIM
from tests.web.test_browser import start

PAGES = ("/moot", "/moot/claims", "/moot/debates")
LOADS = 10
WATCH = """window.long = [];
new PerformanceObserver((list) => window.long.push(...list.getEntries().map((one) => one.duration)))
    .observe({type: 'longtask', buffered: true});"""
"""A script that records the durations (ms) of tasks of 50 ms and more; browsers report no shorter tasks."""
PAINT = """() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"""
"""A function that returns the time (ms) of the page's first contentful paint, or null before it."""
MANY: dict[str, Any] = {"agents": 50, "max_rounds": 10, "model": "openai:soon", "max_concurrency": 50}


async def time_paint(browser: Browser, url: str) -> None:
    """Print the milliseconds to the first contentful paint of each page. Each load starts with an empty cache."""
    for path in PAGES:
        taken = []
        for _ in range(LOADS):
            context = await browser.new_context(viewport={"width": 1440, "height": 900})
            page = await context.new_page()
            await page.goto(url + path)
            await page.locator("main h1:visible").first.wait_for()
            await page.wait_for_function(f"({PAINT})() !== null")
            taken.append(float(await page.evaluate(PAINT)))
            await context.close()
        print(f"{path}: first paint {median(taken):.0f} ms (median), {max(taken):.0f} ms (longest of {LOADS})")


async def time_debate(browser: Browser, url: str) -> None:
    """Watch a large debate; print the numbers of events and redraws, and the main thread's time.

    The measurement ends when the page requests the debate's result document.
    """
    page = await browser.new_page(viewport={"width": 1440, "height": 900})
    page.set_default_timeout(180_000)
    await page.add_init_script(WATCH)
    draws: list[str] = []
    finished = asyncio.Event()
    # The request gets no response, so that drawing the report is not measured.
    await page.route("**/moot/api/debates/*", lambda _: finished.set())
    page.on("response", lambda response: draws.append(response.url) if "/api/told" in response.url else None)
    session = await page.context.new_cdp_session(page)
    await session.send("Performance.enable", {"timeDomain": "threadTicks"})
    await start(page, CLAIM, MANY, url, "society_of_minds")
    await page.wait_for_url("**/moot?thread=*")
    await page.locator(".acts button", has_text="Stop").wait_for()
    before, drawn, earlier = (
        await main_thread_seconds(session),
        len(draws),
        list(map(float, await page.evaluate("window.long"))),
    )
    await finished.wait()
    spent, drawn = 1000 * (await main_thread_seconds(session) - before), len(draws) - drawn
    tasks = list(map(float, await page.evaluate("window.long")))[len(earlier) :]
    events = await asyncio.to_thread(count_events, page, url)
    print(f"50 agents, 10 rounds: {events} events were streamed, the page was redrawn {drawn} times")
    print(f"the main thread took {spent:.0f} ms: {spent / events:.2f} ms an event, {spent / drawn:.1f} ms a redraw")
    print(f"tasks of 50 ms and more: {len(tasks)}, the longest {max(tasks, default=0):.0f} ms")


def count_events(page: Page, url: str) -> int:
    """The number of ``updates`` and ``custom`` events in the stream of the page's debate."""
    thread = page.url.rpartition("=")[2]
    [run] = httpx.get(f"{url}/threads/{thread}/runs").json()
    place = f"{url}/threads/{thread}/runs/{run['run_id']}/stream"
    content = httpx.get(place, headers={"last-event-id": "0"}, timeout=60).text
    return len(re.findall(r"^event: (?:updates|custom)", content, re.MULTILINE))


async def main_thread_seconds(session: Any) -> float:
    """The processor time (s) that the main thread's tasks have taken so far."""
    metrics = (await session.send("Performance.getMetrics"))["metrics"]
    return next(float(one["value"]) for one in metrics if one["name"] == "TaskDuration")


async def measure(url: str) -> None:
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM)
        await time_paint(browser, url)
        await time_debate(browser, url)
        await browser.close()


def main() -> None:
    rules = [{"model": "soon", "delay_ms": 400}, *supports([True, True], CLAIM)]
    print(json.dumps({"load": os.getloadavg(), "cores": os.cpu_count()}))
    with tempfile.TemporaryDirectory() as folder, running_stub(Path(folder) / "stub", rules) as stub:
        for served in serve(Path(folder), stub.url):
            asyncio.run(measure(served.url))
            break
    print(json.dumps({"load": os.getloadavg()}))


if __name__ == "__main__":
    main()
