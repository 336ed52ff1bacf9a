"""ReConcile: its prompts, its stop reasons and its weighted votes. The expected values were worked out by hand."""

from __future__ import annotations

import pytest
from moot.nodes._steps.vote import confidence_weight

from tests.conftest import StartStub
from tests.graphs.scripted_agents import (
    ANSWERS,
    claims,
    debate,
    marks_by_prompt,
    outline,
    prompts,
    rule,
    script,
    warning_kinds,
)

HEADING = "of 3 gave this answer:"


async def test_after_a_three_way_split_prompts_show_all_answers_and_confidences(start_stub: StartStub) -> None:
    sure = [[0.9, 0.75, 0.3], [0.4, 0.4, 0.4], [0.5, 0.5, 0.5]]
    stub = start_stub(script("SRN", "NSR", "RRR", sure=sure))
    document = await debate("reconcile")
    assert outline(document) == ("done", "REFUTES", "consensus", 3, 9, 3)
    for i in (1, 2, 3):
        assert marks_by_prompt(stub, f"agent-{i}") == ["", "a1r1 a2r1 a3r1", "a1r2 a2r2 a3r2"]
        prompt = prompts(stub, f"agent-{i}")[1]
        assert prompt.count(f"1 {HEADING}") == 3
        shown = [(answer, h) for answer, h in zip(("SUPPORTS", "REFUTES", "NOT ENOUGH INFO"), sure[0], strict=True)]
        places = [prompt.index(f"Answer: {answer}\nConfidence: {h:g}\n<reasons>\n") for answer, h in shown]
        assert places == sorted(places)
    assert [(v["agent"], v["answer"], v["confidence"]) for v in document["votes"]] == [
        (f"agent-{i}", "REFUTES", 0.5) for i in (1, 2, 3)
    ]


async def test_prompts_show_agents_with_the_same_answer_in_one_group(start_stub: StartStub) -> None:
    stub = start_stub(script("SRR", "SRS", "SSS"))
    assert outline(await debate("reconcile"))[:4] == ("done", "SUPPORTS", "consensus", 3)
    for i in (1, 2, 3):
        _, second, third = prompts(stub, f"agent-{i}")
        for prompt, two, one in ((second, ("a2r1.", "a3r1."), "a1r1."), (third, ("a1r2.", "a3r2."), "a2r2.")):
            pair, _, single = prompt.partition(f"1 {HEADING}")
            assert f"2 {HEADING}" in pair
            assert all(word in pair for word in two)
            assert one in single


async def test_the_first_consensus_ends_the_debate(start_stub: StartStub) -> None:
    cases = claims([["SSS"], ["SSR", "RRR"], ["SSR", "RSN", "NNN"]])
    start_stub([r for claim, rounds in cases.items() for r in script(*rounds, claim=claim)])
    for claim, rounds in cases.items():
        answer, number = ANSWERS[rounds[-1][0]], len(rounds)
        document = await debate("reconcile", {"claim": claim})
        assert outline(document) == ("done", answer, "consensus", number, 3 * number, number)


async def test_an_agent_without_an_answer_prevents_a_consensus(start_stub: StartStub) -> None:
    start_stub(script("SS-", "SS-"))
    document = await debate("reconcile", max_rounds=2)
    assert outline(document)[:4] == ("done", "SUPPORTS", "max_rounds", 2)
    assert [(vote["answer"], vote["group"]) for vote in document["votes"]] == [("SUPPORTS", 0)] * 2 + [(None, None)]


# --- votes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("confidence", "weight"),
    [
        (1.0, 1.0),
        (0.999, 0.8),
        (0.9, 0.8),
        (0.899, 0.5),
        (0.8, 0.5),
        (0.799, 0.3),
        (0.601, 0.3),
        (0.6, 0.1),
        (0.0, 0.1),
    ],
)
def test_the_weight_of_a_vote_rises_in_steps_with_its_confidence(confidence: float, weight: float) -> None:
    assert confidence_weight(confidence) == weight


WEIGHED = [
    ("SSR", (0.6, 0.6, 1.0), "REFUTES", "SUPPORTS"),  # 0.1 + 0.1 for SUPPORTS, 1 for REFUTES
    ("SSR", (0.8, 0.8, 0.9), "SUPPORTS", "SUPPORTS"),  # 0.5 + 0.5 for SUPPORTS, 0.8 for REFUTES
    # 0.3 for REFUTES, 3 * 0.1 for SUPPORTS. The first answer wins a tie.
    ("RSSS", (0.7, 0.6, 0.6, 0.6), "REFUTES", "SUPPORTS"),
    # 0.8 for REFUTES, 0.5 + 0.3 for SUPPORTS, 1 for NOT ENOUGH INFO
    ("RSSN", (0.95, 0.81, 0.61, 1.0), "NOT ENOUGH INFO", "SUPPORTS"),
    ("RSS", (0.85, 0.65, 0.6), "REFUTES", "SUPPORTS"),  # 0.5 for REFUTES, 0.3 + 0.1 for SUPPORTS
    # 0.1 for each answer. The first answer wins a tie, and a missing answer has no weight.
    ("R-S", (0.2, 1.0, 0.5), "REFUTES", "REFUTES"),
]
"""For each case: the answers, the confidences, the winner by weights, and the winner by majority."""


async def test_the_voting_setting_chooses_weighted_votes_or_a_majority(start_stub: StartStub) -> None:
    cases = claims(WEIGHED)
    start_stub([
        rule
        for claim, (given, sure, _, _) in cases.items()
        for rule in script(given, sure=[sure], claim=claim) * 2  # each case is debated twice
    ])  # fmt: skip
    for claim, (given, _, weighed, counted) in cases.items():
        for voting, answer in (("confidence", weighed), ("majority", counted)):
            document = await debate("reconcile", {"claim": claim}, agents=len(given), max_rounds=1, voting=voting)
            assert (document["answer"], document["stop_reason"]) == (answer, "max_rounds"), (given, voting)


# --- answers in words -------------------------------------------------------------------------------------------------


async def test_answers_that_mean_the_same_are_a_consensus(start_stub: StartStub) -> None:
    start_stub([
        rule("equivalence", "NYC.*New York City", fields={"same": True, "reason": "short for it"}),
        rule("equivalence", fields={"same": False, "reason": "another city"}),
        *script(["NYC", "Boston"], ["NYC", "New York City"]),
    ])  # fmt: skip
    document = await debate("reconcile", {"claim": "Where is it?", "task": "short_answer"}, agents=2)
    assert outline(document) == ("done", "NYC", "consensus", 2, 6, 4)  # two answers and one comparison in each round
    compared = [(c["with"], c["same"]) for t in document["turns"] if t["step"] == "compare" for c in t["comparisons"]]
    assert compared == [("NYC", False), ("NYC", True)]
    assert warning_kinds(document) == []
