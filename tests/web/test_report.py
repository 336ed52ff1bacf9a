"""Reports of debates: what the command line says of them, and evidence with its quotes marked; text stays text."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt
from moot.retrievers.errors import UserError
from moot.web.report import escaped, marked, report, transcript_of, web_address

from tests.web.documents import PAYLOADS, SETTINGS, a_debate, full_of, with_evidence


class Tags(HTMLParser):
    """Names of all tags, and all attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[tuple[str, str | None]] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes.update(attrs)


@pytest.mark.parametrize("graph", SETTINGS)
async def test_every_kind_of_debate_is_told(graph: str) -> None:
    document = await a_debate(graph)
    told, end = transcript_of(document)
    assert end.lines[0].text.startswith("Verdict: ")
    said = [line.text for section in told for line in section.lines]
    spoken = [t.get("rationale") or t.get("argument") for t in document["turns"]]
    assert all(any(words in text for text in said) for words in spoken if words)
    for kind in ("md", "html"):
        assert document["claim"] in report(document, kind)


async def test_quotes_are_marked_in_their_text() -> None:
    document = with_evidence(await a_debate(), 2)
    parts = marked(document["evidence"][0], document)
    assert parts == [("🦆 Platypuses ", False), ("lay eggs 🥚, as echidnas", True), (" do. Piece 0.", False)]
    assert "<mark>lay eggs 🥚, as echidnas</mark>" in report(document, "html")
    assert "**lay eggs 🥚, as echidnas**" in report(document, "md")
    turn = document["turns"][0]
    turn["citations"] += [turn["citations"][0] | {"start": 2, "end": 16}]  # quotes may overlap
    assert [text for text, quoted in marked(document["evidence"][0], document) if quoted] == [
        "Platypuses lay",
        " eggs 🥚, as echidnas",
    ]


async def test_payloads_stay_text() -> None:
    document = full_of(await a_debate(), PAYLOADS)
    rendered = MarkdownIt("commonmark").render(report(document, "md"))
    ours = {"h1", "h2", "h3", "p", "ul", "li", "strong", "blockquote", "a"}
    assert Tags(rendered).names <= ours
    page = Tags(report(document, "html"))
    assert not page.names & {"script", "img", "iframe", "svg", "object", "video", "audio", "base", "input", "math"}
    for name, value in page.attributes | Tags(rendered).attributes:
        assert not name.startswith("on")
        assert name != "href" or (value or "").startswith(("http://", "https://"))
    assert page.names >= ours - {"strong", "ul", "li"}


def test_links_and_markdown() -> None:
    assert web_address("https://x.test/a b>'\"") == "https://x.test/a%20b%3E'%22"
    assert [web_address(url) for url in ("javascript:1", " https://x.test", "//x.test", "", None)] == [""] * 5
    assert escaped("# *a* [b](c)\n<i>&amp;") == "\\# \\*a\\* \\[b\\](c) &lt;i&gt;&amp;amp;"
    assert [escaped(text) for text in ("1. x", "- x", "a - 1. x")] == ["1\\. x", "\\- x", "a - 1. x"]


async def test_a_document_whose_parts_do_not_fit() -> None:
    document = await a_debate()
    del document["task"]["labels"]
    with pytest.raises(UserError, match="do not fit together"):
        transcript_of(document)
