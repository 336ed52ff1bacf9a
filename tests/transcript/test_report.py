"""Reports of debates contain all reasons, mark the quotes in the evidence, and have no active content."""

from __future__ import annotations

import html
import json
import re
import shlex
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from moot.cli.options import parse_settings
from moot.core.errors import Outcome, UserError
from moot.core.reviews import Action, History, next_entry
from moot.graphs import load_graph
from moot.graphs._registry import SYSTEMS, entry_of
from moot.nodes._records.entries import RoundReason, StopReason
from moot.nodes._runtime.settings import PLANNER
from moot.nodes._steps.aggregating import AGGREGATOR
from moot.nodes._steps.second_opinion import REVIEWER
from moot.nodes._steps.stand_ins import fallback_warnings
from moot.nodes._steps.trajectory import TALLY
from moot.nodes._texts.quotes import check_citations
from moot.nodes._texts.replies import Quote
from moot.nodes._texts.task import make_task
from moot.retrievers._evidence import Standing
from moot.retrievers._search import ABOUT
from moot.transcript import ending, round_sections
from moot.transcript.document import settings_of
from moot.transcript.report.claim_review import claim_review
from moot.transcript.report.codes import CODES, SPELLINGS, answer_kind
from moot.transcript.report.head import backing
from moot.transcript.report.method import command, run_facts
from moot.transcript.report.names import ROLES
from moot.transcript.report.report import report
from moot.transcript.report.sources import marks_of, quoted_parts, shown_parts, web_address
from moot.transcript.templates import escaped

from tests.web.documents import PAYLOADS, SETTINGS, a_debate, full_of, with_evidence

ROOT = Path(__file__).parents[2]


class Tags(HTMLParser):
    """The parts of an HTML text: its tag names, its attributes with their values, and its style sheets."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[tuple[str, str | None]] = set()
        self.within = self.style = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.within = tag
        self.attributes.update(attrs)

    def handle_data(self, data: str) -> None:
        self.style += data if self.within == "style" else ""


@pytest.mark.parametrize("graph", SETTINGS)
async def test_lines_and_reports_contain_all_reasons_and_queries(graph: str) -> None:
    document = await a_debate(graph)
    sections, end = round_sections(document), ending(document)
    assert end.lines[0].text.startswith("Verdict: ")
    shown_lines = [line.text for section in (*sections, end) for line in section.lines]
    texts = [t.get("rationale") or t.get("argument") for t in document["turns"]]
    assert all(any(words in text for text in shown_lines) for words in texts if words)
    queries = {t["query"] for t in document["turns"] if t.get("query") and "pool" not in t} - {document["claim"]}
    assert all(any(query in text for text in shown_lines) for query in queries)
    for kind in ("md", "html"):
        page = html.unescape(report(document, kind)).replace("\\", "")
        assert document["claim"] in page
        assert all(words in page for words in texts if words)
        assert all(query in page for query in queries)


@pytest.mark.parametrize("graph", SETTINGS)
async def test_every_reason_and_argument_has_a_line(graph: str) -> None:
    """A line about a turn names the agent of the turn, the side of the turn, or nobody.

    Each entry of ``graphs`` has a section.
    """
    document = await a_debate(graph)
    shown_lines = [line for section in round_sections(document) for line in section.lines]
    about = {line.turn for line in shown_lines if line.turn is not None}
    spoken = {place for place, turn in enumerate(document["turns"]) if turn.get("rationale") or turn.get("argument")}
    assert spoken <= about
    for line in shown_lines:
        turn = document["turns"][line.turn] if line.turn is not None else None
        assert turn is None or line.who in (turn["agent"], turn.get("side"), "")
    assert [s.graph for s in round_sections(document) if s.graph is not None] == [
        e["round"] for e in document["graphs"]
    ]


async def test_a_trial_shows_premises_before_found_and_admitted_evidence() -> None:
    sections = round_sections(await a_debate("proclaim"))
    shown_lines = [
        (line.who, line.what) for line in next(s for s in sections if s.heading.startswith("Negotiation")).lines
    ]
    order = [shown_lines.index(one) for one in (("miner", "premise 1"), ("retrieval", "finds"), ("arbiter", "admits"))]
    assert order == sorted(order)
    assert shown_lines.count(("arbiter", "admits")) == 1


async def test_the_last_section_has_votes_question_reasons_and_acceptance_in_order() -> None:
    in_order = ("Round 1: ", "questions the verdict: Why?", "reasons: see the verdict", "accepts verdict")
    document = await a_debate()
    key = {"round": 1, "phase": "primary", "agent": "person", "step": "review_verdict", "about": "The draft."}
    document["turns"] += [{**key, "number": 1, "question": "Why?"}, {**key, "number": 2, "question": None}]
    shown_lines = round_sections(document)[-1].lines
    found = [next(i for i, line in enumerate(shown_lines) if words in f"{line.what} {line.text}") for words in in_order]
    assert found == sorted(found)


async def test_the_report_marks_given_and_struck_evidence() -> None:
    document = await a_debate()
    given, other = document["evidence"][:2]
    given["retrievals"][0] |= {"retriever": "given", "agent": "given"}
    other |= {"struck": True}
    assert [marks_of(piece) for piece in (given, other)] == [["given with the claim"], ["struck by a person"]]
    for kind in ("md", "html"):
        page = re.sub("</?bdi>", "", report(document, kind))
        assert page.count(" · given with the claim") == 1
        assert page.count(" · struck by a person") == 1


async def test_quotes_are_marked_in_the_text_of_their_source() -> None:
    document = with_evidence(await a_debate(), 2)
    parts = quoted_parts(document["evidence"][0], document)
    assert parts == [("🦆 Platypuses ", False), ("lay eggs 🥚, as echidnas", True), (" do. Piece 0.", False)]
    assert "<mark>lay eggs 🥚, as echidnas</mark>" in report(document, "html")
    assert "**lay eggs 🥚, as echidnas**" in report(document, "md")
    turn = document["turns"][0]
    turn["citations"] += [turn["citations"][0] | {"start": 2, "end": 16}]  # quotes may overlap
    assert [text for text, quoted in quoted_parts(document["evidence"][0], document) if quoted] == [
        "Platypuses lay",
        " eggs 🥚, as echidnas",
    ]


async def test_a_report_shows_the_part_of_a_text_that_agents_were_shown() -> None:
    """HTML reports also have the whole text. Markdown reports say that the whole text is in the result document."""
    document = with_evidence(await a_debate(), 2)
    piece = document["evidence"][0]
    assert shown_parts(piece, quoted_parts(piece, document)) == quoted_parts(piece, document)
    piece["shown"] = [[0, 12], [17, 21]]
    text = piece["text"]
    assert shown_parts(piece, quoted_parts(piece, document)) == [
        (text[:12], False),
        (" [...] ", False),
        (text[17:21], True),
        (" [...]", False),
    ]
    page, plain = report(document, "html"), report(document, "md")
    assert f'<blockquote dir="auto">{text[:12]} [...] <mark>{text[17:21]}</mark> [...]</blockquote>' in page
    assert "<mark>lay eggs 🥚, as echidnas</mark> do." in page.partition("The whole text (")[2]
    assert f"the result document holds the whole text ({len(text)} characters)" in plain
    assert "**eggs** \\[...\\]\n" in plain


async def test_every_citation_is_listed_with_the_result_of_its_check() -> None:
    document = with_evidence(await a_debate(), 1)
    piece, turn = document["evidence"][0], document["turns"][1]
    quotes = [Quote(evidence_id=id, quote=quote) for id, quote in ((piece["id"], "no eggs"), ("ev-x", "my eggs"))]
    turn["citations"] = check_citations(quotes, [piece], [piece["id"]])
    page, plain = report(document, "html"), report(document, "md")
    marks = [part.partition("</mark>")[0] for part in page.split("<mark>")[1:]]
    assert set(marks) == {"lay eggs 🥚, as echidnas"}  # only words that are in their source are marked
    assert '<span class="un" dir="auto">no eggs</span>' in page
    assert '<span class="un" dir="auto">my eggs</span>' in page
    for text in (page, plain):
        assert "not in this source in these words" in text
        assert "names a source that the agent was not shown; not counted" in text
        assert re.search(
            r"\d+ quotes were checked, and 1 found in th\w+ source\. 1 is not .*\. \d+ w\w+ invented", text
        )
        assert "ev-x" not in text
        assert piece["id"] not in text


async def test_payloads_are_shown_as_text_only() -> None:
    document = full_of(await a_debate(), PAYLOADS)
    rendered = MarkdownIt("commonmark").render(report(document, "md"))
    allowed_tags = {"h1", "h2", "h3", "p", "ul", "li", "strong", "blockquote", "a"}
    assert Tags(rendered).names <= allowed_tags
    page = Tags(report(document, "html"))
    assert not page.names & {"script", "img", "iframe", "object", "video", "audio", "base", "input", "math"}
    for name, value in page.attributes | Tags(rendered).attributes:
        assert not name.startswith("on")
        assert name != "href" or re.match(r"https?://|#(s\d+|record|i-\w+)$", value or "")
        assert name != "style"
    assert page.names >= allowed_tags - {"strong", "h3"}
    assert "ran=1" not in page.style


def test_only_web_addresses_become_links() -> None:
    assert web_address("https://x.test/a b>'\"") == "https://x.test/a%20b%3E'%22"
    assert [web_address(url) for url in ("javascript:1", " https://x.test", "//x.test", "", None)] == [""] * 5


def test_markdown_and_html_are_escaped() -> None:
    assert escaped("# *a* [b](c)\n<i>&amp;") == "\\# \\*a\\* \\[b\\](c) &lt;i&gt;&amp;amp;"
    assert [escaped(text) for text in ("1. x", "- x", "a - 1. x")] == ["1\\. x", "\\- x", "a - 1. x"]


async def test_a_report_of_a_task_without_labels_is_a_user_error() -> None:
    document = await a_debate()
    del document["task"]["labels"]
    with pytest.raises(UserError, match="do not fit together"):
        report(document, "md")


async def test_the_report_says_who_said_the_claim_and_when() -> None:
    document = await a_debate()
    document["task"] |= {"speaker": "Ada <b>", "claim_date": "2020-10"}
    assert "Said by Ada &lt;b&gt; (October 2020)." in report(document, "html")
    assert "Said by Ada &lt;b&gt; (October 2020)." in report(document, "md")
    del document["task"]["speaker"]
    assert "Date of the claim: October 2020; by whom is not given." in report(document, "html")


async def test_a_report_names_no_source_that_was_not_searched() -> None:
    document = await a_debate()
    document["corpora"] = []
    document["settings"] |= {"retrieval": "none", "scoring": "consensus_only"}
    page = report(document, "html")
    assert "<small>reads " not in page
    assert "different retrieval tools" not in page


# --- answers and warnings ---------------------------------------------------------------------------------------------

LABELS = (
    ("SUPPORTS", "sup"), ("REFUTES", "ref"), ("NOT ENOUGH INFO", "nee"), ("supports", "text"), ("SUPPORTED", "text"),
    ("", "text"), (None, "non"),
)  # fmt: skip


@pytest.mark.parametrize(("answer", "kind"), LABELS)
def test_only_known_labels_of_claims_have_their_own_kind(answer: str | None, kind: str) -> None:
    task = make_task("fever")
    assert answer_kind(task, answer) == kind
    assert answer_kind(None, answer) == "non"
    assert answer_kind({**task, "subject": "question"}, answer) == ("non" if answer is None else "text")


@given(label=st.text(max_size=30))
def test_the_kind_of_a_users_label_is_text_unless_its_spelling_is_known(label: str) -> None:
    kind = answer_kind({**make_task("fever"), "labels": [label]}, label)
    assert kind == "text" or label.replace("_", " ").casefold() in SPELLINGS


@pytest.mark.parametrize("change", [
    {"status": "failed", "error": {"kind": "unreachable", "where": "x", "detail": "No.", "retryable": True}},
    {"status": "interrupted"},
    {"answer": None, "raw_verdict": None},
])  # fmt: skip
async def test_a_debate_without_a_verdict_is_not_coloured_as_an_answer(change: dict[str, object]) -> None:
    document = await a_debate()
    document |= {"answer": "SUPPORTS"} | change
    page = report(document, "html")
    assert 'class="verdict non"' in page
    assert "Supported by the evidence found" not in page


async def test_the_heading_says_whether_the_verdict_has_a_verified_quote() -> None:
    headings = ("Supported by the evidence found", "Supported, without a verified quote")
    document = with_evidence(await a_debate(), 1) | {"answer": "SUPPORTS"}
    answers = [turn for turn in document["turns"] if turn["step"] in ("respond", "judge")]
    verified = [one for turn in answers for one in turn["citations"] if one["verified"]]
    for turn in answers:
        turn["citations"] = verified if turn["step"] == "judge" else []
    quoted = report(document, "html")
    for turn in answers:  # a debater's quote is not a quote of the verdict
        turn["citations"] = verified if turn["step"] == "respond" else []
    unquoted = report(document, "html")
    for turn in answers:
        turn["citations"] = [{**one, "verified": False} for one in verified]
    unverified = report(document, "html")
    assert [words in quoted for words in headings] == [True, False]
    for page in (unquoted, unverified):
        assert [words in page for words in headings] == [False, True]


async def test_reports_show_no_codes() -> None:
    """Only the command that repeats the debate contains codes."""
    codes = {code for table in CODES.values() for code in table if "_" in code}
    for graph in SETTINGS:
        document = await a_debate(graph)
        for kind in ("html", "md"):
            page = report(document, kind).partition("</style>" if kind == "html" else "# ")[2]
            page = page.replace("\\", "").partition("Command to repeat it")[0]
            labels = {label for label in document["task"]["labels"] if label in page}
            assert not labels | {code for code in codes if re.search(rf"\b{code}\b", page)}, graph
            assert not re.search(r"\bev-[0-9a-f]{10}\b", page), graph


@pytest.mark.parametrize(
    ("asked", "name", "read", "lead", "message"),
    [
        (
            "web",
            "web",
            "bm25:moor",
            "The web was not searched.",
            "The collection “moor” (by keyword) was searched instead.",
        ),
        (
            "tavily",
            "wikipedia",
            "wikipedia",
            "Another source",
            "The web (Tavily) could not be searched; Wikipedia was searched instead.",
        ),
        (
            "chroma",
            "chroma",
            "wikipedia",
            "No collection was searched.",
            "No collection was named, so Wikipedia was searched instead.",
        ),
    ],
)
async def test_a_fallback_source_is_named_without_codes(
    asked: str, name: str, read: str, lead: str, message: str
) -> None:
    [detail] = fallback_warnings(
        asked, name, read, load_graph("rag").settings(corpus="moor" if asked == "web" else None)
    )
    document = await a_debate()
    document["warnings"].append({"kind": "stand_in", "where": "sources", "detail": detail})
    page = report(document, "md").replace("\\", "")
    beside = page.partition("## ")[2].partition("\n## ")[0]
    assert f"**{lead}" in beside
    assert message in beside
    assert not re.search(r"TAVILY_API_KEY|`|bm25", beside)


async def test_a_debate_that_failed_before_its_search_is_not_called_closed_book() -> None:
    document = await a_debate("tool_mad") | {"corpora": [], "evidence": [], "turns": [], "status": "failed"}
    document |= {"answer": None, "error": {"kind": "x", "where": "x", "detail": "No encoder.", "retryable": False}}
    for kind in ("html", "md"):
        assert "from what the model knows" not in report(document, kind)
        assert "Nothing before the debate ended." in report(document, kind)


async def test_a_report_says_whether_the_verdict_depends_on_one_source() -> None:
    document = await a_debate()
    dependent = {"said": "Without a.org it becomes R. 2 more could have been asked (robustness_calls).", "holds": False}
    page = report(document | {"robustness": dependent}, "html")
    assert "<b>The verdict depends on one source.</b> Asked again: without a.org it becomes R. 2 more could" in page
    assert "robustness_calls" not in page.partition("Command to repeat it")[0]
    assert "Asked again: holds." in report(document | {"robustness": {"said": "Holds.", "holds": True}}, "html")


WARNED = re.compile(r"""(?:\bwarn\(\s*|"kind": (?="[a-z_]+", "where"))"([a-z_]+)\"""")
"""Matches the code of a warning in the text of a Python file."""


def test_every_code_has_words() -> None:
    """These are the codes of warnings, outcomes, stop reasons, reasons of rounds, and sources, and the speakers."""
    assert {PLANNER, REVIEWER, AGGREGATOR, TALLY} <= {*ROLES}
    codes = {name for source in (ROOT / "nodes").rglob("*.py") for name in WARNED.findall(source.read_text("utf-8"))}
    assert codes
    assert codes <= {*CODES["warning"]}
    assert {*get_args(Outcome)} <= {*CODES["warning"]}
    assert {*get_args(Outcome)} <= {*CODES["outcome"]}
    assert {*get_args(StopReason)} <= {*CODES["stop"]}
    assert {*get_args(RoundReason)} <= {*CODES["round"]}
    assert {*ABOUT} <= {*CODES["source"]}
    assert {*get_args(Standing)} == {*CODES["standing"]}


@pytest.mark.parametrize("graph", SETTINGS)
async def test_the_command_to_repeat_a_debate_gives_the_same_settings(graph: str) -> None:
    document = await a_debate(graph)
    words = shlex.split(command(document))
    given = [words[place + 1] for place, word in enumerate(words) if word == "--set"]
    named = {key: words[words.index(f"--{key}") + 1] for key in ("model", "corpus") if f"--{key}" in words}
    kind = load_graph(document["graph"]).settings
    assert words[:3] == ["moot", "verify", document["claim"]]
    assert parse_settings(kind, given, named).recorded() == settings_of(document).recorded()


async def test_the_line_on_the_method_follows_the_settings() -> None:
    document = await a_debate("tool_mad")
    for scoring, gated in (("on", True), ("consensus_only", False), ("all_rounds", False)):
        told = dict(run_facts({**document, "settings": {**document["settings"], "scoring": scoring}}))
        assert ("gate the consensus" in told["Method"]) == gated, scoring
    for name, entry in SYSTEMS.items():
        kind = load_graph(name).settings
        for setting, by_value in entry.get("with", {}).items():
            for value in by_value:
                chosen = kind.model_validate({setting: True if value == "true" else value})
                assert entry_of(name, chosen.model_dump()) == {**entry, **by_value[value]}, (name, setting)


async def test_the_command_to_repeat_a_debate_always_names_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader's MOOT_MODEL may be another one."""
    document = await a_debate()
    monkeypatch.setenv("MOOT_MODEL", document["settings"]["model"])
    words = shlex.split(command(document))
    assert words[words.index("--model") + 1] == document["settings"]["model"]


async def test_a_report_says_if_all_debaters_argued_the_same_side() -> None:
    document = await a_debate()
    for turn in document["turns"]:
        if turn["step"] == "respond":
            turn["answer"] = "SUPPORTS"
    assert "Nobody argued the other side" in report(document, "html")
    document["turns"][-1]["answer"] = document["turns"][0]["answer"] = "REFUTES"
    assert "Nobody argued the other side" not in report(document, "html")


# --- ClaimReview ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("answer", "rating"), [("SUPPORTS", 5), ("REFUTES", 1), ("NOT ENOUGH INFO", None)])
async def test_a_claim_review_fits_its_schema_and_rates_the_answer(answer: str, rating: int | None) -> None:
    document = await a_debate()
    document |= {"answer": answer, "claim": "Eggs </script> & <b>."}
    document["task"] |= {"speaker": "Ada", "claim_date": "2020-10-25"}
    text = claim_review(document, "Moot News", "https://news.test/1", History(), unreviewed=True)
    assert "<" not in text  # because the text is embedded in pages
    found = json.loads(text)
    schema = json.loads((ROOT / "tests/transcript/claim_review.schema.json").read_text("utf-8"))
    jsonschema.validate(found, schema, format_checker=jsonschema.FormatChecker())
    assert found["claimReviewed"] == document["claim"]
    assert found["reviewRating"].get("ratingValue") == rating
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({key: found[key] for key in found if key != "reviewRating"}, schema)


async def test_a_claim_review_needs_a_publisher_an_address_and_a_verdict() -> None:
    """A debate about a question has no claim review."""
    document = await a_debate() | {"answer": "SUPPORTS"}
    for publisher, url, message in (
        ("", "https://x.test", "--publisher"),
        ("Moot News", "", "--url"),
        ("Moot News", "javascript:alert(1)", "--url"),
        ("Moot News", "https://x.test/a b", "--url"),
        ("Moot News", "https://[x", "--url"),
    ):
        with pytest.raises(UserError, match=message):
            claim_review(document, publisher, url, History(), unreviewed=True)
    given = ("Moot News", "https://x.test", History())
    with pytest.raises(UserError, match="no verdict"):
        claim_review({**document, "answer": None}, *given, unreviewed=True)
    with pytest.raises(UserError, match="about a claim"):
        claim_review({**document, "task": make_task("hotpotqa", claim="Who?")}, *given, unreviewed=True)


async def test_a_claim_review_has_the_editors_words_once_the_check_is_approved() -> None:
    document = await a_debate() | {"answer": "SUPPORTS"}
    given = ("Moot News", "https://x.test")
    history = History()

    def decide(action: Action, **change: Any) -> dict[str, Any]:
        nonlocal history
        entry = next_entry(history, action, change, debate=document["id"], document="d", person="Ada")
        history = History([*history, entry])
        return dict(json.loads(claim_review(document, *given, history)))

    with pytest.raises(UserError, match="Nobody has approved"):
        claim_review(document, *given, history)
    machine = json.loads(claim_review(document, *given, history, unreviewed=True))
    assert machine["author"]["@type"] == "SoftwareApplication"
    with pytest.raises(UserError, match="Nobody has approved"):
        decide("save", rating="True", note="Ask them.")
    found = decide("approve", rating="Mostly false", summary="It is not so.", look_again="2999-01-01")
    schema = json.loads((ROOT / "tests/transcript/claim_review.schema.json").read_text("utf-8"))
    jsonschema.validate(found, schema, format_checker=jsonschema.FormatChecker())
    assert (found["author"]["name"], found["editor"]["name"], found["expires"]) == ("Moot News", "Ada", "2999-01-01")
    rating = found["reviewRating"]
    assert (rating["alternateName"], rating["ratingValue"], rating["bestRating"]) == ("Mostly false", 2, 5)
    assert "Ask them." not in json.dumps(found)
    corrected = decide("correct", rating="False", to_readers="We erred.")
    assert (corrected["correction"], corrected["reviewRating"]["ratingValue"]) == ("We erred.", 1)
    with pytest.raises(UserError, match="was withdrawn"):
        decide("withdraw", to_readers="We cannot say.")
    history = History([one.model_copy(update={"at": one.at - timedelta(days=9)}) for one in history])
    again = decide("approve", rating="True")
    assert again["datePublished"] == f"{history[-1].at:%Y-%m-%d}"  # as in the report: the earlier one was withdrawn


@pytest.mark.parametrize(
    ("answers", "judged", "words"),
    [
        (["REFUTES", "REFUTES"], "SUPPORTS", "Both debaters answered “Refuted”. {}a judge decided against them."),
        (["REFUTES", "REFUTES"], "REFUTES", "Both debaters gave the same answer. {}a judge agreed."),
        (["REFUTES", "SUPPORTS"], "REFUTES", "Of 2 answers: 1 “Refuted” and 1 “Supported”. {}a judge decided."),
    ],
)
def test_a_report_says_whether_the_judge_agreed_with_the_debaters(answers: list[str], judged: str, words: str) -> None:
    votes = [{"agent": name, "answer": one, "group": one} for name, one in zip("ab", answers, strict=True)]
    ended = {
        "task": make_task("fever", claim="Eggs."),
        "metrics": {},
        "votes": votes,
        "stop_reason": "max_rounds",
        "rounds": 1,
        "round_log": [],
        "warnings": [],
    }
    names: Any = str
    basis = backing({**ended, "turns": [{"step": "judge", "answer": judged}]}, names)
    assert basis == words.format("The rounds were used up, and ")


@pytest.mark.parametrize(
    ("outcomes", "told"),
    [(("ok", "empty"), True), (("ok", "failed"), False), (("ok", "ok"), False)],
)
async def test_a_report_says_whether_a_search_found_nothing(outcomes: tuple[str, str], told: bool) -> None:
    document = await a_debate()
    searches = [turn for turn in document["turns"] if turn.get("query")]
    for outcome, turn in zip(outcomes, searches, strict=False):
        turn["retrieval"] = outcome
        turn["evidence_ids"] = turn["evidence_ids"] if outcome == "ok" else []
    assert ("” found nothing." in report(document, "md").partition("## What is not known")[2]) is told
