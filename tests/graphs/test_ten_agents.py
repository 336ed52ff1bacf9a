"""Ten agents over ten rounds: prompts grow with the number of agents that an agent hears, not with the rounds."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from moot.evals._stats.debate_measures import context_tokens
from moot.nodes._steps.score import average

from tests.conftest import StartStub
from tests.graphs.scripted_agents import Rule, debate

NAMES = [f"agent-{i:02}" for i in range(1, 11)]
GIVEN = {"claim": "The kilogram is defined by a constant.", "labels": ["alpha", "gamma"]}
SURE = [0.35, 0.4, 0.45, 0.5, 0.55, 0.65, 0.75, 0.85, 0.95, 0.95]
"""The agents' confidences, from which CortexDebate computes whom they hear. No prompt shows the confidences."""
WORDS = ["iron", "gold", "zinc", "lead", "neon", "salt", "sand", "clay", "coal", "lime"]


def equally_long_answers() -> list[Rule]:
    """Rules for answers of the same length. Half of the agents answer ``alpha``, the other half ``gamma``."""
    return [
        {
            "model": f"stub-{name}$",
            "fields": {
                "answer": ("alpha", "gamma")[i % 2],
                "rationale": f"Because of {WORDS[i]}, as it is said of {WORDS[-i]}.",
                "citations": [],
                "confidence": SURE[i],
            },
        }
        for i, name in enumerate(NAMES)
    ]


async def run_ten_agents(name: str) -> dict[str, Any]:
    """Run a debate of ten agents: a first round (number 1, in CortexDebate number 0) and ten more rounds."""
    rounds = 10 if name == "cortex_debate" else 11
    document = await debate(name, GIVEN, agents=[{"name": agent} for agent in NAMES], max_rounds=rounds)
    assert (document["status"], document["stop_reason"], document["rounds"]) == ("done", "max_rounds", rounds)
    assert len(document["calls"]) == 110
    return document


def tokens_sent(document: dict[str, Any]) -> dict[str, list[int]]:
    """The tokens sent to each agent, by round."""
    calls = sorted(document["calls"], key=lambda call: call["round"])
    return {name: [c["prompt_tokens"] for c in calls if c["role"] == name] for name in NAMES}


async def test_prompt_length_depends_only_on_the_number_of_agents_heard(start_stub: StartStub) -> None:
    """An agent hears the agents whose answers its prompt shows.

    In a neighbour debate they are two, in a society of minds nine, and in CortexDebate their number varies.
    """
    start_stub(equally_long_answers())
    names = ("neighbor_debate", "cortex_debate", "society_of_minds")
    documents = {name: await run_ten_agents(name) for name in names}
    for name in ("neighbor_debate", "society_of_minds"):
        for agent, by_round in tokens_sent(documents[name]).items():
            assert len(set(by_round[1:])) == 1, (name, agent)
            assert by_round[1] > by_round[0]
    [tokens_for_two], [tokens_for_nine] = (
        {t for tokens in tokens_sent(documents[name]).values() for t in tokens[1:]} for name in (names[0], names[2])
    )
    tokens_per_agent = (tokens_for_nine - tokens_for_two) / 7
    cortex = tokens_sent(documents["cortex_debate"])
    by_number: dict[int, set[int]] = defaultdict(set)
    for place, graph in enumerate(documents["cortex_debate"]["graphs"], 1):
        for agent, sources in graph["kept"].items():
            by_number[len(sources)].add(cortex[agent][place])
    assert len(by_number) > 1
    # Agents that hear equally many others get almost equally many tokens, in every round.
    assert all(max(tokens) - min(tokens) <= 1 for tokens in by_number.values())
    least = min(by_number)
    for number, tokens in by_number.items():
        growth = max(tokens) - max(by_number[least])
        assert growth == pytest.approx(tokens_per_agent * (number - least), abs=2)
    context = {name: average(list(context_tokens(document).values())) or 0 for name, document in documents.items()}
    print("\ninput tokens per agent and round: " + ", ".join(f"{name} {value:.0f}" for name, value in context.items()))
    assert 0 < context["neighbor_debate"] < context["society_of_minds"]
    assert 0 < context["cortex_debate"] < context["society_of_minds"]
