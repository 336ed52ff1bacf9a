"""Prompts of one step have a common prefix, which a provider can serve from its prefix cache."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

import pytest

from tests.conftest import StartStub
from tests.graphs.scripted_agents import CLAIM, debate, prompts, rule, script

GIVEN = "The kilogram has been defined by the Planck constant since 2019."
ANSWER, REVIEW, SELECT = "your `answer`", "your `comment`", "that are `selected`"
PERSONAS = [{"persona": "a metrologist"}, {"persona": "a jeweller"}, {}]


def common_prefix(texts: list[str]) -> str:
    """The common prefix of all texts."""
    return "".join(characters[0] for characters in takewhile(lambda c: len(set(c)) == 1, zip(*texts, strict=False)))


@pytest.mark.parametrize(
    ("name", "settings", "asked", "place", "shared"),
    [
        ("multi_agent_voting", {}, ANSWER, 0, [GIVEN]),
        ("society_of_minds", {}, ANSWER, 1, [GIVEN]),
        ("neighbor_debate", {}, ANSWER, 1, [GIVEN]),
        ("chat_eval", {}, ANSWER, 1, [GIVEN, "In short s0r1."]),
        ("group_debate", {"max_rounds": 3}, ANSWER, 2, [GIVEN, "In short s0r1."]),
        ("reconcile", {}, ANSWER, 1, [GIVEN, "a1r1.", "a2r1.", "a3r1."]),
        ("cortex_debate", {"max_rounds": 1}, ANSWER, 1, [GIVEN]),
        ("peer_review", {}, REVIEW, -1, [GIVEN, "a3r1."]),
        ("peer_review", {}, ANSWER, 1, [GIVEN]),
    ],
)
async def test_prompts_of_two_agents_in_one_step_have_a_common_prefix(
    start_stub: StartStub, name: str, settings: dict[str, Any], asked: str, place: int, shared: list[str]
) -> None:
    summary = rule("summariser", fields={"summary": "In short s0r1."})
    stub = start_stub([*script("SRN", "SRN", "SRN"), summary])
    given = {"claim": CLAIM, "given": [{"text": GIVEN}]}
    await debate(name, given, agents=PERSONAS, **settings)
    one, other = (prompts(stub, agent, asked)[place] for agent in ("agent-1", "agent-2"))
    start = common_prefix([one, other])
    assert all(text in start for text in (CLAIM, *shared))
    # In reconcile, both prompts show all answers, with the names of their agents.
    assert not any(text in start for text in ("agent-1", "metrologist")) or name == "reconcile"
    ends = one[one.index('You are "agent-1".') :], other[other.index('You are "agent-2".') :]
    assert ["metrologist" in ends[0], "jeweller" in ends[1]] == [True, True]
    assert all(asked in end and "<" not in end for end in ends)  # the ends have only the speaker and the reply format


async def test_prompts_of_debaters_with_a_common_pool_have_a_common_prefix(start_stub: StartStub) -> None:
    roles = ("debater-1", "debater-2")
    stub = start_stub([r for role in roles for r in debater_rules(role)])
    document = await debate("madke", sources=["bm25:demo-news"], fallback=[], debaters=[{}, PERSONAS[0]], max_rounds=2)
    selections = [prompts(stub, role, SELECT) for role in roles]
    start = common_prefix([prompt for sent in selections for prompt in sent])  # prompts of both rounds
    assert len(selections[0]) == 2
    assert len(document["evidence"]) == 5
    assert all(text in start for text in (CLAIM, *(piece["text"] for piece in document["evidence"])))
    first, second = (prompts(stub, role)[1] for role in roles)
    start = common_prefix([first, second])
    assert all(text in start for text in (CLAIM, document["evidence"][0]["text"]))
    assert "metrologist" in second[second.index('You are "debater-2".') :]


def debater_rules(role: str) -> list[dict[str, Any]]:
    """Rules for a debater who selects one item, and whose answer differs from the other debater's."""
    answer = "SUPPORTS" if role == "debater-1" else "REFUTES"
    fields = {"answer": answer, "rationale": "So.", "citations": []}
    return [rule(role, SELECT, fields={"selected": [1]}), rule(role, ANSWER, fields=fields)]


async def test_prompts_of_both_sides_have_a_common_prefix(start_stub: StartStub) -> None:
    stub = start_stub([
        rule("moderator", fields={"preferred": None, "reason": "Not yet."}),
        *script("SR", "SR", roles=("affirmative", "negative")),
    ])  # fmt: skip
    given = {"claim": CLAIM, "given": [{"text": GIVEN}]}
    await debate("tit_for_tat", given, max_rounds=2)
    sides = [prompts(stub, side)[1] for side in ("affirmative", "negative")]
    start = common_prefix(sides)
    assert all(text in start for text in (CLAIM, GIVEN))
    for side, prompt in zip(("affirmative", "negative"), sides, strict=True):
        assert "You speak" in prompt[prompt.index(f'You are "{side}".') :]
