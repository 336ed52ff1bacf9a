"""Budgets in tokens and USD: refused budgets, replies without token counts, and several debates on a thread."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from moot.core.errors import UserError
from moot.graphs import load_graph
from moot.graphs.society_of_minds import SocietySettings, builder
from moot.nodes._models.prices import Price
from moot.nodes._runtime.settings import checked_settings

from tests.conftest import StartStub, StubEndpoint
from tests.graphs.scripted_agents import CLAIM, answer_rule, debate

PLAIN: dict[str, Any] = {"debaters": [{"name": "rag"}, {"name": "search"}]}
GRAPHS: dict[str, dict[str, Any]] = {
    "tool_mad": PLAIN,
    "tool_mad_consistency": {**PLAIN, "scoring": "off"},
    "madke": {"sources": [], "fallback": []},
    "standard_mad": {"sources": ["bm25:demo-news"]},
    "cortex_debate": {},
    "society_of_minds": {},
    "chat_eval": {},
    "tit_for_tat": {},
    "reconcile": {},
    "peer_review": {"rounds": 2},
    "group_debate": {},
    "neighbor_debate": {},
}
"""Systems that run in rounds, with settings for these tests. The tests add PROClaim and ReAct."""
FIRST_SPEAKER = "agent-1|rag|debater-1|affirmative"
"""A pattern for the first speaker's role in all systems."""
DISAGREEING = [
    answer_rule(f"({FIRST_SPEAKER})", "S", confidence=0.5),
    answer_rule(".*", "R", confidence=0.5),
    {"fields": {"citations": [], "agree": False, "preferred": None}},
]
SEARCHING: dict[str, Any] = {
    "plan": True,
    "debaters": [{"name": name, "retriever": "bm25:demo-news"} for name in ("rag", "search")],
}
PLANNING: dict[str, dict[str, Any]] = {
    "tool_mad": SEARCHING,
    "tool_mad_consistency": SEARCHING,
    **{name: {"plan": True, "sources": ["bm25:demo-news"]} for name in ("madke", "standard_mad", "react")},
}
"""Settings with which a planner is called, for systems that may plan their search."""
IDLE_EVERYWHERE = {"source_summariser", "equivalence", "pool", "scorer", "reviewer"}
"""Roles that are called only for some sources, tasks and settings, but not in these tests."""
IDLE_IN = {"tool_mad": IDLE_EVERYWHERE - {"scorer"}, "cortex_debate": {*IDLE_EVERYWHERE, "similarity"}}
"""All roles without calls in these tests, for systems with other such roles than `IDLE_EVERYWHERE`."""
AMPLE_BUDGET = 10_000_000
CHEAP: Price = {"input": 1.0, "output": 4.0}


# --- USD --------------------------------------------------------------------------------------------------------------


def write_prices(folder: Path, monkeypatch: pytest.MonkeyPatch, models: set[str]) -> None:
    """Write a file with a price for each model, and set ``MOOT_PRICES`` to its path."""
    file = folder / "prices.jsonl"
    file.write_text("\n".join(json.dumps({"model": model, **CHEAP}) for model in sorted(models)))
    monkeypatch.setenv("MOOT_PRICES", str(file))


@pytest.mark.parametrize("name", [*GRAPHS, "proclaim", "react"])
async def test_max_cost_refuses_a_model_without_a_price_before_any_call(
    start_stub: StartStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    stub = start_stub(DISAGREEING)
    system = load_graph(name)
    write_prices(tmp_path, monkeypatch, {"openai:priced"})
    for role in system.settings().roles() - IDLE_IN.get(name, IDLE_EVERYWHERE):
        given = {**GRAPHS.get(name, {}), "model": "openai:priced", "models": {role: "openai:unpriced"}}
        given |= PLANNING[name] if role == "planner" else {}
        settings = checked_settings(system.settings, {**given, "max_cost": 1})
        document = await system.graph.ainvoke({"claim": CLAIM}, context=settings)
        assert (document["status"], document["error"]["kind"]) == ("failed", "invalid_setting"), role
        assert "for openai:unpriced," in document["error"]["detail"]
        assert "MOOT_PRICES" in document["error"]["detail"]
    assert stub.requests() == []


async def test_max_cost_needs_a_price_for_the_pool_model_if_a_source_is_scholarly(start_stub: StartStub) -> None:
    stub = start_stub(DISAGREEING)
    document = await debate("madke", sources=["openalex"], fallback=[], max_cost=1)
    assert (document["status"], document["error"]["kind"]) == ("failed", "invalid_setting")
    assert "openai:stub-pool" in document["error"]["detail"]
    assert stub.requests() == []


async def test_an_invalid_price_file_is_an_error_before_any_call(
    start_stub: StartStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = start_stub(DISAGREEING)
    (tmp_path / "prices.jsonl").write_text('{"model": "openai:stub", "input": -1, "output": 1}')
    monkeypatch.setenv("MOOT_PRICES", str(tmp_path / "prices.jsonl"))
    document = await debate("society_of_minds", max_cost=1)
    assert (document["error"]["kind"], stub.requests()) == ("invalid_file", [])
    assert "prices.jsonl, line 1: input" in document["error"]["detail"]


# --- endpoints without token counts -----------------------------------------------------------------------------------


def start_without_token_counts(start_stub: StartStub) -> StubEndpoint:
    """Start an endpoint whose replies have no token counts."""
    choice = {"index": 0, "message": {"role": "assistant", "content": '{"answer": "S"}'}, "finish_reason": "stop"}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "stub", "choices": [choice]}
    return start_stub([{"raw": json.dumps(body)}])


@pytest.mark.parametrize("name", [*GRAPHS, "proclaim", "react"])
async def test_a_reply_without_token_counts_ends_a_debate_with_a_budget(start_stub: StartStub, name: str) -> None:
    stub = start_without_token_counts(start_stub)
    document = await debate(name, **GRAPHS.get(name, {"sources": ["bm25:demo-news"]}), budget=50_000)
    assert (document["status"], document["answer"]) == ("failed", None)
    assert document["error"]["kind"] == "invalid_setting"
    assert "how many tokens" in document["error"]["detail"]
    nodes = {call["node"] for call in document["calls"]}
    assert nodes <= {document["calls"][0]["node"], "stance_queries"}  # `stance_queries` may run at the same time
    assert len(stub.requests()) == len(document["calls"])


@pytest.mark.parametrize("value", [{"budget": 0}, {"max_cost": 0}, {"max_cost": float("nan")}, {"max_cost": 1e9}])
def test_a_budget_outside_its_range_is_refused(value: dict[str, float]) -> None:
    with pytest.raises(UserError, match=next(iter(value))):
        checked_settings(SocietySettings, value)


async def test_each_debate_on_a_thread_has_its_own_budget(start_stub: StartStub) -> None:
    start_stub(DISAGREEING)
    graph = builder.compile(checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    reasons = []
    for settings in ({"budget": 1_900}, {}, {"budget": AMPLE_BUDGET}):
        context = SocietySettings.model_validate({"model": "openai:stub", **settings})
        document = await graph.ainvoke({"claim": CLAIM}, thread, context=context)
        reasons.append((document["stop_reason"], document["rounds"]))
    assert reasons == [("budget_exhausted", 1), ("max_rounds", 2), ("max_rounds", 2)]
