"""Tit-for-tat debates: the order of speakers, their prompts, and who decides.

The expected values were worked out by hand.
"""

from __future__ import annotations

from typing import Any

from tests.conftest import StartStub
from tests.graphs.scripted_agents import (
    Rule,
    answer_rule,
    claims,
    debate,
    final_votes,
    marks_by_prompt,
    outline,
    prompts,
    rule,
    script,
    warning_kinds,
)

SIDES = ("affirmative", "negative")
UNDECIDED = rule("moderator", fields={"preferred": None, "reason": "Neither has made it."})
JUDGE = answer_rule("judge", "N")


def three_rounds(claim: str = "") -> list[Rule]:
    """Rules for three rounds; the reasons of round 2 contain ``a1r2.`` (affirmative) and ``a2r2.`` (negative)."""
    return script("SR", "SN", "RN", roles=SIDES, claim=claim)


def prefers(answer: str, round: int, claim: str = "") -> Rule:
    """A rule: the moderator prefers this answer after this round."""
    return rule("moderator", rf"{claim}.*a1r{round}\.", fields={"preferred": answer, "reason": "It stands."})


async def test_the_judge_reads_the_whole_debate_if_the_moderator_prefers_no_answer(start_stub: StartStub) -> None:
    stub = start_stub([*three_rounds(), UNDECIDED, JUDGE])
    document = await debate("tit_for_tat")
    assert outline(document) == ("done", "NOT ENOUGH INFO", "max_rounds", 3, 10, 10)
    spoke = [request["model"].removeprefix("stub-") for request in stub.requests()]
    assert spoke == [*SIDES, "moderator"] * 3 + ["judge"]
    # A side's prompt shows the latest answer of each side.
    assert marks_by_prompt(stub, "affirmative") == ["", "a1r1 a2r1", "a1r2 a2r2"]
    assert marks_by_prompt(stub, "negative") == ["a1r1", "a1r2 a2r1", "a1r3 a2r2"]
    assert marks_by_prompt(stub, "moderator", "`preferred`") == ["a1r1 a2r1", "a1r2 a2r2", "a1r3 a2r3"]
    assert marks_by_prompt(stub, "judge") == ["a1r1 a1r2 a1r3 a2r1 a2r2 a2r3"]
    # The sides' last answers are recorded as votes, but the judge decides.
    assert final_votes(document) == {"affirmative": "REFUTES", "negative": "NOT ENOUGH INFO"}
    steps = [(t["round"], t["agent"], t["step"]) for t in document["turns"]]
    assert steps == [
        *((r, *who) for r in (1, 2, 3) for who in (*((s, "respond") for s in SIDES), ("moderator", "moderate"))),
        (3, "judge", "judge"),
    ]


async def test_an_answer_preferred_by_the_moderator_ends_the_debate(start_stub: StartStub) -> None:
    cases = claims([1, 2, 3])
    rules = [r for claim, round in cases.items() for r in (*three_rounds(claim), prefers("REFUTES", round, claim))]
    stub = start_stub([*rules, UNDECIDED, JUDGE])
    for claim, round in cases.items():
        document = await debate("tit_for_tat", {"claim": claim})
        assert outline(document) == ("done", "REFUTES", "judge_preference", round, 3 * round, 3 * round)
        moderated = [t["preferred"] for t in document["turns"] if t["step"] == "moderate"]
        assert moderated == [None] * (round - 1) + ["REFUTES"]
    assert not stub.prompts("judge")


async def test_an_agreement_of_both_sides_does_not_end_the_debate(start_stub: StartStub) -> None:
    start_stub([*script("SS", "SS", roles=SIDES), UNDECIDED, answer_rule("judge", "S")])
    assert outline(await debate("tit_for_tat", max_rounds=2))[:4] == ("done", "SUPPORTS", "max_rounds", 2)


UNUSABLE: list[tuple[dict[str, Any], str]] = [
    ({"reply": "Perhaps."}, "unparsed"),
    ({"fields": {"preferred": "MAYBE", "reason": "So it seems."}}, "unparsed"),
    ({"finish": "content_filter"}, "refused"),
    ({"finish": "length"}, "cut"),
]
"""Unusable replies of the moderator, with their outcomes."""


async def test_a_debate_continues_after_an_unusable_reply_of_the_moderator(start_stub: StartStub) -> None:
    cases = claims(UNUSABLE)
    rules = [r for claim in cases for r in (*three_rounds(claim), prefers("SUPPORTS", 2, claim))]
    start_stub([*rules, *(rule("moderator", f"{claim}.*a1r1", **reply) for claim, (reply, _) in cases.items())])
    for claim, (_, outcome) in cases.items():
        document = await debate("tit_for_tat", {"claim": claim})
        # The moderator was called twice in round 1.
        assert outline(document) == ("done", "SUPPORTS", "judge_preference", 2, 7, 7)
        moderated = [(t["preferred"], t["outcome"]) for t in document["turns"] if t["step"] == "moderate"]
        assert moderated == [(None, outcome), ("SUPPORTS", "ok")]
        assert warning_kinds(document) == [outcome] * 2


async def test_an_unusable_reply_of_the_judge_leaves_no_verdict(start_stub: StartStub) -> None:
    start_stub([*three_rounds(), UNDECIDED, rule("judge", reply="Both were good.")])
    document = await debate("tit_for_tat")
    assert outline(document)[:4] == ("failed", None, None, 3)
    assert document["error"]["kind"] == "unparsed"
    assert len(document["turns"]) == 9  # the turns of three rounds are kept


async def test_a_debate_continues_if_one_side_gives_no_valid_answer(start_stub: StartStub) -> None:
    stub = start_stub([*script("-R", "-R", "-R", roles=SIDES), UNDECIDED, answer_rule("judge", "R")])
    document = await debate("tit_for_tat")
    assert outline(document)[:4] == ("done", "REFUTES", "max_rounds", 3)
    assert marks_by_prompt(stub, "negative") == ["", "a2r1", "a2r2"]
    assert "(gave no valid answer)" in prompts(stub, "negative")[0]
    assert final_votes(document) == {"affirmative": None, "negative": "REFUTES"}


async def test_the_moderator_can_prefer_an_answer_if_only_one_side_answers(start_stub: StartStub) -> None:
    cases = claims(["-R", "R-"])
    rules = [r for claim, given in cases.items() for r in script(given, roles=SIDES, claim=claim)]
    start_stub([*rules, rule("moderator", fields={"preferred": "REFUTES", "reason": "It stands."})])
    for claim in cases:
        document = await debate("tit_for_tat", {"claim": claim})
        assert outline(document)[:4] == ("done", "REFUTES", "judge_preference", 1)


async def test_a_failed_call_of_a_side_ends_the_debate_without_a_verdict(start_stub: StartStub) -> None:
    stub = start_stub([*script("Sx", roles=SIDES), UNDECIDED])
    document = await debate("tit_for_tat")
    assert outline(document)[:3] == ("failed", None, None)
    assert document["error"]["kind"] == "server_error"
    assert "negative" in document["error"]["where"]
    assert not stub.prompts("moderator")
    assert [t["agent"] for t in document["turns"] if t.get("answer")] == ["affirmative"]


async def test_each_sides_prompts_contain_its_stance_and_persona(start_stub: StartStub) -> None:
    stub = start_stub([*three_rounds(), prefers("SUPPORTS", 1)])
    await debate("tit_for_tat", debaters=[{"persona": "a metrologist from Sèvres"}, {}])
    [affirmative], [negative] = prompts(stub, "affirmative"), prompts(stub, "negative")
    assert "a metrologist from Sèvres" in affirmative
    assert "a metrologist from Sèvres" not in negative + "".join(prompts(stub, "moderator", "`preferred`"))
    assert "You speak first" in affirmative
    assert "You speak second: contradict" in negative


async def test_the_moderator_cannot_prefer_an_answer_if_no_side_answers(start_stub: StartStub) -> None:
    start_stub([*script("--", roles=SIDES), rule("moderator", fields={"preferred": "SUPPORTS", "reason": "So I say."})])
    document = await debate("tit_for_tat", max_rounds=1)
    assert (document["status"], document["answer"]) == ("failed", None)


async def test_the_moderator_can_prefer_the_label_none(start_stub: StartStub) -> None:
    start_stub([*script(["none", "some"], roles=SIDES), prefers("none", 1), answer_rule("judge", "some")])
    document = await debate("tit_for_tat", {"claim": "Which of them?", "labels": ["none", "some"]}, max_rounds=1)
    assert (document["answer"], document["stop_reason"]) == ("none", "judge_preference")
