"""The origin of an archived, cached, translated or AMP copy of a page is that of the page."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moot.retrievers._archives import page_of
from moot.retrievers._evidence import Evidence, make_evidence
from moot.retrievers._normalise import website
from moot.retrievers._origins import origins

PAGE = "https://news.example.co.uk/2020/10/a-b_c.html"
BARE = PAGE.removeprefix("https://")
FORMS = [
    *(
        f"https://web.archive.org/web/{at}/{PAGE}"
        for at in ("20201129141238", "2020id_", "20201129if_", "*", "2020im_")
    ),
    f"http://web.archive.org/web/20201129141238/http:/{BARE}",
    f"https://web.archive.org/web/20201129141238/{BARE}",
    f"https://web.archive.org/web/{PAGE}",
    f"https://web.archive.org/save/{PAGE}",
    f"http://wayback.archive.org:80/web/20201129141238/{PAGE}",
    f"https://archive.ph/2020.11.29-141238/{PAGE}",
    *(f"https://archive.{end}/20201129141238/{PAGE}" for end in ("ph", "today", "is", "li", "vn", "md", "fo")),
    f"https://archive.is/newest/{PAGE}",
    f"https://archive.ph/o/jqW1g/{PAGE}",
    f"https://archive.today/?run=1&url={quote(PAGE, safe='')}",
    f"https://webcache.googleusercontent.com/search?q=cache:abcdEFGH12_-:{PAGE}+a+word&hl=en",
    f"http://webcache.googleusercontent.com/search?q=cache:{BARE}",
    f"https://cc.bingj.com/cache.aspx?q=url:{quote(PAGE, safe='')}&d=4711",
    *(f"https://www.google.{end}/amp/s/{BARE}" for end in ("com", "co.uk", "de")),
    f"https://google.com/amp/{BARE}",
    f"https://news-example-co-uk.cdn.ampproject.org/c/s/{BARE}",
    f"https://cdn.ampproject.org/v/s/{BARE}?amp_js_v=0.1",
    f"https://www.bing.com/amp/s/{BARE}",
    f"https://news-example-co-uk.translate.goog/{BARE.partition('/')[2]}",
    f"https://translate.google.com/translate?sl=de&u={quote(PAGE, safe='')}",
    f"https://arquivo.pt/wayback/20201129141238/{PAGE}",
    f"https://arquivo.pt/noFrame/replay/20201129141238mp_/{PAGE}",
    f"https://webarchive.nationalarchives.gov.uk/20201129141238/{PAGE}",
    f"https://webarchive.nationalarchives.gov.uk/ukgwa/20201129141238mp_/{PAGE}",
    f"https://webarchive.nationalarchives.gov.uk/+/http://{BARE}",
    f"https://webarchive.loc.gov/all/20201129141238/{PAGE}",
    f"https://wayback.archive-it.org/1234/20201129141238/{PAGE}",
    f"https://www.webarchive.org.uk/wayback/en/archive/20201129141238mp_/{PAGE}",
    f"https://www.webcitation.org/query?url={quote(PAGE, safe='')}&date=2010-01-01",
    *(f"https://web.archive.org/{path}{PAGE}" for path in ("", "20201129141238/", "liveweb/", "screenshot/")),
    f"http://liveweb.archive.org/{PAGE}",
    f"https://web.archive.org/web/2020/ftp://{BARE}",
    *(f"https://archive.wikiwix.com/cache/{end}?url={quote(PAGE, safe='')}" for end in ("", "index2.php")),
    f"https://webarchive.proni.gov.uk/20201129141238/{PAGE}",
    f"https://www.webharvest.gov/peth04/20041022/{PAGE}",
    f"https://swap.stanford.edu/was/20141218230048/{PAGE}",
    f"https://wayback.webarchiv.cz/wayback/20201129141238/{PAGE}",
    f"http://web.archive.bibalex.org/web/20010101/{PAGE}",
    f"https://web-archive.oecd.org/2012-06-14/{PAGE}",
    f"https://perma-archives.org/warc/ABCD-1234/20201129141238im_/{PAGE}",
    f"https://r.jina.ai/{PAGE}",
    f"https://12ft.io/{PAGE}",
    f"https://12ft.io/proxy?q={quote(PAGE, safe='')}",
]
NO_COPIES = [
    PAGE,
    f"https://evil.com/web/20201129141238/{PAGE}",
    f"https://web.archive.org@evil.com/web/20201129141238/{PAGE}",
    f"https://web.archive.org.evil.com/web/20201129141238/{PAGE}",
    f"https://notarchive.ph/20201129141238/{PAGE}",
    f"https://www.google.com/search?q={quote(PAGE, safe='')}",
    "https://archive.org/details/some.book",
    "https://www.webharvest.gov/about/index.html",
    "http://[bad",
]
UNKNOWN = ["https://perma.cc/ABCD-1234", "https://archive.ph/jqW1g", "https://ghostarchive.org/archive/x1Y2"]
UNKNOWN += ["https://cc.bingj.com/cache.aspx?q=climate+change&d=4711", "https://www.webcitation.org/6abcDEF"]


def piece(url: str, number: int = 0) -> Evidence:
    return make_evidence(text=f"Text {number}.", source=url, url=url, retriever="tavily")


def origin(url: str) -> str:
    [name] = origins([piece(url)]).values()
    return name


@pytest.mark.parametrize("form", FORMS)
def test_a_copy_has_the_origin_of_its_page(form: str) -> None:
    """Without a scheme, with capital letters in the host, a fragment or percent-encoding, or as a copy of a copy."""
    scheme, host = re.match("(https?)://([^/]+)", form).groups()  # type: ignore[union-attr]
    loud = form.replace(f"{scheme}://{host}", f"{scheme.upper()}://{host.upper()}", 1)
    encoded = f"https://web.archive.org/web/2021/{quote(form, safe='')}"
    bare = form.removeprefix(f"{scheme}://")
    for one in (form, bare, loud, f"{form}#part.1", encoded, f"https://archive.ph/2021.01.02-030405/{form}"):
        assert (origin(one), website(piece(one))) == ("example.co.uk", "news.example.co.uk"), one


def test_the_page_of_a_copy_may_be_on_a_host_without_a_name() -> None:
    for host in ("http://10.0.0.7", "10.0.0.7", "http://[2001:db8::1]"):
        expected = host.removeprefix("http://").strip("[]")
        assert origin(f"https://web.archive.org/web/2020/{host}/x") == expected
    assert origin("https://archive.wikiwix.com/cache/?url=http://10.0.0.7/x") == "10.0.0.7"


@given(
    st.lists(st.sampled_from([form for form in FORMS if form.endswith(PAGE)]), min_size=1, max_size=4), st.booleans()
)
def test_a_copy_of_copies_has_the_address_of_the_first_page(forms: list[str], encode: bool) -> None:
    url = PAGE
    for form in forms:
        url = form.removesuffix(PAGE) + (quote(url, safe="") if encode else url)
    assert page_of(url) == PAGE


def test_an_address_in_the_query_of_the_page_is_not_its_origin() -> None:
    for page in ("https://evil.com", "evil.com"):
        assert origin(f"https://web.archive.org/web/2020/{page}/x?u={PAGE}") == "evil.com"


@pytest.mark.parametrize("url", NO_COPIES)
def test_other_addresses_stay_as_they_are(url: str) -> None:
    assert page_of(url) == url


def test_each_copy_of_an_unknown_page_is_an_origin_of_its_own() -> None:
    """Search results from such copies are not counted as one website."""
    found = [piece(f"{url}{more}", number) for number, more in enumerate(("", "x")) for url in UNKNOWN]
    assert len({*origins(found).values()}) == len(found)
    assert origin(UNKNOWN[1] + "#selection-1.2") == UNKNOWN[1]
    assert not any(map(website, found))


def test_archived_and_living_pages_of_a_collection_have_one_origin() -> None:
    article = "https://en.wikipedia.org/wiki/Quay"
    assert origin(f"https://web.archive.org/web/2020/{article.replace('https', 'http')}#History") == origin(article)


def test_all_addresses_of_a_wikipedia_page_have_one_origin() -> None:
    hosts = ("https://en.wikipedia.org", "http://en.m.wikipedia.org", "en.wikipedia.org")
    for host in (*hosts, *(f"https://web.archive.org/web/2020/{host}" for host in hosts)):
        for path in (
            "wiki/New_Quay",
            "wiki/new%20Quay/",
            "wiki/New_Quay?oldid=5#History",
            "w/index.php?title=New%20Quay",
        ):
            assert origin(f"{host}/{path}") == "https://en.wikipedia.org/wiki/New_Quay"
    assert origin("https://en.wikipedia.org/wiki/New_Mole") != origin("https://en.wikipedia.org/wiki/New_Quay")


def test_http_and_https_pages_of_a_collection_have_one_origin() -> None:
    assert (
        origin("http://www.arxiv.org/abs/1?a=b") == origin("https://arxiv.org/abs/1?a=b") != origin("arxiv.org/abs/2")
    )


def test_the_address_of_a_copy_may_be_the_source_of_a_document() -> None:
    sources = [f"HTTPS://web.archive.org/web/2020/{PAGE}", f"web.archive.org/web/2020/{PAGE}", "report.pdf"]
    pieces = [make_evidence(text=f"Text {source}.", source=source, retriever="notes") for source in sources]
    assert [*origins(pieces).values()] == ["example.co.uk", "example.co.uk", "report.pdf"]
