"""Debates of several agents: unparsable replies, failed calls, personas, and seeds."""

from __future__ import annotations

from typing import Any

from moot.graphs.society_of_minds import SocietySettings
from moot.nodes._models.step_record import StepRecord
from moot.nodes._runtime.node import NodeContext
from moot.nodes._speakers.turns import speaker_declaration

from tests.conftest import StartStub
from tests.graphs.scripted_agents import (
    N_AGENT_GRAPHS,
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

ROUNDS: dict[str, dict[str, Any]] = {name: {"max_rounds": 3} for name in N_AGENT_GRAPHS}
ROUNDS |= {"multi_agent_voting": {}, "peer_review": {"rounds": 2}, "cortex_debate": {"max_rounds": 2}}
"""For each graph, settings with which each agent answers three times (once in multi_agent_voting)."""


def answer_turns(document: dict[str, Any], agent: str) -> list[Any]:
    return [t for t in document["turns"] if t["agent"] == agent and t["step"] == "respond"]


async def test_an_agent_with_only_unparsable_replies_has_a_vote_without_an_answer(start_stub: StartStub) -> None:
    mute = [rule(f"agent-{i}", "your `answer`", reply="I would rather not say.") for i in (1, 2)]
    stub = start_stub([*mute, answer_rule("agent-3", "R", "a3r1"), answer_rule("agent-4", "R", "a4r1")])
    for claim, name in claims(N_AGENT_GRAPHS).items():
        document = await debate(name, {"claim": claim}, agents=4, **ROUNDS[name])
        times = 1 if name == "multi_agent_voting" else 3
        assert (document["status"], document["answer"]) == ("done", "REFUTES"), name  # as the other two agents answered
        # There is no consensus, because two of four agents give no answer.
        assert document["stop_reason"] == ("single_pass" if times == 1 else "max_rounds")
        for i in (1, 2):
            silent = answer_turns(document, f"agent-{i}")
            assert [(t["answer"], t["outcome"]) for t in silent] == [(None, "unparsed")] * times
            assert len(prompts(stub, f"agent-{i}", claim=claim)) == times  # the silent agent is asked in every round
            vote = document["votes"][i - 1]
            assert (vote["agent"], vote["answer"], vote["group"]) == (f"agent-{i}", None, None)
        assert warning_kinds(document) == ["unparsed"] * (2 * 2 * times)  # two agents, two requests for each answer


async def test_without_any_answer_there_is_no_verdict(start_stub: StartStub) -> None:
    start_stub([rule("agent-.", "your `answer`", reply="I would rather not say.")])
    for name in N_AGENT_GRAPHS:
        document = await debate(name, agents=3, **ROUNDS[name])
        assert outline(document)[:3] == ("failed", None, None), name
        assert document["error"]["kind"] == "unparsed"


async def test_a_debate_continues_without_agents_whose_calls_fail(start_stub: StartStub) -> None:
    # The calls for agent 4's first answer and for agent 2's second answer fail.
    cases = claims(name for name in N_AGENT_GRAPHS if name != "multi_agent_voting")
    firsts = {claim: 0 if name == "cortex_debate" else 1 for claim, name in cases.items()}
    stub = start_stub(
        [r for claim, first in firsts.items() for r in script("SNRx", "SxR", "R-R", first=first, claim=claim)]
    )
    for claim, name in cases.items():
        document = await debate(name, {"claim": claim}, agents=4, **ROUNDS[name])
        assert (document["status"], document["answer"], document["error"]) == ("done", "REFUTES", None), name
        stop = "consensus" if name in ("reconcile", "cortex_debate") else "max_rounds"  # the two remaining agents agree
        assert (document["rounds"], document["stop_reason"]) == (firsts[claim] + 2, stop), name
        assert final_votes(document) == {"agent-1": "REFUTES", "agent-3": "REFUTES"}
        assert [(t["answer"], t["outcome"]) for t in answer_turns(document, "agent-4")] == [(None, "failed")]
        assert [t["outcome"] for t in answer_turns(document, "agent-2")] == ["ok", "failed"]
        asked = [len(prompts(stub, agent, claim=claim)) for agent in ("agent-4", "agent-2")]
        assert asked == [1, 2]  # agents are not called again after a failed call
        left = [w for w in document["warnings"] if w["kind"] == "agent_left"]
        assert [w["where"].partition(":")[0] for w in left] == ["agent-4", "agent-2"]
        assert "goes on without agent-2" in left[1]["detail"]
        for i in (1, 3):
            assert "agent-4" not in prompts(stub, f"agent-{i}", claim=claim)[1]
            # After agent 2 has left the debate, even its first answer is not shown.
            assert "agent-2" not in prompts(stub, f"agent-{i}", claim=claim)[2]


async def test_too_few_agents_end_a_debate_without_a_verdict(start_stub: StartStub) -> None:
    cases = claims(N_AGENT_GRAPHS)
    start_stub([r for claim in cases for r in script("Sxx", claim=claim) + script("Rxx", "R", "R", claim=claim)])
    for claim, name in cases.items():
        document = await debate(name, {"claim": claim}, agents=3, **ROUNDS[name])
        assert outline(document)[:3] == ("failed", None, None), name
        assert (document["error"]["kind"], document["error"]["retryable"]) == ("too_few_agents", True)
        assert warning_kinds(document) == ["agent_left"] * 2
        assert len(document["calls"]) == 3
        alone = await debate(name, {"claim": claim}, agents=3, min_agents=1, **ROUNDS[name])
        assert (alone["status"], alone["answer"]) == ("done", "REFUTES"), name
        assert list(final_votes(alone)) == ["agent-1"]


async def test_one_failed_agent_ends_a_debate_if_min_agents_is_the_number_of_agents(start_stub: StartStub) -> None:
    start_stub(script("SSx"))
    document = await debate("society_of_minds", min_agents=3)
    assert (document["status"], document["error"]["kind"]) == ("failed", "too_few_agents")


async def test_all_agents_are_told_of_a_missing_answer(start_stub: StartStub) -> None:
    stub = start_stub(script("S-R", "RRR"))
    await debate("society_of_minds")
    assert marks_by_prompt(stub, "agent-1")[1] == "a1r1 a3r1"
    for agent in ("agent-1", "agent-2", "agent-3"):  # also agent 2, which gave no valid answer
        assert prompts(stub, agent)[1].count("(gave no valid answer)") == 1


# --- personas and seeds -----------------------------------------------------------------------------------------------

PERSONAS = [{"persona": "a watchmaker of Geneva"}, {"persona": "a clerk of Delft"}, {}]


async def test_an_agents_persona_is_only_in_the_prompts_of_this_agent(start_stub: StartStub) -> None:
    stub = start_stub()
    for name in N_AGENT_GRAPHS:
        more: dict[str, Any] = {"evaluation": "peer"} if name == "cortex_debate" else {}
        document = await debate(name, agents=PERSONAS, **ROUNDS[name], **more)
        assert document["status"] == "done", name
    personas = {1: "of Geneva", 2: "of Delft"}
    steps = set()
    for request in stub.requests():
        text = "\n".join(m["content"] for m in request["messages"])
        for i, persona in personas.items():
            assert (persona in text) == (request["model"] == f"stub-agent-{i}"), text
        steps |= {step for step in ("your `answer`", "your `comment`", "the `score`", "the `summary`") if step in text}
    assert len(steps) == 4


async def test_agents_that_share_a_model_may_have_their_own_seeds(start_stub: StartStub) -> None:
    start_stub()
    seeded = [{"seed": 7}, {"seed": 8}, {"model": {"model": "openai:stub", "seed": 9}}, {}]
    settings = SocietySettings.model_validate({"model": "openai:stub", "agents": seeded})
    speakers = [
        await NodeContext(settings, StepRecord()).speaker_of(speaker_declaration(agent)) for agent in settings.agents
    ]
    assert [speaker.seed for speaker in speakers] == [7, 8, 9, None]
    assert [s.role for s in speakers] == ["agent-1", "agent-2", "agent-3", "agent-4"]
    assert {s.model.name for s in speakers} == {"openai:stub"}
