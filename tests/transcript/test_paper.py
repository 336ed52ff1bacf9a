"""A report on A4 and on US Letter: at most five pages, and the sources start on the second one."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import moot.transcript
import pytest
import pytest_asyncio
from moot.nodes._texts.quotes import check_citations
from moot.nodes._texts.replies import Quote
from moot.transcript.report.head import Group, Verdict
from moot.transcript.report.paper import fill_first_page
from moot.transcript.report.report import report
from moot.transcript.report.sources import SourceQuote
from pypdfium2 import PdfDocument  # type: ignore[import-untyped]

from tests.web.conftest import CHROMIUM
from tests.web.documents import a_debate, piece, with_quotes

if TYPE_CHECKING:
    from playwright.async_api import CDPSession, Page

ROOT = Path(__file__).parents[2]
PACKAGE = Path(moot.transcript.__file__).parents[1]
PAPERS = {"A4": (210 / 25.4, 297 / 25.4), "letter": (8.5, 11)}
"""Width and height of papers in inches."""
HEADINGS = "[...document.querySelectorAll('h2, h3, .turns dt, .doc:not(.brief) summary')].map((one) => one.textContent)"

BACKED = Verdict("sup", "Supported by the evidence found", "All 3 gave the same answer.", "Not calibrated.")


def group_of_quotes(count: int, length: int) -> Group:
    """A group of ``count`` quotes, each of ``length`` characters."""
    return Group("Quoted", [SourceQuote(f"ev-{i}", 0, length, "x" * length) for i in range(count)])


@pytest.mark.parametrize(
    ("claim", "reasons", "beside", "below", "printed"),
    [
        (40, [300], [(2, 80), (9, 80)], [], [2, 4]),  # both groups fit; at most four quotes of each are printed
        (40, [300] * 3, [(9, 80), (9, 80)], [], [1, 1]),  # 37.7 mm are left, and a row of quotes needs 21.2 mm
        (40, [300], [(1, 4000), (3, 80)], [], [0, 0]),  # a row is as high as its longest quote
        (1200, [300], [(3, 80), (3, 80)], [], [0, 0]),  # the claim fills the page
        (40, [300], [], [(2, 80), (9, 4000)], [2, 0]),  # the second group does not fit
    ],
)
def test_the_first_page_has_only_quotes_that_fit(
    claim: int,
    reasons: list[int],
    beside: list[tuple[int, int]],
    below: list[tuple[int, int]],
    printed: list[int],
) -> None:
    pair, others = [group_of_quotes(*one) for one in beside], [group_of_quotes(*one) for one in below]
    fill_first_page("c" * claim, BACKED, [], ["w" * length for length in reasons], pair, others)
    assert [group.on_paper for group in (*pair, *others)] == printed


@pytest_asyncio.fixture
async def session() -> AsyncIterator[tuple[Page, CDPSession]]:
    """A page of a real browser, and its DevTools, which print as the dialogue of the browser does."""
    playwright = pytest.importorskip("playwright.async_api", reason="needs the package playwright")
    if CHROMIUM is None:
        pytest.skip("needs chromium")
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM)
        page = await browser.new_page(color_scheme="dark")
        yield page, await page.context.new_cdp_session(page)
        await browser.close()


async def printed(devtools: CDPSession, paper: str) -> PdfDocument:
    """The PDF of the page, with the margins that the browser proposes."""
    width, height = PAPERS[paper]
    made = await devtools.send(
        "Page.printToPDF", {"paperWidth": width, "paperHeight": height, "preferCSSPageSize": True}
    )
    return PdfDocument(base64.b64decode(made["data"]))


def with_sources(document: dict[str, Any], text: str, quote: str, count: int) -> dict[str, Any]:
    """The debate with this many quoted sources more; each number of a source replaces ``#`` in the texts."""
    pieces = [piece(text.replace("#", str(number)), f"{text[:70]} {number}") for number in range(count)]
    for number, one in enumerate(pieces):
        one["url"] = f"https://example.org/archive/2026/{number}/{'a-long-name-of-a-page-' * 4}"
    document["evidence"] = [*pieces, *document["evidence"]]
    turn, ids = next(turn for turn in document["turns"] if turn["step"] == "respond"), [one["id"] for one in pieces]
    quotes = [Quote(evidence_id=id, quote=quote.replace("#", str(number))) for number, id in enumerate(ids)]
    turn["citations"], turn["evidence_ids"] = check_citations(quotes, pieces, ids), [*ids, *turn["evidence_ids"]]
    return document


async def a_document(name: str) -> dict[str, Any]:
    """A recorded debate, a trial, a debate with many long sources, or one in Arabic."""
    if name == "recorded":
        recorded: dict[str, Any] = json.loads((ROOT / "web/example.json").read_text(encoding="utf-8"))
        return recorded
    if name == "trial":
        return await a_debate("proclaim")
    if name == "arabic":
        long = "خلد الماء حيوان ثديي يبيض ويعيش في أستراليا الشرقية. " * 8
        return with_sources(await a_debate("tool_mad"), f"{long}يضع # بيضات في جحر. {long}", "يضع # بيضات في جحر.", 8)
    long = "Platypuses live in rivers of eastern Australia and eat small animals of the bed. " * 12
    return with_sources(await a_debate("tool_mad"), f"{long}They lay # eggs in a burrow. {long}", "They lay # eggs", 12)


@pytest.mark.parametrize("name", ["recorded", "trial", "sources", "arabic"])
async def test_a_report_has_at_most_five_pages(session: tuple[Page, CDPSession], name: str, tmp_path: Path) -> None:
    page, devtools = session
    (tmp_path / "report.html").write_text(report(await a_document(name), "html"), encoding="utf-8")
    await page.goto((tmp_path / "report.html").as_uri())
    headings = {" ".join(one.split()) for one in await page.evaluate(HEADINGS)}
    for paper, (width, height) in PAPERS.items():
        pages = list(await printed(devtools, paper))
        assert len(pages) <= 5
        widest = 0.0
        for number, one in enumerate(pages):
            assert one.get_size() == pytest.approx((width * 72, height * 72), abs=1.5)
            assert one.render().to_pil().convert("RGB").getpixel((2, 2)) == (255, 255, 255)
            text = one.get_textpage()
            boxes = [text.get_rect(index) for index in range(text.count_rects())]
            assert all(left > 50 and right < width * 72 - 50 for left, _, right, _ in boxes)
            widest = max(widest, *(right - left for left, _, right, _ in boxes)) if number else widest
            lines = [" ".join(line.split()) for line in text.get_text_bounded().splitlines()]
            body = [line for line in lines if line and "Machine check," not in line and " / " not in line]
            assert number == len(pages) - 1 or body[-1] not in headings
        assert widest > 300  # points; of a line on a later page


async def test_a_long_report_prints_the_parts_of_the_record_that_are_unfolded(
    session: tuple[Page, CDPSession], tmp_path: Path
) -> None:
    page, devtools = session

    async def text(name: str, unfolded: str = "") -> str:
        (tmp_path / "report.html").write_text(report(await a_document(name), "html"), encoding="utf-8")
        await page.goto((tmp_path / "report.html").as_uri())
        if unfolded:
            await page.get_by_text(unfolded).first.click()
        pages = await printed(devtools, "letter")
        return " ".join(" ".join(one.get_textpage().get_text_bounded() for one in pages).split())

    assert "5 of 5 statements follow from the evidence" in await text("recorded")
    assert "This report is long" not in await text("recorded")
    closed, opened = await text("trial"), await text("trial", "Primary debate, round 1")
    assert "This report is long" in closed
    assert "Primary debate, round 2" in closed
    assert "Argued" not in closed
    assert "Argued" in opened
    sources = await text("sources")
    assert "They lay 11 eggs" in sources
    assert "[…]" in sources
    assert "[…]" not in await text("recorded")
    assert "https://example.org/archive/2026/11/" in sources.replace("- ", "-")


async def test_sources_start_on_the_second_page(session: tuple[Page, CDPSession], tmp_path: Path) -> None:
    page, devtools = session
    file = tmp_path / "report.html"
    file.write_text(report(with_quotes(await a_debate("tool_mad"), 12, 300), "html"), encoding="utf-8")
    await page.goto(file.as_uri())
    for paper in PAPERS:
        pages = await printed(devtools, paper)
        first, second = (pages[number].get_textpage().get_text_bounded() for number in range(2))
        assert "highlighted in the sources" in first
        assert "Sources" in " ".join(second.split())[:200]


@pytest.mark.parametrize(
    "file",
    [
        "transcript/look/tokens.css",
        "transcript/look/base.css",
        "transcript/look/report.css",
        "web/static/page.css",
        "evals/_report/evaluation.html",
    ],
)
def test_widths_of_screens_and_dark_colours_do_not_apply_to_paper(file: str) -> None:
    """Paper is narrower than many screens, and its size is the reader's choice."""
    text = (PACKAGE / file).read_text(encoding="utf-8")
    alternatives = [one for query in re.findall(r"@media\s*([^{]*)", text) for one in query.split(",")]
    assert alternatives
    assert [one for one in alternatives if re.search("width|color-scheme", one) and "screen and" not in one] == []
    assert not re.search(r"@page[^}]*size:\s*(?:A4|letter|[0-9])", text, re.IGNORECASE)
