"""Tests of the page in a real browser: debates from the form to the report, unsafe markup, and narrow screens."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from markdown_it import MarkdownIt
from moot.transcript.report.codes import words_for
from moot.transcript.report.report import report
from moot.web import debates

from tests.papers import pdf
from tests.web.conftest import EARLIER, MARKUP, Served, Wire
from tests.web.documents import CLAIM, PAYLOADS, a_debate, contents, full_of, with_evidence

if TYPE_CHECKING:
    from playwright.async_api import Page

LEXICAL = [{"name": name, "retriever": "bm25:demo-news"} for name in ("rag", "search")]
QUICK = {"embedder": "openai:stub-embedding", "debaters": LEXICAL}
MODELS = QUICK | {"models": {role: f"openai:stub-{role}" for role in ("rag", "search", "scorer", "judge")}}
SLOW = QUICK | {"model": "openai:slow", "max_rounds": 2, "scoring": "consensus_only"}
BOX, EXPERT, GO = "A claim, an article or a web address", "#expert > summary", "Check it"
SUPPORTED = re.compile("^Supported, without a verified quote|^Supported by the evidence found")
UNSAFE_LINKS = """() => [...document.querySelectorAll('a[href]')].map((a) => a.getAttribute('href'))
    .filter((href) => !/^(https?:|#|\\/moot)/.test(href))"""
FOREIGN_TAGS = "document.querySelectorAll('body :is(script, img, iframe, object, video, audio, style, math)').length"
FOCUSED_LABEL = """() => {
    const { activeElement: of } = document;
    return (of.labels?.[0] ?? of).innerText.trim();
}"""
UNLABELLED_FIELDS = """() => [...document.querySelectorAll('input, select, textarea')]
    .filter((one) => !one.labels.length && !one.getAttribute('aria-label')).map((one) => one.id)"""


async def start(page: Page, claim: str, settings: dict[str, Any], server: str = "", graph: str = "tool_mad") -> None:
    """Fill in the form, and start a debate."""
    await page.goto(f"{server}/moot")
    await page.get_by_label(BOX).fill(claim)
    await page.locator(EXPERT).press("Enter")
    await page.get_by_label("Method", exact=True).select_option(graph)
    await page.get_by_label("Settings as JSON").fill(json.dumps(settings))
    await page.get_by_role("button", name=GO).click()


async def tab_to(page: Page, name: str) -> None:
    """Press Tab, at most 100 times, until the label of the focused control starts with ``name``."""
    for _ in range(100):
        await page.keyboard.press("Tab")
        if str(await page.evaluate(FOCUSED_LABEL)).startswith(name):
            return
    raise AssertionError(f"Tab did not reach {name!r}")


def stored_document(served: Served, page: Page) -> dict[str, Any]:
    """The stored document of the debate that a page shows."""
    document: dict[str, Any] = contents(served.home)[page.url.rpartition("/")[2]]
    return document


async def test_a_claim_is_checked_saved_as_a_report_and_filled_in_again(
    page: Page, served: Served, tmp_path: Path
) -> None:
    """The saved report shows what the page shows. For another check, the form is filled in with the same inputs."""
    await page.goto("/moot")
    await page.get_by_label(BOX).wait_for()
    await page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    assert await page.evaluate(UNLABELLED_FIELDS) == []
    await start(page, CLAIM + MARKUP, MODELS | {"max_rounds": 0})
    await page.get_by_text("max_rounds: Input should be greater than or equal to 1").wait_for()
    await page.get_by_text("More options").click()
    await page.get_by_label("Who said it").fill("Ada")
    await page.get_by_label("When it was said").fill("2020-10")
    await page.get_by_label("Settings as JSON").fill(json.dumps(MODELS | {"max_rounds": 1}))
    await page.get_by_role("button", name=GO).click()  # the claim is still in the form
    await page.get_by_role("heading", name=SUPPORTED).wait_for()
    document = stored_document(served, page)
    assert document["claim"] == CLAIM + MARKUP
    assert (document["task"]["speaker"], document["task"]["claim_date"]) == ("Ada", "2020-10")
    assert await page.evaluate(FOREIGN_TAGS) == 0
    shown = await page.locator("main").inner_html()
    async with page.expect_download() as downloading:
        await page.get_by_text("Save", exact=True).click()
        await page.get_by_role("link", name="Report (HTML)").click()
    await (await downloading.value).save_as(tmp_path / "report.html")
    await page.goto((tmp_path / "report.html").as_uri())
    assert await page.locator("main").inner_html() == shown

    await page.goto(f"{served.url}/moot/debates")
    await page.get_by_role("link", name=CLAIM[:30]).first.click()
    await page.get_by_role("heading", name=SUPPORTED).wait_for()
    await page.get_by_role("link", name="Check again, with changes").click()
    assert await page.get_by_label(BOX).input_value() == CLAIM + MARKUP
    assert await page.get_by_label("Who said it").input_value() == "Ada"
    assert (
        json.loads(await page.get_by_label("Settings as JSON").input_value())["debaters"][0]["retriever"]
        == "bm25:demo-news"
    )


async def test_a_past_check_is_found_by_its_words_and_deleted(
    page: Page, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOOT_HOME", str(served.home))
    for claim in ("Zebras have stripes.", "Zebras have spots."):
        debates.save(await a_debate() | {"claim": claim})
    await page.goto("/moot/debates")
    await page.get_by_label("Find in claims").fill("zebras SPOTS")
    await page.keyboard.press("Enter")
    await page.get_by_role("heading", name="Past checks with").wait_for()
    assert await page.locator(".checks > li > a").all_inner_texts() == ["Zebras have spots."]
    await page.locator(".checks > li > a").click()
    await page.get_by_role("button", name="Delete").click()
    await page.get_by_role("button", name="Delete for good").click()
    await page.wait_for_url("**/moot/debates")
    await page.goto("/moot/debates?q=zebras")
    await page.get_by_role("link", name="Zebras have stripes.").wait_for()
    assert await page.locator(".checks > li").count() == 1
    await page.goto("/moot/debates?q=nothing+like+it")
    await page.get_by_text("No check matches.").wait_for()


async def test_the_form_shows_what_a_choice_costs_or_why_it_is_unavailable(page: Page) -> None:
    await page.goto("/moot")
    assert await page.get_by_label("Web", exact=True).is_disabled()
    await page.get_by_text("No web search is set up. Without a key: pip install").first.wait_for()
    used = page.locator("#used")
    await used.get_by_text("Will be used: Wikipedia.").wait_for()
    line = page.locator("#line")
    await line.get_by_text("Expected: 3 to 18 calls").wait_for()
    await page.get_by_label("Quick check").check()
    await line.get_by_text("Expected: 2 to 4 calls, 660 to 9,200 tokens").wait_for()
    await page.get_by_label("Built in").check()
    assert (await line.inner_text()).startswith("Free.")
    await page.get_by_label("My documents", exact=True).check()
    await used.get_by_text("There are no documents yet").wait_for()
    await page.get_by_label(BOX).fill(CLAIM)
    await page.get_by_role("button", name=GO).click()
    await page.get_by_role("alert").get_by_text("There are no documents yet").wait_for()
    await page.locator(EXPERT).press("Enter")
    await page.get_by_label("Method", exact=True).select_option("cortex_debate")
    await page.get_by_text("This method does not search").wait_for()


async def test_several_kinds_of_evidence_are_ticked(page: Page, served: Served) -> None:
    """With a web search, the page starts with the web, and says which one. The debaters share the kinds."""

    async def with_web(route: Any) -> None:
        found = await (await route.fetch()).json()
        found["lacks"]["web"], found["web"] = "", "By SearXNG at search.example"
        await route.fulfill(json=found)

    await page.route("**/moot/api/choices", with_web)
    await page.goto("/moot")
    web = page.get_by_label("Web", exact=True)
    await page.locator("#evidence-web-about").get_by_text("By SearXNG at search.example").wait_for()
    assert await web.is_checked()
    assert not await page.get_by_label("Wikipedia").is_checked()
    await web.uncheck()
    await page.get_by_text("Tick at least one kind of evidence").wait_for()
    await page.get_by_label("My documents", exact=True).check()
    await page.get_by_label("Wikipedia").check()
    await page.get_by_label("And search in").select_option("demo-news")
    await page.get_by_text("Will be used: The collection “demo-news”").wait_for()
    await page.get_by_label(BOX).fill(CLAIM)
    await page.locator(EXPERT).press("Enter")
    settings = {name: value for name, value in MODELS.items() if name != "debaters"} | {"max_rounds": 1}
    await page.get_by_label("Settings as JSON").fill(json.dumps(settings))
    await page.get_by_role("button", name=GO).click()
    await page.wait_for_url("**/moot/debates/*")
    debaters = stored_document(served, page)["settings"]["debaters"]
    assert [one["retriever"] for one in debaters] == ["hybrid:demo-news", "wikipedia"]


async def add_search_key(route: Any) -> None:
    """Answer a request for the form's choices as a server with a key for web search does."""
    response = await route.fetch()
    found = await response.json()
    await route.fulfill(response=response, json=found | {"lacks": {**found["lacks"], "web": ""}})


async def test_the_form_says_that_pages_are_read_unless_they_are_not(page: Page) -> None:
    await page.route("**/moot/api/choices", add_search_key)
    await page.goto("/moot")
    line = page.locator("#line")
    await page.get_by_label("Web", exact=True).check()
    await line.get_by_text("fetched and read").wait_for()
    assert "pages that the web search finds are fetched and read" in await line.inner_text()
    await page.locator(EXPERT).press("Enter")
    await page.get_by_text("Searching", exact=True).click()
    await page.get_by_label("Read the pages that a web search finds").select_option("no")
    assert "fetched and read" not in await line.inner_text()


async def remove_key(route: Any) -> None:
    """Answer a request for the form's choices as a server without a key does."""
    response = await route.fetch()
    found = await response.json()
    lacks = {"web": "", found["model"]: "Needs a key"}
    await route.fulfill(response=response, json=found | {"lacks": lacks, "unset": True})


@pytest.mark.parametrize("width", [1280, 390])
async def test_a_newcomer_reads_what_moot_does_and_how_to_get_a_model(page: Page, width: int) -> None:
    await page.set_viewport_size({"width": width, "height": 844})
    await page.goto("/moot")
    what = page.get_by_text("Language models search for evidence, argue over it, and quote the passages")
    await what.wait_for()
    assert await page.locator("#first-model").count() == 0  # the test server has a model
    await page.route("**/moot/api/choices", remove_key)
    await page.goto("/moot")
    await what.wait_for()
    said = await page.locator("#first-model").inner_text()
    assert "ollama:qwen3:8b" in said
    assert "export OPENAI_API_KEY=" in said
    await page.get_by_label("Built in").check()
    await page.get_by_text("The built-in model only shows how a check runs: its verdict will mean nothing.").wait_for()
    await page.get_by_role("link", name="See a finished check").click()
    await page.get_by_role("heading", name="The International Space Station has been inhabited").wait_for()
    assert await page.locator("mark").count() > 0
    await page.get_by_role("link", name="Check a claim of your own").click()
    await page.get_by_label(BOX).wait_for()


async def test_without_a_key_a_person_must_choose_the_model(page: Page) -> None:
    await page.route("**/moot/api/choices", remove_key)
    await page.goto("/moot")
    await page.get_by_label(BOX).fill(CLAIM)
    assert await page.locator("input[name=model]:checked").count() == 0
    await page.get_by_role("button", name=GO).click()
    await page.get_by_text("Choose a model.").wait_for()
    await page.get_by_label("Built in").check()
    assert (await page.locator("#line").inner_text()).startswith("Free.")


async def test_a_person_answers_questions_after_leaving_and_reloading_the_page(page: Page, served: Served) -> None:
    """The person changes a query; then strikes one piece of evidence and adds another."""
    # Without a plan, each debater has a query of its own.
    asked = {"ask_person": ["queries", "evidence"], "plan": False, "max_rounds": 1, "scoring": "all_rounds"}
    await start(page, CLAIM, MODELS | asked)
    await page.get_by_label("Search of Debater A").wait_for()
    await page.get_by_role("link", name="Past checks").click()
    # The list has a link back to the question.
    await page.get_by_role("listitem").filter(has_text="waits for your answer").get_by_role("link").click()
    await page.get_by_label("Search of Debater A").fill("What do monotremes lay?")
    await page.get_by_role("button", name="Send").click()
    await page.get_by_label("Strike").last.wait_for()
    await page.reload()
    # The page shows the question again.
    await page.get_by_label("Strike").first.check()
    await page.get_by_role("button", name="Add a text").first.click()
    await page.get_by_label("Title").fill("A note")
    await page.get_by_label("Text", exact=True).fill("Monotremes lay leathery eggs.")
    await page.get_by_role("button", name="Send").click()
    await page.get_by_role("heading", name=SUPPORTED).wait_for()
    card = await page.locator(".record .card", has_text="A person").first.text_content() or ""
    assert "What do monotremes lay?" in card
    added = page.locator(".src > li", has_text="added by a person").locator("h3")
    assert await added.all_text_contents() == ["A note"]
    [note] = [piece for piece in stored_document(served, page)["evidence"] if piece["title"] == "A note"]
    assert note["text"] == "Monotremes lay leathery eggs."
    assert [bool(piece.get("struck")) for piece in stored_document(served, page)["evidence"]].count(True) == 1


TRIAL = {
    "model": "openai:stub-trial",
    "embedder": "openai:stub-embedding",
    "max_rounds": 1,
    "sources": ["bm25:demo-news"],
    "judges": 1,
    "progressive_retrieval": False,
}
ASKED: dict[str, tuple[str, dict[str, Any], str, str, str, dict[str, Any]]] = {
    "premises": ("proclaim", TRIAL, "Premises", "It is a monotreme.", "premise", {"premises": ["It is a monotreme."]}),
    "remark": (
        *("tool_mad", MODELS | {"max_rounds": 2, "scoring": "all_rounds"}, "Your remark", "Mind the echidnas."),
        *("remarks", {"remark": "Mind the echidnas."}),
    ),
    "verdict": (
        *("tool_mad", MODELS | {"max_rounds": 1, "scoring": "all_rounds"}, "Your question", "What of echidnas?"),
        *("questions", {"question": "What of echidnas?"}),
    ),
}
"""By the value of ``ask_person``: graph, settings, label of the field, typed text, action, and fields of the turn."""


@pytest.mark.parametrize("moment", ASKED)
async def test_a_person_answers_by_keyboard(page: Page, served: Served, moment: str) -> None:
    graph, settings, field, typed, action, written = ASKED[moment]
    await start(page, CLAIM, settings | {"ask_person": [moment]}, graph=graph)
    await page.locator("h2:focus", has_text="The debate waits for your answer").wait_for()
    await tab_to(page, field)
    await page.keyboard.press("Control+A")
    await page.keyboard.type(typed)
    await tab_to(page, "Send")
    await page.keyboard.press("Enter")
    if moment == "verdict":  # the judge answers the question, and the new verdict is shown
        await page.locator("textarea:focus", has_text=typed).wait_for(state="detached")
        await page.locator("h2:focus", has_text="The debate waits for your answer").wait_for()
        await tab_to(page, "Accept everything")
        await page.keyboard.press("Enter")
    await page.locator(".verdict h2").wait_for()
    turn = next(turn for turn in stored_document(served, page)["turns"] if turn["agent"] == "person")
    assert written.items() <= turn.items()
    for kind in ("md", "html"):
        text = await (await page.request.get(f"/moot/api/debates/{page.url.rpartition('/')[2]}/{kind}")).text()
        label = words_for("does", action)
        assert re.search(rf"A person.*{label}.*{typed[:-1]}", text.replace("\\", ""), re.DOTALL), kind


async def test_evidence_given_with_a_claim_can_be_struck_in_another_branch(page: Page, served: Served) -> None:
    """The evidence comes from files. The page names the files and texts that it cannot use."""
    await page.goto("/moot")
    await page.get_by_role("button", name="Add documents").click()
    files: list[Any] = [
        {"name": "eggs.txt", "mimeType": "text/plain", "buffer": "Ei 🥚.".encode()},
        {"name": "more.jsonl", "mimeType": "", "buffer": b'{"text": "Milk.", "title": "Milk", "id": "own-1"}\n'},
        {"name": "bad.jsonl", "mimeType": "", "buffer": b'{"text": "x"}\n{"title": "x"}'},
        {"name": "bad.txt", "mimeType": "text/plain", "buffer": b"\xff"},
        {"name": "report.pdf", "mimeType": "", "buffer": pdf(["It was opened in 1869.", "It has no locks."])},
    ]
    await page.get_by_label("choose files").set_input_files(files)
    await page.get_by_text("bad.jsonl, line 2: not an object with a `text`.").wait_for()
    await page.get_by_text("bad.txt cannot be read: its encoding is not declared").wait_for()
    await page.get_by_text("report.pdf: 2 pages, ").click()
    await page.get_by_text("Page 2").wait_for()
    await page.get_by_role("button", name="Add a text").click()
    await page.keyboard.type("Fur")  # the new text's title has the focus
    await page.get_by_label(BOX).fill(CLAIM)
    await page.locator(EXPERT).press("Enter")
    await page.get_by_label("Settings as JSON").fill(json.dumps(MODELS | {"max_rounds": 1, "scoring": "all_rounds"}))
    await page.get_by_role("button", name=GO).click()
    await page.get_by_text("Text 3: it has a title but no text.").wait_for()
    await page.get_by_role("button", name="Remove").last.click()
    await page.get_by_role("button", name=GO).click()
    await page.get_by_role("heading", name=SUPPORTED).wait_for()
    given = page.locator(".src > li", has_text="given with the claim").locator("h3")
    assert sorted(await given.all_text_contents()) == ["Milk", "eggs", "report", "report"]
    [milk] = [piece for piece in stored_document(served, page)["evidence"] if piece["id"] == "own-1"]
    assert (milk["text"], milk["title"]) == ("Milk.", "Milk")

    first = page.url
    await page.get_by_role("button", name="Repeat a step with other evidence").click()
    await page.get_by_label("Repeat the debate from this step").select_option(label="judge (after round 1)")
    await page.get_by_label("Strike Milk").check()
    await page.get_by_role("button", name="Continue from this step").click()
    await page.wait_for_url(lambda url: "/debates/" in url and url != first)
    document = stored_document(served, page)
    assert [piece["id"] for piece in document["evidence"] if piece.get("struck")] == ["own-1"]
    assert [turn["struck"] for turn in document["turns"] if turn["agent"] == "person"] == [["own-1"]]
    assert len([turn for turn in document["turns"] if turn["step"] == "judge"]) == 1
    await page.get_by_role("link", name="Check again, with changes").click()
    assert await page.get_by_label("Title").first.input_value() in {"eggs", "Milk", "report"}


async def test_the_form_sends_the_selected_preset_and_shows_its_defaults(page: Page) -> None:
    sent: list[Mapping[str, Any]] = []

    async def refuse(route: Any) -> None:
        sent.append(route.request.post_data_json)
        await route.fulfill(status=422, json={"detail": f"request {len(sent)}"})

    await page.route("**/runs/stream", refuse)
    await page.goto("/moot")
    await page.get_by_label(BOX).fill(CLAIM)
    await page.locator(EXPERT).press("Enter")
    for number, (preset, shown) in enumerate({"practical": "yes", "paper": "no"}.items(), 1):
        await page.get_by_label("Preset").select_option(preset)
        assert await page.locator("#setting-read_pages option").first.text_content() == f"by default: {shown}"
        await page.get_by_role("button", name=GO).click()
        await page.get_by_text(f"request {number}").wait_for()
        context = sent[-1]["context"]
        assert (context.pop("preset"), {*context}) == (preset, {"model", "debaters"})


async def test_the_page_follows_a_debate_again_after_a_lost_connection(page: Page, wire: Wire) -> None:
    await start(page, CLAIM, SLOW, f"http://127.0.0.1:{wire.port}")
    await page.locator(".turn").first.wait_for()
    await wire.cut()
    await page.get_by_text("Trying again").first.wait_for()
    assert await page.locator(".turn dt", has_text="Answered").count() == 0  # no answer has arrived yet
    await wire.mend()
    await page.locator(".verdict h2").wait_for()
    assert await page.locator(".record .card h3").count() >= 2


async def test_a_debate_is_stopped_and_resumed(page: Page) -> None:
    await start(page, CLAIM, SLOW | {"max_rounds": 20, "scoring": "all_rounds"})
    await page.locator(".turn").first.wait_for()
    await page.locator(".holding th", has_text="reads").nth(1).wait_for()  # each debater's row names its source
    await page.get_by_role("button", name="Stop").click()
    await page.get_by_role("heading", name="No verdict").wait_for()
    assert await page.locator(".record .card").count() >= 1  # partial output of an unfinished step
    await page.get_by_role("button", name="Go on").click()
    await page.get_by_role("button", name="Stop").click()
    await page.get_by_role("heading", name="No verdict").wait_for()


async def test_no_payload_is_executed(
    page: Page, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOOT_HOME", str(served.home))
    debate = await a_debate()
    document = full_of(debate, PAYLOADS)
    # Each turn keeps only the fields that it had before.
    fields = [[*turn] for turn in debate["turns"]]
    document["turns"] = [{f: turn[f] for f in of} for turn, of in zip(document["turns"], fields, strict=True)]
    (tmp_path / "document.json").write_text(json.dumps(document))
    await page.goto("/moot/debates")
    await page.get_by_text("Import a check from a file").click()
    await page.get_by_label("Import a document").set_input_files(tmp_path / "document.json")
    await page.locator(".src").last.wait_for(state="attached")
    await page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    assert await page.locator(".src > li").count() == len(PAYLOADS)
    assert await page.evaluate(FOREIGN_TAGS) == 0
    assert await page.evaluate(UNSAFE_LINKS) == []
    assert await page.evaluate("String(window.ran)") == "undefined"
    html = report(document, "html"), MarkdownIt("commonmark").render(report(document, "md"))
    for number, text in enumerate(html):
        (tmp_path / f"{number}.html").write_text(text)
        await page.goto((tmp_path / f"{number}.html").as_uri())
        assert await page.evaluate(FOREIGN_TAGS) == 0
        assert await page.evaluate(UNSAFE_LINKS) == []
        assert await page.evaluate("String(window.ran)") == "undefined"


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (1280, "dark")])
async def test_a_debate_with_500_pieces_of_evidence_is_shown(
    page: Page, served: Served, monkeypatch: pytest.MonkeyPatch, width: int, scheme: Any
) -> None:
    monkeypatch.setenv("MOOT_HOME", str(served.home))
    document = with_evidence(await a_debate(), 500)
    document["evidence"][1]["shown"] = [[2, 12], [17, 21]]
    id = debates.save(document)
    await page.emulate_media(color_scheme=scheme)
    await page.set_viewport_size({"width": width, "height": 800})
    await page.goto(f"/moot/debates/{id}")
    await page.get_by_text("Found, but not quoted").wait_for()
    assert await page.locator(".src > li").count() >= 500
    assert await page.evaluate("document.documentElement.scrollWidth") <= width
    await page.locator("a.cite").first.focus()
    await page.keyboard.press("Enter")  # leads to the quoted source
    assert page.url.endswith("#s1")
    assert await page.locator("#s1 mark").all_text_contents() == ["lay eggs 🥚, as echidnas"]
    cut = page.locator(".src > li", has_text="shown in part").locator("blockquote")
    assert await cut.all_text_contents() == ["Platypuses [...] eggs [...]", document["evidence"][1]["text"]]
    await page.goto(f"/moot/debates/{id}#s123")  # a link to a source unfolds its section
    await page.locator("#s123").wait_for(state="visible")


async def test_a_caveat_is_shown_once_before_and_after_the_verdict_is_accepted(page: Page, served: Served) -> None:
    down = "langchain:tests.transcript.shelf:down"
    debaters = [{"name": "rag", "retriever": down}, {"name": "search", "retriever": "bm25:demo-news"}]
    asked = {"ask_person": ["verdict"], "max_rounds": 2, "scoring": "all_rounds", "debaters": debaters, "attempts": 1}
    await start(page, CLAIM, MODELS | asked)
    await page.locator("h2:focus", has_text="The debate waits for your answer").wait_for()
    caveat = page.locator(".warning", has_text="A source failed.")
    await caveat.wait_for()
    assert await caveat.count() == 1  # one caveat, although the source failed in both rounds
    await page.get_by_role("button", name="Accept everything").click()
    await page.get_by_role("heading", name=SUPPORTED).wait_for()
    assert await caveat.count() == 1
    assert await page.locator(".verdict .warning", has_text="A source failed.").count() == 1


async def test_a_claim_that_was_checked_before_is_checked_again_only_on_purpose(page: Page) -> None:
    await page.unroute(EARLIER)
    claim = "The Suez Canal was dug in ten years, all of it by hand."
    settings = MODELS | {"max_rounds": 1}
    await start(page, claim, settings)
    await page.get_by_role("heading", name=SUPPORTED).wait_for()
    await start(page, f"{claim[:-1]}!", settings)
    found = page.locator(".earlier", has_text="Checked before")
    await found.get_by_role("link", name="Supported").wait_for()
    await page.get_by_role("button", name="Check it anyway").click()
    await page.get_by_role("heading", name=SUPPORTED).wait_for()
