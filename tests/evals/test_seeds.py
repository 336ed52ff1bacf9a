"""Seeds that an endpoint receives: no two calls of a plan have the same seed, and repeating a run repeats its seeds."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, SystemMessage
from moot.evals._runs.plan import make_plan
from moot.evals._runs.run_plan import Limits, run_plan
from moot.graphs import load_graph
from moot.nodes._models.replies import StoreUse, store_use
from moot.nodes._models.seeds import CallSeeds, derived_seed
from moot.nodes._models.session import Session
from moot.nodes._models.step_record import StepRecord
from moot.nodes._runtime.node import NodeContext
from moot.nodes._runtime.settings import Settings
from moot.nodes._steps.query import formulate_query

from tests.conftest import READERS, StartStub, StubEndpoint, reading_demo

CLAIM = "The platypus is a mammal that lays eggs."
ENCODER = "openai:stub-embedding"
UNUSABLE = {"match": "Claim B", "reply": "No JSON.", "times": 9}
SETTINGS = {"model": "openai:stub", "embedder": ENCODER, "max_rounds": 2}


def seeds_of(stub: StubEndpoint) -> list[int]:
    """The seeds of all chat calls. Each must be in the range that endpoints accept."""
    sent = [request["seed"] for request in stub.requests()]
    assert all(type(seed) is int and 0 <= seed < 2**31 for seed in sent)
    return sent


def test_the_seed_of_a_call_is_derived_from_the_seed_of_the_run() -> None:
    """The first two seeds are the examples in the docstring of `derived_seed`."""
    assert (derived_seed(1, "agent-1", 1, 1), derived_seed(2, "agent-1", 1, 1)) == (111733665, 1778158472)
    asked = [SystemMessage("Answer."), HumanMessage("A claim.")]
    seeds = CallSeeds(1, ("agent-1", 1, 1), asked)
    sent = [["system", "Answer."], ["human", "A claim."]]
    assert seeds.seed_of(asked) == seeds.seed_of([*asked]) == derived_seed(1, "agent-1", 1, 1, sent, 0)
    further = [
        seeds.seed_of([*asked, HumanMessage("Again.")]),
        CallSeeds(1, seeds.question, asked, earlier=1).seed_of(asked),
    ]
    assert len({seeds.first_seed, *further}) == 3


def test_no_seed_is_sent_twice_in_a_plan(start_stub: StartStub, tmp_path: Path) -> None:
    """The plan has equal claims, systems with equal requests, second tries, controls, and graphs within graphs."""
    stub = start_stub([UNUSABLE])
    lines = [
        {"id": i, "claim": claim, "label": "SUPPORTS", "evidence": []}
        for i, claim in enumerate(("Claim A.", "Claim A."))
    ]
    (tmp_path / "fever.jsonl").write_text("\n".join(map(json.dumps, lines)))
    seeded = {"graph": "society_of_minds", "label": "own", "settings": {"agents": [{"seed": 7}, {"seed": 7}]}}
    plan = make_plan(
        {
            "graphs": [
                *({"graph": "self_consistency", "label": str(n), "settings": {"samples": n}} for n in (3, 4)),
                {"graph": "tool_mad", "settings": {"debaters": READERS}},
                "chain_of_thought",
                "tool_mad_consistency",
                seeded,
            ],
            "tasks": {"fever": str(tmp_path / "fever.jsonl")},
            "models": ["openai:stub"],
            "seeds": [1, 2],
            "settings": {"embedder": ENCODER, "max_rounds": 1},
            "controls": True,
        }
    )
    run_plan(plan, tmp_path / "logs", Limits(8), lambda total, held: lambda sample: None)
    sent = seeds_of(stub)
    assert len(sent) > 150
    repeated = {seed for seed, times in Counter(sent).items() if times > 1}
    assert not repeated, [request for request in stub.requests() if request["seed"] in repeated][:2]


async def run_debate(graph: str, seed: int, mode: Any = "off", **more: Any) -> Any:
    """Run a debate with a seed; return its document."""
    system = load_graph(graph)
    known = {name: value for name, value in SETTINGS.items() if name in system.settings.model_fields}
    settings = system.settings.model_validate(known | {"seed": seed} | reading_demo(system.settings) | more)
    with store_use(StoreUse(mode)):
        return await system.graph.ainvoke({"claim": CLAIM}, context=settings)


async def test_runs_with_consecutive_seeds_send_different_seeds(start_stub: StartStub) -> None:
    sent = []
    for seed in (1, 2, 3):
        stub = start_stub()
        await run_debate("self_consistency", seed)
        sent += seeds_of(stub)
    assert len(set(sent)) == 15  # three runs of five samples


@pytest.mark.parametrize("graph", ["tool_mad", "proclaim", "cortex_debate", "self_consistency", "react"])
async def test_debates_with_the_same_seed_send_the_same_seeds(start_stub: StartStub, graph: str) -> None:
    """The order in which calls end has no effect. With a store, equal requests share one call and its seed."""
    sent = []
    for mode in ("off", "off", "record"):
        stub = start_stub(latency_ms=3, jitter=1)
        document = await run_debate(graph, 1, mode)
        assert document["status"] == "done", document["error"]
        sent.append(Counter(seeds_of(stub)))
        assert max(sent[-1].values()) == 1
    assert sent[0] == sent[1]
    assert sent[2] <= sent[0]  # with a store


async def test_equal_requests_have_different_seeds(start_stub: StartStub) -> None:
    """Each of two agents makes the same request twice."""
    stub, session = start_stub(), Session()
    settings = Settings.model_validate({"model": "openai:stub", "seed": 1})
    for agent in ("agent-1", "agent-2"):
        speaker = await NodeContext(settings, StepRecord(agent=agent), session).speaker("scorer")
        for _ in range(2):
            await formulate_query(CLAIM, speaker)
    assert len(set(seeds_of(stub))) == len(stub.calls()) == 4
