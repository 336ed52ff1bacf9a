"""Answers that decide are assessed: which quotes bear them out, what a verdict without such a quote becomes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from moot.graphs import load_graph
from moot.nodes._texts.verdict import outcome_in_words, verdict_citations, votes_in_short
from moot.retrievers._evidence import evidence_id
from moot.transcript.document import ending, round_sections
from moot.transcript.report.report import report

from tests.conftest import StartStub

CLAIM = "The harbour of Aldmoor was closed in 1931."
CLOSED = "The council closed the harbour of Aldmoor in May 1931."
OPENED = "The new quay of Aldmoor was opened in 1950 by the mayor."
GIVEN = [{"text": CLOSED, "source": "Ledger"}, {"text": OPENED, "source": "Gazette"}]
ASSESSES = "Check an answer against its evidence"
OPEN = "NOT ENOUGH INFO"


def cites(*texts: str) -> list[dict[str, str]]:
    return [
        {"evidence_id": evidence_id(one["source"], one["text"]), "quote": one["text"]}
        for one in GIVEN
        if one["text"] in texts
    ]


def answers(label: str, *quoted: str, **more: Any) -> dict[str, Any]:
    """A rule for all prompts that ask for an answer."""
    return {"match": "your `answer`", "fields": {"answer": label, "citations": cites(*quoted)}, **more}


def finds(*bears: str, supported: tuple[bool, ...] = (True,), **more: Any) -> dict[str, Any]:
    """A rule for the scorer: what each quote does for the answer, and which statements follow."""
    statements = [{"text": f"Statement {i}.", "supported": one, "reason": "."} for i, one in enumerate(supported)]
    quotes = [{"index": i, "bears": one} for i, one in enumerate(bears)]
    return {"match": ASSESSES, "reply": json.dumps({"statements": statements, "quotes": quotes}), **more}


async def check(
    system: str = "rag", task: str = "fever", labels: list[str] | None = None, **settings: Any
) -> dict[str, Any]:
    found = load_graph(system)
    chosen = {"model": "openai:stub", "retrieval": "none", "attempts": 1, "preset": "practical", **settings}
    known = {key: value for key, value in chosen.items() if key in found.settings.model_fields}
    document: dict[str, Any] = await found.graph.ainvoke(
        {"claim": CLAIM, "given": GIVEN, "task": task, "labels": labels}, context=found.settings.model_validate(known)
    )
    assert document["error"] is None
    return document


def said_of(document: dict[str, Any]) -> str:
    """The text of `moot show`."""
    return "\n".join(str(line) for part in (*round_sections(document), ending(document)) for line in part.lines)


def warned(document: dict[str, Any]) -> set[str]:
    return {one["kind"] for one in document["warnings"]}


@pytest.mark.parametrize(
    ("bears", "kind", "words"),
    [
        (("entails", "neither"), None, ""),
        (("neither", "contradicts"), "unwarranted", "of its checked quotes, 1 against it and 1 beside it"),
    ],
)
async def test_the_answer_that_decides_is_assessed_once(
    start_stub: StartStub, bears: tuple[str, str], kind: str | None, words: str
) -> None:
    stub = start_stub([answers("SUPPORTS", CLOSED, OPENED), finds(*bears, supported=(True, False, True, True))])
    document = await check()
    (turn,) = (t for t in document["turns"] if t["step"] == "respond")
    assert [one["warrant"] for one in turn["citations"]] == [*bears]
    assert turn["scores"]["faithfulness"] == 0.75
    assert [call["role"] for call in document["calls"]] == ["agent-1", "scorer"]
    (prompt,) = (p for p in stub.prompts() if ASSESSES in p)
    assert "SUPPORTS - the evidence shows that the claim is true" in prompt
    assert f'index="1" of="{evidence_id("Gazette", OPENED)}"' in prompt
    assert (document["answer"], warned(document) & {"unwarranted", "not_assessed"}) == ("SUPPORTS", {kind} - {None})
    assert words in outcome_in_words(document)
    for format in ("html", "md"):
        assert ("speaks against it" in report(document, format)) == ("contradicts" in bears)
        assert words in report(document, format)


@pytest.mark.parametrize("system", ["rag", "tool_mad"])
async def test_under_paper_nobody_assesses(start_stub: StartStub, system: str) -> None:
    """Tool-MAD's scores are no assessment."""
    stub = start_stub([answers("SUPPORTS", CLOSED)])
    settings: dict[str, Any] = {
        "answer_relevance_threshold": 0,
        "faithfulness_threshold": 0,
        "embedder": "openai:stub-embedding",
    }
    document = await check(system, preset="paper", **settings)
    assert [one["warrant"] for one in verdict_citations(document)] == [None]
    assert ("scorer" in {call["role"] for call in document["calls"]}) == (system == "tool_mad")
    assert not any(ASSESSES in prompt for prompt in stub.prompts())
    assert not warned(document) & {"unwarranted", "not_assessed"}


@pytest.mark.parametrize(
    ("label", "quoted", "rules", "answer", "kind"),
    [
        ("REFUTES", (OPENED,), [finds("neither")], OPEN, "unwarranted"),
        ("REFUTES", (), [finds()], OPEN, "unwarranted"),
        ("REFUTES", (OPENED,), [{"match": ASSESSES, "reply": "no"}], OPEN, "not_assessed"),
        ("REFUTES", (OPENED,), [finds("entails")], "REFUTES", None),
        (OPEN, (OPENED,), [], OPEN, None),
        ("NOT_SUPPORTED", (OPENED,), [finds("neither")], None, "unwarranted"),
        ("false", (OPENED,), [finds("neither")], "unproven", "unwarranted"),
        ("unproven", (OPENED,), [], "unproven", None),
    ],
)
async def test_a_required_warrant(
    start_stub: StartStub, label: str, quoted: tuple[str, ...], rules: list[Any], answer: str | None, kind: str | None
) -> None:
    stub = start_stub([answers(label, *quoted), *rules])
    own: dict[str, Any] = {"task": "labels", "labels": ["true", "false", "unproven"]}
    task = {"NOT_SUPPORTED": {"task": "hover"}, "false": own, "unproven": own}.get(label, {})
    document = await check(**task, require_warrant=True)
    assert (document["answer"], document["raw_verdict"]) == (answer, label)
    assert warned(document) & {"unwarranted", "not_assessed"} == {kind} - {None}
    assert ("verdict_withheld" in warned(document)) == (answer != label)
    assert votes_in_short(document) == "one answer" + (f" for {label}" if answer != label else "")
    assert any(ASSESSES in prompt for prompt in stub.prompts()) == (label not in (OPEN, "unproven"))


async def test_tool_mad_ends_at_agreement_without_scores(start_stub: StartStub) -> None:
    start_stub([answers("SUPPORTS", CLOSED), finds("neither", times=1), finds("entails")])
    document = await check("tool_mad")
    assert (document["stop_reason"], document["rounds"]) == ("consensus", 1)
    assert sorted(call["role"] for call in document["calls"]) == ["rag", "scorer", "scorer", "search"]
    # One of the two who decided has a quote that bears it out.
    given = [t["citations"][0]["warrant"] for t in document["turns"] if t["step"] == "respond"]
    assert sorted(given) == ["entails", "neither"]
    assert [one["warrant"] for one in verdict_citations(document)] == ["entails"]
    assert "unwarranted" not in warned(document)


async def test_with_scores_one_call_gives_faithfulness(start_stub: StartStub) -> None:
    start_stub([answers("SUPPORTS", CLOSED), finds("entails", supported=(True, True, False))])
    settings: dict[str, Any] = {"scoring": "on", "answer_relevance_threshold": 0}
    document = await check("tool_mad", faithfulness_threshold=0.6, embedder="openai:stub-embedding", **settings)
    assert (document["stop_reason"], document["rounds"]) == ("stable_consensus", 1)
    assert {agent: round(means["faithfulness"], 2) for agent, means in document["scores"].items()} == {
        "rag": 0.67,
        "search": 0.67,
    }
    # For each of two answers one assessment and one call for relevance; none is assessed again after the verdict.
    assert [call["role"] for call in document["calls"]].count("scorer") == 4


async def test_if_the_judge_decides_its_answer_is_assessed(start_stub: StartStub) -> None:
    differ = [
        {**answers(label, CLOSED), "model": f"stub-{name}$"}
        for name, label in (("rag", "SUPPORTS"), ("search", "REFUTES"))
    ]
    start_stub([*differ, answers("SUPPORTS", CLOSED), finds("entails")])
    models = {role: f"openai:stub-{role}" for role in ("rag", "search")}
    document = await check("tool_mad", max_rounds=1, models=models)
    assert [call["role"] for call in document["calls"]].count("scorer") == 1
    (judged,) = (t for t in document["turns"] if t["step"] == "judge")
    assert judged["citations"][0]["warrant"] == "entails"
    assert {t["citations"][0]["warrant"] for t in document["turns"] if t["step"] == "respond"} == {None}


async def test_a_ceiling_leaves_the_verdict(start_stub: StartStub) -> None:
    start_stub([answers("SUPPORTS", CLOSED)])
    document = await check(max_calls=1)
    assert (document["answer"], document["stop_reason"]) == ("SUPPORTS", "single_pass")
    assert {"score_missing", "not_assessed"} <= warned(document)


@pytest.mark.parametrize("settings", [{}, {"assess": False, "second_opinion": True}, {"robustness": True}])
async def test_a_wrong_key_after_the_verdict_leaves_it(start_stub: StartStub, settings: dict[str, Any]) -> None:
    """Of the scorer, the reviewer, or in the tests of robustness; the provider's words are in a warning."""
    refused = {"status": 401, "raw": json.dumps({"error": {"message": "Incorrect key for Aldmoor."}})}
    start_stub([answers("SUPPORTS", CLOSED, times=1), refused])
    document = await check(**settings)
    assert (document["status"], document["answer"]) == ("done", "SUPPORTS")
    kinds = {"score_missing"} if not settings else {"opinion_missing"} if "assess" in settings else {"check_failed"}
    told = {one["kind"] for one in document["warnings"] if "Incorrect key for Aldmoor." in one["detail"]}
    assert kinds <= told
    assert ("not_assessed" in warned(document)) == ("assess" not in settings)


def test_settings_that_need_others_say_so() -> None:
    kind = load_graph("rag").settings
    for wrong, remedy in (({"require_warrant": True}, "set assess to true"), ({"doubt_below": 0.5}, "second_opinion")):
        with pytest.raises(ValueError, match=remedy):
            kind.model_validate(wrong)


@pytest.mark.parametrize(
    ("mixed", "task"),
    [
        ("Conflicting Evidence/Cherrypicking", {"task": "averitec"}),
        ("mixed", {"task": "labels", "labels": ["true", "false", "mixed"]}),
    ],
)
async def test_a_mixed_answer_is_borne_out_by_both_sides_together(
    start_stub: StartStub, mixed: str, task: dict[str, Any]
) -> None:
    stub = start_stub([answers(mixed, CLOSED, OPENED), finds("entails", "entails")])
    document = await check(**task)
    assert (document["answer"], warned(document) & {"unwarranted"}) == (mixed, set())
    (prompt,) = (p for p in stub.prompts() if ASSESSES in p)
    assert "This answer says that the evidence goes both ways" in prompt


@pytest.mark.parametrize(("system", "calls"), [("isolate", 2), ("gated", 3), ("standard_mad", 1), ("madke", 2)])
async def test_every_system_with_evidence_records_warrants(start_stub: StartStub, system: str, calls: int) -> None:
    """Isolated reading has two origins, the gate three agents; in standard MAD the judge decides."""
    quoted = (CLOSED, OPENED) if system == "isolate" else (CLOSED,)  # each of its agents was shown one of them
    start_stub([{"match": "`agree`", "fields": {"agree": True}}, answers("SUPPORTS", *quoted), finds("entails")])
    given: dict[str, Any] = {"max_rounds": 1, "min_verified": 0, "summarise": False}
    document = await check(system, **given)
    assert [call["role"] for call in document["calls"]].count("scorer") == calls
    assert {one["warrant"] for one in verdict_citations(document)} == {"entails"}


@pytest.mark.parametrize(
    "system", ["rag", "isolate", "gated", "standard_mad", "madke", "madam_rag", "debate_cv", "tool_mad"]
)
async def test_reports_say_that_an_assessment_failed(start_stub: StartStub, system: str) -> None:
    quoted = (CLOSED, OPENED) if system in ("isolate", "madam_rag") else (CLOSED,)
    agrees = {"match": "`agree`", "fields": {"agree": True}}
    told = {"answers": [], "misleading": [], "rationale": "As told.", "citations": cites(*quoted), "answer": "SUPPORTS"}
    aggregates = {"match": "Now reply with the `answers`", "reply": json.dumps(told)}
    start_stub([agrees, aggregates, {"match": ASSESSES, "reply": "no"}, answers("SUPPORTS", *quoted)])
    document = await check(system, max_rounds=1, min_verified=0, summarise=False)
    assert "score_missing" in warned(document)
    for text in (report(document, "html"), report(document, "md"), said_of(document)):
        assert "Whether the quotes of those who decided bear out" in " ".join(text.split())


async def test_texts_and_reports_say_that_a_verdict_is_withheld(start_stub: StartStub) -> None:
    """Nobody quotes anything, so nothing bears the verdicts out; a withheld verdict of a trial has no confidence."""
    argues = {"match": "`argument`", "fields": {"argument": "It was closed.", "citations": [], "concedes": False}}
    answered = answers("SUPPORTED", times=1)
    start_stub([answered, argues, {"match": "`verdict`", "fields": {"verdict": "SUPPORTED"}}, finds()])
    document = await check("proclaim", max_rounds=1, role_switch=False, require_warrant=True, embedder="openai:stub")
    assert (document["answer"], document["raw_verdict"], document["confidence"]) == (OPEN, "SUPPORTED", None)
    none = await check(
        "proclaim", "hover", max_rounds=1, role_switch=False, require_warrant=True, embedder="openai:stub"
    )
    assert none["answer"] is None
    for one in (document, none, await check("rag", "hover", require_warrant=True)):
        for text in (report(one, "html"), report(one, "md"), said_of(one)):
            assert "withheld" in text
            assert ("he answer that was given is withheld" in text) == (one["answer"] is None)
            assert "most votes" not in text
            assert "not one of the answers" not in text


async def test_a_debate_behind_a_gate_warns_once(start_stub: StartStub) -> None:
    start_stub([answers("SUPPORTS"), finds()])
    document = await check("gated", trigger="always", corpus="demo-encyclopaedia")
    assert [one["kind"] for one in document["warnings"]].count("unwarranted") == 1
