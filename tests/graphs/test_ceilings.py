"""Ceilings of tokens, USD, calls and seconds, and the results of debates that reach a ceiling.

A debate may exceed a ceiling of tokens or USD by at most 5%, because the tokens of prompts are estimated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from moot.core.errors import BudgetExhausted
from moot.graphs import DESCRIPTIONS, load_graph, shared_ceilings
from moot.nodes._models.budget import Budget
from moot.nodes._models.contexts import count_prompt
from moot.nodes._models.replies import StoreUse, store_use
from moot.nodes._models.spend import PlannedCall, Spend, most_of, spent_by
from moot.nodes._models.step_record import tokens_of
from moot.nodes._runtime.node import Node
from moot.nodes._runtime.settings import Settings
from moot.nodes._runtime.system import Debate
from moot.transcript import round_sections

from tests.benchmarks.ceilings import CLAIM, GIVEN, LEAST, eight_debaters, run_debate, scripted
from tests.conftest import StubEndpoint, running_stub


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StubEndpoint]:
    """An endpoint that counts a token for every 2.5 bytes of a prompt, where moot estimates 3 bytes per token."""
    with scripted(tmp_path / "stub", 2.5) as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        yield running


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StubEndpoint]:
    """An endpoint that counts a token for every 4 bytes of a prompt."""
    with scripted(tmp_path / "plain", 4) as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        yield running


def tokens_spent(document: dict[str, Any]) -> int:
    return tokens_of(document["calls"])


@pytest.mark.parametrize("name", DESCRIPTIONS)
async def test_every_system_stays_within_a_ceiling_of_tokens_or_calls(stub: StubEndpoint, name: str) -> None:
    least = LEAST.get(name, 1_700)
    for budget in (least, 3 * least):
        document = await run_debate(name, [], budget=budget)
        assert document["error"] is None
        assert document["answer"] is not None or document["metrics"].get("abstained")
        assert tokens_spent(document) <= 1.05 * budget
        assert document["usage"]["ceilings"] == {"budget": {"ceiling": budget, "spent": tokens_spent(document)}}
        warned = any(warning["kind"] == "budget_exhausted" for warning in document["warnings"])
        assert not warned or document["stop_reason"] == "budget_exhausted"
    document = await run_debate(name, [], max_calls=4)
    assert document["status"] == "done"
    assert len(document["calls"]) <= 4


@pytest.mark.parametrize("name", DESCRIPTIONS)
async def test_a_budget_below_the_cost_of_a_decision_is_refused_before_the_first_call(
    plain: StubEndpoint, name: str
) -> None:
    document = await run_debate(name, [], budget=600)
    assert (document["status"], document["error"]["kind"]) == ("failed", "invalid_setting")
    assert document["error"]["detail"].startswith("`budget` allows 600 tokens, but the smallest decision (")
    assert document["error"]["detail"].endswith("Raise `budget`.")
    assert plain.requests() == []


async def test_many_isolated_readers_stay_within_one_ceiling(stub: StubEndpoint) -> None:
    document = await run_debate("isolate", GIVEN, max_origins=50, budget=20_000)
    assert (document["status"], document["error"]) == ("done", None)
    assert 10_000 < tokens_spent(document) <= 21_000


async def test_equal_requests_that_share_a_call_count_once(
    plain: StubEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transcript also explains why answers are missing."""
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
    with store_use(StoreUse("record")):
        document = await run_debate("proclaim", [], budget=18_000)
    assert any(call.get("shared") for call in document["calls"])
    assert (document["status"], document["stop_reason"]) == ("done", "budget_exhausted")
    assert 0 < tokens_spent(document) <= 18_000
    sent = [call for call in document["calls"] if not call.get("shared")]
    assert spent_by(document["calls"], {}) == Spend(tokens_spent(document), 0, len(sent))
    transcript = "\n".join(line.text for section in round_sections(document) for line in section.lines)
    assert "no answer: the budget was used up" in transcript
    assert "reply: budget_exhausted" not in transcript


async def test_fifty_parallel_agents_stay_within_a_ceiling(stub: StubEndpoint) -> None:
    document = await run_debate("society_of_minds", [], agents=50, max_rounds=2, budget=30_000)
    assert (document["status"], document["stop_reason"]) == ("done", "budget_exhausted")
    assert 15_000 < tokens_spent(document) <= 31_500


async def test_a_ceiling_of_calls_leaves_a_call_for_the_judge(plain: StubEndpoint) -> None:
    """The debate never exceeds the ceiling."""
    for most in (1, 2, 7, 20):
        document = await run_debate("tool_mad", [], max_calls=most, scoring="all_rounds", max_rounds=5)
        assert (document["status"], document["stop_reason"]) == ("done", "budget_exhausted")
        assert len(document["calls"]) <= most
        assert document["calls"][-1]["role"] == "judge"
    assert len(document["calls"]) == 20


async def test_debates_stay_within_a_ceiling_of_usd(
    stub: StubEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "prices.jsonl").write_text('{"model": "openai:stub", "input": 1, "output": 4}')
    monkeypatch.setenv("MOOT_PRICES", str(tmp_path / "prices.jsonl"))
    for name in ("tool_mad", "society_of_minds", "self_consistency"):
        document = await run_debate(name, [], max_cost=0.012)
        cost = document["usage"]["ceilings"]["max_cost"]
        assert document["status"] == "done"
        assert 0.003 < cost["spent"] <= 1.05 * cost["ceiling"] == 1.05 * 0.012


async def test_a_time_ceiling_ends_a_debate_before_its_last_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_stub(tmp_path / "slow", latency_ms=300) as slow:
        monkeypatch.setenv("OPENAI_BASE_URL", slow.url)
        document = await run_debate("society_of_minds", [], max_rounds=20, max_seconds=4)
    assert (document["status"], document["stop_reason"]) == ("done", "budget_exhausted")
    assert 0 < document["rounds"] < 20
    assert document["usage"]["ceilings"]["max_seconds"]["spent"] < 2 * 4  # twice, because the machine may be busy


@pytest.mark.parametrize(("name", "kind"), [("proclaim", "not_weighed"), ("tool_mad", "score_missing")])
async def test_the_time_ceiling_ends_the_wait_for_text_encoders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    with running_stub(tmp_path / "slow", embedding_latency_ms=60_000) as slow:
        monkeypatch.setenv("OPENAI_BASE_URL", slow.url)
        more = (
            {"sources": ["bm25:demo-news"]}
            if name == "proclaim"
            else {"debaters": eight_debaters(name)["debaters"][:2]}
        )
        document = await run_debate(name, [], **more, max_seconds=8)
    assert (document["status"], document["stop_reason"]) == ("done", "budget_exhausted")
    assert document["usage"]["ceilings"]["max_seconds"]["spent"] < 2 * 8  # twice, because the machine may be busy
    warned = {warning["kind"]: warning["detail"] for warning in document["warnings"]}
    assert "text encoder" in warned["budget_exhausted"]
    assert "text encoder took longer than `max_seconds`" in warned[kind]


async def test_the_time_ceiling_ends_the_wait_for_a_search(plain: StubEndpoint) -> None:
    """A debate with a second source ends with a warning. A debate whose only source is silent ends with an error."""
    silent = "langchain:tests.faults.sources:silent"
    readers = [{"name": "reader", "retriever": silent}, {"name": "other", "retriever": "bm25:demo-news"}]
    document = await run_debate("tool_mad", [], debaters=readers, max_seconds=6, timeout=300)
    assert (document["status"], document["stop_reason"]) == ("done", "budget_exhausted")
    assert document["usage"]["ceilings"]["max_seconds"]["spent"] < 2 * 6  # twice, because the machine may be busy
    warned = [warning["detail"] for warning in document["warnings"] if warning["kind"] == "retrieval_failed"]
    assert any("The search took longer than `max_seconds`" in detail for detail in warned)
    document = await run_debate("rag", [], sources=[silent], max_seconds=2, timeout=300)
    assert (document["status"], document["error"]["kind"]) == ("failed", "budget_exhausted")


async def wait_forever(*arguments: Any, **options: Any) -> Any:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("name", "opener", "settings"),
    [
        ("cortex_debate", "_cortex.weigh.open_cross_encoder", {"similarity": "cross_encoder"}),
        ("madke", "_runtime.node.open_encoder", {"sources": ["bm25:demo-news"], "max_evidence_tokens": 50}),
    ],
)
async def test_the_time_ceiling_ends_the_wait_for_models_that_load(
    plain: StubEndpoint, monkeypatch: pytest.MonkeyPatch, name: str, opener: str, settings: dict[str, Any]
) -> None:
    monkeypatch.setattr(f"moot.nodes.{opener}", wait_forever)
    async with asyncio.timeout(60):
        document = await run_debate(name, [], **eight_debaters(name), **settings, max_rounds=1, max_seconds=8)
    assert (document["status"], document["stop_reason"]) == ("done", "budget_exhausted")
    assert document["answer"] is not None or document["metrics"].get("abstained")
    (warning,) = [w["detail"] for w in document["warnings"] if w["kind"] == "budget_exhausted"]
    assert ("text encoder" if name == "madke" else "cross-encoder") in warning


async def test_the_time_ceiling_ends_the_wait_for_a_silent_web_source(
    plain: StubEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Silent:
        name, search = "wikipedia", staticmethod(wait_forever)

    async def open_silent(*arguments: Any, **options: Any) -> Silent:
        return Silent()

    monkeypatch.setattr("moot.nodes._runtime.node.open_retriever", open_silent)
    async with asyncio.timeout(60):
        document = await run_debate("rag", [], sources=["web"], max_seconds=1)
    assert (document["status"], document["error"]["kind"], plain.requests()) == ("failed", "budget_exhausted", [])
    assert "The search took longer than `max_seconds` allows." in document["error"]["detail"]


async def test_max_seconds_does_not_include_the_time_for_loading_models(
    plain: StubEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def load(needs: Any, task: Any, run: Any) -> None:
        run.budget._started -= 1000  # as if loading took 1,000 seconds

    monkeypatch.setattr("moot.nodes._runtime.opening.open_all", load)
    document = await run_debate("society_of_minds", [], max_rounds=1, max_seconds=500)
    assert (document["status"], document["stop_reason"]) == ("done", "max_rounds")
    assert document["usage"]["ceilings"]["max_seconds"]["spent"] < 500


async def test_if_no_judge_can_be_called_the_error_reports_a_ceiling(plain: StubEndpoint) -> None:
    document = await run_debate("proclaim", [], max_seconds=1e-6)
    assert (document["answer"], document["error"]["kind"]) == (None, "budget_exhausted")
    assert "A ceiling was reached" in document["error"]["detail"]


async def test_a_shared_ceiling_of_zero_seconds_allows_no_call(plain: StubEndpoint) -> None:
    with shared_ceilings(max_seconds=0):
        document = await run_debate("standard_prompting", [])
    assert (document["error"]["kind"], document["calls"], plain.calls()) == ("budget_exhausted", [], [])


async def test_many_debates_share_one_ceiling(stub: StubEndpoint) -> None:
    """A debate fails if the shared ceiling cannot pay for its decision."""
    with shared_ceilings(budget=60_000) as ceilings:
        documents = await asyncio.gather(*(run_debate("society_of_minds", [], max_rounds=5) for _ in range(20)))
    assert sum(map(tokens_spent, documents)) == ceilings.spent.tokens <= 1.05 * 60_000
    assert {document["status"] for document in documents} == {"done"}  # because each reserves the cost of its decision
    assert ceilings.reserved == ceilings.held() == Spend()
    with shared_ceilings(budget=6_000):
        documents = await asyncio.gather(*(run_debate("society_of_minds", []) for _ in range(20)))
    failed = [document for document in documents if document["status"] == "failed"]
    assert {document["error"]["kind"] for document in failed} == {"budget_exhausted"}
    assert 0 < len(failed) < 20
    assert sum(map(tokens_spent, documents)) <= 1.05 * 6_000


@pytest.mark.parametrize(("outer", "inner"), [(3_000, 50_000), (50_000, 3_000), (None, 3_000), (3_000, None)])
async def test_a_debate_inside_a_debate_stays_within_both_ceilings(
    plain: StubEndpoint, outer: int | None, inner: int | None
) -> None:
    system, inner_debates = load_graph("society_of_minds"), []

    async def step(state: Any, run: Any) -> dict[str, Any]:
        settings = system.settings(model="openai:stub", max_rounds=6, budget=inner)
        inner_debates.append(await system.graph.ainvoke({"claim": CLAIM}, context=settings))
        return {key: inner_debates[-1][key] for key in ("answer", "raw_verdict", "stop_reason", "calls")}

    builder = Debate("both", Settings)
    builder.add_node("first", Node(step))
    builder.add_node("second", Node(step))
    builder.add_edge("open", "first")
    builder.add_edge("first", "second")
    builder.add_verdict("second")
    graph = builder.compile(name="Both")
    document = await graph.ainvoke({"claim": CLAIM}, context=Settings(model="openai:stub", budget=outer))
    assert [each["stop_reason"] for each in (*inner_debates, document)] == ["budget_exhausted"] * 3
    assert all(0 < tokens_spent(each) <= (inner or 3_000) for each in inner_debates)
    assert tokens_spent(document) == sum(map(tokens_spent, inner_debates)) <= (6_000 if outer is None else outer)
    # Only an outer ceiling of 3,000 tokens leaves less for the second inner debate than for the first.
    assert (len(inner_debates[1]["calls"]) < len(inner_debates[0]["calls"])) == (outer == 3_000)


async def test_a_resumed_debate_counts_earlier_spending_but_no_waiting_time(
    plain: StubEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:

    class Tomorrow(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            return datetime.now(tz) + timedelta(days=1)

    system = load_graph("society_of_minds")
    graph = system.graph.builder.compile(checkpointer=InMemorySaver())
    settings = system.settings.model_validate(
        {"model": "openai:stub", "max_rounds": 20, "ask_person": ("remark",), "budget": 9_000, "max_seconds": 1000}
    )
    thread: Any = {"configurable": {"thread_id": "1"}}
    document = await graph.ainvoke({"claim": CLAIM}, thread, context=settings)
    waits = 0
    while "__interrupt__" in document and waits < 20:
        waits += 1
        monkeypatch.setattr("moot.nodes._runtime.document.datetime", Tomorrow)
        document = await graph.ainvoke(Command(resume={"remark": "Go on."}), thread, context=settings)
    assert waits > 1
    assert document["seconds"] > 1000 > document["usage"]["ceilings"]["max_seconds"]["spent"]
    assert (document["status"], document["stop_reason"]) == ("done", "budget_exhausted")
    assert tokens_spent(document) <= 9_000


# --- `Budget` without a debate ----------------------------------------------------------------------------------------


async def test_stored_replies_count_like_calls_that_are_sent() -> None:
    call: Any = {"role": "a", "model": "openai:m", "prompt_tokens": 600, "completion_tokens": 100, "outcome": "ok"}
    asked = PlannedCall("a", "", "openai:m", 2400, 500)
    made, from_store = Budget(), Budget()
    for budget in (made, from_store):
        await budget.begin({"tokens": 3000})
    made.settle(await made.reserve(asked), spent_by([call], {}), 1.0)
    from_store.count_paid_calls(asked, [call], skipped=False)
    assert (
        (made.affordable_calls(), made.is_spent())
        == (from_store.affordable_calls(), from_store.is_spent())
        == (1, False)
    )


def test_reservations_equal_values_worked_out_by_hand() -> None:
    assert most_of(3000, 512) == Spend(1512, 0, 1)
    assert most_of(3001, 512) == Spend(1513, 0, 1)
    assert most_of(4000, 100, 4.0) == Spend(1100, 0, 1)
    assert most_of(3000, 500, 3.0, {"input": 1.0, "output": 4.0}) == Spend(1500, 0.001 + 0.002, 1)


async def test_a_call_waits_for_calls_in_flight_unless_it_alone_exceeds_the_ceiling() -> None:
    budget = Budget()
    await budget.begin({"tokens": 2000})
    first = await budget.reserve(PlannedCall("a", "", "openai:m", 2400, 500))
    with pytest.raises(BudgetExhausted, match="may take 2,100 tokens"):
        await budget.reserve(PlannedCall("b", "", "openai:m", 3840, 500))
    waiting = asyncio.create_task(budget.reserve(PlannedCall("c", "", "openai:m", 2400, 500)))
    await asyncio.sleep(0)
    assert not waiting.done()
    budget.settle(first, Spend(400, 0, 1), 0.1)
    budget.settle(await waiting, Spend(300, 0, 1), 0.1)
    assert (budget.spent, budget.reserved, dict(budget.skipped)) == (Spend(700, 0, 2), Spend(), {"b": 1})


async def test_only_a_deciding_call_may_use_the_reserve() -> None:
    budget = Budget()
    reserve = {"role": "judge", "prompt": "p", "model": "openai:m", "bytes": 1500, "reply": 500}
    await budget.begin({"tokens": 2000, "kept": [reserve]})
    with pytest.raises(BudgetExhausted, match="leaves 1,000 tokens"):
        await budget.reserve(PlannedCall("a", "", "openai:m", 3000, 500))
    assert budget.is_spent()
    reservation = await budget.reserve(PlannedCall("judge", "p", "openai:m", 3900, 500))
    assert reservation.amount == Spend(2000, 0, 1)  # the reserve of 1,000, and 1,000 for 2,400 unplanned bytes


async def test_reservations_are_larger_until_token_counts_are_known() -> None:
    budget = Budget()
    await budget.begin({"tokens": 3_300})
    asked = PlannedCall("a", "", "openai:m", 3_000, 500)
    first = await budget.reserve(asked)
    assert first.amount == Spend(1_750, 0, 1)  # 3,000 / 2.4 + 500
    second = asyncio.create_task(budget.reserve(asked))
    await asyncio.sleep(0)
    assert not second.done()
    count_prompt("openai:m", 3_000, 1_000)  # this count equals the estimate, so the margin remains
    count_prompt("openai:m", 3_000, 900)  # this count lowers the estimated tokens and ends the margin
    budget.settle(first, Spend(1_000, 0, 1), 0.1)
    assert (await second).amount.tokens < 1_500


async def test_lost_calls_of_a_debate_count_in_its_shared_ceilings() -> None:
    shared = Budget(Spend(1e9, 1e9, 3))
    debate = Budget(parent=shared)
    debate.count_lost_calls(Spend(calls=2))
    assert (debate.spent.calls, shared.spent.calls) == (2, 2)


async def test_lost_calls_leave_fewer_calls_for_the_judges() -> None:
    judges = [PlannedCall(f"judge-{number}", "verdict", "openai:stub", 300) for number in range(3)]
    budget = Budget()
    await budget.begin({"calls": 5, "kept": [asdict(judge) for judge in judges]})
    budget.count_lost_calls(Spend(calls=3))
    for judge in judges[:2]:
        await budget.reserve(replace(judge, bytes=9000))  # longer than planned, but only calls have a ceiling
    with pytest.raises(BudgetExhausted):
        await budget.reserve(judges[2])
    with pytest.raises(BudgetExhausted, match="leaves 1 call\\."):
        await Budget().begin({"calls": 3, "kept": [asdict(judge) for judge in judges[:2]]}, Spend(calls=2))
