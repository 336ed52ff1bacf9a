"""The page in a real browser: a debate live, asked, stopped, cut off; markup, masses, narrow screens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from markdown_it import MarkdownIt
from moot.web import debates
from moot.web.report import report

from tests.web.conftest import MARKUP, Served, Wire
from tests.web.documents import CLAIM, PAYLOADS, a_debate, full_of, with_evidence

if TYPE_CHECKING:
    from playwright.async_api import Page

LEXICAL = [{"name": name, "retriever": "bm25"} for name in ("rag", "search")]
QUICK = {"embedder": "openai:stub-embedding", "debaters": LEXICAL}
MODELS = QUICK | {"models": {role: f"openai:stub-{role}" for role in ("rag", "search", "scorer", "judge")}}
SLOW = QUICK | {"model": "openai:slow", "max_rounds": 2, "scoring": "consensus_only"}
OUTSIDE = """() => [...document.querySelectorAll('a[href]')].map((a) => a.getAttribute('href'))
    .filter((href) => !/^(https?:|#|\\/moot)/.test(href))"""
FOREIGN = "document.querySelectorAll('body :is(script, img, iframe, object, video, audio, style, math)').length"
UNNAMED = """() => [...document.querySelectorAll('input, select, textarea')]
    .filter((one) => !one.labels.length && !one.getAttribute('aria-label')).map((one) => one.id)"""


async def start(page: Page, claim: str, settings: dict[str, Any], server: str = "") -> None:
    """Fills in the form and begins."""
    await page.goto(f"{server}/moot")
    await page.get_by_label("Claim or question").fill(claim)
    await page.get_by_text("More settings").click()
    await page.get_by_label("Settings as JSON").fill(json.dumps(settings))
    await page.get_by_role("button", name="Start the debate").click()


async def seen(page: Page, folder: Path, name: str) -> None:
    """Keeps a picture of the page, for whoever wants to look."""
    await page.screenshot(path=folder / f"{name}.png", full_page=True)


async def test_a_debate_from_the_form_to_the_file(page: Page, served: Served, tmp_path: Path) -> None:
    await page.goto("/moot")
    await page.get_by_text("More settings").click()
    assert await page.evaluate(UNNAMED) == []
    await seen(page, tmp_path, "form")
    await start(page, CLAIM + MARKUP, MODELS | {"max_rounds": 0})
    await page.get_by_text("max_rounds: Input should be greater than or equal to 1").wait_for()  # and nothing is lost
    await page.get_by_label("Settings as JSON").fill(json.dumps(MODELS | {"max_rounds": 1}))
    await page.get_by_role("button", name="Start the debate").click()
    await page.get_by_role("heading", name="Verdict: SUPPORTS").wait_for()
    await seen(page, tmp_path, "done")
    assert await page.get_by_role("heading", level=1).text_content() == CLAIM + MARKUP
    assert await page.locator(".speaker h3").all_inner_texts() == ["rag", "search", "judge"]
    [file] = (served.home / "debates").glob("*.json")
    assert page.url.endswith(f"/moot/debates/{file.stem}")
    assert json.loads(file.read_text())["claim"] == CLAIM + MARKUP
    assert await page.evaluate(FOREIGN) == 0

    await page.get_by_role("link", name="Past debates").click()
    await page.locator(".list a").first.click()
    await page.get_by_role("heading", name="Verdict: SUPPORTS").wait_for()
    page.once("dialog", lambda dialog: dialog.accept())
    async with page.expect_download() as downloading:
        await page.get_by_role("link", name="HTML report").click()
    assert "<h2>Verdict</h2>" in (await (await downloading.value).path()).read_text()


async def test_a_person_is_asked(page: Page, tmp_path: Path) -> None:
    asked = {"ask_person": ["queries", "evidence", "verdict"], "max_rounds": 1, "scoring": "all_rounds"}
    await start(page, CLAIM, MODELS | asked)
    await page.get_by_label("Query of rag").wait_for()
    await seen(page, tmp_path, "asked")
    await page.reload()  # a link to the run leads back to what is asked
    await page.get_by_label("Query of rag").fill("What do monotremes lay?")
    await page.get_by_role("button", name="Send").click()
    await page.get_by_label("Add a text").last.wait_for()
    await seen(page, tmp_path, "asked-evidence")
    await page.get_by_label("Strike").first.check()
    await page.get_by_role("button", name="Send").click()
    await page.get_by_label("Your question").wait_for()
    await page.get_by_role("button", name="Accept everything").click()
    await page.get_by_role("heading", name="Verdict: SUPPORTS").wait_for()
    await seen(page, tmp_path, "answered")
    said = await page.locator(".speaker", has=page.get_by_role("heading", name="person")).first.inner_text()
    assert "for rag: What do monotremes lay?" in said
    assert "strikes" in said


async def test_a_lost_connection_comes_back(page: Page, wire: Wire, tmp_path: Path) -> None:
    await start(page, CLAIM, SLOW, f"http://127.0.0.1:{wire.port}")
    await page.locator(".turn").first.wait_for()
    await wire.cut()
    await page.get_by_text("Trying again").first.wait_for()
    await page.screenshot(path=tmp_path / "lost.png")
    assert await page.locator(".turn dt", has_text="answers").count() == 0  # what was said meanwhile is told later
    await wire.mend()
    await page.locator("section.verdict").wait_for()
    turns = await page.locator(".turn").evaluate_all("(all) => all.map((one) => one.dataset.turn)")
    assert len(turns) == len(set(turns)) >= 2
    await seen(page, tmp_path, "back")


async def test_a_debate_is_stopped(page: Page, tmp_path: Path) -> None:
    await start(page, CLAIM, SLOW | {"max_rounds": 20, "scoring": "all_rounds"})
    await page.locator(".turn").first.wait_for()
    await page.get_by_role("button", name="Stop").click()
    await page.get_by_role("heading", name="Interrupted: no verdict.").wait_for()
    assert await page.locator(".turn").count() >= 1  # what a step had written that was not over yet
    await seen(page, tmp_path, "stopped")


async def test_no_payload_runs(page: Page, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOT_HOME", str(served.home))
    document = full_of(await a_debate(), PAYLOADS)
    (tmp_path / "document.json").write_text(json.dumps(document))
    await page.goto("/moot/debates")
    await page.get_by_label("Take in a document").set_input_files(tmp_path / "document.json")
    await page.locator(".card").last.wait_for()
    await page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    await page.screenshot(path=tmp_path / "markup.png")
    assert await page.locator(".card").count() == len(PAYLOADS)
    assert await page.evaluate(FOREIGN) == 0
    assert await page.evaluate(OUTSIDE) == []
    html = report(document, "html"), MarkdownIt("commonmark").render(report(document, "md"))
    for number, text in enumerate(html):
        (tmp_path / f"{number}.html").write_text(text)
        await page.goto((tmp_path / f"{number}.html").as_uri())
        assert await page.evaluate(FOREIGN) == 0
        assert await page.evaluate(OUTSIDE) == []
        assert await page.evaluate("String(window.ran)") == "undefined"
    await page.screenshot(path=tmp_path / "report.png")


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (1280, "dark")])
async def test_500_pieces(
    page: Page, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int, scheme: Any
) -> None:
    monkeypatch.setenv("MOOT_HOME", str(served.home))
    id = debates.save(with_evidence(await a_debate(), 500))
    await page.emulate_media(color_scheme=scheme)
    await page.set_viewport_size({"width": width, "height": 800})
    await page.goto(f"/moot/debates/{id}")
    await page.locator(".card").last.wait_for(state="attached")
    assert await page.locator(".card").count() >= 500
    assert await page.evaluate("document.documentElement.scrollWidth") <= width
    await page.locator(".citations a").first.focus()
    await page.keyboard.press("Enter")  # unfolds the piece that is quoted
    assert await page.locator(".card mark").all_inner_texts() == ["lay eggs 🥚, as echidnas"]
    assert await page.locator(".card[open]").count() == 1
    await page.screenshot(path=tmp_path / "quoted.png")
    await page.get_by_label("Show only evidence with").fill("title 123")
    assert await page.locator(".card").count() == 1
    await page.evaluate("scrollTo(0, 0)")
    await page.screenshot(path=tmp_path / "top.png")
