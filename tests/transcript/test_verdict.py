"""Each output of a debate gives the verdict with its reasons, the counts of its citations, and its caveats."""

from __future__ import annotations

import html
from typing import Any

import pytest
from moot.graphs import load_graph
from moot.nodes._runtime.running import DebateRun
from moot.nodes._texts.verdict import count_verdict_citations, outcome_in_words, verdict_turns, verdict_warnings
from moot.retrievers._evidence import evidence_id
from moot.transcript import Line, Live, ending, round_sections
from moot.transcript.report.report import report
from moot.transcript.templates import escaped
from moot.web.kept import checked_document
from moot.web.pages import describe_document

from tests.conftest import CLAIM, MODELS, StartStub, says
from tests.transcript.shelf import TEXT

ID = evidence_id("Shelf", TEXT)
SHELF = "langchain:tests.transcript.shelf"
LEXICAL = [{"name": name, "retriever": "bm25:demo-news"} for name in ("rag", "search")]
GRAPHS: dict[str, dict[str, Any]] = {
    "tool_mad": {"debaters": LEXICAL, "scoring": "consensus_only"},
    "madke": {"sources": ["bm25:demo-news"]},
    "society_of_minds": {},
    "tit_for_tat": {},
    "self_consistency": {"samples": 3},
    "chain_of_thought": {},
    "proclaim": {"sources": ["bm25:demo-news"], "max_rounds": 1, "switched_rounds": 1, "progressive_retrieval": False},
}


async def run_debate(name: str, **given: Any) -> tuple[dict[str, Any], list[Line]]:
    """Run a debate; return its document and its whole live output."""
    system = load_graph(name)
    settings = system.settings.model_validate(given)
    live, printed = Live(settings), list[Line]()
    document = await DebateRun(system.graph, settings, lambda written: printed.extend(live.feed(written))).run(
        {"claim": CLAIM}
    )
    assert document["status"] == "done", document["error"]
    assert checked_document(document) == document
    return document, [*printed, *live.end(document)]


def outputs_of(document: dict[str, Any]) -> list[str]:
    """The texts of a finished debate: its lines on the page, its HTML report, and its Markdown report."""
    shown_lines = [line.text for section in (*round_sections(document), ending(document)) for line in section.lines]
    return ["\n".join(shown_lines), html.unescape(report(document, "html")), report(document, "md").replace("\\", "")]


@pytest.mark.parametrize("name", GRAPHS)
async def test_each_reason_of_the_verdict_appears_once(name: str) -> None:
    """This holds for the live output and the page. Reports may repeat a reason."""
    document, printed = await run_debate(name, model="fake:3", **GRAPHS[name])
    reasons = {turn.get("rationale") or turn.get("reason") for turn in verdict_turns(document)}
    assert reasons
    page, *reports = outputs_of(document)
    assert all(str(reason) in text for reason in reasons for text in reports)
    for text in ("\n".join(line.text for line in printed), page):
        assert {str(reason): text.count(str(reason)) for reason in reasons} == dict.fromkeys(reasons, 1)
    beside = "\n".join(line.text for line in ending(document).lines)
    assert all(str(reason) in beside for reason in reasons)


async def test_a_reason_of_two_agents_appears_once_with_both_names(start_stub: StartStub) -> None:
    start_stub([{"fields": {"answer": "SUPPORTS", "rationale": "It is a monotreme.", "citations": []}}])
    document, printed = await run_debate(
        "society_of_minds", model="openai:stub", agents=2, max_rounds=2, max_concurrency=1
    )
    labelled = [(line.who, line.what, line.text) for line in printed if line.who]
    assert [one for one in labelled if one[1] in ("answers", "because")] == [
        ("agent-1", "answers", "SUPPORTS - It is a monotreme."),
        ("agent-2", "answers", "SUPPORTS - as agent-1 said in round 1"),
        ("agent-1", "answers", "SUPPORTS - as agent-1 said in round 1"),
        ("agent-2", "answers", "SUPPORTS - as agent-1 said in round 1"),
        ("agent-1, agent-2", "because", "(said in round 1)"),
    ]
    [line] = [line for line in ending(document).lines if line.what == "because"]
    assert (line.who, line.text) == ("agent-1, agent-2", "It is a monotreme.")
    assert outputs_of(document)[0].count("It is a monotreme.") == 1
    assert outcome_in_words(document).split("\n\n")[1] == "agent-1, agent-2: It is a monotreme."


async def test_the_reason_in_an_interrupted_debate_is_printed_once(start_stub: StartStub) -> None:
    start_stub([{"fields": {"answer": "SUPPORTS", "rationale": "It is a monotreme.", "citations": []}}])
    document, _ = await run_debate("chain_of_thought", model="openai:stub")
    live = Live(load_graph("chain_of_thought").settings())
    live.feed({"turns": document["turns"]})
    printed = live.end({**document, "status": "interrupted"})
    assert [line.text for line in printed].count("It is a monotreme.") == 1


def check_caveats(document: dict[str, Any], printed: list[Line], line: str, *caveats: str) -> None:
    """Check the caveats of a verdict in the live output, `outcome_in_words`, the page and the reports.

    ``line`` is the expected result of `moot.nodes._texts.verdict.verdict_line`.
    """
    assert [one.text for one in printed if one.tone == "outcome"] == [f"Verdict: {line}"]
    assert [one.text for one in printed if one.tone == "caveat"] == list(caveats)
    assert outcome_in_words(document).startswith("\n\n".join([line, "\n".join(f"Warning: {one}" for one in caveats)]))
    assert (
        describe_document(document, has_ended=True)["caveats"]
        == describe_document(document, has_ended=False)["caveats"]
        == list(caveats)
    )
    for kind in ("md", "html"):
        page = report(document, kind)
        for caveat in caveats:
            # In reports, some caveats begin with other words.
            rest = caveat.removeprefix("A source failed: ").rpartition(". ")[2]
            assert (escaped(rest) if kind == "md" else html.escape(rest, quote=False)) in page


async def test_a_source_that_fails_in_every_round_is_reported_once(start_stub: StartStub) -> None:
    start_stub([says("rag", "SUPPORTS"), says("search", "REFUTES"), says("judge", "SUPPORTS")])
    down = f"{SHELF}:down"
    debaters = [{"name": "rag", "retriever": down}, {"name": "search", "retriever": f"{SHELF}:shelf"}]
    document, printed = await run_debate(
        "tool_mad", models=MODELS, debaters=debaters, scoring="consensus_only", max_rounds=3, attempts=1
    )
    [kind] = {one["kind"] for one in document["warnings"]}
    assert (kind, len(document["warnings"])) == ("retrieval_failed", 3)
    check_caveats(
        document, printed, "SUPPORTS (max_rounds) - a source failed",
        f"A source failed: {down}: {down} failed (ConnectionError: the shelf is locked). Test it on its own.",
    )  # fmt: skip
    assert not [line for line in printed if line.tone == "warning" and "retrieval_failed" in line.text]
    assert describe_document(document, has_ended=True)["warnings"] == []


async def test_a_verdict_has_a_caveat_if_the_search_found_no_evidence(start_stub: StartStub) -> None:
    """Debates that found evidence have no warning. Closed-book debates have none either."""
    start_stub([{"fields": {"answer": "SUPPORTS", "citations": []}}])
    document, printed = await run_debate("rag", model="openai:stub", sources=[f"{SHELF}:empty"])
    check_caveats(
        document,
        printed,
        "SUPPORTS (single_pass) - nothing found",
        "The verdict is based on no evidence: the searches found nothing.",
    )
    assert [(w["kind"], w["where"]) for w in document["warnings"]][-1] == ("no_evidence", "verdict")
    for name, given in (("rag", {"sources": [f"{SHELF}:shelf"]}), ("chain_of_thought", {}), ("society_of_minds", {})):
        document, _ = await run_debate(name, model="openai:stub", **given)
        assert document["warnings"] == []


async def test_a_verdict_has_a_warning_if_the_decider_saw_no_evidence(start_stub: StartStub) -> None:
    """Debates without a search and debates without an answer have no such warning."""
    start_stub([{"fields": {"answer": "SUPPORTS", "citations": []}}])
    document, _ = await run_debate("rag", model="openai:stub", sources=[f"{SHELF}:shelf"])
    answer = document["turns"][-1]
    for ids, kinds in (([ID], []), ([], ["no_evidence"]), (["ev-unknown"], ["no_evidence"])):
        shown = {**document, "turns": [*document["turns"][:-1], {**answer, "evidence_ids": ids}]}
        assert [one["kind"] for one in verdict_warnings(shown)] == kinds
    # What the first round read may settle nothing, but bears out no answer of the second.
    turns = [{**answer, "evidence_ids": [ID]}, {**answer, "round": 2, "evidence_ids": []}]
    for label, kinds in (("SUPPORTS", ["no_evidence"]), ("NOT ENOUGH INFO", [])):
        votes = [{"agent": answer["agent"], "answer": label, "group": 0}]
        later = {**document, "rounds": 2, "turns": turns, "votes": votes, "answer": label, "raw_verdict": label}
        assert [one["kind"] for one in verdict_warnings(later)] == kinds
    assert verdict_warnings({**document, "answer": None, "evidence": []}) == []
    closed = {**document, "evidence": [], "corpora": [], "settings": {"sources": ["bm25"], "retrieval": "none"}}
    assert verdict_warnings(closed) == []
    assert [one["kind"] for one in verdict_warnings({**closed, "settings": {"sources": ["bm25:demo-news"]}})] == [
        "no_evidence"
    ]


async def test_a_verdict_has_a_caveat_if_its_citations_have_one_origin(start_stub: StartStub) -> None:
    start_stub([{"fields": {"answer": "SUPPORTS", "citations": [{"evidence_id": ID, "quote": "lay leathery eggs"}]}}])
    document, printed = await run_debate("rag", model="openai:stub", sources=[f"{SHELF}:shelf"])
    check_caveats(
        document, printed, "SUPPORTS (single_pass) - one origin",
        "All verified citations of the verdict are of one origin: Shelf: Eggs.",
    )  # fmt: skip
    [piece] = document["evidence"]
    answer = document["turns"][-1]
    for urls, kinds in (
        (["https://a.org/1", "https://www.a.org/2"], ["single_origin"]),
        (["https://a.org/1", "https://b.org/1"], []),
    ):
        pieces = [{**piece, "id": url, "url": url} for url in urls]
        cited = [{**answer["citations"][0], "evidence_id": url} for url in urls]
        turns = [{**answer, "evidence_ids": urls, "citations": cited}]
        assert [w["kind"] for w in verdict_warnings({**document, "turns": turns, "evidence": pieces})] == kinds


async def test_citations_of_a_verdict_are_counted(start_stub: StartStub) -> None:
    invented, wrong, right = (
        {"evidence_id": id, "quote": quote}
        for id, quote in (("ev-invented", "eggs"), (ID, "lay no eggs"), (ID, "lay leathery eggs"))
    )
    start_stub([{"fields": {"answer": "SUPPORTS", "citations": [invented, wrong, right, right]}}])
    document, printed = await run_debate("rag", model="openai:stub", sources=[f"{SHELF}:shelf"])
    counts = {"total": 3, "verified": 1, "unverified": 1, "fabricated": 1}  # a repeated citation counts once
    assert document["metrics"]["verdict_citations"] == count_verdict_citations(document) == counts
    assert document["metrics"]["citations"]["total"] == 4
    words = "Citations: 1 verified, 1 unverified, 1 fabricated."
    assert [line.text for line in printed].count(words) == 1
    assert words in outcome_in_words(document)
    assert describe_document(document, has_ended=True)["end"]["cites"] == words


async def test_a_verdict_has_a_caveat_if_all_its_citations_are_fabricated(start_stub: StartStub) -> None:
    invented = {"evidence_id": "ev-invented", "quote": "eggs"}
    start_stub([{"fields": {"answer": "SUPPORTS", "citations": [invented]}}])
    document, printed = await run_debate("rag", model="openai:stub", sources=[f"{SHELF}:shelf"])
    check_caveats(
        document, printed, "SUPPORTS (single_pass) - all citations fabricated",
        "The only citation of the verdict is fabricated: it names evidence that was not shown.",
    )  # fmt: skip
    cited = '"eggs" (fabricated: no such piece was shown)'
    assert [line.text for line in printed if line.what == "cites"] == [f"[ev-invented]: {cited}"]
    assert describe_document(document, has_ended=True)["end"]["citations"][0]["evidence_id"] == "ev-invented"
    for page in outputs_of(document)[1:]:
        assert "eggs" in page
        assert "names a source that the agent was not shown; not counted" in page
        assert "1 quote was checked, and 0 found in its source." in page
        assert "1 was invented: it names a source that the agent was not shown" in page


async def test_the_line_of_a_verdict_says_that_votes_were_tied(start_stub: StartStub) -> None:
    answers = ((1, "SUPPORTS"), (2, "REFUTES"))
    rules = [{"model": f"stub-{i}", "fields": {"answer": answer, "citations": []}} for i, answer in answers]
    start_stub(rules)
    agents = [{"model": "openai:stub-1"}, {"model": "openai:stub-2"}]
    document, _ = await run_debate("society_of_minds", agents=agents, max_rounds=1)
    assert ending(document).lines[0].text == "Verdict: SUPPORTS (max_rounds; tied votes, so the earliest answer counts)"
