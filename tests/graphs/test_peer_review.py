"""Peer review: which agent reviews which answer, and the prompts of agents that revise answers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import StartStub
from tests.graphs.scripted_agents import (
    Rule,
    claims,
    debate,
    marks_by_prompt,
    outline,
    prompts,
    rule,
    script,
    warning_kinds,
)


def review_rules(n: int, rounds: int = 1) -> list[Rule]:
    """Rules for the reviews of ``n`` agents.

    For example, agent 2's review of agent 1's answer in round 3 contains ``c21r3.``. The confidence in a review is the
    number of the reviewed agent.
    """
    numbers = range(1, n + 1)
    return [review_rule(i, j, r) for r in range(1, rounds + 1) for i in numbers for j in numbers if i != j]


def review_rule(i: int, j: int, r: int = 1, claim: str = "", **reply: Any) -> Rule:
    """A rule for agent i's review of agent j's answer in round r, by default a comment with a confidence."""
    reply = reply or {"fields": {"comment": f"I say c{i}{j}r{r}.", "confidence": j}}
    return rule(f"agent-{i}", rf"{claim}.*a{j}r{r}\..*your `comment`", **reply)


@pytest.mark.parametrize("rounds", [1, 2])
async def test_each_agent_reviews_all_other_answers_before_it_revises_its_answer(
    start_stub: StartStub, rounds: int
) -> None:
    stub = start_stub([*script("SRN", "RRN", "NNN"), *review_rules(3, rounds)])
    document = await debate("peer_review", rounds=rounds)
    answer = ("REFUTES", "NOT ENOUGH INFO")[rounds - 1]
    assert outline(document) == ("done", answer, "max_rounds", rounds + 1, 3 + 9 * rounds, 1 + 2 * rounds)
    for i in (1, 2, 3):
        others = [j for j in (1, 2, 3) if j != i]
        revised = [" ".join([f"a{i}r{r}", *(f"c{j}{i}r{r}" for j in others)]) for r in (1, 2)]
        assert marks_by_prompt(stub, f"agent-{i}") == ["", *revised[:rounds]]
        reviewed = marks_by_prompt(stub, f"agent-{i}", "your `comment`")
        assert sorted(reviewed) == sorted(f"a{j}r{r}" for j in others for r in range(1, rounds + 1))
        for prompt in prompts(stub, f"agent-{i}")[1:]:
            assert prompt.count(f"How sure the reviewer is, from 1 to 10: {i}\n") == 2
    written = [(t["round"], t["agent"], t["reviewed"]) for t in document["turns"] if t["step"] == "review"]
    assert len(set(written)) == len(written) == 6 * rounds
    assert warning_kinds(document) == []


LOST_REVIEWS: list[tuple[dict[str, Any], str]] = [
    ({"reply": "Well done."}, "unparsed"),
    ({"fields": {"comment": "I say c21r1.", "confidence": 11}}, "unparsed"),
    ({"fields": {"comment": "I say c21r1.", "confidence": 0}}, "unparsed"),
    ({"status": 500}, "failed"),
]
"""The reply to the request for a review, and the outcome of the review."""


async def test_a_failed_or_unusable_review_is_left_out(start_stub: StartStub) -> None:
    cases = claims(LOST_REVIEWS)
    lost_reviews = [review_rule(2, 1, claim=claim, **reply) for claim, (reply, _) in cases.items()]
    stub = start_stub(
        [r for claim in cases for r in script("SRN", "SSN", claim=claim)] + lost_reviews + review_rules(3)
    )
    for claim, (_, outcome) in cases.items():
        document = await debate("peer_review", {"claim": claim})
        assert outline(document)[:4] == ("done", "SUPPORTS", "max_rounds", 2)
        assert marks_by_prompt(stub, "agent-1", claim=claim)[1] == "a1r1 c31r1"
        assert marks_by_prompt(stub, "agent-3", claim=claim)[1] == "a3r1 c13r1 c23r1"
        [lost] = [t for t in document["turns"] if t["step"] == "review" and t["outcome"] != "ok"]
        assert (lost["agent"], lost["reviewed"], lost["outcome"]) == ("agent-2", "agent-1", outcome)
        assert (lost["comment"], lost["confidence"]) == (None, None)
        assert set(warning_kinds(document)) == {"call_failed" if outcome == "failed" else outcome}


async def test_a_missing_answer_is_not_reviewed(start_stub: StartStub) -> None:
    stub = start_stub([*script("-RN", "SSN"), *review_rules(3)])
    document = await debate("peer_review")
    assert outline(document) == ("done", "SUPPORTS", "max_rounds", 2, 4 + 4 + 3, 4)
    # An agent without an answer still reviews the others.
    assert sorted(marks_by_prompt(stub, "agent-1", "your `comment`")) == ["a2r1", "a3r1"]
    assert marks_by_prompt(stub, "agent-2", "your `comment`") == ["a3r1"]
    assert marks_by_prompt(stub, "agent-1") == ["", ""]


async def test_two_agents_review_each_other(start_stub: StartStub) -> None:
    stub = start_stub([*script("SR", "RS"), *review_rules(2)])
    assert outline(await debate("peer_review", agents=2)) == ("done", "REFUTES", "max_rounds", 2, 6, 3)
    assert marks_by_prompt(stub, "agent-1") == ["", "a1r1 c21r1"]
