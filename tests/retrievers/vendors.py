"""Example responses of web sources, in the formats that the vendors document."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import web

from .conftest import Serve, Server

KEY = "key-0123456789abcdef"
OTHER_KEY = "OTHER_API_KEY"
"""The environment variable of a key of another vendor. It is set if the tested vendor uses no key."""

Rule = Callable[[int], web.Response | None]
"""A function from the number of a request (from 1) to the response.

`FOUND` stands for the vendor's results. None means that the server does not respond.
"""
FOUND = web.Response()


@dataclass(frozen=True)
class Vendor:
    """A vendor of a web source.

    Args:
        name: the name of the source.
        address: the environment variable of the vendor's address.
        found: the response bodies of a search with results, by the path of the request.
        nothing: the response body of a search without results.
        key: the environment variable of the vendor's key; empty if the vendor uses no key.
        used_up: the status and the body of the response if the account's quota is used up.
        odd: response bodies in wrong formats.
        failed: the response body of a search that failed, with status 200 and without results.
        requests: the number of requests of a search with one result; 0 if it is one for each path.
    """

    name: str
    address: str
    found: dict[str, str]
    nothing: str
    key: str = ""
    used_up: tuple[int, str] | None = None
    odd: tuple[str, ...] = ()
    failed: str = ""
    requests: int = 0


StartVendor = Callable[..., Awaitable[Server]]


def starter(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> StartVendor:
    """Return a function that starts a vendor's server: ``await start(VENDOR, rule, found)``.

    The function also sets the environment variables of the vendor's address and key.
    """

    async def start(vendor: Vendor, rule: Rule = lambda n: FOUND, found: dict[str, str] | None = None) -> Server:
        def answer(n: int, body: dict[str, Any]) -> web.Response | None:
            response = rule(n)
            return web.Response(text=(found or vendor.found)[server.paths[-1]]) if response is FOUND else response

        server = await serve(answer)
        monkeypatch.setenv(vendor.address, server.url)
        monkeypatch.setenv(vendor.key or OTHER_KEY, KEY)
        return server

    return start


# https://docs.tavily.com/documentation/api-reference/endpoint/search
TAVILY_RESULT: dict[str, Any] = {
    "title": "Lake Baikal",
    "url": "https://example.org/baikal",
    "content": "The deepest\u200b lake.",
    "score": 0.91,
    "raw_content": None,
    "published_date": "2024-05-01",
}


def tavily_reply(*results: Any) -> str:
    fields: dict[str, Any] = {"query": "q", "answer": None, "images": [], "response_time": 0.1, "request_id": "r"}
    return json.dumps({**fields, "results": results})


TAVILY = Vendor(
    "tavily",
    "TAVILY_BASE_URL",
    {"/search": tavily_reply(TAVILY_RESULT)},
    tavily_reply(),
    "TAVILY_API_KEY",
    (432, '{"detail": {"error": "This request exceeds your plan\'s set usage limit."}}'),
    (
        '{"answer": "no results here"}',
        '{"results": null}',
        json.dumps({"results": {"0": TAVILY_RESULT}}),
        tavily_reply("https://example.org"),
        tavily_reply(TAVILY_RESULT, {"url": "https://example.org", "title": "no content"}),
        tavily_reply({**TAVILY_RESULT, "score": "high"}),
    ),
    '{"results": [], "error": "The backend timed out."}',
)

# https://serper.dev/playground
SERPER_RESULT: dict[str, Any] = {
    "title": "Lake Baikal - Encyclopaedia",
    "link": "https://example.org/baikal",
    "snippet": "The deepest lake.",
    "date": "Jan 5, 2024",
    "position": 1,
}


def serper_reply(*results: Any) -> str:
    return json.dumps({"searchParameters": {"q": "q", "type": "search"}, "organic": results, "credits": 1})


SERPER = Vendor(
    "serper",
    "SERPER_BASE_URL",
    {"/search": serper_reply(SERPER_RESULT)},
    serper_reply(),
    "SERPER_API_KEY",
    (400, '{"message": "Not enough credits", "statusCode": 400}'),
    ('{"credits": 1}', '{"organic": null}', serper_reply({"title": "no link"})),
    '{"organic": [], "message": "The search failed."}',
)

# https://docs.searxng.org/dev/search_api.html
SEARXNG_RESULT: dict[str, Any] = {
    "url": "https://example.org/baikal",
    "title": "Lake Baikal",
    "content": "The deepest lake &amp; the oldest.",
    "publishedDate": "2024-05-01T00:00:00",
    "engine": "mojeek",
    "engines": ["mojeek", "brave"],
    "score": 2.5,
    "category": "general",
}


def searxng_reply(*results: Any, failed: Any = ()) -> str:
    fields: dict[str, Any] = {"query": "q", "number_of_results": 0, "answers": [], "infoboxes": [], "suggestions": []}
    return json.dumps({**fields, "results": results, "unresponsive_engines": failed})


SEARXNG = Vendor(
    "searxng",
    "SEARXNG_BASE_URL",
    {"/search": searxng_reply(SEARXNG_RESULT, failed=[["startpage", "CAPTCHA"]])},
    searxng_reply(),
    odd=("{}", '{"results": null}', searxng_reply({"title": "no address"}), searxng_reply("https://example.org")),
    failed=searxng_reply(failed=[["brave", "too many requests"], ["startpage", "CAPTCHA"]]),
)

# https://api-dashboard.search.brave.com/app/documentation/web-search/responses
BRAVE_RESULT: dict[str, Any] = {
    "title": "Lake Baikal",
    "url": "https://example.org/baikal",
    "description": "The deepest lake &amp; the oldest.",
    "extra_snippets": ["It freezes in January."],
    "page_age": "2024-05-01T10:00:00",
    "age": "May 1, 2024",
    "type": "search_result",
}


def brave_reply(*results: Any) -> str:
    return json.dumps({"query": {"original": "q"}, "type": "search", "web": {"type": "search", "results": results}})


def brave_error(status: int, code: str, detail: str) -> str:
    return json.dumps({"type": "ErrorResponse", "error": {"status": status, "code": code, "detail": detail}, "time": 1})


BRAVE = Vendor(
    "brave",
    "BRAVE_BASE_URL",
    {"/res/v1/web/search": brave_reply(BRAVE_RESULT)},
    '{"query": {"original": "q"}, "type": "search"}',
    "BRAVE_API_KEY",
    (429, brave_error(429, "QUOTA_LIMITED", "The plan's quota is used up.")),
    ("{}", '{"type": "search", "web": null}', brave_reply({"title": "no address"}), '{"type": "videos"}'),
    brave_error(200, "INTERNAL", "The search failed."),
)

# https://docs.openalex.org/api-entities/works/work-object
WORK = {
    "id": "https://openalex.org/W1",
    "doi": "https://doi.org/10.1000/1",
    "display_name": "Hydrocele in the newborn",
    "publication_date": "2016-01-21",
    "abstract_inverted_index": {"Less": [0, 3], "is": [1], "more.": [2], "surgery.": [4]},
}
OPENALEX = Vendor(
    "openalex",
    "OPENALEX_BASE_URL",
    {"/works": json.dumps({"meta": {"count": 1}, "results": [WORK]})},
    '{"meta": {"count": 0}, "results": []}',
    "OPENALEX_API_KEY",
    # https://developers.openalex.org/api-reference/authentication
    (429, '{"error": "Rate limit exceeded", "message": "Insufficient budget. Resets at midnight UTC"}'),
    ('{"results": [{}]}', '{"results": "x"}', "{}"),
    '{"meta": {"count": 5}, "results": []}',
)

# https://developers.google.com/fact-check/tools/api/reference/rest/v1alpha1/claims/search
REVIEW: dict[str, Any] = {
    "publisher": {"name": "Lake Facts", "site": "facts.example.org"},
    "url": "https://facts.example.org/baikal",
    "title": "Is Baikal five kilometres deep?",
    "reviewDate": "2024-03-01T00:00:00Z",
    "textualRating": "False",
    "languageCode": "en",
}
CHECKED: dict[str, Any] = {
    "text": "Lake Baikal is 5,000 metres deep.",
    "claimant": "A travel blog",
    "claimDate": "2024-02-20T00:00:00Z",
    "claimReview": [REVIEW],
}
FACT_CHECKS = Vendor(
    "fact_checks",
    "FACT_CHECK_BASE_URL",
    {"/v1alpha1/claims:search": json.dumps({"claims": [CHECKED]})},
    "{}",
    "GOOGLE_FACT_CHECK_API_KEY",
    (429, '{"error": {"code": 429, "message": "Quota exceeded for quota metric", "status": "RESOURCE_EXHAUSTED"}}'),
    ('{"claims": [{}]}', '{"claims": "x"}', "[]"),
)

# https://www.crossref.org/documentation/retrieve-metadata/rest-api/
NOTICE = {"DOI": "10.1000/notice", "type": "retraction", "label": "Retraction", "source": "retraction-watch"}
CORRECTION = {"DOI": "10.1000/erratum", "type": "correction", "label": "Correction", "source": "publisher"}


def crossref_reply(**updates: list[dict[str, str]]) -> str:
    """Crossref's reply with one work for each DOI ``10.1000/NAME`` and its updates; none: no field ``updated-by``."""
    items = [{"DOI": f"10.1000/{name}"} | ({"updated-by": found} if found else {}) for name, found in updates.items()]
    return json.dumps({"status": "ok", "message-type": "work-list", "message": {"total-results": 1, "items": items}})


CROSSREF = Vendor("crossref", "CROSSREF_BASE_URL", {"/works": crossref_reply()}, crossref_reply())

# https://www.mediawiki.org/wiki/API:Search, https://www.mediawiki.org/wiki/Extension:TextExtracts
PAGE: dict[str, Any] = {"pageid": 1, "ns": 0, "title": "Lake Baikal", "index": 1, "extract": "The deepest lake."}


def wiki_reply(*pages: dict[str, Any]) -> str:
    """A response of Wikipedia's Action API."""
    found = [
        {
            **p,
            "lastrevid": 900 + p["pageid"],
            "fullurl": f"https://en.wikipedia.org/wiki/{p['title'].replace(' ', '_')}",
        }
        for p in pages
    ]
    return json.dumps({"batchcomplete": True, "continue": {"gsroffset": 4}, "query": {"pages": found}})


def wiki_error(code: str, info: str) -> str:
    """An error of the Action API (https://www.mediawiki.org/wiki/API:Errors_and_warnings)."""
    return json.dumps({"error": {"code": code, "info": info, "docref": "See https://..."}, "servedby": "mw1"})


WIKIPEDIA = Vendor(
    "wikipedia",
    "WIKIPEDIA_BASE_URL",
    {"/w/api.php": wiki_reply(PAGE)},
    '{"batchcomplete": true}',
    requests=2,
    odd=("{}", '{"query": {}}', '{"query": {"pages": [{"title": "no rank"}]}}', '{"error": "words"}'),
    failed='{"batchcomplete": true, "warnings": {"search": {"warnings": "Too busy."}}, "query": {"pages": []}}',
)

# https://www.ncbi.nlm.nih.gov/books/NBK25499/#chapter4.ESearch


def esearch_reply(*numbers: str) -> str:
    found = {"count": str(len(numbers)), "retmax": "2", "retstart": "0", "idlist": numbers, "translationset": []}
    return json.dumps({"header": {"type": "esearch", "version": "0.3"}, "esearchresult": found})


# https://dtd.nlm.nih.gov/ncbi/pubmed/doc/out/250101/index.html
RECORD = """<PubmedArticle><MedlineCitation><PMID Version="1">{pmid}</PMID><Article><Journal><JournalIssue>
<PubDate>{date}</PubDate></JournalIssue></Journal><ArticleTitle>Vitamin <i>C</i> and colds</ArticleTitle>
{abstract}</Article></MedlineCitation><PubmedData><ReferenceList><Reference><ArticleIdList>
<ArticleId IdType="pubmed">999</ArticleId></ArticleIdList></Reference></ReferenceList></PubmedData></PubmedArticle>"""
ABSTRACT = """<Abstract><AbstractText Label="BACKGROUND" NlmCategory="BACKGROUND">Colds are
common.</AbstractText><AbstractText Label="RESULTS">CO<sub>2</sub> fell.</AbstractText></Abstract>"""


def record(pmid: str, date: str = "<Year>2013</Year>", abstract: str = ABSTRACT) -> str:
    return RECORD.format(pmid=pmid, date=date, abstract=abstract)


def efetch_reply(*records: str) -> str:
    kind = "-//NLM//DTD PubMedArticle, 1st January 2025//EN"
    where = "https://dtd.nlm.nih.gov/ncbi/pubmed/out/pubmed_250101.dtd"
    root = f'<!DOCTYPE PubmedArticleSet PUBLIC "{kind}" "{where}">'
    return f'<?xml version="1.0" ?>\n{root}\n<PubmedArticleSet>{"".join(records)}</PubmedArticleSet>'


PUBMED = Vendor(
    "pubmed",
    "PUBMED_BASE_URL",
    {"/esearch.fcgi": esearch_reply("11", "12"), "/efetch.fcgi": efetch_reply(record("12"), record("11"))},
    esearch_reply(),
    "NCBI_API_KEY",
    odd=("{}", '{"esearchresult": {}}', '{"esearchresult": {"idlist": ["../x"]}}'),
    failed='{"esearchresult": {"count": "2", "idlist": []}}',
)

# https://info.arxiv.org/help/api/user-manual.html
FEED = """<?xml version="1.0" encoding="UTF-8"?>
<feed xmlns="http://www.w3.org/2005/Atom" xmlns:opensearch="http://a9.com/-/spec/opensearch/1.1/">
<link href="http://arxiv.org/api/query?search_query=all:electron" rel="self" type="application/atom+xml"/>
<title type="html">ArXiv Query: search_query=all:electron</title><id>http://arxiv.org/api/cHxb</id>
<updated>2007-10-08T00:00:00-04:00</updated><opensearch:totalResults>1</opensearch:totalResults>{entries}</feed>"""
ENTRY = """<entry><id>http://arxiv.org/abs/hep-ex/0307015v1</id><published>2003-07-07T13:46:39-04:00</published>
<updated>2003-07-07T13:46:39-04:00</updated><title>Multi-Electron Production at High
  Transverse Momenta</title><summary>  Multi-electron production is studied &amp;
 measured.
</summary><link href="http://arxiv.org/abs/hep-ex/0307015v1" rel="alternate" type="text/html"/></entry>"""
# https://info.arxiv.org/help/api/user-manual.html#34-errors
ERROR_ENTRY = """<entry><id>http://arxiv.org/api/errors#incorrect_id_format_for_1234.1234</id><title>Error</title>
<summary>incorrect id format for 1234.1234</summary><updated>2007-10-12T00:00:00-04:00</updated></entry>"""
ARXIV = Vendor(
    "arxiv",
    "ARXIV_BASE_URL",
    {"/api/query": FEED.format(entries=ENTRY)},
    FEED.format(entries="").replace(">1<", ">0<"),
    odd=(
        "<feed/>",
        "Rate exceeded.",
        FEED.format(entries="<entry/>"),
        FEED.format(entries=ENTRY.replace("2003-07-07", "July")),
        '<!DOCTYPE feed [<!ENTITY a "aaaa">]>' + FEED.format(entries=ENTRY).partition("\n")[2],
    ),
    failed=FEED.format(entries=""),
)

VENDORS = [SEARXNG, TAVILY, SERPER, BRAVE, OPENALEX, WIKIPEDIA, PUBMED, ARXIV]
