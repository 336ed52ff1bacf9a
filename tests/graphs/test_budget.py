"""Budgets of every system that goes on in rounds: where they end it, what it comes to, and what they refuse."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from moot.core.errors import UserError
from moot.graphs import DESCRIPTIONS, load_graph
from moot.graphs.society_of_minds import SocietySettings, builder
from moot.nodes.models.ledger import tokens_of
from moot.nodes.models.prices import Price, cost_of
from moot.nodes.runtime.budget import is_spent, share
from moot.nodes.runtime.settings import checked_settings

from tests.conftest import StartStub, StubEndpoint
from tests.graphs.scripted_agents import CLAIM, Rule, answers, debate, outline, rule
from tests.graphs.scripted_trial import course, otherwise, outcome, trial
from tests.graphs.test_react import ANSWER, acts, search
from tests.graphs.test_react import calls as calling
from tests.graphs.test_react import debate as searching

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
"""Systems in rounds, as they are set here; the trial and the agent with tools have tests of their own."""
ONE_CALL = ("standard_prompting", "chain_of_thought", "rag", "multi_agent_voting")
FIRST = "agent-1|rag|debater-1|affirmative"
DECIDES = ("judge", "summarise", "faithfulness", "answer_relevance")
"""Nodes that call models once the rounds are over, where the first round is the last one."""
AT_ODDS = [
    answers(f"({FIRST})", "S", confidence=0.5),
    answers(".*", "R", confidence=0.5),
    {"fields": {"citations": [], "agree": False, "preferred": None}},
]
AGREED = [
    answers(".*", "S", confidence=0.5),
    {"fields": {"citations": [], "agree": True, "preferred": "SUPPORTS"}},
]
NOT_ASKED = {"source_summariser", "equivalence", "pool"}
"""Roles that only some sources and tasks want."""
IDLE = {"tool_mad_consistency": {*NOT_ASKED, "scorer"}}
NEVER = 10_000_000
CHEAP: Price = {"input": 1.0, "output": 4.0}


def in_rounds(document: Mapping[str, Any]) -> int:
    """Tokens of a debate of one round, without those of whoever decided it."""
    return tokens_of([call for call in document["calls"] if call["node"] not in DECIDES])


def told(document: Mapping[str, Any]) -> Counter[tuple[Any, ...]]:
    """Who was asked in which round at what cost."""
    return Counter((c["node"], c["role"], c["round"], c["prompt_tokens"]) for c in document["calls"])


@pytest.mark.parametrize("name", GRAPHS)
async def test_no_round_begins_once_the_tokens_are_used(start_stub: StartStub, name: str) -> None:
    start_stub(AT_ODDS)
    first = 0 if name == "cortex_debate" else 1
    short = await debate(name, **GRAPHS[name], budget=1)
    assert (short["status"], short["error"], short["stop_reason"]) == ("done", None, "budget_exhausted")
    assert (short["rounds"], max(turn["round"] for turn in short["turns"])) == (first, first)
    assert short["answer"] in ("SUPPORTS", "REFUTES")
    used = in_rounds(short)
    exactly, more = [await debate(name, **GRAPHS[name], budget=used + i) for i in (0, 1)]
    assert outline(exactly) == outline(short)
    assert more["rounds"] > first
    free, bounded = await debate(name, **GRAPHS[name]), await debate(name, **GRAPHS[name], budget=NEVER)
    assert outline(free) == outline(bounded)
    assert free["stop_reason"] == "max_rounds"
    assert (free["turns"], free["votes"], told(free)) == (bounded["turns"], bounded["votes"], told(bounded))


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        ("tool_mad", {"scoring": "consensus_only"}, "consensus"),
        ("tool_mad", {"answer_relevance_threshold": 0}, "stable_consensus"),
        ("tool_mad_consistency", {}, "consensus"),
        ("madke", {}, "consensus"),
        ("reconcile", {}, "consensus"),
        ("tit_for_tat", {}, "judge_preference"),
        ("society_of_minds", {"max_rounds": 1}, "max_rounds"),
        ("cortex_debate", {}, "budget_exhausted"),  # which is not ended by an agreement of its first answers
    ],
)
async def test_a_debate_that_ended_by_itself_says_so(
    start_stub: StartStub, name: str, settings: dict[str, Any], reason: str
) -> None:
    start_stub(AGREED)
    document = await debate(name, **{**GRAPHS[name], **settings}, budget=1)
    assert (document["status"], document["answer"], document["stop_reason"]) == ("done", "SUPPORTS", reason)


async def test_the_judge_of_a_spent_debate_reads_its_scores(start_stub: StartStub) -> None:
    start_stub(AT_ODDS)
    document = await debate("tool_mad", **PLAIN, budget=1)
    assert set(document["scores"]) == {"rag", "search"}
    assert [call["role"] for call in document["calls"]].count("scorer") > 0
    assert document["calls"][-1]["role"] == "judge"


# --- USD --------------------------------------------------------------------------------------------------------------


def write_prices(folder: Path, monkeypatch: pytest.MonkeyPatch, models: set[str]) -> None:
    """A file of prices for these models, which the environment names."""
    own = folder / "prices.jsonl"
    own.write_text("\n".join(json.dumps({"model": model, **CHEAP}) for model in sorted(models)))
    monkeypatch.setenv("MOOT_PRICES", str(own))


def models_of(document: Mapping[str, Any]) -> set[str]:
    return {call["model"] for call in document["calls"]}


@pytest.mark.parametrize("name", ["tit_for_tat", "chat_eval"])
async def test_no_round_begins_once_the_cost_is_reached(
    start_stub: StartStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    start_stub(AT_ODDS)
    free = await debate(name, max_rounds=3)
    write_prices(tmp_path, monkeypatch, models_of(free))
    prices = dict.fromkeys(models_of(free), CHEAP)
    short = await debate(name, max_rounds=3, max_cost=1e-9)
    assert (short["status"], short["stop_reason"], short["rounds"]) == ("done", "budget_exhausted", 1)
    cost = cost_of([call for call in short["calls"] if call["node"] not in DECIDES], prices)
    assert cost is not None
    assert (await debate(name, max_rounds=3, max_cost=cost))["rounds"] == 1
    assert (await debate(name, max_rounds=3, max_cost=cost * 1.001))["rounds"] == 2
    assert outline(await debate(name, max_rounds=3, max_cost=1000)) == outline(free)


@pytest.mark.parametrize("name", [*GRAPHS, "proclaim", "react"])
async def test_a_model_without_a_price_is_refused_before_any_call(
    start_stub: StartStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    stub = start_stub(AT_ODDS)
    system = load_graph(name)
    write_prices(tmp_path, monkeypatch, {"openai:priced"})
    for role in system.settings().roles() - IDLE.get(name, NOT_ASKED):
        given = {**GRAPHS.get(name, {}), "model": "openai:priced", "models": {role: "openai:unpriced"}}
        settings = checked_settings(system.settings, {**given, "max_cost": 1})
        document = await system.graph.ainvoke({"claim": CLAIM}, context=settings)
        assert (document["status"], document["error"]["kind"]) == ("failed", "invalid_setting"), role
        assert "of openai:unpriced," in document["error"]["detail"]
        assert "MOOT_PRICES" in document["error"]["detail"]
    assert stub.requests() == []


async def test_who_makes_keywords_for_the_pool_has_a_price(start_stub: StartStub) -> None:
    stub = start_stub(AT_ODDS)
    document = await debate("madke", sources=["openalex"], fallback=[], max_cost=1)
    assert "openai:stub-pool" in document["error"]["detail"]
    assert stub.requests() == []


async def test_a_broken_file_of_prices_is_said_before_any_call(
    start_stub: StartStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = start_stub(AT_ODDS)
    (tmp_path / "prices.jsonl").write_text('{"model": "openai:stub", "input": -1, "output": 1}')
    monkeypatch.setenv("MOOT_PRICES", str(tmp_path / "prices.jsonl"))
    document = await debate("society_of_minds", max_cost=1)
    assert (document["error"]["kind"], stub.requests()) == ("invalid_file", [])
    assert "prices.jsonl, line 1: input" in document["error"]["detail"]


# --- what nobody counts -----------------------------------------------------------------------------------------------


def without_usage(start_stub: StartStub) -> StubEndpoint:
    """An endpoint that answers, and does not say how many tokens that took."""
    choice = {"index": 0, "message": {"role": "assistant", "content": '{"answer": "S"}'}, "finish_reason": "stop"}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "stub", "choices": [choice]}
    return start_stub([{"raw": json.dumps(body)}])


@pytest.mark.parametrize("name", [*GRAPHS, "proclaim", "react"])
async def test_tokens_that_nobody_counts_end_the_debate(start_stub: StartStub, name: str) -> None:
    stub = without_usage(start_stub)
    document = await debate(name, **GRAPHS.get(name, {}), budget=1000)
    assert (document["status"], document["answer"]) == ("failed", None)
    assert document["error"]["kind"] == "invalid_setting"
    assert "how many tokens" in document["error"]["detail"]
    nodes = {call["node"] for call in document["calls"]}
    assert nodes <= {document["calls"][0]["node"], "stance_queries"}  # those that ran at the same time
    assert len(stub.requests()) == len(document["calls"])


@pytest.mark.parametrize("name", [n for n in DESCRIPTIONS if n not in {*GRAPHS, "proclaim", "react"}])
def test_what_cannot_end_early_takes_no_budget(name: str) -> None:
    settings = load_graph(name).settings
    for setting in {"budget": 1, "max_cost": 1.0}.items():
        if (name, setting[0]) != ("self_consistency", "budget"):
            with pytest.raises(UserError, match=f"There is no setting '{setting[0]}'"):
                checked_settings(settings, dict([setting]))
    assert name in (*ONE_CALL, "self_consistency")


@pytest.mark.parametrize("value", [{"budget": 0}, {"max_cost": 0}, {"max_cost": float("nan")}, {"max_cost": 1e9}])
def test_no_budget_of_nothing(value: dict[str, float]) -> None:
    with pytest.raises(UserError, match=next(iter(value))):
        checked_settings(SocietySettings, value)


async def test_the_next_debate_on_a_thread_has_its_own_budget(start_stub: StartStub) -> None:
    start_stub(AT_ODDS)
    graph = builder.compile(checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    reasons = []
    for settings in ({"budget": 1}, {}, {"budget": NEVER}):
        context = SocietySettings.model_validate({"model": "openai:stub", **settings})
        document = await graph.ainvoke({"claim": CLAIM}, thread, context=context)
        reasons.append((document["stop_reason"], document["rounds"]))
    assert reasons == [("budget_exhausted", 1), ("max_rounds", 2), ("max_rounds", 2)]


# --- a budget by itself -----------------------------------------------------------------------------------------------


def spending(tokens: int | None, usd: float | None) -> dict[str, Any]:
    """A debate in which one model has read 1,000 tokens (0.001 USD) and written 100 (0.0004 USD)."""
    call = {"model": "openai:m", "prompt_tokens": 1000, "completion_tokens": 100, "outcome": "ok"}
    return {"budget": {"tokens": tokens, "usd": usd, "prices": {"openai:m": CHEAP}}, "calls": [call], "rounds": 1}


@pytest.mark.parametrize(
    ("tokens", "usd", "spent", "shared"),
    [
        (1101, None, False, (0.5, None)),
        (1100, None, True, (0, None)),
        (None, 0.0034, False, (None, 0.001)),
        (None, 0.0013, True, (None, 0)),
        (2100, 0.0013, True, (500, 0)),  # whichever is reached first
        (900, 0.0034, True, (0, 0.001)),
    ],
)
def test_what_is_left_is_shared(
    tokens: int | None, usd: float | None, spent: bool, shared: tuple[float | None, float | None]
) -> None:
    state = spending(tokens, usd)
    assert is_spent(state) is spent
    half = share(state, 2)
    assert half is not None
    assert half["tokens"] == shared[0]
    assert half["usd"] == (None if shared[1] is None else pytest.approx(shared[1]))
    assert half["prices"] == state["budget"]["prices"]


def test_without_a_budget_there_is_nothing_to_share() -> None:
    assert (is_spent({"calls": [], "budget": None}), share({"calls": []}, 2)) == (False, None)


def test_a_model_that_a_debate_was_not_opened_with_ends_it_loudly() -> None:
    state = spending(None, 1.0)
    state["budget"]["prices"] = {}
    with pytest.raises(UserError, match="of openai:m,"):
        is_spent(state)
    assert not is_spent(state | {"budget": {"tokens": 5000, "usd": None, "prices": {}}})


# --- a trial ----------------------------------------------------------------------------------------------------------


def held(document: Mapping[str, Any], phase: str) -> tuple[str, int]:
    """Why a debate of a trial stopped, and after which round."""
    entry = course(document, phase)
    return entry["stop_reason"], entry["rounds"]


def took(document: Mapping[str, Any], phase: str, round: int) -> int:
    """Tokens of a round of a debate."""
    return tokens_of([c for c in document["calls"] if (c["phase"], c["round"]) == (phase, round)])


@pytest.mark.parametrize("debates", [2, 1])
async def test_the_debates_of_a_trial_share_what_the_negotiation_left(start_stub: StartStub, debates: int) -> None:
    start_stub(otherwise())
    short = await trial(budget=1, role_switch=debates == 2)
    assert outcome(short) == ("done", "SUPPORTS", "SUPPORTED", "budget_exhausted", 1)
    assert {held(short, entry["phase"]) for entry in short["debates"]} == {("budget_exhausted", 1)}
    assert len(short["debates"]) == debates
    before, round = took(short, "negotiation", 0), took(short, "primary", 1)
    for extra, rounds in ((0, 1), (debates, 2)):
        start_stub(otherwise())
        document = await trial(budget=before + debates * round + extra, role_switch=debates == 2, max_rounds=2)
        assert held(document, "primary") == ("max_rounds" if rounds == 2 else "budget_exhausted", rounds)


async def test_a_trial_with_a_budget_that_is_never_reached(start_stub: StartStub) -> None:
    start_stub(otherwise())
    free = await trial()
    start_stub(otherwise())
    bounded = await trial(budget=NEVER)
    assert (outcome(free), free["debates"], told(free)) == (outcome(bounded), bounded["debates"], told(bounded))
    assert outcome(free)[3] == "max_rounds"


# --- an agent with tools ----------------------------------------------------------------------------------------------

SEARCHES: list[Rule] = [calling(search("kilogram"), times=1), calling(search("metal cylinder"), times=1)]


@pytest.mark.parametrize(
    ("budget", "most", "found", "reason"),
    [
        (1, 6, 1, "budget_exhausted"),
        (15, 6, 1, "budget_exhausted"),
        (16, 6, 2, "budget_exhausted"),
        (31, 6, 2, "single_pass"),  # the third message calls no tool
        (1, 1, 1, "single_pass"),  # its own bound comes first
        (None, 6, 2, "single_pass"),
    ],
)
async def test_an_agent_searches_no_more_once_the_budget_is_spent(
    start_stub: StartStub, budget: int | None, most: int, found: int, reason: str
) -> None:
    start_stub([*SEARCHES, rule("agent", "look for the evidence yourself", reply="That is enough."), ANSWER])
    document = await searching(budget=budget, max_tool_calls=most, sources=["bm25:demo-encyclopaedia"])
    assert len(acts(document)) == found
    assert (document["status"], document["answer"], document["stop_reason"]) == ("done", "SUPPORTS", reason)


async def test_an_agent_that_answers_at_once_has_ended_by_itself(start_stub: StartStub) -> None:
    reply = json.dumps({"rationale": "I know it.", "citations": [], "answer": "REFUTES"})
    start_stub([rule("agent", reply=reply)])
    document = await searching(budget=1, sources=["bm25:demo-encyclopaedia"])
    assert (document["answer"], document["stop_reason"], len(document["calls"])) == ("REFUTES", "single_pass", 1)
