"""In a printed report, the sources start on the second A4 page, even if there are many quotes."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from moot.transcript.report.head import Group, Verdict
from moot.transcript.report.paper import fill_first_page
from moot.transcript.report.report import report
from moot.transcript.report.sources import SourceQuote

from tests.web.conftest import CHROMIUM
from tests.web.documents import a_debate, with_quotes

BACKED = Verdict("sup", "Supported by the evidence found", "All 3 gave the same answer.", "Not calibrated.")


def group_of_quotes(count: int, length: int) -> Group:
    """A group of ``count`` quotes, each of ``length`` characters."""
    return Group("Quoted", [(SourceQuote(f"ev-{i}", 0, length, "x" * length), "A") for i in range(count)])


@pytest.mark.parametrize(
    ("claim", "reasons", "beside", "below", "printed"),
    [
        (40, [300], [(2, 80), (9, 80)], [], [2, 4]),  # both groups fit; at most four quotes of each are printed
        (40, [300] * 3, [(9, 80), (9, 80)], [], [2, 2]),  # 55.7 mm are left, and a row of quotes needs 21.2 mm
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


async def test_sources_start_on_the_second_page(tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.async_api", reason="needs the package playwright")
    pdfium = pytest.importorskip("pypdfium2")
    if CHROMIUM is None:
        pytest.skip("needs chromium")
    document = with_quotes(await a_debate("tool_mad"), 12, 300)
    file = tmp_path / "report.html"
    file.write_text(report(document, "html"), encoding="utf-8")
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM)
        page = await browser.new_page()
        await page.goto(file.as_uri())
        printed = pdfium.PdfDocument(io.BytesIO(await page.pdf(prefer_css_page_size=True)))
        await browser.close()
    first, second = (printed[number].get_textpage().get_text_bounded() for number in range(2))
    assert "highlighted in the sources" in first
    assert "Sources" in " ".join(second.split())[:200]
