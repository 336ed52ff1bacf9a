"""The output of `moot eval compare`. Texts in logs cannot inject markup, code or formulas into it."""

from __future__ import annotations

import base64
import csv
import itertools
import json
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import playwright.async_api
import pytest
from moot.core.errors import UserError
from moot.evals._report.sections import Report
from moot.evals._report.tables import (
    Column,
    Nested,
    Table,
    as_csv,
    as_latex,
    as_markdown,
    format_cell,
)
from moot.evals._report.write import as_document, compare, write_report
from moot.evals._stats.significance import Interval
from pypdfium2 import PdfDocument  # type: ignore[import-untyped]

from tests.commands import moot
from tests.evals.made_logs import debate, failed_document, write_log
from tests.evals.made_study import CONTROL, DEBATE, GOLD, N, R, S

EVIL = "=$x^{$|1<script src='http://x.example/a.js'></script>`!"
COURT = {"stop_reason": "critic_resolved", "rounds": 2, "retrieval_ended": {}}


def trial(answer: str, verdicts: str, confidence: float) -> dict[str, object]:
    """The result document of a trial. ``verdicts`` has a letter for each judge's verdict: S, N or I."""
    names = {"S": "SUPPORTED", "N": "NOT SUPPORTED", "I": "INCONCLUSIVE"}
    turns = [
        {"round": 0, "phase": "panel", "agent": f"judge-{n}", "step": "judge", "verdict": names[verdict]}
        for n, verdict in enumerate(verdicts, 1)
    ]
    argument = {"round": 1, "phase": "primary", "agent": "plaintiff", "step": "argue", "argument": "I concede that."}
    turns.append(argument)
    reflection = {"plaintiff": [0.5, 0.7], "defense": [0.5, None]}
    paths = {"reflection": reflection, "reflection_total": [1.0, None], "novelty": [0.8, 0.3]}
    debates = [{"phase": phase, **COURT, **paths} for phase in ("primary", "switched")]
    return debate(answer) | {"turns": turns, "debates": debates, "confidence": confidence, "graph": "proclaim"}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with logs and a broken file. The logs are of a debate, its control in two runs, a trial, and a system
    with malicious texts.
    """
    folder = tmp_path_factory.mktemp("logs")
    facts: dict[str, Any] = {"model": "openai:gpt-4o-mini"}
    control_facts: dict[str, Any] = facts | {"control": "self_consistency", "of": "debate"}
    write_log(folder, "a", DEBATE, GOLD, system="debate", **facts)
    for seed in (1, 2):
        write_log(folder, f"b{seed}", CONTROL, GOLD, system="debate self consistency", seed=seed, **control_facts)
    answers = (S, S, S, R, R, S, N, R)
    outcomes = zip(GOLD, answers, ("SSS", "SSN", "SIS", "NNN", "NSN", "SSN", "III", "NNI"), strict=True)
    trials = {id: trial(answer, verdicts, 0.5 + int(id) / 20) for id, answer, verdicts in outcomes}
    write_log(folder, "c", trials, GOLD, system="proclaim", **facts)
    broken = {"1": failed_document(kind=EVIL, detail=EVIL), "2": debate(S, [S, R], [S, S], stop_reason="consensus")}
    strata = dict.fromkeys(GOLD, EVIL) | {"1": "plain"}
    write_log(folder, "d", broken, GOLD, strata=strata, system=EVIL, settings={EVIL: EVIL}, **facts)
    (folder / "broken.eval").write_bytes(b"no log")
    return folder


@pytest.fixture(scope="module")
def report(logs: Path) -> Report:
    """The report on the logs."""
    return compare([logs])


@pytest.fixture(scope="module")
def report_folder(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the report's files."""
    folder = tmp_path_factory.mktemp("report") / "new" / "folder"
    write_report(report, folder)
    return folder


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_prints_a_headline_tables_and_notes(logs: Path, tmp_path: Path) -> None:
    prices = tmp_path / "prices.jsonl"
    prices.write_text('{"model": "openai:gpt-4o-mini", "input": 1000, "output": 2000}\n')
    done = moot("eval", "compare", logs, "--prices", prices, "--against", "proclaim")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("\nNo difference between the systems was found\n")
    assert "FEVER, openai:gpt-4o-mini" in done.stdout
    assert "Systems, over the 1 item on which all have an outcome" in done.stdout
    # Columns: runs, items, errors, abstained, no usable reply, with less evidence.
    assert re.search(r"debate +1 +7 +1 +1 +0 +0 ", done.stdout)
    assert re.search(r"consistency +2 +16 +0 ", done.stdout)  # the control
    assert re.search(r"debate +1\.000 +1 +1,500 +2\.0000 ", done.stdout)  # 1,000 tokens at 0.001 and 500 at 0.002 USD
    assert "note: broken.eval: it cannot be read as a log" in done.stdout
    assert re.search(r"note: --out DIR also writes pictures and these tables: .*Reliability", done.stdout)


def test_a_missing_folder_of_logs_is_refused(tmp_path: Path) -> None:
    refused = moot("eval", "compare", tmp_path / "nowhere")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "There is no file or folder" in refused.stderr


def test_the_json_document_has_the_figures_of_the_report(report: Report) -> None:
    document = json.loads(json.dumps(as_document(report)))
    assert document["notes"] == ["broken.eval: it cannot be read as a log (EOCD not found); left out."]
    [study] = document["studies"]
    assert (study["benchmark"], study["model"]) == ("fever", "openai:gpt-4o-mini")
    rows = {row["system"]: row for row in study["tables"]["systems"]["rows"]}
    assert rows["debate"]["accuracy"]["value"] == 1.0  # on the only item for which all systems have an outcome
    assert study["tables"]["differences"]["rows"][0]["against"] == "debate self consistency"
    [row] = study["tables"]["trials"]["rows"]
    assert row["concessions_plaintiff"] == pytest.approx(1000 / 3)  # one concession in three words, per 1,000 words
    assert "concessions_defense" not in row  # the defense never argued


def test_a_report_folder_that_cannot_be_created_is_refused(report: Report, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"folder .*file/below cannot be created"):
        write_report(report, tmp_path / "file" / "below")


# --- the page ---------------------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """Collects a page's elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def attributes_of(self, tag: str) -> Iterator[dict[str, str | None]]:
        """The attributes of each element with this tag."""
        return (attributes for name, attributes in self.elements if name == tag)


def test_the_page_loads_no_files_and_runs_no_scripts(report_folder: Path) -> None:
    text = (report_folder / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    kinds = {tag for tag, _ in page.elements}
    assert not kinds & {"script", "link", "iframe", "object", "embed", "form", "base", "use", "image", "video"}
    addresses = [
        str(a[key]) for _, a in page.elements for key in ("src", "href", "srcset", "style", "action") if key in a
    ]
    assert addresses
    assert all(address.startswith(("#", "data:image/svg+xml;base64,")) for address in addresses)
    assert not any(key.startswith("on") for _, attributes in page.elements for key in attributes)
    assert "url(" not in text
    assert "@import" not in text
    policy = next(a["content"] for a in page.attributes_of("meta") if a.get("http-equiv"))
    assert str(policy).startswith("default-src 'none'")
    assert "&lt;script src=&#39;http://x.example/a.js&#39;&gt;" in text


def test_the_page_has_markup_for_screen_readers(report_folder: Path) -> None:
    text = (report_folder / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    tables, captions = list(page.attributes_of("table")), list(page.attributes_of("caption"))
    assert len(tables) == len(captions) > 10
    assert all(attributes.get("scope") in ("col", "row") for attributes in page.attributes_of("th"))
    assert all(len(str(attributes.get("alt"))) > 40 for attributes in page.attributes_of("img"))
    assert next(page.attributes_of("html")) == {"lang": "en", "dir": "ltr"}
    ids = [a["id"] for _, a in page.elements if a.get("id")]
    assert len(ids) == len(set(ids))
    named = {a[key] for _, a in page.elements for key in ("aria-labelledby",) if a.get(key)}
    assert named | {str(a["href"]).removeprefix("#") for a in page.attributes_of("a")} <= set(ids)


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


async def test_the_page_fits_narrow_and_wide_windows_in_both_colour_schemes(report_folder: Path) -> None:
    if CHROMIUM is None:
        pytest.skip("needs chromium")
    backgrounds: dict[Any, str] = {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 26)"}
    async with playwright.async_api.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM)
        console_messages: list[str] = []
        for width, (scheme, background) in itertools.product((390, 1440), backgrounds.items()):
            page = await browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page.on("console", lambda message: console_messages.append(message.text))
            await page.goto((report_folder / "report.html").as_uri())
            assert await page.evaluate("document.documentElement.scrollWidth") == width
            assert await page.locator("h1").inner_text() == "No difference between the systems was found"
            assert await page.evaluate("getComputedStyle(document.body).backgroundColor") == background
        assert not console_messages
        await browser.close()


async def test_the_page_fits_on_the_readers_paper_in_light_colours(report_folder: Path) -> None:
    if CHROMIUM is None:
        pytest.skip("needs chromium")
    async with playwright.async_api.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM)
        page = await browser.new_page(color_scheme="dark")
        await page.goto((report_folder / "report.html").as_uri())
        devtools = await page.context.new_cdp_session(page)
        for width, height in ((210 / 25.4, 297 / 25.4), (8.5, 11)):
            paper = {"paperWidth": width, "paperHeight": height, "preferCSSPageSize": True, "printBackground": True}
            made = await devtools.send("Page.printToPDF", paper)
            pages = list(PdfDocument(base64.b64decode(made["data"])))
            sizes = {tuple(round(side / 72 * 25.4) for side in one.get_size()) for one in pages}
            upright = (round(width * 25.4), round(height * 25.4))
            assert sizes == {upright, upright[::-1]}  # large tables are in landscape
            for one in pages:
                text = one.get_textpage()
                boxes = [text.get_rect(index) for index in range(text.count_rects())]
                assert all(left > 30 and right < one.get_width() - 30 for left, _, right, _ in boxes)
                assert one.render().to_pil().convert("RGB").getpixel((2, 2)) == (255, 255, 255)
        await browser.close()


# --- pictures ---------------------------------------------------------------------------------------------------------

PICTURES = {
    *("scores", "differences", "front", "effects", "changes", "reliability", "selective", "rounds", "stops"),
    *("trial_rounds", "judges"),
}


def test_each_picture_is_a_png_and_an_svg_with_text(report_folder: Path) -> None:
    names = {file.stem.rpartition("-")[2] for file in (report_folder / "pictures").glob("*.svg")}
    assert names == PICTURES == {file.stem.rpartition("-")[2] for file in (report_folder / "pictures").glob("*.png")}
    for file in (report_folder / "pictures").glob("*.svg"):
        root = ElementTree.fromstring(file.read_bytes())
        texts = ["".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")]
        assert texts  # letters are text, not shapes
        assert not list(root.iter("{http://www.w3.org/2000/svg}script"))
    assert EVIL[:20] in next((report_folder / "pictures").glob("*scores.svg")).read_text().replace("&lt;", "<")


# --- tables -----------------------------------------------------------------------------------------------------------

TABLE = Table(
    *("made", "Made up", "Of nothing."),
    (Column("system", "system"), Column("score", "score", "share"), Column("cost", "cost", "money")),
    ((EVIL, Interval(-0.5, -0.75, 0.25, 4), None), (Nested("@b"), None, 0.00125)),
)


def test_csv_cells_cannot_be_formulas(report_folder: Path) -> None:
    assert as_csv(TABLE).splitlines() == [
        "system,score,score_low,score_high,cost",
        f"'{EVIL},-0.5,-0.75,0.25,",
        "'@b,,,,0.00125",
    ]
    for file in (report_folder / "tables").glob("*.csv"):
        with file.open(newline="", encoding="utf-8") as lines:
            rows = list(csv.reader(lines))
        assert len({len(row) for row in rows}) == 1
        # Formulas start with these characters. Only cells with numbers may start with them.
        for cell in (cell for row in rows for cell in row if cell.startswith(("=", "+", "-", "@"))):
            assert float(cell) is not None


def test_latex_tables_are_escaped_and_well_formed(report_folder: Path) -> None:
    made = as_latex(TABLE, "tab:made")
    assert r"=\$x\textasciicircum{}\{\$|1\textless{}script src='http://x.example/a.js'\textgreater{}" in made
    assert r"& {-}" not in made
    lines = made.splitlines()
    start = lines.index(r"\toprule")
    assert lines[start : start + 5] == [
        r"\toprule",
        r"system & score & cost \\",
        r"\midrule",
        lines[start + 3],
        r"\quad @b & -- & 0.0013 \\",
    ]
    for file in [*(report_folder / "tables").glob("*.tex")]:
        lines = [line for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith("%")]
        plain = [re.sub(r"\\[&%$#_{}]", "", line) for line in lines]
        assert sum(line.count("{") - line.count("}") for line in plain) == 0
        rows = [line for line in plain if line.endswith(r"\\")]
        assert len({row.count("&") for row in rows}) == 1
        assert not [line for line in plain if set(line) & set("$#^~")]
        assert [line for line in lines if line in (r"\toprule", r"\midrule", r"\bottomrule")] == [
            *(r"\toprule", r"\midrule", r"\bottomrule")
        ]
    assert {file.stem for file in (report_folder / "tables").glob("*.tex")} == {
        file.stem for file in (report_folder / "tables").glob("*.csv")
    }


def test_markdown_and_html_in_cells_are_escaped(report_folder: Path) -> None:
    made = as_markdown(TABLE)
    rows = [" ".join(row.split()) for row in made.split("\n\n")[1].splitlines()]
    assert [len(re.findall(r"(?<!\\)\|", row)) for row in rows] == [4] * 4
    assert "| -0.500 [-0.750, 0.250] | unknown |" in rows[2]
    assert rows[3] == "| &emsp;@b | – | 0.0013 |"
    assert "<script" not in (report_folder / "report.md").read_text(encoding="utf-8")


def test_the_markdown_report_links_every_picture(report_folder: Path) -> None:
    text = (report_folder / "report.md").read_text(encoding="utf-8")
    linked = re.findall(r"^!\[.*\]\((pictures/[^)]*)\)$", text, re.M)
    assert len(linked) == len(PICTURES)
    assert all((report_folder / name).is_file() for name in linked)


@pytest.mark.parametrize(
    ("cell", "kind", "expected"),
    [
        (0.00004, "p", "< 0.001"),
        (-0.0001, "signed", "+0.000"),
        (1234567, "count", "1,234,567"),
        (None, "money", "unknown"),
    ],
)
def test_cells_are_formatted_by_their_kind(cell: float | None, kind: str, expected: str) -> None:
    assert format_cell(cell, kind) == expected  # type: ignore[arg-type]
