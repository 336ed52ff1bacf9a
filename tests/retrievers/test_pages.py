"""Passages of pages, their places in reports, robots.txt, and what pages take of the processor's time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moot.core.errors import MootError
from moot.retrievers import _pages
from moot.retrievers._documents.html import parse_html
from moot.retrievers._excerpts import count_tokens
from moot.retrievers._pages import passages, read_web_page
from moot.transcript.report.passages import near_quotes, passage_link

from tests.scripted_web import ScriptedWeb, all_sites, environment, scripted_web

SITES = all_sites()
pytestmark = pytest.mark.allow_hosts(["127.0.0.1", *(site.host for site in SITES)])
TEXT = (
    "The canal\n\nThe valley is wide. Cows graze there.\n\nHistory\n\n"
    "Work began early. The canal opened in 1869. It has no locks. Boats are rare.\n\nFood\n\nThe inn sells soup."
)
HEADINGS = ["The canal", "History", "Food"]


def shown(text: str, spans: list[list[int]] | None) -> list[str]:
    assert spans is not None
    return [text[start:end] for start, end in spans]


def test_a_passage_is_a_sentence_with_one_on_each_side_and_the_heading_above() -> None:
    found = shown(TEXT, passages(TEXT, HEADINGS, "When was the canal opened?", 25))
    assert found == ["History\n\nWork began early. The canal opened in 1869. It has no locks."]
    assert passages(TEXT, HEADINGS, "canal", 1000) is None


@given(st.lists(st.text(st.sampled_from("ab cd.\n"), max_size=80), max_size=8), st.integers(16, 60))
def test_passages_have_at_most_so_many_tokens_and_are_parts_of_the_text_in_order(blocks: list[str], most: int) -> None:
    text = "\n\n".join(blocks)
    if (spans := passages(text, blocks[:1], "ab", most)) is not None:
        assert sum(count_tokens(part) for part in shown(text, spans)) <= most
        assert all(0 <= start < end <= len(text) for start, end in spans)
        assert [end for _, end in spans[:-1]] < [start for start, _ in spans[1:]] or len(spans) < 2


def test_links_lead_to_the_quoted_passages() -> None:
    def link(*quotes: str, address: str = "https://example.org/a") -> str:
        return passage_link(address, TEXT, [(at := TEXT.index(quote), at + len(quote)) for quote in quotes])

    assert link("opened in 1869") == "https://example.org/a#:~:text=opened%20in%201869"
    assert link("Cows", "soup", address="https://example.org/a#b") == "https://example.org/a#b:~:text=Cows&text=soup"
    long = "Work began early. The canal opened in 1869. It has no locks."
    assert link(long) == "https://example.org/a#:~:text=Work%20began%20early.%20The,It%20has%20no%20locks."
    assert passage_link("https://x.test/", "so-so, a & b; so-so", [(0, 5)]) == (
        "https://x.test/#:~:text=so%2Dso,-%2C%20a%20%26%20b%3B"
    )


def test_reports_have_quotes_with_a_few_words_around_them() -> None:
    words = "word " * 200
    parts = near_quotes([(words, False), ("quoted", True), (words, False)])
    assert [text for text, quoted in parts if quoted] == ["quoted"]
    assert sum(len(text) for text, _ in parts) < 600
    assert near_quotes([(words, False)])[0][0] == words[:300]


@pytest.fixture(scope="module")
def web() -> Iterator[ScriptedWeb]:
    with scripted_web() as running, pytest.MonkeyPatch.context() as patch:
        for name, value in environment(running).items():
            patch.setenv(name, value)
        yield running


async def test_the_robots_txt_of_a_host_is_read_once_and_requests_name_a_contact(
    web: ScriptedWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOOT_FETCH_CONTACT", "us@example.org")
    _pages._rules.clear()
    site = next(site for site in SITES if site.kind == "forbidden")
    web.requests.clear()
    web.agents.clear()
    for _ in range(3):
        with pytest.raises(MootError, match=r"robots\.txt forbids it"):
            await read_web_page(web.url(site), respect_robots=True)
    assert web.requests == [(site.host, "/robots.txt")]
    assert [agent.endswith(" (us@example.org)") for agent in web.agents] == [True]


async def test_redirects_into_private_networks_and_addresses_with_passwords_are_refused(
    web: ScriptedWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = SITES[0]
    monkeypatch.setenv("MOOT_FETCH_HOSTS", "")
    with pytest.raises(MootError, match="private network"):
        await read_web_page(web.url(site), respect_robots=False)
    with pytest.raises(MootError, match="password"):
        await read_web_page("http://me:secret@example.org/", respect_robots=True)


def test_choosing_passages_takes_less_time_than_parsing_the_page(tmp_path: Path) -> None:
    """The cost of reading, as a ratio: parsing is trafilatura's, and all that moot adds is less."""
    site = next(site for site in SITES if site.kind == "long")
    file = tmp_path / "page.html"
    file.write_text(site.article())

    def taken() -> tuple[float, float]:
        began = time.process_time()
        found = parse_html(file)
        parsed = time.process_time()
        text, headings = _pages._text_of(found)
        passages(text, headings, site.claim, 768)
        return parsed - began, time.process_time() - parsed

    taken()
    parsing, choosing = (min(times) for times in zip(*(taken() for _ in range(5)), strict=True))
    assert choosing <= 1.5 * parsing
