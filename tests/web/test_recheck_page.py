"""In a real browser, the page reads the cited pages of a check again, and debates the check anew."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from moot.core.reviews import history_of
from moot.core.store import open_store
from moot.graphs.rag import RagSettings
from moot.graphs.rag import graph as rag
from moot.web import debates

from tests.conftest import StartStub, running_stub
from tests.scripted_web import ScriptedWeb, all_sites, environment, scripted_web
from tests.web.conftest import Served, serve

if TYPE_CHECKING:
    from playwright.async_api import Page

SITE = all_sites()[0]
pytestmark = pytest.mark.allow_hosts(["127.0.0.1", SITE.host])


@pytest.fixture(scope="module")
def web() -> Iterator[ScriptedWeb]:
    with scripted_web([SITE]) as running:
        yield running


@pytest.fixture(scope="module")
def served(web: ScriptedWeb, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server on a web of one page, whose model now finds nothing that supports the claim."""
    folder, before = tmp_path_factory.mktemp("looking"), dict(os.environ)
    answer = {"query": "canal", "answer": "REFUTES", "rationale": "It was later.", "citations": []}
    os.environ |= environment(web)
    try:
        with running_stub(folder / "stub", [{"fields": answer}]) as stub:
            yield from serve(folder, stub.url)
    finally:
        os.environ.clear()
        os.environ |= before


async def a_check(start_stub: StartStub) -> str:
    """The id of a check whose verdict quotes the page."""
    settings = RagSettings.model_validate({"model": "openai:stub", "sources": ["serper"], "read_pages": True})
    said: dict[str, Any] = {"query": "canal", "answer": "SUPPORTS", "rationale": "So it says.", "citations": []}
    start_stub([{"fields": said}])
    first: dict[str, Any] = await rag.ainvoke({"claim": SITE.claim}, context=settings)
    said["citations"] = [{"evidence_id": piece["id"], "quote": SITE.decisive} for piece in first["evidence"]]
    start_stub([{"fields": said}])
    return debates.save(await rag.ainvoke({"claim": SITE.claim}, context=settings))


async def test_the_page_says_what_changed_and_debates_anew_only_for_a_price(
    page: Page, served: Served, web: ScriptedWeb, start_stub: StartStub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MOOT_HOME", str(served.home))
    id = await a_check(start_stub)
    check = debates.load(id)["id"]
    await page.goto(f"/moot/debates/{id}")
    look = page.get_by_role("button", name="Read its pages again")
    await look.click()
    await page.get_by_text("unchanged; the verdict rests on it").wait_for()
    await page.locator("#review").get_by_text("Looked again: moot").wait_for()  # so that its editor has seen it
    assert await page.get_by_role("button", name="Debate it anew").count() == 0
    refused = await page.request.post(f"/moot/api/debates/{id}/anew")
    assert (refused.status, "Look at this check again first" in await refused.text()) == (422, True)
    web.changed[SITE.host] = SITE.article().replace(f"spring of {SITE.year}", f"autumn of {SITE.year + 1}")
    await look.click()
    today = page.get_by_role("region", name="The cited pages today")
    await today.get_by_text("the quote is not on the page any more").wait_for()
    await today.get_by_text(f"autumn of {SITE.year + 1}").wait_for()
    assert "Expected: " in await page.locator("#tools").inner_text()
    if folder := os.environ.get("MOOT_PICTURES"):
        await page.screenshot(path=Path(folder) / "recheck.png", full_page=True)
    await page.get_by_role("button", name="Debate it anew").click()
    await page.get_by_text("Refuted").first.wait_for()
    stem = debates.versions(check)[-1]
    anew = debates.load(stem)
    assert anew["replaces"] == {"check": check, "document": id, "answer": "SUPPORTS"}
    history = history_of(open_store(), check)
    assert [entry.person for entry in history] == ["moot"] * 3
    assert history[-1].version == anew["id"]
    again = await page.request.post(f"/moot/api/debates/{stem}/recheck")
    assert (await again.json())["changed"] is False, "the new version quotes no page"
    assert (await (await page.request.get("/moot/api/due")).json())["due"] == []
