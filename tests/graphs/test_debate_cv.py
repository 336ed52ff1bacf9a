"""DebateCV: who argues what and in which order, when the moderator ends it, and the evidence that all see."""

from __future__ import annotations

from typing import Any

import pytest
from moot.graphs import load_graph
from moot.transcript.report.report import report

from tests.conftest import StartStub

CLAIM = "The harbour of Aldmoor was closed in 1931."
LETTER = {"id": "letter", "text": "A letter says that the harbour was closed in 1931 after a storm.", "title": "Letter"}
SIDES = ("affirmative", "negative")


def argues(side: str, mark: str, times: int | None = None) -> dict[str, Any]:
    fields = {"argument": f"Because of {mark}.", "citations": [{"evidence_id": "letter", "quote": "closed in 1931"}]}
    return {"model": f"stub-{side}$", "fields": fields} | ({"times": times} if times else {})


def weighs(ahead: str, decided: bool, times: int | None = None) -> dict[str, Any]:
    fields = {"ahead": ahead, "decided": decided, "reason": "The letter."}
    rule = {"model": "stub-moderator$", "match": "which side is `ahead`", "fields": fields}
    return rule | ({"times": times} if times else {})


def decides(answer: str) -> dict[str, Any]:
    cited = [{"evidence_id": "letter", "quote": "the harbour was closed in 1931"}]
    return {"model": "stub-moderator$", "match": "your `answer`", "fields": {"answer": answer, "citations": cited}}


async def run(asked: dict[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    system = load_graph("debate_cv")
    models = {role: f"openai:stub-{role}" for role in (*SIDES, "moderator")}
    plain = {"model": "openai:stub", "models": models, "sources": [], "attempts": 1}
    chosen = system.settings.model_validate({**plain, **settings})
    document: dict[str, Any] = await system.graph.ainvoke(
        {"claim": CLAIM, "given": [LETTER], **(asked or {})}, context=chosen
    )
    return document


async def test_a_whole_debate_until_the_moderator_can_decide(start_stub: StartStub) -> None:
    rules = [argues(side, f"{side}-{n}", 1) for n in (1, 2) for side in SIDES]
    stub = start_stub([*rules, weighs("affirmative", False, 1), weighs("negative", True), decides("NOT ENOUGH INFO")])
    document = await run()
    told = [(turn["agent"], turn["step"], turn["round"]) for turn in document["turns"]]
    one_round = [(*SIDES[:1], "argue"), (*SIDES[1:], "argue"), ("moderator", "moderate")]
    assert told == [(*turn, n) for n in (1, 2) for turn in one_round] + [("moderator", "judge", 2)]
    assert (document["answer"], document["stop_reason"], document["rounds"]) == (
        "NOT ENOUGH INFO",
        "judge_preference",
        2,
    )
    assert [record["reason"] for record in document["round_log"]] == ["undecided", "decided"]
    assert (len(document["calls"]), document["depth"]) == (7, 7)
    [change] = document["dissent"]["changes"]
    assert (change["before"], change["answer"], change["after"]) == ("SUPPORTS", "REFUTES", ["negative"])
    assert change["towards_verdict"] is False
    prompts = stub.prompts()
    assert all(LETTER["text"] in prompt for prompt in prompts)
    first, second, _, third, *_, last = prompts
    assert "argue that the claim is true" in first
    assert "affirmative-1" not in first
    assert "argue that the claim is false" in second
    assert "affirmative-1" in second
    assert "negative-1" in third
    assert all(f"{side}-{n}." in last for side in SIDES for n in (1, 2))
    assert document["metrics"]["verdict_citations"] == {"total": 1, "verified": 1, "unverified": 0, "fabricated": 0}


@pytest.mark.parametrize(("answer", "heading"), [("SUPPORTS", "for"), ("REFUTES", "against")])
async def test_the_moderators_quotes_stand_on_a_side(start_stub: StartStub, answer: str, heading: str) -> None:
    silent = [{"model": f"stub-{side}$", "fields": {"argument": "So.", "citations": []}} for side in SIDES]
    start_stub([*silent, weighs("affirmative", True), decides(answer)])
    text = report(await run(), "md", "en")
    assert [line for line in text.splitlines() if line.startswith("## Quoted")] == [f"## Quoted {heading} the claim"]


async def test_after_the_last_round_the_moderator_decides(start_stub: StartStub) -> None:
    start_stub([*(argues(side, side) for side in SIDES), weighs("neither", False), decides("SUPPORTS")])
    document = await run(max_rounds=3)
    assert (document["answer"], document["stop_reason"], len(document["calls"])) == ("SUPPORTS", "max_rounds", 10)
    assert document["dissent"]["asked_again"] == 0


async def test_an_unusable_moderation_decides_nothing_and_the_debate_goes_on(start_stub: StartStub) -> None:
    unusable = {"model": "stub-moderator$", "match": "which side is `ahead`", "reply": "Well."}
    start_stub([*(argues(side, side) for side in SIDES), unusable, decides("REFUTES")])
    document = await run(max_rounds=2)
    found = [turn for turn in document["turns"] if turn["step"] == "moderate"]
    assert [(turn["ahead"], turn["leans"], turn["outcome"]) for turn in found] == [(None, None, "unparsed")] * 2
    assert (document["answer"], document["stop_reason"]) == ("REFUTES", "max_rounds")


async def test_evidence_is_found_or_given(start_stub: StartStub) -> None:
    stub = start_stub([*(argues(side, side) for side in SIDES), weighs("negative", True), decides("SUPPORTS")])
    document = await run(
        {"given": None, "claim": "The platypus lays eggs, as echidnas do."}, sources=["bm25:demo-encyclopaedia"]
    )
    assert len(document["evidence"]) > 1
    assert all(piece["text"] in prompt for piece in document["evidence"] for prompt in stub.prompts())
    closed = await run({"given": None}, max_rounds=1)
    assert (closed["status"], closed["evidence"]) == ("done", [])
    assert "Argue from what you know" in stub.prompts()[4]
    assert all("(none: no search was made)" in prompt for prompt in stub.prompts()[4:])


async def test_both_sides_and_the_moderator_know_how_reported_speech_counts(start_stub: StartStub) -> None:
    stub = start_stub([*(argues(side, side) for side in SIDES), weighs("negative", True), decides("REFUTES")])
    reported, by_itself = 'report what somebody said ("X said that ...")', "by whom the claim itself was said"
    for origin, settings in (({}, {"label_rules": True}), ({"speaker": "Ada Okafor"}, {"label_rules": True}), ({}, {})):
        await run(origin, **settings)
        told = [(reported in prompt, by_itself in prompt) for prompt in stub.prompts()[-4:]]
        assert told == [(bool(settings), bool(origin))] * 4
    assert ["leave the list empty" in prompt for prompt in stub.prompts()[:4]] == [True, True, False, True]


async def test_a_task_without_two_sides_is_refused_before_any_call(start_stub: StartStub) -> None:
    stub = start_stub()
    document = await run({"claim": "How many?", "task": "number"})
    assert (document["error"]["kind"], stub.requests()) == ("unfit_task", [])
    assert "Choose a task that checks claims" in document["error"]["detail"]


async def test_a_ceiling_of_calls_leaves_the_verdict(start_stub: StartStub) -> None:
    start_stub([*(argues(side, side) for side in SIDES), weighs("neither", False), decides("REFUTES")])
    for most in (1, 3, 5, 8):
        document = await run(max_calls=most)
        assert (document["status"], document["answer"], len(document["calls"])) == ("done", "REFUTES", most)
        assert document["stop_reason"] == "budget_exhausted"


async def test_robustness_asks_again_without_a_judge(start_stub: StartStub) -> None:
    start_stub([*(argues(side, side) for side in SIDES), weighs("affirmative", True), decides("SUPPORTS")])
    document = await run(robustness=True)
    assert document["robustness"]["checks"][0]["kind"] == "all"
    assert document["robustness"]["checks"][0]["answer"] == "SUPPORTS"
