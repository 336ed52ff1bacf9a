"""The setting `read_pages`, on a web of a hundred scripted websites (`tests.scripted_web`)."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from moot.core.store import Store, open_store
from moot.graphs.rag import RagSettings
from moot.graphs.rag import graph as rag
from moot.graphs.tool_mad import ToolMadSettings
from moot.graphs.tool_mad import graph as tool_mad
from moot.nodes._models import stored_pages
from moot.nodes._models.replies import StoreUse, store_use
from moot.retrievers import _pages

from tests.conftest import StartStub
from tests.retrievers.conftest import Serve, serve  # noqa: F401
from tests.retrievers.vendors import OPENALEX, WORK, starter
from tests.scripted_web import ORDER, ScriptedWeb, Site, all_sites, environment, scripted_web

SITES = all_sites()
pytestmark = pytest.mark.allow_hosts(["127.0.0.1", *(site.host for site in SITES)])
"""The hosts that a test may connect to; pytest-socket fails it for any other."""
REPLY = {"fields": {"answer": "SUPPORTS", "rationale": "So it says.", "citations": []}}


@pytest.fixture(scope="module")
def web() -> Iterator[ScriptedWeb]:
    with scripted_web() as running:
        yield running


@pytest.fixture(autouse=True)
def _on_the_web(web: ScriptedWeb, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment(web).items():
        monkeypatch.setenv(name, value)
    web.requests.clear()


async def check(site: Site, **settings: Any) -> dict[str, Any]:
    """A debate on a website's claim; its results are the page of this site and one other."""
    chosen = {"model": "openai:stub", "sources": ["serper"], "k": 1, "read_pages": True, **settings}
    asked: Any = {"claim": site.claim, "appeared_at": chosen.pop("appeared_at", None)}
    document: dict[str, Any] = await rag.ainvoke(asked, context=RagSettings.model_validate(chosen))
    assert document["status"] == "done", document["error"]
    return document


def flat(text: str) -> str:
    return " ".join(text.split())


async def test_the_decisive_sentence_reaches_the_prompts_of_nearly_all_readable_claims(
    start_stub: StartStub, web: ScriptedWeb
) -> None:
    stub = start_stub([REPLY])
    readable = [site for site in SITES if site.is_readable]
    reached: list[Site] = []
    for site in readable:
        await check(site)
        prompt = flat(stub.prompts()[-1])
        assert ORDER not in prompt or "‹/evidence›" in prompt  # a page cannot close its tag
        reached += [site] if site.decisive in prompt else []
    await check(readable[0], read_pages=False)
    assert readable[0].decisive not in flat(stub.prompts()[-1])
    missed = [site for site in readable if site not in reached]
    assert len(reached) >= 0.95 * len(readable), missed
    assert {path for _, path in web.requests} <= {"/robots.txt", "/page", "/moved"}  # no pictures, no scripts


def site_of(kind: str, number: int = 0) -> Site:
    return [site for site in SITES if site.kind == kind][number]


@pytest.mark.parametrize("kind", ["shell", "cookies", "pay", "missing", "forbidden", "loop"])
async def test_a_page_that_cannot_be_read_keeps_its_snippet_and_one_warning_says_why(
    kind: str, start_stub: StartStub, web: ScriptedWeb
) -> None:
    stub, site = start_stub([REPLY]), site_of(kind)
    document = await check(site)
    [piece] = document["evidence"]
    assert (piece["snippet"], "fetched" in piece) == (True, False)
    assert "(a search engine's snippet: the page was not read)" in stub.prompts()[-1]
    [warned] = [warning["detail"] for warning in document["warnings"] if warning["kind"] == "pages_not_read"]
    assert web.url(site) in warned
    whys = {"missing": "HTTP 404", "forbidden": "robots.txt forbids it", "loop": "redirects more than 5 times"}
    assert whys.get(kind, "it ") in warned
    assert ((site.host, "/page") in web.requests) == (kind not in ("forbidden", "loop"))


@contextmanager
def replaced(web: ScriptedWeb, site: Site, place: int | None = None) -> Iterator[Site]:
    """Context manager: puts a website in the place of another one."""
    place = site.number if place is None else place
    before, web.sites[place] = web.sites[place], site
    try:
        yield site
    finally:
        web.sites[place] = before


async def test_a_page_that_shows_less_than_its_snippet_does_not_replace_it(
    start_stub: StartStub, web: ScriptedWeb
) -> None:
    start_stub([REPLY])
    with replaced(web, Site(4, SITES[4].name, "loading")) as loading:
        document = await check(loading)
    assert document["evidence"][0]["snippet"]
    assert "it shows less text than the snippet" in document["warnings"][0]["detail"]


@pytest.mark.parametrize("setting", ["sites_never", "sites_only"])
async def test_a_page_that_a_redirect_finds_on_another_site_is_left_out_as_that_site_is(
    setting: str, start_stub: StartStub, web: ScriptedWeb
) -> None:
    start_stub([REPLY])
    other = SITES[5].host
    with replaced(web, Site(6, SITES[6].name, "elsewhere")) as site:
        document = await check(site, **{setting: [other if setting == "sites_never" else site.host]})
    assert other not in " ".join(piece["url"] for piece in document["evidence"])
    assert "sites_left_out" in {warning["kind"] for warning in document["warnings"]}


@dataclass(frozen=True)
class Mirror(Site):
    """A copy of a website at the address of another one."""

    at: int

    @property
    def host(self) -> str:
        return SITES[self.at].host


async def test_copies_of_the_claims_page_are_no_evidence_also_if_no_search_finds_that_page(
    start_stub: StartStub, web: ScriptedWeb
) -> None:
    stub, own = start_stub([REPLY]), site_of("article", 3)
    with replaced(web, Mirror(own.number, own.name, own.kind, 99), 99) as mirror:
        document = await check(own, appeared_at=web.url(own), sites_never=[own.host])
        assert mirror.host not in " ".join(piece["url"] for piece in document["evidence"])
        assert own.decisive not in flat(stub.prompts()[-1])
        assert "claim_page_left_out" in {warning["kind"] for warning in document["warnings"]}
        unknown = await check(own, appeared_at=web.url(site_of("missing")), sites_never=[own.host])
    assert mirror.host in " ".join(piece["url"] for piece in unknown["evidence"])
    [warned] = [warning["detail"] for warning in unknown["warnings"] if warning["kind"] == "claim_page_not_read"]
    assert "HTTP 404" in warned


async def test_the_page_to_which_the_claims_address_redirects_is_the_claims_own_page(
    start_stub: StartStub, web: ScriptedWeb
) -> None:
    start_stub([REPLY])
    site = site_of("text")  # without a date: with a day, its snippet is shown, which is no copy of the page
    with replaced(web, Site(site.number + 1, SITES[site.number + 1].name, "elsewhere")) as short:
        document = await check(site, appeared_at=web.url(short), published_before="2015-03-03")
    assert site.host not in " ".join(piece["url"] for piece in document["evidence"])


async def test_robots_txt_need_not_be_respected(start_stub: StartStub, web: ScriptedWeb) -> None:
    stub, site = start_stub([REPLY]), site_of("forbidden", 1)
    await check(site, respect_robots=False)
    assert site.decisive in flat(stub.prompts()[-1])
    assert "/robots.txt" not in {path for _, path in web.requests}


async def test_a_page_is_read_once_a_debate_and_its_place_and_hash_are_recorded(
    start_stub: StartStub, web: ScriptedWeb
) -> None:
    start_stub([REPLY])
    site = site_of("redirect")
    document = await check(site)
    [piece] = document["evidence"]
    assert piece["url"] == f"http://{site.host}:{web.port}/page"
    assert piece["source"] == web.url(site)
    assert (piece["publisher"], piece["published"], len(piece["sha256"])) == (f"{site.name} Gazette", "2015-03-02", 64)
    assert piece["fetched"].endswith("+00:00")
    assert not document["warnings"]


@pytest.fixture
async def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Store]:
    """A new store in a new home folder."""
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
    opened = open_store()
    yield opened
    await asyncio.to_thread(opened.close)


@pytest.mark.parametrize("kind", ["article", "missing"])
async def test_a_replay_reads_kept_pages_and_no_others_and_they_are_deleted_with_their_debate(
    kind: str, start_stub: StartStub, web: ScriptedWeb, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_stub([REPLY])
    site = site_of(kind, 1)
    with store_use(StoreUse("record")):
        first = await check(site)
    kept = [reply for reply in store.replies(first["id"]).values() if reply.kind == "page"]
    [page] = [reply for reply in kept if site.host in reply.about["url"]]
    assert page.failed == (kind == "missing")
    if kind == "article":
        value = page.value
        assert {value[name] for name in ("url", "title", "publisher")} == {
            web.url(site),
            site.name,
            f"{site.name} Gazette",
        }
        assert (value["status"], value["published"], site.decisive in flat(value["text"])) == (200, "2015-03-02", True)
    web.requests.clear()
    with store_use(StoreUse("replay", id=first["id"])):
        second = await check(site)
    assert web.requests == []
    assert [(p["id"], p["text"], p.get("fetched")) for p in second["evidence"]] == [
        (p["id"], p["text"], p.get("fetched")) for p in first["evidence"]
    ]
    assert [w["detail"] for w in second["warnings"]] == [w["detail"] for w in first["warnings"]]
    with store_use(StoreUse("record", adopt=False)):
        await check(site, seed=2)
    # A page that was read is not read again within a day; one that could not be read may be there now.
    assert ((site.host, "/page") in web.requests) == (kind == "missing")
    store.delete(first["id"])
    assert store.replies(first["id"]) == {}


async def test_a_debate_takes_at_most_one_slowest_page_longer(
    start_stub: StartStub, web: ScriptedWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_stub([{"fields": {"query": "Alder Brant", "answer": "SUPPORTS", "citations": []}}])
    readers = [{"name": name, "retriever": "serper"} for name in ("one", "two")]
    settings: dict[str, Any] = {"model": "openai:stub", "scoring": "consensus_only", "debaters": readers}

    async def seconds(claim: str, **more: Any) -> float:
        began = time.perf_counter()
        document = await tool_mad.ainvoke(
            {"claim": claim}, context=ToolMadSettings.model_validate({**settings, "max_rounds": 2, "k": 5, **more})
        )
        assert document["status"] == "done", document["error"]
        return time.perf_counter() - began

    monkeypatch.setattr(web, "slow", 1.5)
    await seconds("Alder and Brant are old.")  # the first one also starts the reader's process
    without = await seconds("Alder and Brant are old.", read_pages=False)
    assert await seconds("Alder and Brant are old.", read_pages=True) - without < 2 * web.slow
    # Pages of hosts that never answer are given up, all of them together after the time of one.
    monkeypatch.setattr(stored_pages, "MOST_SECONDS", 1.5)
    monkeypatch.setattr(web, "sites", [Site(site.number, site.name, "dead") for site in SITES])
    _pages._rules.clear()
    assert await seconds("Alder and Brant are old.", read_pages=True) - without < 2 * 1.5


async def test_with_a_day_only_pages_with_safe_dates_are_read(start_stub: StartStub, web: ScriptedWeb) -> None:
    """The search names 2 March 2015 for each page. Pages, too, name their dates, and some a later change."""
    stub = start_stub([REPLY])
    safe, undated = site_of("article", 2), site_of("text")
    early = await check(safe, published_before="2015-03-03")
    assert safe.decisive in flat(stub.prompts()[-1])
    assert early["evidence"][0]["published"] == "2015-03-02"
    none = await check(undated, published_before="2015-03-03")
    assert none["evidence"][0]["snippet"]
    assert "it states no date of its own" in none["warnings"][0]["detail"]
    with replaced(web, Site(safe.number, safe.name, "changed")) as changed:
        late = await check(changed, published_before="2015-03-03")
    assert late["evidence"][0]["snippet"]
    assert "it was changed on 2021-05-06" in late["warnings"][0]["detail"]


async def test_instructions_in_a_page_stay_data(start_stub: StartStub) -> None:
    stub, site = start_stub([REPLY]), site_of("injection")
    await check(site, datamarking=False)
    [prompt] = stub.prompts()
    before, after = prompt.split(ORDER)
    assert before.rindex("<evidence id=") > before.rfind("</evidence>")
    assert after.lstrip().startswith("‹/evidence›")
    assert "</evidence>" in after


@pytest.mark.parametrize("kind", ["pdf", "missing"])
async def test_the_open_copy_of_a_work_is_read_instead_of_its_abstract(
    kind: str,
    serve: Serve,  # noqa: F811
    start_stub: StartStub,
    web: ScriptedWeb,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = site_of(kind)
    work = WORK | {"best_oa_location": {"pdf_url": None, "landing_page_url": web.url(site)}}
    await starter(serve, monkeypatch)(OPENALEX, found={"/works": json.dumps({"results": [work]})})
    stub = start_stub([{"fields": {**REPLY["fields"], "keywords": ["hydrocele"], "summary": "A summary."}}])
    document = await check(site, sources=["openalex"])
    [piece] = document["evidence"]
    prompt, warnings = flat(stub.prompts()[-1]), {one["kind"]: one["detail"] for one in document["warnings"]}
    if kind == "missing":
        assert (piece["open_copy"], piece["url"]) == (web.url(site), WORK["doi"])
        assert "only the abstract is shown" in warnings["pages_not_read"]
        assert "A summary." in prompt
    else:
        assert site.decisive in prompt
        assert "A summary." not in prompt  # a page is shown in passages
        assert (piece["source"], piece["url"]) == (WORK["doi"], web.url(site))
        assert "pages_not_read" not in warnings
    await check(site, sources=["openalex"], read_pages=False)
    assert "A summary." in flat(stub.prompts()[-1])
