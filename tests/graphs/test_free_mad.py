"""Free-MAD: the score of answers over all rounds, worked out by hand, and who sees what."""

from __future__ import annotations

from typing import Any

import pytest
from moot.core.errors import UserError
from moot.graphs import load_graph
from moot.nodes import trajectory_scores
from moot.nodes._texts.verdict import turns_by_reason
from moot.transcript import ending
from moot.transcript.report.report import report

from tests.conftest import StartStub
from tests.graphs.scripted_agents import DOWN, UNPARSED, claims, debate, final_votes, prompts, script

WEIGHTS = {"first": 20, "left": 25, "taken": 30, "kept": 20}


def given(*rounds: str) -> list[tuple[str, int, int | None]]:
    """The answers of agents a, b, c ... by rounds, each agent's group as a digit; a dash is an unusable reply."""
    return [
        ("abcdefgh"[place], number, None if group == "-" else int(group))
        for number, groups in enumerate(rounds, 1)
        for place, group in enumerate(groups)
    ]


@pytest.mark.parametrize(
    ("rounds", "scores"),
    [
        # The example of the docstring: 20 + 20/2 + 20 - 25/2, and 30/2 + 20 + 20/2.
        (("001", "011"), {0: 37.5, 1: 45}),
        # All keep their answers: 20 + 20/2 + 20/3 for each.
        (("01", "01", "01"), {0: 110 / 3, 1: 110 / 3}),
        # An answer that everybody leaves for different ones still leads: 3 * (20 - 12.5) against 15.
        (("000", "123"), {0: 22.5, 1: 15, 2: 15, 3: 15}),
        # a: 20, nothing, then 20/3 for its last usable answer; b: the first answer in round 2 is 20/2, then kept.
        (("0-", "-1", "01"), {0: 20 + 20 / 3, 1: 10 + 20 / 3}),
        # Back and forth: 20 - 12.5 + 10 for 0, and 15 - 25/3 for 1.
        (("0", "1", "0"), {0: 17.5, 1: 15 - 25 / 3}),
        (("--",), {}),
    ],
)
def test_scores_worked_out_by_hand(rounds: tuple[str, ...], scores: dict[int, float]) -> None:
    assert trajectory_scores(given(*rounds), **WEIGHTS) == pytest.approx(scores)


TRACES: list[tuple[tuple[str, ...], dict[str, Any], str | None, dict[str, float]]] = [
    # A majority for REFUTES in the last round does not win: 4 * 20 - 2 * 12.5 + 2 * 10 against 20 + 2 * 15 + 10.
    (("SSSSR", "RRSSR"), {}, "SUPPORTS", {"SUPPORTS": 75.0, "REFUTES": 60.0}),
    (("SR", "SR"), {}, "SUPPORTS", {"SUPPORTS": 30.0, "REFUTES": 30.0}),  # a tie: the answer that was given first
    (("SR", "RS"), {"left_weight": 0, "taken_weight": 100}, "SUPPORTS", {"SUPPORTS": 70.0, "REFUTES": 70.0}),
    (("SRR", f"S{UNPARSED}S"), {}, "SUPPORTS", {"SUPPORTS": 45.0, "REFUTES": 27.5}),
    (("SRR", f"S{DOWN}R", f"S{DOWN}R"), {"max_rounds": 3}, "REFUTES", {"REFUTES": 170 / 3, "SUPPORTS": 110 / 3}),
    (("SR",), {"max_rounds": 1}, "SUPPORTS", {"SUPPORTS": 20.0, "REFUTES": 20.0}),
]


async def test_whole_debates_are_decided_by_the_scores(start_stub: StartStub) -> None:
    cases = claims(TRACES)
    start_stub([rule for claim, (rounds, *_) in cases.items() for rule in script(*rounds, claim=claim)])
    for claim, (rounds, settings, answer, scores) in cases.items():
        document = await debate("free_mad", {"claim": claim}, agents=len(rounds[0]), **settings)
        [tally] = [turn for turn in document["turns"] if turn["step"] == "tally"]
        assert (document["status"], document["answer"], document["stop_reason"]) == ("done", answer, "max_rounds")
        assert {one["answer"]: one["score"] for one in tally["answer_scores"]} == pytest.approx(scores), rounds
        assert tally["answer_scores"][0]["answer"] == answer
        assert document["rounds"] == len(rounds)


async def test_a_tie_of_the_scores_is_told(start_stub: StartStub) -> None:
    for rounds, tied in ((("SR", "SR"), True), (("SRR", "SRR"), False)):
        start_stub(script(*rounds))
        document = await debate("free_mad", agents=len(rounds[0]))
        ended = "\n".join(line.text for line in ending(document).lines)
        assert ("(max_rounds; tied scores, so the earliest answer counts)" in ended) == tied
        assert ("The scores are tied, so the earliest answer counts." in report(document, "md", "en")) == tied


async def test_an_answer_before_a_ceiling_counts_as_the_agents_last_one(start_stub: StartStub) -> None:
    start_stub(script("SSR", "SSR"))
    document = await debate("free_mad", agents=3, max_calls=4)
    assert (document["answer"], document["stop_reason"], len(document["calls"])) == ("SUPPORTS", "budget_exhausted", 4)
    assert [(one["answer"], one["votes"]) for one in document["dissent"]["votes"]] == [("SUPPORTS", 2), ("REFUTES", 1)]
    [minority] = document["dissent"]["minority"]
    assert (minority["answer"], minority["argument"]) == ("REFUTES", "Because of a3r1.")
    text = report(document, "md", "en")
    assert text.partition("### Dissent")[2].startswith("\n\n- Agent 3, Refuted: Because of a3r1.")
    assert turns_by_reason(document).keys() == {"Because of a1r2.", "Because of a2r1."}


async def test_agents_look_for_errors_in_all_others_answers_and_no_majority_ends_it(start_stub: StartStub) -> None:
    stub = start_stub(script("SSS", "SSR"))
    document = await debate("free_mad")
    assert final_votes(document) == {"agent-1": "SUPPORTS", "agent-2": "SUPPORTS", "agent-3": "REFUTES"}
    first, second = prompts(stub, "agent-2")
    assert "a1r1." not in first
    assert all(f"a{number}r1." in second for number in (1, 2, 3))
    assert "Change it only if you can name an error in it, or if another answer points" in second
    assert document["dissent"]["changes"][0]["towards_verdict"] is False


async def test_without_any_usable_answer_the_debate_fails(start_stub: StartStub) -> None:
    start_stub(script(UNPARSED * 2, UNPARSED * 2))
    document = await debate("free_mad", agents=2)
    assert (document["status"], document["error"]["kind"], document["answer"]) == ("failed", "unparsed", None)
    assert "nothing to count" in document["error"]["detail"]


async def test_answers_in_other_words_are_compared_over_all_rounds(start_stub: StartStub) -> None:
    """Agent 1 keeps its answer in other words: 20 + 20/2 for it, as for the answer of agent 2."""
    other = {"model": "stub-equivalence$", "match": "kiwi", "fields": {"same": False}}
    same = {"model": "stub-equivalence$", "fields": {"same": True}}
    start_stub([*script(["an emu", "a kiwi"], ["the big emu", "a kiwi"]), other, same])
    document = await debate("free_mad", {"claim": "Which bird?", "task": "hotpotqa"}, agents=2)
    [tally] = [turn for turn in document["turns"] if turn["step"] == "tally"]
    assert tally["answer_scores"] == [{"answer": "an emu", "score": 30.0}, {"answer": "a kiwi", "score": 30.0}]
    assert document["answer"] == "an emu"


@pytest.mark.parametrize("preset", ["paper", "practical"])
def test_agents_stand_alone_under_either_preset(preset: str) -> None:
    kind = load_graph("free_mad").settings
    assert kind(preset=preset).conformity == "independent"
    with pytest.raises(UserError, match="conformity"):
        kind(preset=preset, conformity="neutral")
