"""PubMed: the two requests of a search, sections of abstracts, dates, and errors with status 200."""

from __future__ import annotations

import pytest
from aiohttp import web
from moot.core.endpoint import Limits
from moot.retrievers import MootError, open_retriever

from .conftest import Serve
from .vendors import FOUND, KEY, PUBMED, StartVendor, efetch_reply, esearch_reply, record, starter


@pytest.fixture
def start(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> StartVendor:
    return starter(serve, monkeypatch)


def replies(*records: str, numbers: tuple[str, ...] = ("11", "12")) -> dict[str, str]:
    return {"/esearch.fcgi": esearch_reply(*numbers), "/efetch.fcgi": efetch_reply(*records)}


async def test_abstracts_become_evidence(start: StartVendor, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = record("12", abstract="<Abstract><AbstractText>Plain.</AbstractText></Abstract>")
    bare = record("13", abstract="")
    server = await start(PUBMED, found=replies(bare, plain, record("11"), numbers=("11", "13", "14", "12")))
    monkeypatch.setenv("NCBI_EMAIL", "us@example.org")
    first, second = await (await open_retriever("pubmed")).search("vitamin c", 4)
    assert (first["title"], first["source"]) == ("Vitamin C and colds", "PubMed 11")
    assert first["text"] == "BACKGROUND: Colds are common.\nRESULTS: CO2 fell."
    assert (first["url"], first["published"]) == ("https://pubmed.ncbi.nlm.nih.gov/11/", "2013")
    assert (second["text"], second["source"]) == ("Plain.", "PubMed 12")
    search, fetch = server.queries
    assert (search["term"], search["retmax"], fetch["id"]) == ("vitamin c", "4", "11,13,14,12")
    for sent in (search, fetch):
        assert (sent["tool"], sent["email"], sent["api_key"]) == ("moot", "us@example.org", KEY)
    assert "maxdate" not in search


async def test_the_last_date_in_a_request_is_one_day_before_the_limit(start: StartVendor) -> None:
    server = await start(PUBMED)
    await (await open_retriever("pubmed", published_before="2024-03-01")).search("vitamin c", 3)
    sent = server.queries[0]
    assert (sent["datetype"], sent["mindate"], sent["maxdate"]) == ("pdat", "1000/01/01", "2024/02/29")


@pytest.mark.parametrize(
    ("date", "published"),
    [
        ("<Year>2013</Year><Month>Mar</Month><Day>7</Day>", "2013-03-07"),
        ("<Year>2013</Year><Month>12</Month>", "2013-12"),
        ("<Year>2013</Year><Season>Spring</Season>", "2013"),
        ("<MedlineDate>1998 Dec-1999 Jan</MedlineDate>", "1999"),
        ("<MedlineDate>Spring</MedlineDate>", None),
    ],
)
async def test_dates_are_read_in_several_formats(start: StartVendor, date: str, published: str | None) -> None:
    await start(PUBMED, found=replies(record("11", date)))
    [piece] = await (await open_retriever("pubmed")).search("vitamin c", 3)
    assert piece.get("published") == published


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ('{"esearchresult": {"ERROR": "Search Backend failed: overloaded"}}', "server_error"),
        ('{"error": "API rate limit exceeded", "count": "11"}', "rate_limited"),
        ('{"error": "API key invalid", "api-key": "x"}', "authentication"),
        ('{"esearchresult": {"ERROR": "Empty term and query_key - nothing todo"}}', "search_refused"),
    ],
)
async def test_an_error_message_with_status_200_is_an_error(
    start: StartVendor, monkeypatch: pytest.MonkeyPatch, body: str, kind: str
) -> None:
    monkeypatch.setattr("moot.core.limiter.backoff", lambda failures: 0.0)
    await start(PUBMED, lambda n: web.Response(text=body))
    with pytest.raises(MootError) as caught:
        await (await open_retriever("pubmed", limits=Limits(max_wait=0))).search("vitamin c", 3)
    assert (caught.value.kind, KEY in caught.value.detail) == (kind, False)


BOMB = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><PubmedArticleSet>&b;</PubmedArticleSet>'
OUTSIDE = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/hostname">]><PubmedArticleSet>&a;</PubmedArticleSet>'


@pytest.mark.parametrize(
    "body",
    [
        "<html><body>Sign in</body></html>",
        '{"error": "words"}',
        "<eFetchResult><ERROR>Cannot process ID list</ERROR></eFetchResult>",
        efetch_reply("<PubmedArticle/>"),
        BOMB,
        OUTSIDE,
        "\udcff",
    ],
    ids=["html", "json", "error", "no number", "bomb", "outside", "bytes"],
)
async def test_unreadable_records_are_an_error(start: StartVendor, body: str) -> None:
    answer = body.encode(errors="surrogateescape")
    server = await start(PUBMED, lambda n: FOUND if n == 1 else web.Response(body=answer))
    with pytest.raises(MootError) as caught:
        await (await open_retriever("pubmed")).search("vitamin c", 3)
    assert (caught.value.kind, server.paths) == ("bad_response", ["/esearch.fcgi", "/efetch.fcgi"])
