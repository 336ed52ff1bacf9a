"""Debates of n agents, with traces worked out by hand: who hears whom, in which round, and which answer wins."""

from __future__ import annotations

import pytest

from tests.conftest import StartStub
from tests.graphs.scripted_agents import (
    ANSWERS,
    claims,
    debate,
    final_votes,
    marks,
    marks_by_prompt,
    outline,
    prompts,
    rule,
    script,
    warning_kinds,
)

# --- multi-agent voting -----------------------------------------------------------------------------------------------


VOTES = {
    "SRR": "REFUTES",
    "SRN": "SUPPORTS",
    "NRSSR": "REFUTES",
    "RS": "REFUTES",
    "-RSS": "SUPPORTS",
    "--N": ANSWERS["N"],
}
"""Answers, one letter per agent, and the winner: the majority's answer, or in a tie the tied answer that came first.

``-`` is an unparsable reply, which is no vote.
"""


async def test_independent_voters_elect_the_majority_or_the_first_tied_answer(start_stub: StartStub) -> None:
    """No prompt contains another voter's answer."""
    cases = claims(VOTES)
    stub = start_stub([r for claim, given in cases.items() for r in script(given, claim=claim)])
    for claim, given in cases.items():
        document = await debate("multi_agent_voting", {"claim": claim}, agents=len(given))
        again = given.count("-")  # an unparsable reply is requested once more
        assert outline(document) == ("done", VOTES[given], "single_pass", 1, len(given) + again, 2 if again else 1)
    assert all(marks(prompt) == "" and "answered last" not in prompt for prompt in stub.prompts())


# --- society of minds -------------------------------------------------------------------------------------------------


async def test_in_a_society_each_agent_reads_all_answers_of_the_previous_round(start_stub: StartStub) -> None:
    stub = start_stub(script("SRN", "RNS", "NNS"))
    document = await debate("society_of_minds", max_rounds=3)
    assert outline(document) == ("done", "NOT ENOUGH INFO", "max_rounds", 3, 9, 3)
    for agent in ("agent-1", "agent-2", "agent-3"):
        assert marks_by_prompt(stub, agent) == ["", "a1r1 a2r1 a3r1", "a1r2 a2r2 a3r2"]
        own, others = _own_and_others(prompts(stub, agent)[2])
        assert marks(own) == f"a{agent[-1]}r2"
        assert len(others.split()) == 2
    assert final_votes(document) == {"agent-1": "NOT ENOUGH INFO", "agent-2": "NOT ENOUGH INFO", "agent-3": "SUPPORTS"}
    assert warning_kinds(document) == []


def _own_and_others(prompt: str) -> tuple[str, str]:
    """The text of an agent's own last answer in its prompt, and the marks of the other agents' last answers."""
    others, _, own = prompt.partition("What you answered last:")
    return own, marks(others.partition("What the others answered last:")[2])


async def test_a_society_votes_on_the_answers_of_the_last_round_only(start_stub: StartStub) -> None:
    cases = claims(VOTES)
    start_stub([r for claim, last in cases.items() for r in script("S" * len(last), last, claim=claim)])
    for claim, last in cases.items():
        document = await debate("society_of_minds", {"claim": claim}, agents=len(last))
        # Agreement in round 1 does not end the debate.
        assert outline(document)[:4] == ("done", VOTES[last], "max_rounds", 2)
        assert [vote["group"] is None for vote in document["votes"]] == [letter == "-" for letter in last]


async def test_the_only_agent_of_a_society_reads_its_own_last_answer(start_stub: StartStub) -> None:
    """The recorded settings of such a debate can start another debate."""
    stub = start_stub(script("S", "R", "N"))
    document = await debate("society_of_minds", agents=1, max_rounds=3)
    assert outline(document) == ("done", "NOT ENOUGH INFO", "max_rounds", 3, 3, 3)
    assert marks_by_prompt(stub, "agent-1") == ["", "a1r1", "a1r2"]  # only the agent's own last answer
    for prompt in prompts(stub, "agent-1")[1:]:
        assert prompt.count("(nobody else is heard)") == prompt.count("What you answered last:") == 1
    again = await debate("society_of_minds", **{k: document["settings"][k] for k in ("agents", "min_agents")})
    assert len(again["settings"]["agents"]) == 1


async def test_if_the_only_agent_gets_a_server_error_the_debate_fails(start_stub: StartStub) -> None:
    start_stub(script("x"))
    document = await debate("society_of_minds", agents=1)
    assert (document["status"], document["error"]["kind"]) == ("failed", "too_few_agents")


# --- neighbours -------------------------------------------------------------------------------------------------------

RINGS = {2: ["12", "12"], 3: ["123", "123", "123"], 5: ["125", "123", "234", "345", "145"]}
"""For each number of agents: the agents whose last answers each agent reads, including the agent itself."""


async def test_each_agent_hears_its_neighbours_in_the_ring(start_stub: StartStub) -> None:
    cases = claims(RINGS)
    stub = start_stub(
        [r for claim, n in cases.items() for r in script("SRNRS"[:n], "SRRSN"[:n], "RRSSR"[:n], claim=claim)]
    )
    for claim, n in cases.items():
        document = await debate("neighbor_debate", {"claim": claim}, agents=n, max_rounds=3)
        assert outline(document) == ("done", "REFUTES", "max_rounds", 3, 3 * n, 3)
        for i, ring in enumerate(RINGS[n], 1):
            marks_by_round = [" ".join(f"a{j}r{r}" for j in ring) for r in (1, 2)]
            assert marks_by_prompt(stub, f"agent-{i}", claim=claim) == ["", *marks_by_round]


async def test_the_two_neighbours_of_a_leaving_agent_become_neighbours(start_stub: StartStub) -> None:
    stub = start_stub(script("SRNR", "SRxR", "SRRR"))
    document = await debate("neighbor_debate", agents=4, max_rounds=3)
    assert (document["answer"], warning_kinds(document)) == ("REFUTES", ["agent_left"])
    assert marks_by_prompt(stub, "agent-2") == ["", "a1r1 a2r1 a3r1", "a1r2 a2r2 a4r2"]
    assert marks_by_prompt(stub, "agent-3") == ["", "a2r1 a3r1 a4r1"]
    assert marks_by_prompt(stub, "agent-4") == ["", "a1r1 a3r1 a4r1", "a1r2 a2r2 a4r2"]


# --- groups -----------------------------------------------------------------------------------------------------------


def group_summaries(groups: list[str], rounds: int) -> list[dict[str, object]]:
    """Rules for the summaries of groups. The first group's summary in round 2 contains ``g1r2.``.

    A rule recognises a group by the answer of its first agent.
    """
    return [
        rule("summariser", rf"a{members[0]}r{r}\.", fields={"summary": f"They say g{i}r{r}."})
        for i, members in enumerate(groups, 1)
        for r in range(1, rounds + 1)
    ]


@pytest.mark.parametrize(("size", "groups"), [(2, ["12", "345"]), (3, ["123", "45"])])
async def test_agents_hear_their_own_group_and_the_summaries_of_all_groups(
    start_stub: StartStub, size: int, groups: list[str]
) -> None:
    stub = start_stub([*script("SRNRS", "RRSSN", "NNSSS", "NNSSS"), *group_summaries(groups, 4)])
    document = await debate("group_debate", agents=5, group_size=size, max_rounds=4)
    assert outline(document) == ("done", "SUPPORTS", "max_rounds", 4, 5 + 5 + 2 + 5 + 2 + 5, 6)
    for members in groups:
        for i in members:
            marks_by_round = [" ".join(f"a{j}r{r}" for j in members) for r in (1, 2, 3)]
            assert marks_by_prompt(stub, f"agent-{i}") == [
                "",
                marks_by_round[0],
                *(f"{marks_by_round[r - 1]} g1r{r} g2r{r}" for r in (2, 3)),
            ]
    summed_up = [" ".join(f"a{j}r{r}" for j in members) for r in (2, 3) for members in groups]
    # First answers and the last round are not summarised.
    assert sorted(marks_by_prompt(stub, "summariser", "`summary`")) == sorted(summed_up)
    turns = [(t["agent"], t["round"], t["summary"]) for t in document["turns"] if t["step"] == "summarise"]
    assert turns == [(f"group-{i}", r, f"They say g{i}r{r}.") for r in (2, 3) for i in (1, 2)]


async def test_an_unusable_group_summary_is_left_out(start_stub: StartStub) -> None:
    silent = rule("summariser", r"a3r2\.", reply="No.")
    stub = start_stub([*script("SRNR", "SRNN", "SRNN"), silent, *group_summaries(["12"], 2)])
    document = await debate("group_debate", agents=4, max_rounds=3)
    assert (document["status"], document["answer"]) == ("done", "NOT ENOUGH INFO")
    assert marks_by_prompt(stub, "agent-1")[2] == "a1r2 a2r2 g1r2"
    assert marks_by_prompt(stub, "agent-3")[2] == "a3r2 a4r2 g1r2"
    summaries = {t["agent"]: (t["summary"], t["outcome"]) for t in document["turns"] if t["step"] == "summarise"}
    assert summaries == {"group-1": ("They say g1r2.", "ok"), "group-2": (None, "unparsed")}
    assert set(warning_kinds(document)) == {"unparsed"}


# --- ChatEval ---------------------------------------------------------------------------------------------------------


async def test_agents_hear_the_answers_and_a_summary_of_the_previous_round(start_stub: StartStub) -> None:
    summed = [rule("summariser", rf"a1r{r}\.", fields={"summary": f"So far s0r{r}."}) for r in (1, 2, 3)]
    stub = start_stub([*script("SRN", "RNS", "SSN"), *summed])
    document = await debate("chat_eval", max_rounds=3)
    assert outline(document) == ("done", "SUPPORTS", "max_rounds", 3, 3 + 1 + 3 + 1 + 3, 5)
    for agent in ("agent-1", "agent-2", "agent-3"):
        assert marks_by_prompt(stub, agent) == ["", "a1r1 a2r1 a3r1 s0r1", "a1r2 a2r2 a3r2 s0r2"]
    assert marks_by_prompt(stub, "summariser", "`summary`") == ["a1r1 a2r1 a3r1", "a1r2 a2r2 a3r2"]


async def test_if_the_summary_is_unusable_agents_hear_only_the_answers(start_stub: StartStub) -> None:
    stub = start_stub([*script("SRN", "RRN"), rule("summariser", finish="content_filter")])
    document = await debate("chat_eval")
    assert outline(document) == ("done", "REFUTES", "max_rounds", 2, 3 + 2 + 3, 4)
    assert marks_by_prompt(stub, "agent-1") == ["", "a1r1 a2r1 a3r1"]
    assert "<summary" not in prompts(stub, "agent-1")[1]
    assert [(t["summary"], t["outcome"]) for t in document["turns"] if t["step"] == "summarise"] == [(None, "refused")]


async def test_a_debate_of_one_round_is_only_a_vote(start_stub: StartStub) -> None:
    cases = claims(["society_of_minds", "chat_eval", "group_debate", "neighbor_debate", "reconcile"])
    stub = start_stub([r for claim in cases for r in script("SRR", claim=claim)])
    for claim, name in cases.items():
        document = await debate(name, {"claim": claim}, agents=3, max_rounds=1)
        assert outline(document) == ("done", "REFUTES", "max_rounds", 1, 3, 1)
    assert not stub.prompts("summariser")


# --- short answers -------------------------------------------------------------------------------------------------

CITIES = {"claim": "Where is it?", "task": "short_answer"}


async def test_votes_with_the_same_meaning_are_counted_together(start_stub: StartStub) -> None:
    start_stub([
        rule("equivalence", "NYC.*New York City", fields={"same": True, "reason": "short for it"}),
        rule("equivalence", fields={"same": False, "reason": "another city"}),
        *script(["Rome", "Oslo", "Bonn"], ["Boston", "NYC", "New York City"]),
    ])  # fmt: skip
    document = await debate("society_of_minds", CITIES)
    assert outline(document)[:4] == ("done", "NYC", "max_rounds", 2)
    assert [vote["group"] for vote in document["votes"]] == [0, 1, 1]
    checked = [call for call in document["calls"] if call["role"] == "equivalence"]
    assert len(checked) == 3  # all in the last round: NYC with Boston, and New York City with Boston and NYC


async def test_the_depth_counts_comparisons_that_run_one_after_another(start_stub: StartStub) -> None:
    start_stub([
        rule("equivalence", fields={"same": False, "reason": "another city"}),
        *script(["Boston", "Rome", "Bonn", "Oslo"]),
    ])  # fmt: skip
    document = await debate("multi_agent_voting", CITIES, agents=4)
    # The second answer needs one comparison, the third two, the fourth three. The comparisons of one answer run at the
    # same time, after those of the previous answer.
    assert outline(document) == ("done", "Boston", "single_pass", 1, 4 + 6, 1 + 3)
