"""Wikipedia: passages of articles, languages, errors with status 200, and the requests."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web
from moot.core.endpoint import Limits
from moot.retrievers import MootError, UserError, open_retriever

from .conftest import Serve, Server
from .vendors import FOUND, WIKIPEDIA, StartVendor, starter, wiki_error, wiki_reply


@pytest.fixture
def start(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> StartVendor:
    return starter(serve, monkeypatch)


ARTICLES: dict[str, dict[str, Any]] = {
    "1": {
        "title": "Lake Baikal",
        "index": 1,
        "extract": "A lake in Siberia.\n\n\n== Depth ==\nIts bottom lies 1,642 m "
        "below the surface.\n\n\n=== Trench ===\nThe deepest point of the lake is in a trench.\n\n\n== Notes ==\n",
    },
    "2": {
        "title": "Lake Tanganyika",
        "index": 2,
        "extract": "The second deepest.\n== Fish ==\n" + "Many cichlids. " * 200,
    },
    "3": {"title": "Lake (disambiguation)", "index": 3, "extract": ""},
    "4": {"title": "Loch", "index": 4, "extract": "A lake in Scotland.\n== Depth ==\nLoch Morar is the deepest lake."},
}
"""Articles by their ids."""


async def start_wiki(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> Server:
    """Start a wiki for each language; a search finds all articles, with their first sections, in no order."""

    def answer(n: int, body: dict[str, Any]) -> web.Response:
        asked = server.queries[-1]
        pages = [{"pageid": int(id), **page} for id, page in ARTICLES.items() if asked.get("pageids") in (None, id)]
        if asked.get("exintro"):
            pages = [{**page, "extract": page["extract"].partition("\n")[0]} for page in reversed(pages)]
        return web.Response(text=wiki_reply(*pages))

    server = await serve(answer)
    monkeypatch.setenv("WIKIPEDIA_BASE_URL", server.url + "/{language}")
    return server


async def test_the_nearest_passages_of_whole_articles_become_evidence(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await start_wiki(serve, monkeypatch)
    monkeypatch.setenv("WIKIPEDIA_CONTACT", "us@example.org")
    found = await (await open_retriever("wikipedia", published_before="2024-03-01")).search("deepest point lake", 6)
    assert [(piece["title"], piece["text"][:19]) for piece in found[:4]] == [
        ("Lake Baikal: Depth > Trench", "The deepest point o"),
        ("Lake Tanganyika", "The second deepest."),
        ("Lake Baikal", "A lake in Siberia."),
        ("Lake Tanganyika: Fish", "Many cichlids. Many"),
    ]
    best = found[0]
    assert best["source"] == "https://en.wikipedia.org/wiki/Lake_Baikal"
    assert best["url"] == "https://en.wikipedia.org/wiki/Lake_Baikal?oldid=901"
    assert (best["heading"], "published" in best) == ("Depth > Trench", False)
    assert all(len(piece["text"]) <= 1200 for piece in found)
    assert ("Loch", "A lake in Scotland.") in [(piece["title"], piece["text"]) for piece in found]
    search, *whole = server.queries
    assert (search["gsrsearch"], search["gsrlimit"], search["formatversion"]) == ("deepest point lake", "6", "2")
    assert [one["pageids"] for one in whole] == ["1", "2", "3"]
    assert {headers["User-Agent"].partition(" ")[2] for headers in server.headers} == {"(us@example.org)"}


@pytest.mark.parametrize(
    ("claim", "language"),
    [
        ("", "en"),
        ("Lake Baikal is the deepest lake in the world.", "en"),
        ("Der Baikalsee ist der tiefste See der Welt.", "de"),
        ("Le lac Baïkal est le plus profond du monde.", "fr"),
        ("Байкал — самое глубокое озеро на планете.", "ru"),
        ("バイカル湖は世界で最も深い湖である。", "ja"),
        ("Nuuk is in Sermersooq.", "en"),
        ("1642", "en"),
    ],
)
async def test_the_wiki_is_that_of_the_claims_language(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, claim: str, language: str
) -> None:
    """A query, which may be only names, does not change the language."""
    server = await start_wiki(serve, monkeypatch)
    await (await open_retriever("wikipedia", claim=claim)).search("Baikal depth", 2)
    assert set(server.paths) == {f"/{language}/w/api.php"}


async def test_the_address_of_one_wiki_is_used_for_all_languages(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = await start_wiki(serve, monkeypatch)
    monkeypatch.setenv("WIKIPEDIA_BASE_URL", server.url)
    await (await open_retriever("wikipedia", claim="Der Baikalsee ist der tiefste See der Welt.")).search("Baikal", 2)
    assert set(server.paths) == {"/w/api.php"}


@pytest.mark.parametrize(
    ("code", "kind", "requests"),
    [
        ("ratelimited", "rate_limited", 1),
        ("maxlag", "server_error", 3),
        ("internal_api_error_DBQueryError", "server_error", 3),
        ("cirrussearch-too-busy-error", "server_error", 3),
        ("badvalue", "search_refused", 1),
    ],
)
async def test_an_error_message_with_status_200_is_an_error(
    start: StartVendor, monkeypatch: pytest.MonkeyPatch, code: str, kind: str, requests: int
) -> None:
    monkeypatch.setattr("moot.core.limiter.backoff", lambda failures: 0.0)
    server = await start(WIKIPEDIA, lambda n: web.Response(text=wiki_error(code, "Waiting: 5 seconds lagged.")))
    with pytest.raises(MootError, match=code) as caught:
        await (await open_retriever("wikipedia", limits=Limits(max_wait=0))).search("deepest lake", 3)
    assert (caught.value.kind, caught.value.retryable) == (kind, kind != "search_refused")
    assert len(server.paths) == requests


async def test_an_invalid_contact_is_refused(start: StartVendor, monkeypatch: pytest.MonkeyPatch) -> None:
    server = await start(WIKIPEDIA, lambda n: FOUND)
    monkeypatch.setenv("WIKIPEDIA_CONTACT", "us\r\nX-Other: 1")
    with pytest.raises(UserError, match="WIKIPEDIA_CONTACT"):
        await (await open_retriever("wikipedia")).search("deepest lake", 3)
    assert server.paths == []
