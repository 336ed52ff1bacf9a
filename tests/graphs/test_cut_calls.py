"""Calls that a ceiling cuts off: the result says whether they were sent.

The tokens reserved for a call that was sent and got no reply count as spent.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from moot.graphs import shared_ceilings
from moot.nodes._models.prices import read_prices
from moot.nodes._models.replies import StoreUse, store_use
from moot.nodes._models.spend import spent_by
from moot.nodes._models.step_record import tokens_of
from moot.transcript import round_sections
from moot.transcript.end import costs
from moot.transcript.report.method import cost
from moot.transcript.report.summary import summary_settings

from tests.benchmarks.ceilings import run_debate
from tests.conftest import StartStub

HANGS: dict[str, Any] = {"model": "slow", "delay_ms": 600_000}
AGENTS = [{"name": "quick"}, {"name": "slow", "model": "openai:slow"}]
PRICES = '{"model": "openai:stub", "input": 1, "output": 4}\n{"model": "openai:slow", "input": 2, "output": 8}'
UNANSWERED = "Sent, but not answered before a ceiling was reached: slow."


def budget_warning(document: dict[str, Any]) -> str:
    [detail] = [w["detail"] for w in document["warnings"] if w["kind"] == "budget_exhausted"]
    return str(detail)


async def test_ceilings_count_the_reservation_of_an_unanswered_call(
    start_stub: StartStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = start_stub([HANGS])
    (tmp_path / "prices.jsonl").write_text(PRICES)
    monkeypatch.setenv("MOOT_PRICES", str(tmp_path / "prices.jsonl"))
    limits = {"budget": 20_000, "max_cost": 1, "max_calls": 10, "max_seconds": 4}
    with shared_ceilings(budget=10**6) as batch:
        document = await run_debate("society_of_minds", [], agents=AGENTS, max_rounds=1, **limits)
    assert (document["status"], document["stop_reason"]) == ("done", "budget_exhausted")
    assert len(stub.requests()) == len(document["calls"])
    [cut] = [call for call in document["calls"] if "reserved" in call]
    assert (cut["role"], cut["outcome"], cut["prompt_tokens"], cut["attempts"]) == ("slow", "failed", None, 1)
    assert cut["detail"].startswith("The call was sent, but its reply did not arrive before")
    assert budget_warning(document).endswith(UNANSWERED)
    assert "Not called" not in budget_warning(document)
    reserved = cut["reserved"]["prompt_tokens"] + cut["reserved"]["completion_tokens"]
    assert cut["reserved"]["completion_tokens"] == 512
    spent = {name: bound["spent"] for name, bound in document["usage"]["ceilings"].items()}
    assert spent["budget"] == tokens_of(document["calls"]) + reserved == batch.spent.tokens
    assert spent["max_calls"] == len(document["calls"])
    cut_usd = (2 * cut["reserved"]["prompt_tokens"] + 8 * cut["reserved"]["completion_tokens"]) / 1e6
    other_usd = spent_by([call for call in document["calls"] if call is not cut], read_prices()).usd
    assert spent["max_cost"] == pytest.approx(cut_usd + other_usd)
    untimed = {**document, "settings": {**document["settings"], "max_seconds": None}}
    assert summary_settings(untimed)["budget"] == limits["budget"] - spent["budget"]
    assert document["usage"]["uncounted"] == 1
    transcript = "\n".join(line.text for section in round_sections(document) for line in section.lines)
    assert "no answer: the budget was used up" in transcript
    assert "(1 call uncounted)" in costs(document)
    assert cost(document).startswith("Not known")


async def test_a_call_that_waits_for_another_call_is_reported_as_not_called(start_stub: StartStub) -> None:
    stub = start_stub([{"delay_ms": 600_000}])
    document = await run_debate("society_of_minds", [], agents=2, max_concurrency=1, max_seconds=2, budget=20_000)
    assert (document["status"], document["error"]["kind"]) == ("failed", "budget_exhausted")
    assert "before any agent answered" in document["error"]["detail"]
    [sent] = document["calls"]
    assert "reserved" in sent
    assert len(stub.requests()) == 1
    other = next(turn["agent"] for turn in document["turns"] if turn["agent"] != sent["agent"])
    assert f"Not called: {other}. Sent" in budget_warning(document)
    assert document["usage"]["ceilings"]["budget"]["spent"] == sum(sent["reserved"].values())


async def test_a_failed_call_that_is_not_repeated_keeps_no_reservation(start_stub: StartStub) -> None:
    start_stub([{"status": 429, "retry_after": "30"}])
    document = await run_debate("standard_prompting", [], max_seconds=2, budget=20_000, max_wait=300)
    [call] = document["calls"]
    assert (call["outcome"], "reserved" in call) == ("failed", False)
    assert call["detail"] == "The call failed and was not repeated: the time of `max_seconds` was used up."
    assert document["usage"]["ceilings"]["budget"]["spent"] == 0


async def test_a_resumed_debate_counts_the_reservation_of_an_unanswered_call(
    start_stub: StartStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
    start_stub([{"delay_ms": 600_000, "times": 1}])
    with store_use(StoreUse("record")):
        first = await run_debate("standard_prompting", [], max_seconds=2, budget=20_000)
        second = await run_debate("standard_prompting", [], max_seconds=500, budget=20_000)
    [cut] = first["calls"]
    assert (first["error"]["kind"], second["status"]) == ("budget_exhausted", "done")
    spent = second["usage"]["ceilings"]["budget"]["spent"]
    assert spent == tokens_of(second["calls"]) + sum(cut["reserved"].values())


async def test_a_second_request_that_a_ceiling_refuses_is_reported_as_not_called(
    start_stub: StartStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent's first reply cannot be parsed, so a second request would follow."""
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
    stub = start_stub([{"model": "slow", "reply": "No answer."}])
    settings = {"agents": AGENTS, "max_rounds": 1, "max_calls": 2}
    with store_use(StoreUse("record")):
        made = await run_debate("society_of_minds", [], **settings)
    assert [request["model"] for request in stub.requests()].count("slow") == 1
    with store_use(StoreUse("replay", id=made["id"])):
        replayed = await run_debate("society_of_minds", [], **settings)
    assert (
        budget_warning(replayed) == budget_warning(made) == "The budget did not allow for every call. Not called: slow."
    )
