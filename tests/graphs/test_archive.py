"""The setting `archive`: copies of cited pages in a scripted Wayback Machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiohttp import web
from moot.graphs.rag import RagSettings
from moot.graphs.rag import graph as rag
from moot.retrievers import _wayback
from moot.retrievers._wayback import why_private
from moot.transcript.report.report import report

from tests.conftest import StartStub
from tests.retrievers.conftest import Serve, serve  # noqa: F401
from tests.scripted_web import ScriptedWeb, all_sites, environment, scripted_web

SITE = all_sites()[0]
QUOTE = SITE.decisive
STAMP = "20150302101112"
pytestmark = pytest.mark.allow_hosts(["127.0.0.1", SITE.host])


@pytest.fixture(scope="module")
def site() -> Iterator[ScriptedWeb]:
    with scripted_web([SITE]) as running:
        yield running


@pytest.fixture(autouse=True)
def _on_the_web(site: ScriptedWeb, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment(site).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(_wayback, "POLLING", 0.0)


@pytest.fixture
def public(monkeypatch: pytest.MonkeyPatch) -> None:
    """The website counts as public, although it is on this machine."""
    monkeypatch.setattr(_wayback, "private_address_of", lambda url: "")


@pytest.fixture
def check(start_stub: StartStub, site: ScriptedWeb) -> Callable[..., Any]:
    """A function that runs a debate, whose answer quotes the page."""

    async def run(given: list[dict[str, str]] | None = None, **settings: Any) -> dict[str, Any]:
        chosen = {"model": "openai:stub", "sources": ["serper"], "read_pages": True}
        values = RagSettings.model_validate({**chosen, **settings})
        start_stub([{"fields": {"answer": "SUPPORTS", "rationale": "So it says.", "citations": []}}])
        asked: Any = {"claim": SITE.claim, "given": given}
        first: dict[str, Any] = await rag.ainvoke(asked, context=values)
        if first["status"] != "done":
            return first
        cited = [{"evidence_id": piece["id"], "quote": QUOTE} for piece in first["evidence"]]
        start_stub([{"fields": {"answer": "SUPPORTS", "rationale": "So it says.", "citations": cited}}])
        document: dict[str, Any] = await rag.ainvoke(asked, context=values)
        return document

    return run


def not_archived(document: dict[str, Any]) -> list[str]:
    return [warning["detail"] for warning in document["warnings"] if warning["kind"] == "not_archived"]


async def wayback(serve: Serve, monkeypatch: pytest.MonkeyPatch, *answers: Any) -> Any:  # noqa: F811
    """A Wayback Machine with these answers, one after the other."""
    server = await serve(lambda n, body: web.json_response(answers[min(n, len(answers)) - 1]))
    monkeypatch.setenv("WAYBACK_BASE_URL", server.url)
    return server


@pytest.mark.usefixtures("public")
async def test_the_nearest_copy_of_a_cited_page_is_found_and_reports_link_it(
    check: Callable[..., Any],
    serve: Serve,  # noqa: F811
    site: ScriptedWeb,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copy = f"http://web.archive.org/web/{STAMP}/{site.url(SITE)}"
    server = await wayback(serve, monkeypatch, {"archived_snapshots": {"closest": {"available": True, "url": copy}}})
    document = await check(archive="find")
    assert [piece["archived"] for piece in document["evidence"]] == [copy]
    [asked] = server.queries
    assert (asked["url"], len(asked["timestamp"])) == (site.url(SITE), 14)
    assert not not_archived(document)
    assert copy in report(document, "html")
    assert copy in report(document, "md")


@pytest.mark.usefixtures("public")
@pytest.mark.parametrize("closest", [None, {"available": True, "url": "https://evil.test/"}])
async def test_without_a_copy_a_warning_says_so(
    closest: Any,
    check: Callable[..., Any],
    serve: Serve,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await wayback(serve, monkeypatch, {"archived_snapshots": {"closest": closest} if closest else {}})
    document = await check(archive="find")
    assert "archived" not in document["evidence"][0]
    assert "(there is none)" in not_archived(document)[0]
    assert document["status"] == "done"


async def test_given_texts_and_private_addresses_are_never_named(
    check: Callable[..., Any],
    serve: Serve,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WAYBACK_KEY", "access:secret-0123456789")
    server = await wayback(serve, monkeypatch, {})
    given = [{"text": f"Here {QUOTE}.", "url": "http://93.184.216.34/", "fetched": "2026-01-01T00:00:00+00:00"}]
    document = await check(given, archive="save")
    assert server.paths == []
    assert "in a private network" in not_archived(document)[0]
    assert "93.184.216.34" not in not_archived(document)[0]
    for url in ("http://me:secret@93.184.216.34/", "http://93.184.216.34/?access_token=abc", "http://wiki.internal/x"):
        assert why_private(url)
    assert not why_private("http://93.184.216.34/page?id=3")


@pytest.mark.usefixtures("public")
async def test_a_page_is_saved_with_a_key_and_a_refusal_is_a_warning(
    check: Callable[..., Any],
    serve: Serve,  # noqa: F811
    site: ScriptedWeb,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (await check(archive="save"))["error"]["kind"] == "missing_key"
    monkeypatch.setenv("WAYBACK_KEY", "access:secret-0123456789")
    done = {"status": "success", "timestamp": STAMP, "original_url": site.url(SITE)}

    async def saved(request: web.Request) -> web.Response:
        assert request.headers["authorization"] == "LOW access:secret-0123456789"
        if request.method == "POST":
            assert dict(await request.post()) == {"url": site.url(SITE)}
            return web.json_response({"url": site.url(SITE), "job_id": "spn2-1"})
        polls.append(request.path)
        return web.json_response({"status": "pending"} if len(polls) == 1 else done)

    polls: list[str] = []
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", saved)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    monkeypatch.setenv("WAYBACK_BASE_URL", f"http://127.0.0.1:{runner.addresses[0][1]}")
    document = await check(archive="save")
    assert document["evidence"][0]["archived"] == f"https://web.archive.org/web/{STAMP}/{site.url(SITE)}"
    assert polls == ["/save/status/spn2-1"] * 2
    done |= {"status": "error", "message": "The page is blocked."}
    document = await check(archive="save")
    await runner.cleanup()
    assert "The page is blocked" in not_archived(document)[0]
