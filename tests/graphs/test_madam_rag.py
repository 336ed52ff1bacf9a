"""MADAM-RAG: who reads which document, what the aggregator and the agents see, and when it stops."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from moot.core.errors import UserError
from moot.graphs import load_graph
from moot.nodes._steps.aggregating import best_passages
from moot.nodes._texts.given import check_given
from moot.nodes._texts.verdict import votes_in_short
from moot.transcript import round_sections
from moot.transcript.report.report import report

from tests.conftest import StartStub

CLAIM = "The harbour of Aldmoor was closed in 1931."
NEI = "NOT ENOUGH INFO"
PAGES = {
    "alpha": "The alpha ledger says that the harbour was closed in 1931 after a storm.",
    "beta": "The beta chronicle says that ships used the harbour until 1940.",
    "gamma": "The gamma guide is about the lighthouse of another town.",
}


def given(*words: str) -> list[dict[str, str]]:
    return [{"id": word, "text": PAGES[word], "title": word, "url": f"https://{word}.org/1"} for word in words]


def reads(word: str, answer: str, *, first: bool = True, **fields: Any) -> dict[str, Any]:
    """A rule for the agent whose evidence is this page: for its ``first`` answer, or for all later ones."""
    later = "you have answered before"
    match = rf"(?s)^(?!.*(?i:{later})).*The {word}" if first else rf"(?si){later}.*evidence id=.{word}"
    cited = [{"evidence_id": word, "quote": " ".join(PAGES[word].split()[:6])}]
    return {"model": "agent", "match": match, "fields": {"answer": answer, "citations": cited, **fields}}


def concludes(answer: str, reply: dict[str, Any] | None = None, times: int | None = None) -> dict[str, Any]:
    """A rule for the aggregator; a whole reply, because its parts have fields of the same names."""
    whole = {"answers": [], "misleading": [], "rationale": "As alpha shows.", "citations": [], "answer": answer}
    whole |= reply or {}
    return {"model": "aggregator", "reply": json.dumps(whole)} | ({"times": times} if times else {})


async def run(texts: list[dict[str, str]], asked: dict[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    system = load_graph("madam_rag")
    models = {"aggregator": "openai:stub-aggregator"}
    plain = {"model": "openai:stub-agent", "models": models, "retrieval": "none", "attempts": 1}
    chosen = system.settings.model_validate({**plain, **settings})
    given = {"claim": CLAIM, "given": texts, **(asked or {})}
    document: dict[str, Any] = await system.graph.ainvoke(given, context=chosen)
    return document


async def test_a_whole_debate_until_nobody_changes(start_stub: StartStub) -> None:
    """Round 1: S, R, open. The reader of beta gives way in round 2, and nobody does in round 3."""
    rules = [reads("alpha", "SUPPORTS"), reads("beta", "REFUTES"), reads("gamma", NEI)]
    rules += [
        reads("alpha", "SUPPORTS", first=False),
        reads("beta", NEI, first=False),
        reads("gamma", NEI, first=False),
    ]
    named: dict[str, Any] = {
        "answers": [{"answer": "SUPPORTS", "documents": ["alpha"], "reason": "It tells the year."}]
    }
    wrong: dict[str, Any] = {"misleading": [{"document": "beta", "reason": "It names no closure."}]}
    quoted: dict[str, Any] = {"citations": [{"evidence_id": "alpha", "quote": "the harbour was closed in 1931"}]}
    stub = start_stub([*rules, concludes("REFUTES", times=1), concludes("SUPPORTS", named | wrong | quoted)])
    document = await run(given(*PAGES))
    assert (document["status"], document["answer"], document["stop_reason"]) == ("done", "SUPPORTS", "consensus")
    assert [record["reason"] for record in document["round_log"]] == ["first_answers", "changed", "unchanged"]
    assert (document["rounds"], len(document["calls"]), document["depth"]) == (3, 3 * 3 + 2, 5)
    assert document["metrics"]["documents"] == [*PAGES]
    # A document that does not tell contradicts nobody: its vote does not count, and it is no dissent.
    assert [vote["group"] for vote in document["votes"]] == [0, None, None]
    assert document["dissent"]["minority"] == []
    [change] = document["dissent"]["changes"]
    assert (change["agent"], change["answer"], change["after"], change["towards_verdict"]) == (
        "agent-2",
        NEI,
        [],
        False,
    )
    last = [turn for turn in document["turns"] if turn["step"] == "aggregate"][-1]
    assert (last["answers"], last["misleading"]) == (named["answers"], wrong["misleading"])
    assert document["metrics"]["verdict_citations"]["verified"] == 2  # of the aggregator and of the reader of alpha
    agents = [prompt for prompt in stub.prompts() if "from one source alone" in prompt]
    assert all(sum(f"The {word}" in prompt for word in PAGES) == 1 for prompt in agents)
    second, third = (
        next(p for p in agents if PAGES["beta"] in p and mark in p) for mark in ("REFUTES\n<reasons", "It tells")
    )
    assert "Answer from all of them: REFUTES" in second
    assert all(text in third for text in ("Answer from all of them: SUPPORTS", "beta: It names no closure."))
    [first, _] = [prompt for prompt in stub.prompts() if "You put their answers together" in prompt]
    assert all(part in first for part in ('by="agent-2" evidence="beta"', "The beta chronicle says that ships"))
    assert PAGES["beta"] not in first


OPEN = "(the evidence does not tell)"


@pytest.mark.parametrize(
    ("answers", "concluded", "dissents"),
    [
        (["Storm", "Flood", OPEN], "storm", "- Agent 2, Flood"),  # the aggregator writes agent 1's answer otherwise
        ([OPEN, OPEN, OPEN], OPEN, "None: all gave this answer each time they were asked."),
        (["Storm"], "Flood", "- The model, Storm"),
    ],
)
async def test_a_report_lists_as_dissent_what_is_not_the_verdict(
    start_stub: StartStub, answers: list[str], concluded: str, dissents: str
) -> None:
    read = [*zip(PAGES, answers, strict=False)]
    rules = [reads(word, answer, first=first) for word, answer in read for first in (True, False)]
    start_stub([*rules, concludes(concluded, {"rationale": "As alpha says, so it was."})])
    asked = {"claim": "What closed the harbour?", "task": "short_answer"}
    document = await run(given(*[word for word, _ in read]), asked)
    text = report(document, "md", "en")
    part = text.partition("### Dissent\n\n")[2].partition("\n\n###")[0]
    assert part.startswith(dissents)
    assert len(re.findall("(?m)^- ", part)) == dissents.startswith("- ")
    # It ended because nobody changed an answer, not because the answers are the same.
    assert "all gave the same answer" not in text
    lines = [line.text for section in round_sections(document) for line in section.lines]
    assert "The debate stops: no agent changed its answer." in lines
    assert "Nobody checked it" not in text
    assert "As \\[1\\] says, so it was." in text


async def test_readers_who_leave_the_claim_open_stand_behind_a_verdict_that_does(start_stub: StartStub) -> None:
    answers = dict(zip(PAGES, ("SUPPORTS", NEI, NEI), strict=True))
    rules = [reads(word, answer, first=first) for word, answer in answers.items() for first in (True, False)]
    start_stub([*rules, concludes(NEI)])
    document = await run(given(*PAGES))
    assert [vote["group"] for vote in document["votes"]] == [0, None, None]
    assert votes_in_short(document) == "2 of 3 agents"
    assert [one["answer"] for one in document["dissent"]["minority"]] == ["SUPPORTS"]


async def test_it_stops_after_two_rounds_without_a_change_and_after_the_last_round(start_stub: StartStub) -> None:
    same = [reads("alpha", "SUPPORTS"), reads("alpha", "SUPPORTS", first=False)]
    start_stub([*same, concludes("SUPPORTS")])
    document = await run(given("alpha"))
    # The aggregator is not asked again about answers that it knows.
    assert (document["stop_reason"], document["rounds"], len(document["calls"])) == ("consensus", 2, 3)
    start_stub([reads("alpha", "SUPPORTS"), reads("alpha", "REFUTES", first=False), concludes("SUPPORTS")])
    document = await run(given("alpha"), max_rounds=2)
    assert (document["stop_reason"], document["rounds"], len(document["calls"])) == ("max_rounds", 2, 4)


async def test_it_may_end_when_one_answer_is_left(start_stub: StartStub) -> None:
    """The reader of gamma, whose document does not tell, does not count."""
    wrong: dict[str, Any] = {"misleading": [{"document": "gamma", "reason": "It is about another town."}]}
    tells = [reads("alpha", "SUPPORTS"), reads("gamma", NEI)]
    later = [reads(word, NEI if word == "gamma" else "SUPPORTS", first=False) for word in PAGES]
    for rules, texts, *ends in (
        ([*tells, concludes("SUPPORTS")], ("alpha", "gamma"), 1, "agreed"),
        ([*tells, *later, concludes("REFUTES")], ("alpha", "gamma"), 2, "unchanged"),
        ([*tells, *later, concludes("SUPPORTS", wrong)], ("alpha", "gamma"), 2, "unchanged"),
        ([*tells, reads("beta", "REFUTES"), *later, concludes("SUPPORTS")], (*PAGES,), 2, "agreed"),
        ([reads("gamma", NEI), concludes(NEI)], ("gamma",), 1, "agreed"),
    ):
        start_stub(rules)
        document = await run(given(*texts), one_answer_ends=True)
        assert document["stop_reason"] == "consensus"
        assert [document["rounds"], document["round_log"][-1]["reason"]] == ends
    kind = load_graph("madam_rag").settings
    assert (kind().one_answer_ends, kind(preset="practical").one_answer_ends) == (False, True)


async def test_the_aggregators_reply_may_be_longer_than_others(start_stub: StartStub) -> None:
    stub = start_stub([reads("alpha", "SUPPORTS"), concludes("SUPPORTS")])
    document = await run(given("alpha"), max_rounds=1, budget=20_000)
    assert document["answer"] == "SUPPORTS"
    assert [request["max_tokens"] for request in stub.requests()] == [512, 1536]
    refused = await run(given("alpha"), budget=1600)
    assert (refused["error"]["kind"], refused["calls"]) == ("invalid_setting", [])


async def test_documents_named_by_the_aggregator_must_have_been_read(start_stub: StartStub) -> None:
    named = [{"answer": "SUPPORTS", "documents": ["alpha", "ev-9"], "reason": "So."}]
    start_stub([reads("alpha", "SUPPORTS"), concludes("SUPPORTS", {"answers": named})])
    document = await run(given("alpha"), max_rounds=1)
    [turn] = [turn for turn in document["turns"] if turn["step"] == "aggregate"]
    assert turn["answers"][0]["documents"] == ["alpha"]
    assert [warning["kind"] for warning in document["warnings"] if "ev-9" in warning["detail"]] == ["unknown_document"]


async def test_only_the_best_documents_are_read(start_stub: StartStub) -> None:
    start_stub([reads("alpha", "SUPPORTS"), concludes("SUPPORTS")])
    document = await run(given(*PAGES), max_documents=1, max_rounds=1)
    assert (document["metrics"]["documents"], len(document["calls"])) == (["alpha"], 2)
    [warning] = [one for one in document["warnings"] if one["kind"] == "documents_left_out"]
    assert "2 of 3 documents were not read" in warning["detail"]


def test_each_document_gives_its_best_passage() -> None:
    first, second, other = check_given(
        [
            {"text": f"Passage {n}.", "title": "t", "url": f"https://a.org/{page}#{n}"}
            for n, page in ((1, 1), (2, 1), (3, 2))
        ]
    )
    for piece, rank in ((first, 3), (second, 1), (other, 2)):
        piece["retrievals"][0]["rank"] = rank
    assert best_passages([first, second, other]) == [second, other]


async def test_without_a_usable_reply_of_the_aggregator_the_debate_fails(start_stub: StartStub) -> None:
    start_stub([reads("alpha", "SUPPORTS"), {"model": "aggregator", "reply": "It depends."}])
    document = await run(given("alpha"))
    assert (document["status"], document["answer"], document["error"]["kind"]) == ("failed", None, "unparsed")


async def test_under_a_ceiling_the_last_answer_of_the_aggregator_stands(start_stub: StartStub) -> None:
    rules = [reads(word, "SUPPORTS") for word in PAGES] + [reads(word, "REFUTES", first=False) for word in PAGES]
    start_stub([*rules, concludes("SUPPORTS")])
    for most in (2, 4, 6, 8):
        document = await run(given(*PAGES), max_calls=most)
        assert (document["status"], document["answer"]) == ("done", "SUPPORTS"), document["error"]
        assert len(document["calls"]) == most
        assert document["stop_reason"] == "budget_exhausted"


def test_the_settings_name_one_role_for_each_document() -> None:
    kind = load_graph("madam_rag").settings
    assert kind(max_documents=2).roles() >= {"agent-1", "agent-2", "aggregator", "pool"}
    with pytest.raises(UserError, match="no role 'agent-3'"):
        kind(max_documents=2, models={"agent-3": "fake:1"})
