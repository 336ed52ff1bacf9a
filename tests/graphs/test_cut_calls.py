"""Calls that a ceiling cuts off: the result says if they were sent, and counts the tokens reserved for lost replies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from moot.graphs import shared_ceilings
from moot.nodes._models.debate_ledger import LedgerUse, ledger_use
from moot.nodes._models.ledger import tokens_of
from moot.nodes._models.prices import read_prices
from moot.nodes._models.spend import spent_by
from moot.transcript import lines
from moot.transcript.end import costs
from moot.transcript.report.method import cost
from moot.transcript.report.summary import summary_settings

from tests.benchmarks.ceilings import spend
from tests.conftest import StartStub

HANGS: dict[str, Any] = {"model": "slow", "delay_ms": 600_000}
AGENTS = [{"name": "quick"}, {"name": "slow", "model": "openai:slow"}]
PRICES = '{"model": "openai:stub", "input": 1, "output": 4}\n{"model": "openai:slow", "input": 2, "output": 8}'
NOT_AWAITED = "Sent, but not answered before a ceiling was reached: slow."


def warning_in(document: dict[str, Any]) -> str:
    [detail] = [w["detail"] for w in document["warnings"] if w["kind"] == "budget_exhausted"]
    return str(detail)


async def test_a_call_that_was_sent_and_not_awaited_counts_with_its_reservation(
    start_stub: StartStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = start_stub([HANGS])
    (tmp_path / "prices.jsonl").write_text(PRICES)
    monkeypatch.setenv("MOOT_PRICES", str(tmp_path / "prices.jsonl"))
    limits = {"budget": 20_000, "max_cost": 1, "max_calls": 10, "max_seconds": 4}
    with shared_ceilings(budget=10**6) as batch:
        document = await spend("society_of_minds", [], agents=AGENTS, max_rounds=1, **limits)
    assert (document["status"], document["stop_reason"]) == ("done", "budget_exhausted")
    assert len(stub.requests()) == len(document["calls"])
    [cut] = [call for call in document["calls"] if "reserved" in call]
    assert (cut["role"], cut["outcome"], cut["prompt_tokens"], cut["attempts"]) == ("slow", "failed", None, 1)
    assert cut["detail"].startswith("The call was sent, but its reply was not awaited")
    assert warning_in(document).endswith(NOT_AWAITED)
    assert "Not called" not in warning_in(document)
    reserved = cut["reserved"]["prompt_tokens"] + cut["reserved"]["completion_tokens"]
    assert cut["reserved"]["completion_tokens"] == 512
    spent = {name: bound["spent"] for name, bound in document["usage"]["ceilings"].items()}
    assert spent["budget"] == tokens_of(document["calls"]) + reserved == batch.spent.tokens
    assert spent["max_calls"] == len(document["calls"])
    of_cut = (2 * cut["reserved"]["prompt_tokens"] + 8 * cut["reserved"]["completion_tokens"]) / 1e6
    others = spent_by([call for call in document["calls"] if call is not cut], read_prices()).usd
    assert spent["max_cost"] == pytest.approx(of_cut + others)
    untimed = {**document, "settings": {**document["settings"], "max_seconds": None}}
    assert summary_settings(untimed)["budget"] == limits["budget"] - spent["budget"]
    assert document["usage"]["uncounted"] == 1
    shown = "\n".join(line.text for section in lines(document) for line in section.lines)
    assert "no answer: the budget was used up" in shown
    assert "(1 call uncounted)" in costs(document)
    assert cost(document).startswith("Not known")


async def test_a_call_that_still_waits_for_its_turn_is_reported_as_not_called(start_stub: StartStub) -> None:
    stub = start_stub([{"delay_ms": 600_000}])
    document = await spend("society_of_minds", [], agents=2, max_concurrency=1, max_seconds=2, budget=20_000)
    assert (document["status"], document["error"]["kind"]) == ("failed", "budget_exhausted")
    assert "before any agent answered" in document["error"]["detail"]
    [sent] = document["calls"]
    assert "reserved" in sent
    assert len(stub.requests()) == 1
    other = next(turn["agent"] for turn in document["turns"] if turn["agent"] != sent["agent"])
    assert f"Not called: {other}. Sent" in warning_in(document)
    assert document["usage"]["ceilings"]["budget"]["spent"] == sum(sent["reserved"].values())


async def test_a_failed_call_that_is_not_repeated_keeps_no_reservation(start_stub: StartStub) -> None:
    start_stub([{"status": 429, "retry_after": "30"}])
    document = await spend("standard_prompting", [], max_seconds=2, budget=20_000, max_wait=300)
    [call] = document["calls"]
    assert (call["outcome"], "reserved" in call) == ("failed", False)
    assert call["detail"] == "The call failed and was not repeated: the time of `max_seconds` was used up."
    assert document["usage"]["ceilings"]["budget"]["spent"] == 0


async def test_a_resumed_debate_counts_calls_that_were_not_awaited(
    start_stub: StartStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
    start_stub([{"delay_ms": 600_000, "times": 1}])
    with ledger_use(LedgerUse("record")):
        first = await spend("standard_prompting", [], max_seconds=2, budget=20_000)
        second = await spend("standard_prompting", [], max_seconds=500, budget=20_000)
    [cut] = first["calls"]
    assert (first["error"]["kind"], second["status"]) == ("budget_exhausted", "done")
    spent = second["usage"]["ceilings"]["budget"]["spent"]
    assert spent == tokens_of(second["calls"]) + sum(cut["reserved"].values())


async def test_a_replay_reports_calls_that_were_not_awaited_like_the_recorded_debate(
    start_stub: StartStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
    start_stub([HANGS])
    limits = {"budget": 20_000, "max_seconds": 4}
    with ledger_use(LedgerUse("record")):
        made = await spend("society_of_minds", [], agents=AGENTS, max_rounds=1, **limits)
    with ledger_use(LedgerUse("replay", id=made["id"])):
        replayed = await spend("society_of_minds", [], agents=AGENTS, max_rounds=1, **limits)
    assert warning_in(replayed) == warning_in(made)
    assert replayed["usage"]["ceilings"]["budget"] == made["usage"]["ceilings"]["budget"]


async def test_a_second_request_that_a_ceiling_refuses_is_reported_as_not_called(
    start_stub: StartStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
    stub = start_stub([{"model": "slow", "reply": "No answer."}])
    settings = {"agents": AGENTS, "max_rounds": 1, "max_calls": 2}
    with ledger_use(LedgerUse("record")):
        made = await spend("society_of_minds", [], **settings)
    assert [request["model"] for request in stub.requests()].count("slow") == 1
    with ledger_use(LedgerUse("replay", id=made["id"])):
        replayed = await spend("society_of_minds", [], **settings)
    assert warning_in(replayed) == warning_in(made) == "The budget did not allow for every call. Not called: slow."
