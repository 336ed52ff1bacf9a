"""Sites: names of sites, results that are left out or marked, and what search engines are asked."""

from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import given, strategies
from moot.retrievers import Evidence, UserError, make_evidence, open_retriever
from moot.retrievers._sites import ALL_SITES, Sites, is_within, label_of, of_same_site, part_claim_page, sift, site_of

from .conftest import Serve
from .vendors import SERPER, TAVILY, starter

STORY = (
    "The mayor said on Monday that the new bridge had cost nine million crowns less than planned, and that it would be "
    "open to all traffic before the first snow falls, although two of its four lanes still wait for their surface."
)


def piece(url: str, text: str = "A text.") -> Evidence:
    return make_evidence(text=text, source=url, url=url, retriever="tavily")


@pytest.mark.parametrize(
    ("text", "site"),
    [
        ("example.org", "example.org"),
        (" https://www.Example.org:8080/a?b#c ", "example.org"),
        ("*.example.org", "example.org"),
        (".gov.uk", "gov.uk"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("localhost", "localhost"),
        ("user@example.org", "example.org"),
    ],
)
def test_a_site_is_a_host(text: str, site: str) -> None:
    assert site_of(text) == site


@pytest.mark.parametrize("text", ["", "a b", "-a.org", "site:a.org OR b.org", "https://", "a..org"])
def test_what_is_no_site_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="is not a site"):
        site_of(text)


LABEL = strategies.text(string.ascii_lowercase + string.digits, min_size=1, max_size=8)


@given(strategies.lists(LABEL, min_size=2, max_size=4), LABEL)
def test_a_site_includes_the_hosts_below_it_and_no_others(labels: list[str], other: str) -> None:
    site = ".".join(labels)
    assert is_within(site, (site,))
    assert is_within(f"{other}.{site}", (site,))
    assert not is_within(f"{other}{site}", (site,))
    assert not is_within(site, (f"{other}.{site}",))


def test_results_are_judged_by_the_page_that_they_copy() -> None:
    archived = piece("https://web.archive.org/web/2020/https://news.example.org/a")
    found = [piece("https://example.org/a"), piece("https://notexample.org/"), archived, make_evidence(text="Mine.")]
    only = sift([found], Sites(only=("example.org",)), {})
    assert [p["source"] for p in only.found[0]] == ["https://example.org/a", archived["source"], "given"]
    never = sift([found], Sites(never=("example.org",)), {})
    assert [p["source"] for p in never.found[0]] == ["https://notexample.org/", "given"]
    assert len(only.left_out) + len(never.left_out) == 3


def test_the_label_of_the_longest_domain_counts() -> None:
    labels = {"example.org": "a newspaper", "blog.example.org": "its readers"}
    assert label_of("https://blog.example.org/1", labels) == "its readers"
    assert label_of("https://www.example.org/1", labels) == "a newspaper"
    assert label_of("https://example.com/1", labels) == ""
    [[labelled]] = sift([[piece("https://example.org/")]], ALL_SITES, labels).found
    assert labelled["site_label"] == "a newspaper"


@pytest.mark.parametrize(
    ("url", "page", "same"),
    [
        ("https://news.example.co.uk/b", "https://www.example.co.uk/a", True),
        ("https://other.co.uk/b", "https://www.example.co.uk/a", False),
        ("https://archive.ph/2020/https://example.org/b", "https://example.org/a", True),
        ("https://example.org/b", "https://web.archive.org/web/2020/https://example.org/a", True),
        ("https://en.wikipedia.org/wiki/B", "https://en.wikipedia.org/wiki/A", False),
        ("https://en.m.wikipedia.org/wiki/A", "https://en.wikipedia.org/wiki/A", True),
    ],
)
def test_a_site_of_many_authors_is_judged_by_the_page(url: str, page: str, same: bool) -> None:
    assert of_same_site(url, page) == same


def test_the_claims_own_page_its_site_and_near_copies_are_left_out_or_marked() -> None:
    copy = STORY.replace("Monday", "Tuesday").replace("although", "though")
    found = [
        [piece("https://paper.example.org/story", STORY), piece("https://agency.example.com/7", copy)],
        [piece("https://city.example.net/budget", "The bridge cost eleven million crowns more than planned.")],
    ]
    page = "https://www.example.org/2024/story"
    left = part_claim_page(found, [page], leave_out=True)
    assert [[p["source"] for p in results] for results in left.found] == [[], ["https://city.example.net/budget"]]
    assert len(left.left_out) == 2
    marked = part_claim_page(found, ["https://short.example/1", page], leave_out=False)
    assert [p.get("claim_page", False) for results in marked.found for p in results] == [True, True, False]


async def test_search_engines_are_asked_for_few_sites(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    start = starter(serve, monkeypatch)
    serper, tavily = await start(SERPER), await start(TAVILY)
    sites = Sites(("a.org", "b.org"), ("c.org",))
    many = Sites(tuple(f"s{n}.org" for n in range(11)))

    async def search(name: str, asked: Sites) -> None:
        await (await open_retriever(name, sites=asked)).search("lake " * 1000, 3)

    for name in ("serper", "tavily"):
        await search(name, sites)
        await search(name, many)
        await search(name, ALL_SITES)
    bodies: list[dict[str, Any]] = serper.bodies
    assert bodies[0]["q"].endswith(" (site:a.org OR site:b.org) -site:c.org")
    assert {len(body["q"]) <= 2048 for body in bodies} == {True}
    assert "site:" not in bodies[1]["q"] + bodies[2]["q"]
    assert (tavily.bodies[0]["include_domains"], tavily.bodies[0]["exclude_domains"]) == (["a.org", "b.org"], ["c.org"])
    assert not tavily.bodies[1].get("include_domains")
    assert not tavily.bodies[2].get("include_domains")
