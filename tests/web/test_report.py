"""Reports of debates: what the command line says of them, and evidence with its quotes marked; text stays text."""

from __future__ import annotations

import html
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt
from moot.core.errors import UserError
from moot.nodes.texts.quotes import check_citations
from moot.nodes.texts.replies import Quote
from moot.transcript import ending, lines
from moot.web.report import escaped, marked, marks_of, report, shown_of, web_address, with_citations

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
    told, end = lines(document), ending(document)
    assert end.lines[0].text.startswith("Verdict: ")
    said = [line.text for section in (*told, end) for line in section.lines]
    spoken = [t.get("rationale") or t.get("argument") for t in document["turns"]]
    assert all(any(words in text for text in said) for words in spoken if words)
    queries = {t["query"] for t in document["turns"] if t.get("query") and "pool" not in t} - {document["claim"]}
    assert all(any(query in text for text in said) for query in queries)
    for kind in ("md", "html"):
        assert document["claim"] in report(document, kind)


@pytest.mark.parametrize("graph", SETTINGS)
async def test_lines_are_about_turns(graph: str) -> None:
    document = await a_debate(graph)
    said = [line for section in lines(document) for line in section.lines]
    about = {line.turn for line in said if line.turn is not None}
    spoken = {place for place, turn in enumerate(document["turns"]) if turn.get("rationale") or turn.get("argument")}
    assert spoken <= about
    for line in said:
        turn = document["turns"][line.turn] if line.turn is not None else None
        assert turn is None or line.who in (turn["agent"], turn.get("side"), "")
    assert [s.graph for s in lines(document) if s.graph is not None] == [e["round"] for e in document["graphs"]]


async def test_a_trial_begins_with_what_was_found_and_admitted() -> None:
    told = lines(await a_debate("proclaim"))
    said = [(line.who, line.what) for line in next(s for s in told if s.heading.startswith("Negotiation")).lines]
    order = [said.index(one) for one in (("miner", "premise 1"), ("retrieval", "finds"), ("arbiter", "admits"))]
    assert order == sorted(order)
    assert said.count(("arbiter", "admits")) == 1


async def test_the_last_round_is_counted_before_the_verdict_and_after_it_a_person_accepts() -> None:
    document = await a_debate()
    key = {"round": 1, "phase": "primary", "agent": "person", "step": "review_verdict", "about": "The draft."}
    document["turns"] += [{**key, "number": 1, "question": "Why?"}, {**key, "number": 2, "question": None}]
    said = lines(document)[-1].lines
    found = [next(i for i, line in enumerate(said) if words in f"{line.what} {line.text}") for words in PLACES]
    assert found == sorted(found)


PLACES = ("Round 1: ", "questions the verdict: Why?", "reasons: see the verdict", "accepts verdict")


async def test_what_is_to_be_known_of_evidence_is_in_the_report() -> None:
    document = await a_debate()
    given, other = document["evidence"][:2]
    given["retrievals"][0] |= {"retriever": "given", "agent": "given"}
    other |= {"struck": True}
    assert [marks_of(piece) for piece in (given, other)] == [["given with the claim"], ["struck by a person"]]
    for kind in ("md", "html"):
        assert report(document, kind).count(", given with the claim") == 1
        assert report(document, kind).count(", struck by a person") == 1


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


async def test_what_was_shown_of_a_text_is_told_apart_from_the_rest() -> None:
    document = with_evidence(await a_debate(), 2)
    piece = document["evidence"][0]
    assert shown_of(piece, marked(piece, document)) == marked(piece, document)
    piece["shown"] = [[0, 12], [17, 21]]
    text = piece["text"]
    assert shown_of(piece, marked(piece, document)) == [
        (text[:12], False),
        (" [...] ", False),
        (text[17:21], True),
        (" [...]", False),
    ]
    page, plain = report(document, "html"), report(document, "md")
    assert f"<blockquote>{text[:12]} [...] <mark>{text[17:21]}</mark> [...]</blockquote>" in page
    assert page.count("<details>") == 1
    assert "<mark>lay eggs 🥚, as echidnas</mark> do." in page.partition("<details>")[2]
    assert f"the JSON document holds the whole text ({len(text)} characters)" in plain
    assert "\n> 🦆 Platypuses \\[...\\] **eggs** \\[...\\]\n" in plain
    document["evidence"][1]["text"] = "Long. " * 400
    assert "<summary>The text (2,400 characters)</summary>" in report(document, "html")


async def test_every_turn_is_followed_by_its_citations_with_their_checks() -> None:
    document = with_evidence(await a_debate(), 1)
    piece, turn = document["evidence"][0], document["turns"][1]
    quotes = [Quote(evidence_id=id, quote=quote) for id, quote in ((piece["id"], "no eggs"), ("ev-x", "my eggs"))]
    turn["citations"] = check_citations(quotes, [piece], [piece["id"]])
    where = f"Title 0 [{piece['id']}]"
    found = (
        f'"lay eggs 🥚, as echidnas" in {where} (found word for word)',
        f'"no eggs" in {where} (not found in the text)',
        '"my eggs" in [ev-x] (fabricated: no such piece was shown)',
    )
    for kind in ("md", "html"):
        rounds, _ = report(document, kind).split("Evidence (")
        for text in found:
            told = escaped(text) if kind == "md" else text
            assert html.unescape(rounds).count(html.unescape(told)) == 1, told


async def test_a_trial_says_its_citations_once() -> None:
    document = await a_debate("proclaim")
    turn = next(turn for turn in document["turns"] if turn.get("argument"))
    turn["citations"] = check_citations([Quote(evidence_id="ev-x", quote="my eggs")], [], [])
    told = [one for section in with_citations(lines(document), document) for one in section.lines]
    [mine] = [one for one in told if one.what == "cites" and "my eggs" in one.text]
    assert (mine.who, mine.tone) == (turn["side"], "warning")
    assert not [one for one in told if one.what == "cites" and not one.who]


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
        report(document, "md")


async def test_the_report_says_who_said_the_claim_and_when() -> None:
    document = await a_debate()
    document["task"] |= {"speaker": "Ada <b>", "claim_date": "2020-10"}
    assert "<p>Said by Ada &lt;b&gt;, 2020-10</p>" in report(document, "html")
    assert "\n\nSaid by Ada &lt;b&gt;, 2020-10\n\n" in report(document, "md")
    del document["task"]["speaker"]
    assert "<p>Said, 2020-10</p>" in report(document, "html")
